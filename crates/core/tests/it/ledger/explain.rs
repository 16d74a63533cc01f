//! Explanations of an effect, and of the effects of a message.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn an_effect_is_explained_in_every_state() {
    check(expect![[r#"
        0s begin op/x a on=retry owner=w1 window=1m => EXECUTE: op/x a.1 IN_PROGRESS until 30s
        0s begin op/x b on=probe => EXECUTE: op/x b.1 IN_PROGRESS until 30s
        0s begin op/x c on=park owner=w1 => EXECUTE: op/x c.1 IN_PROGRESS until 30s
        10s explain-effect op/x a
            fence 1 of w1 holds the effect for 20.0 s more, then it is in doubt
        40s explain-effect op/x a
            the outcome of fence 1 of w1 is unknown: its lease expired 10.0 s ago; the next begin executes it again with the same downstream key
        40s explain-effect op/x b
            the outcome of fence 1 is unknown: its lease expired 10.0 s ago; the next begin must ask the provider first
        40s explain-effect op/x c
            the outcome of fence 1 of w1 is unknown: its lease expired 10.0 s ago; resolve it with: driftq effect resolve
        50s finish op/x c.1 unknown error=timeout
            op/x c.1 PARKED "timeout"; fence 1 of "w1" began 0s in doubt since 50s, reported
            op/x c.1 in doubt: reported
        61s explain-effect op/x c
            the outcome of fence 1 of w1 is unknown: it was reported as unknown 11.0 s ago (timeout); resolve it with: driftq effect resolve
        61s explain-effect op/x a
            the outcome of fence 1 of w1 is unknown: its lease expired 31.0 s ago; the provider may have forgotten its downstream key; resolve it with: driftq effect resolve
        62s finish op/x a.1 retryable error=busy
            op/x a.1 FAILED_RETRYABLE "busy", kept until 604862s
        62s explain-effect op/x a => it did not happen (busy); it can be retried
        63s finish op/x b.1 failed error=declined
            op/x b.1 FAILED_FINAL "declined", kept until 604863s
        63s explain-effect op/x b => it failed permanently (declined); it is replayed for 7 d more
        64s resolve op/x c.1 as=succeeded by=eva reason="found it"
            op/x c.1 SUCCEEDED, kept until 604864s; Succeeded by eva: found it
        24h explain-effect op/x c
            it succeeded, resolved by eva (found it); it is replayed for 6 d more
        24h explain-effect op/x none => refused: no such effect
    "#]]);
}

#[test]
fn a_message_shows_the_effects_begun_under_it() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders hello idem=k => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        1s begin-under orders/biller 0:0.1 on=park key=l
            EXECUTE: effect/orders/biller l.1 IN_PROGRESS until 10s
        2s finish effect/orders/biller l.1 succeeded => effect/orders/biller l.1 SUCCEEDED
        3s explain orders 0:0
            orders 0:0 hello; biller leased: attempt 1 of 5 is leased to w1 for 7.0 s more [effect/orders/biller l.1 SUCCEEDED] [effect/orders/biller k.1 IN_PROGRESS until 10s]
        4s explain-effect effect/orders/biller k
            fence 1 of w1 holds the effect for 6.0 s more, then it is in doubt
        4s explain-effect effect/orders/biller l
            it succeeded; it is replayed while its message is open, and then for its ttl_ms
        12s explain orders 0:0
            effect/orders/biller k.1 in doubt: lease_expired
            orders/biller 0:0 expired, due 10.342s
            a gets orders/biller 0:0.2 "hello" spent 2 until 20.342s after "ack_timeout"
            orders 0:0 hello; biller leased: attempt 2 of 5 is leased to w1 for 8.3 s more; effect effect/orders/biller k is parked: the outcome of fence 1 of w1 is unknown: its lease expired 2.0 s ago; resolve it with: driftq effect resolve [effect/orders/biller l.1 SUCCEEDED] [effect/orders/biller k.1 PARKED; fence 1 of "w1" began 1s in doubt since 10s, lease_expired]
    "#]]);
}
