//! Effects begun under a delivery share its lease, and the message is not acked before they are
//! finished.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn the_effect_of_a_keyed_message_is_executed_once() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders hello idem=order-77 => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 on=retry
            EXECUTE: effect/orders/biller order-77.1 IN_PROGRESS until 10s
        2s ack orders/biller 0:0.1 => refused: effects are not finished: order-77
        3s finish effect/orders/biller order-77.1 succeeded result=1
            effect/orders/biller order-77.1 SUCCEEDED result 1
        4s effect effect/orders/biller order-77
            effect/orders/biller order-77.1 SUCCEEDED result 1
        5s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        6s effect effect/orders/biller order-77
            effect/orders/biller order-77.1 SUCCEEDED result 1, kept until 604805s
        6s rows held => held 0
    "#]]);
}

#[test]
fn an_unkeyed_message_uses_its_id_as_effect_key() {
    check(expect![[r#"
        0s topic orders 1 on_doubt=park => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1
            EXECUTE: effect/orders/biller m_aaaacaaa.1 IN_PROGRESS until 10s
        1s begin-under orders/biller 0:0.1 key=other
            EXECUTE: effect/orders/biller other.1 IN_PROGRESS until 10s
        2s effects IN_PROGRESS
            effect/orders/biller m_aaaacaaa.1 IN_PROGRESS until 10s; effect/orders/biller other.1 IN_PROGRESS until 10s (scanned 2, the end)
    "#]]);
}

#[test]
fn after_a_worker_dies_the_next_attempt_follows_the_doubt_policy() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders hello idem=order-77 => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=retry on=retry
            EXECUTE: effect/orders/biller retry.1 IN_PROGRESS until 10s
        1s begin-under orders/biller 0:0.1 key=probe on=probe
            EXECUTE: effect/orders/biller probe.1 IN_PROGRESS until 10s
        1s begin-under orders/biller 0:0.1 key=park on=park
            EXECUTE: effect/orders/biller park.1 IN_PROGRESS until 10s
        12s effects IN_DOUBT
            effect/orders/biller retry.1 in doubt: lease_expired
            effect/orders/biller park.1 in doubt: lease_expired
            effect/orders/biller probe.1 in doubt: lease_expired
            orders/biller 0:0 expired, due 10.342s
            a gets orders/biller 0:0.2 "hello" spent 2 until 20.342s after "ack_timeout"
            effect/orders/biller retry.1 IN_DOUBT; fence 1 of "w1" began 1s in doubt since 10s, lease_expired; effect/orders/biller probe.1 IN_DOUBT; fence 1 of "w1" began 1s in doubt since 10s, lease_expired (scanned 3, the end)
        12s effects PARKED
            effect/orders/biller park.1 PARKED; fence 1 of "w1" began 1s in doubt since 10s, lease_expired (scanned 3, the end)
        12s begin-under orders/biller 0:0.2 key=retry on=retry
            EXECUTE: effect/orders/biller retry.2 IN_PROGRESS until 20.342s; fence 1 of "w1" began 1s in doubt since 10s, lease_expired
        12s begin-under orders/biller 0:0.2 key=probe on=retry
            probe: effect/orders/biller probe.2 IN_PROGRESS until 20.342s; fence 1 of "w1" began 1s in doubt since 10s, lease_expired
        12s begin-under orders/biller 0:0.2 key=park on=retry
            park: fence 1 of "w1" began 1s in doubt since 10s, lease_expired, ask in 60000ms
        13s finish effect/orders/biller retry.1 succeeded
            refused: fence 1 is not current: the effect is IN_PROGRESS at fence 2
        13s finish effect/orders/biller retry.2 succeeded
            effect/orders/biller retry.2 SUCCEEDED; fence 1 of "w1" began 1s in doubt since 10s, lease_expired
        13s finish effect/orders/biller probe.2 failed
            effect/orders/biller probe.2 FAILED_FINAL; fence 1 of "w1" began 1s in doubt since 10s, lease_expired
        14s ack orders/biller 0:0.2 => refused: effects are not finished: park
        15s resolve effect/orders/biller park.1 as=failed
            effect/orders/biller park.1 FAILED_FINAL; Failed by ops: looked
        16s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
        16s rows held => held 0
    "#]]);
}

#[test]
fn a_message_is_due_at_once_when_its_last_unknown_outcome_is_resolved() {
    check(expect![[r#"
        0s topic orders 1 retry=5,60s,60s => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=charge on=park
            EXECUTE: effect/orders/biller charge.1 IN_PROGRESS until 10s
        1s begin-under orders/biller 0:0.1 key=mail on=park
            EXECUTE: effect/orders/biller mail.1 IN_PROGRESS until 10s
        2s nack orders/biller 0:0.1 reason=boom
            ok
            effect/orders/biller mail.1 in doubt: abandoned
            effect/orders/biller charge.1 in doubt: abandoned
            orders/biller 0:0 nacked, due 25.201s
        3s resolve effect/orders/biller charge.1 as=succeeded
            effect/orders/biller charge.1 SUCCEEDED; Succeeded by ops: looked
            orders/biller 0:0 nacked, due 25.201s
        4s resolve effect/orders/biller mail.1 as=retry
            effect/orders/biller mail.1 FAILED_RETRYABLE; Retry by ops: looked
            orders/biller 0:0 nacked, due 4s
            a gets orders/biller 0:0.2 "hello" spent 2 until 14s after "boom"
        5s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn a_nack_or_release_puts_unfinished_effects_in_doubt_at_once() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=retry
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s nack orders/biller 0:0.1 reason=boom
            ok
            effect/orders/biller k.1 in doubt: abandoned
            orders/biller 0:0 nacked, due 2.342s
        4s begin-under orders/biller 0:0.2 key=k on=retry
            a gets orders/biller 0:0.2 "hello" spent 2 until 12.342s after "boom"
            EXECUTE: effect/orders/biller k.2 IN_PROGRESS until 12.342s; fence 1 of "w1" began 1s in doubt since 2s, abandoned
        5s release orders/biller 0:0.2
            ok
            orders/biller 0:0 returned, due 5s
            effect/orders/biller k.2 in doubt: abandoned
            a gets orders/biller 0:0.3 "hello" spent 2 until 15s after "boom"
        6s begin-under orders/biller 0:0.3 key=k on=retry
            EXECUTE: effect/orders/biller k.3 IN_PROGRESS until 15s; fence 2 of "w1" began 4s in doubt since 5s, abandoned
        7s finish effect/orders/biller k.3 succeeded
            effect/orders/biller k.3 SUCCEEDED; fence 2 of "w1" began 4s in doubt since 5s, abandoned
        8s ack orders/biller 0:0.3
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn a_redelivery_reacquires_a_retryable_failure() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s finish effect/orders/biller k.1 retryable error=busy
            effect/orders/biller k.1 FAILED_RETRYABLE "busy"
        3s nack orders/biller 0:0.1
            ok
            orders/biller 0:0 nacked, due 3.342s
        5s begin-under orders/biller 0:0.2 key=k on=park
            a gets orders/biller 0:0.2 "hello" spent 2 until 13.342s after "nack"
            EXECUTE: effect/orders/biller k.2 IN_PROGRESS until 13.342s
        5s ack orders/biller 0:0.2 => refused: effects are not finished: k
        6s finish effect/orders/biller k.2 succeeded => effect/orders/biller k.2 SUCCEEDED
        7s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn a_redelivery_replays_finished_effects() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s finish effect/orders/biller k.1 succeeded result=1
            effect/orders/biller k.1 SUCCEEDED result 1
        12s begin-under orders/biller 0:0.2 key=k on=park
            orders/biller 0:0 expired, due 10.342s
            a gets orders/biller 0:0.2 "hello" spent 2 until 20.342s after "ack_timeout"
            REPLAY: effect/orders/biller k.1 SUCCEEDED result 1
        13s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn message_and_effect_share_one_lease_whichever_token_extends_it() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        5s extend-effect effect/orders/biller k.1 => extended until 15s
        6s effect effect/orders/biller k => effect/orders/biller k.1 IN_PROGRESS until 15s
        7s extend orders/biller 0:0.1 lease=1m => extended until 67s
        8s effect effect/orders/biller k => effect/orders/biller k.1 IN_PROGRESS until 67s
        1m wait
        67s effect effect/orders/biller k
            effect/orders/biller k.1 in doubt: lease_expired
            orders/biller 0:0 expired, due 67.342s
            effect/orders/biller k.1 PARKED; fence 1 of "w1" began 1s in doubt since 67s, lease_expired
        68s extend-effect effect/orders/biller k.1
            a gets orders/biller 0:0.2 "hello" spent 2 until 77.342s after "ack_timeout"
            refused: fence 1 is not current: the effect is PARKED at fence 1
        69s finish effect/orders/biller k.1 succeeded => effect/orders/biller k.1 SUCCEEDED
        70s ack orders/biller 0:0.1 => stale: leased, attempt 2 is current
    "#]]);
}

#[test]
fn an_effect_in_progress_under_another_delivery_is_not_granted() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a + produce orders b
            stored 0:0
            stored 0:1
        0s join a orders/biller lease=10s credit=2 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
            a gets orders/biller 0:1.1 "b" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=retry nonce=x
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s begin-under orders/biller 0:1.1 key=k on=retry nonce=x
            IN_PROGRESS: fence 1 of "w1", ask in 8000ms
        3s release orders/biller 0:1.1 delay=8s
            ok
            orders/biller 0:1 returned, due 11s
        3s begin-under orders/biller 0:0.1 key=k on=retry nonce=x
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        4s nack orders/biller 0:0.1 delay=1m
            ok
            effect/orders/biller k.1 in doubt: abandoned
            orders/biller 0:0 nacked, due 64s
        11s begin-under orders/biller 0:1.2 key=k on=retry
            a gets orders/biller 0:1.2 "b" spent 1 until 21s
            EXECUTE: effect/orders/biller k.2 IN_PROGRESS until 21s; fence 1 of "w1" began 1s in doubt since 4s, abandoned
        12s finish effect/orders/biller k.2 succeeded
            effect/orders/biller k.2 SUCCEEDED; fence 1 of "w1" began 1s in doubt since 4s, abandoned
        13s ack orders/biller 0:1.2
            ok
            orders/biller 0:1 acked
        64s begin-under orders/biller 0:0.2 key=k on=retry
            a gets orders/biller 0:0.2 "a" spent 2 until 74s after "nack"
            REPLAY: effect/orders/biller k.2 SUCCEEDED; fence 1 of "w1" began 1s in doubt since 4s, abandoned
        65s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
        65s rows held => held 0
    "#]]);
}

#[test]
fn a_redriven_message_keeps_its_effects() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller m_aaaacaaa.1 IN_PROGRESS until 10s
        1s begin-under orders/biller 0:0.1 on=park key=second
            EXECUTE: effect/orders/biller second.1 IN_PROGRESS until 10s
        2s finish effect/orders/biller second.1 succeeded => effect/orders/biller second.1 SUCCEEDED
        3s bury orders/biller 0:0.1 reason=no
            ok
            effect/orders/biller m_aaaacaaa.1 in doubt: abandoned
            dead letter 0:0 rejected after 1 of biller, "no"
            orders/biller 0:0 dead
        4s effects PARKED
            effect/orders/biller m_aaaacaaa.1 PARKED; fence 1 of "w1" began 1s in doubt since 3s, abandoned (scanned 1, the end)
        5s effect effect/orders/biller second
            effect/orders/biller second.1 SUCCEEDED, kept until 604803s
        6s rows held => held 0
        7s redrive orders 0:0
            redriven as 0:1
            a gets orders/biller 0:1.1 "hello" spent 1 until 17s redriven 1 times from 0:0
        8s begin-under orders/biller 0:1.1 on=park
            park: fence 1 of "w1" began 1s in doubt since 3s, abandoned, ask in 60000ms
        8s begin-under orders/biller 0:1.1 on=park key=second
            REPLAY: effect/orders/biller second.1 SUCCEEDED
        9s effect effect/orders/biller second => effect/orders/biller second.1 SUCCEEDED
        9s rows held => held 1
    "#]]);
}

#[test]
fn a_recreated_group_keeps_its_effects_and_a_recreated_topic_does_not() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders hello idem=k => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s finish effect/orders/biller k.1 succeeded => effect/orders/biller k.1 SUCCEEDED
        3s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        4s leave a => ok
        4s delete orders/biller
            deleted with backlog 0, open 0
            sweep blocks 3 0:1..1
            sweep cursor 3 0
        5s join b orders/biller lease=10s credit=1 owner=w2
            joined
            b gets orders/biller 0:0.1 "hello" spent 1 until 15s
        6s begin-under orders/biller 0:0.1 on=park => REPLAY: effect/orders/biller k.1 SUCCEEDED
        7s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        8s leave b => ok
        8s delete orders/biller
            deleted with backlog 0, open 0
            sweep blocks 6 0:1..1
            sweep cursor 6 0
        8s delete orders
            deleted 1 messages, 0 dead letters
            sweep pages topic 1 0:0..1
            sweep lane topic 1 0
            sweep dead letters topic 1 0..4096
            sweep the last pointers topic 1
        9s topic orders 1 => created
        9s produce orders hello idem=k => stored 0:0
        9s join c orders/biller lease=10s credit=1 owner=w3
            joined
            c gets orders/biller 0:0.1 "hello" spent 1 until 19s
        10s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 19s
    "#]]);
}

#[test]
fn a_begin_with_a_stale_lease_is_rejected() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        10s begin-under orders/biller 0:0.1 key=k on=park
            orders/biller 0:0 expired, due 10.342s
            stale: waiting
        12s begin-under orders/biller 0:0.1 key=k on=park
            a gets orders/biller 0:0.2 "hello" spent 2 until 20.342s after "ack_timeout"
            stale: leased, attempt 2 is current
        13s begin-under orders/biller 0:0.2 key=k
            refused: on_doubt: must be retry, probe or park: it decides what happens if a worker dies before finish
        14s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
        15s begin-under orders/biller 0:0.2 key=k on=park => stale: settled
    "#]]);
}

#[test]
fn a_seek_leaves_in_progress_effects_in_doubt_without_a_write() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=retry
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s pause orders/biller => ok
        3s seek orders/biller earliest
            moved [(0, 1, 0)] redelivers 1 skips 0 dropped 1
            sweep blocks 3 0:0..1
            sweep cursor 3 0
        4s effect effect/orders/biller k
            effect/orders/biller k.1 IN_DOUBT; fence 1 of "w1" began 1s in doubt since 1s, abandoned
        5s resume orders/biller
            ok
            a gets orders/biller 0:0.1 "hello" spent 1 until 15s
        6s leave a => ok
        7s join b orders/biller lease=10s credit=1 owner=w2 => joined
        8s begin-under orders/biller 0:0.1 key=k on=retry
            EXECUTE: effect/orders/biller k.2 IN_PROGRESS until 15s; fence 1 of "w1" began 1s in doubt since 1s, abandoned
    "#]]);
}

#[test]
fn the_outcome_is_kept_while_the_message_is_open() {
    check(expect![[r#"
        0s topic orders 1 retry=100,1s,10m dedupe=1m => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=1h credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 3600s
        1s begin-under orders/biller 0:0.1 key=k on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 3600s
        2s finish effect/orders/biller k.1 succeeded result=1
            effect/orders/biller k.1 SUCCEEDED result 1
        50m begin-under orders/biller 0:0.1 key=k on=park
            REPLAY: effect/orders/biller k.1 SUCCEEDED result 1
        51m nack orders/biller 0:0.1 delay=2h
            ok
            orders/biller 0:0 nacked, due 10260s
        172m begin-under orders/biller 0:0.2 key=k on=park
            a gets orders/biller 0:0.2 "hello" spent 2 until 13860s after "nack"
            REPLAY: effect/orders/biller k.1 SUCCEEDED result 1
        172m ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
            trim 0:0..1
        173m begin op/other x on=park
            expire to 10380.001s
            EXECUTE: op/other x.1 IN_PROGRESS until 10410s
        173m effect effect/orders/biller k => refused: no such effect
        184m rows record => record 2
    "#]]);
}

#[test]
fn redriving_a_message_with_forgotten_effects_requires_force() {
    check(expect![[r#"
        0s topic orders 1 retry=1,1s,1s dedupe=1m => created
        0s produce orders a + produce orders b
            stored 0:0
            stored 0:1
        0s join a orders/biller lease=10s credit=2 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
            a gets orders/biller 0:1.1 "b" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s finish effect/orders/biller k.1 succeeded result=1
            effect/orders/biller k.1 SUCCEEDED result 1
        3s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        62999ms redrive orders 0:0
            redriven as 0:2
            a gets orders/biller 0:2.1 "a" spent 1 until 72.999s redriven 1 times from 0:0
        63s redrive orders 0:1
            expire to 63.001s
            redriven as 0:3
            a gets orders/biller 0:3.1 "b" spent 1 until 73s redriven 1 times from 0:1
    "#]]);
}

#[test]
fn a_forced_redrive_executes_forgotten_effects_again() {
    check(expect![[r#"
        0s topic orders 1 retry=1,1s,1s dedupe=1m => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=2 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s finish effect/orders/biller k.1 succeeded result=1
            effect/orders/biller k.1 SUCCEEDED result 1
        3s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        63s redrive orders 0:0
            expire to 63.001s
            refused: outcomes of its effects may have expired, so a redrive could execute them again
        64s redrive orders 0:0 force
            redriven as 0:1
            a gets orders/biller 0:1.1 "a" spent 1 until 74s redriven 1 times from 0:0
        65s begin-under orders/biller 0:1.1 key=k on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 74s
    "#]]);
}

#[test]
fn an_outcome_is_kept_until_the_last_message_of_its_key_is_settled() {
    check(expect![[r#"
        0s topic orders 1 effect=60s dedupe=60s on_doubt=retry => created
        0s produce orders a => stored 0:0
        0s produce orders b => stored 0:1
        0s join a orders/biller lease=1h credit=2 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 3600s
            a gets orders/biller 0:1.1 "b" spent 1 until 3600s
        1s begin-under orders/biller 0:0.1 key=k
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 3600s
        2s finish effect/orders/biller k.1 succeeded result=1
            effect/orders/biller k.1 SUCCEEDED result 1
        3s begin-under orders/biller 0:1.1 key=k
            REPLAY: effect/orders/biller k.1 SUCCEEDED result 1
        4s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        5s effect effect/orders/biller k => effect/orders/biller k.1 SUCCEEDED result 1
        200s begin-under orders/biller 0:0.1 key=k
            REPLAY: effect/orders/biller k.1 SUCCEEDED result 1
        201s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        202s effect effect/orders/biller k
            effect/orders/biller k.1 SUCCEEDED result 1, kept until 261s
    "#]]);
}

#[test]
fn a_message_cannot_be_acked_while_another_executes_its_effect() {
    check(expect![[r#"
        0s topic orders 1 on_doubt=retry retry=9,1s,1s => created
        0s produce orders a => stored 0:0
        0s produce orders b => stored 0:1
        0s join a orders/biller lease=1h credit=2 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 3600s
            a gets orders/biller 0:1.1 "b" spent 1 until 3600s
        1s begin-under orders/biller 0:0.1 key=k
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 3600s
        2s nack orders/biller 0:0.1 delay=1s
            ok
            effect/orders/biller k.1 in doubt: abandoned
            orders/biller 0:0 nacked, due 3s
        2s begin-under orders/biller 0:1.1 key=k
            EXECUTE: effect/orders/biller k.2 IN_PROGRESS until 3600s; fence 1 of "w1" began 1s in doubt since 2s, abandoned
        3s wait => a gets orders/biller 0:0.2 "a" spent 2 until 3603s after "nack"
        4s ack orders/biller 0:0.2 => refused: effects are not finished: k
        5s finish effect/orders/biller k.2 succeeded
            effect/orders/biller k.2 SUCCEEDED; fence 1 of "w1" began 1s in doubt since 2s, abandoned
        6s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
        7s effect effect/orders/biller k
            effect/orders/biller k.2 SUCCEEDED; fence 1 of "w1" began 1s in doubt since 2s, abandoned
        8s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        9s effect effect/orders/biller k
            effect/orders/biller k.2 SUCCEEDED, kept until 604808s; fence 1 of "w1" began 1s in doubt since 2s, abandoned
        9s rows held => held 0
    "#]]);
}
