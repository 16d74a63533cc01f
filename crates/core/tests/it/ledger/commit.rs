//! One atomic commit: settle, finish, produce.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_commit_settles_finishes_and_produces_at_once() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s topic receipts 2 => created
        0s produce orders hello idem=order-77 run=r1 tenant=acme => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 on=park
            EXECUTE: acme:effect/orders/biller order-77.1 IN_PROGRESS until 10s
        2s commit orders/biller 0:0.1 effects="acme:effect/orders/biller order-77.1 succeeded result=1" produce="receipts r key=a; receipts s key=a"
            committed, receipts 0:0, receipts 0:1
            orders/biller 0:0 acked
        3s commit orders/biller 0:0.1 effects="acme:effect/orders/biller order-77.1 succeeded result=1" produce="receipts r key=a; receipts s key=a"
            committed before, receipts 0:0, receipts 0:1
        4s commit orders/biller 0:0.1 effects="acme:effect/orders/biller order-77.1 succeeded result=1" produce="receipts r key=a"
            refused: this delivery is already committed with different content
        5s peek receipts 1 => none (scanned 0, the end)
        5s effect effect/orders/biller order-77 tenant=acme
            acme:effect/orders/biller order-77.1 SUCCEEDED result 1, kept until 604802s
        6s ack orders/biller 0:0.1 => ok
        6s rows held => held 0
    "#]]);
}

#[test]
fn a_rejected_commit_changes_nothing() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s topic receipts 1 => created
        0s produce orders hello => stored 0:0
        0s produce receipts taken idem=k => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=a on=park
            EXECUTE: effect/orders/biller a.1 IN_PROGRESS until 10s
        1s begin-under orders/biller 0:0.1 key=b on=park
            EXECUTE: effect/orders/biller b.1 IN_PROGRESS until 10s
        1s begin op/other x on=park => EXECUTE: op/other x.1 IN_PROGRESS until 31s
        2s commit orders/biller 0:0.1 effects="effect/orders/biller a.1 succeeded"
            refused: effects are not finished: b
        2s commit orders/biller 0:0.1 effects="op/other x.1 succeeded"
            refused: effects[0]: token: the effect was not begun under this delivery
        2s commit orders/biller 0:0.1 effects="effect/orders/biller a.1 succeeded; effect/orders/biller b.1 retryable result=1"
            refused: effects[1]: result: is allowed only with SUCCEEDED or FAILED_FINAL
        2s commit orders/biller 0:0.1 effects="effect/orders/biller a.1 succeeded; effect/orders/biller b.1 failed" produce="receipts r; none s"
            refused: produce[1]: no such topic
        2s commit orders/biller 0:0.1 effects="effect/orders/biller a.1 succeeded; effect/orders/biller b.1 failed" produce="receipts r; receipts other idem=k"
            refused: produce[1]: this idempotency key was used for a different message: value differs; use a new key for new content
        2s commit orders/biller 0:0.1 nack produce="receipts r"
            refused: produce: is allowed only with ack, or with a nack that has dead_letter
        2s commit orders/biller 0:0.1 nack result=1 => refused: result: is allowed only with ack
        3s effects IN_PROGRESS
            op/other x.1 IN_PROGRESS until 31s; effect/orders/biller b.1 IN_PROGRESS until 10s; effect/orders/biller a.1 IN_PROGRESS until 10s (scanned 3, the end)
        3s view receipts => receipts 0..1 (5 bytes), dead 0, groups []
        3s view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, consumers_full
        4s commit orders/biller 0:0.1 effects="effect/orders/biller a.1 succeeded; effect/orders/biller b.1 failed" produce="receipts r; receipts r idem=n; receipts r idem=n; receipts taken idem=k"
            committed, receipts 0:1, receipts 0:2, receipts 0:2 before, receipts 0:0 before
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn two_messages_with_one_key_in_a_commit_are_one_or_a_conflict() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s topic receipts 3 spread => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s commit orders/biller 0:0.1 produce="receipts r idem=k; receipts s idem=k"
            refused: produce[1]: this idempotency key was used for a different message: value differs; use a new key for new content
        2s commit orders/biller 0:0.1 produce="receipts r idem=k; receipts r idem=k; receipts s; receipts t; receipts u"
            committed, receipts 0:0, receipts 0:0 before, receipts 0:1, receipts 0:2, receipts 0:3
            orders/biller 0:0 acked
        3s produce receipts v => stored 1:0
    "#]]);
}

#[test]
fn a_late_attempt_may_commit_until_the_message_is_delivered_again() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1m,1m => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        12s commit orders/biller 0:0.1 nack
            effect/orders/biller k.1 in doubt: lease_expired
            orders/biller 0:0 expired, due 33.201s
            stale: waiting
        12s commit orders/biller 0:0.1 effects="effect/orders/biller k.1 succeeded"
            committed
            orders/biller 0:0 acked
        13s commit orders/biller 0:0.1 effects="effect/orders/biller k.1 succeeded"
            committed before
    "#]]);
}

#[test]
fn a_commit_by_a_stale_attempt_is_rejected() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        12s commit orders/biller 0:0.1
            orders/biller 0:0 expired, due 10.342s
            a gets orders/biller 0:0.2 "a" spent 2 until 20.342s after "ack_timeout"
            stale: leased, attempt 2 is current
        13s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
        14s commit orders/biller 0:0.2 => stale: settled
        15s commit orders/biller 0:0.1 => stale: settled
    "#]]);
}

#[test]
fn a_nack_commit_finishes_named_effects_and_leaves_the_rest_in_doubt() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=retry
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        1s begin-under orders/biller 0:0.1 key=l on=retry
            EXECUTE: effect/orders/biller l.1 IN_PROGRESS until 10s
        2s commit orders/biller 0:0.1 nack reason=boom effects="effect/orders/biller k.1 succeeded result=1"
            committed
            effect/orders/biller l.1 in doubt: abandoned
            orders/biller 0:0 nacked, due 2.342s
        2s commit orders/biller 0:0.1 nack reason=boom effects="effect/orders/biller k.1 succeeded result=1"
            committed before
        2s commit orders/biller 0:0.1 nack reason=other effects="effect/orders/biller k.1 succeeded result=1"
            refused: this delivery is already committed with different content
        4s begin-under orders/biller 0:0.2 key=k on=retry
            a gets orders/biller 0:0.2 "a" spent 2 until 12.342s after "boom"
            REPLAY: effect/orders/biller k.1 SUCCEEDED result 1
        4s begin-under orders/biller 0:0.2 key=l on=retry
            EXECUTE: effect/orders/biller l.2 IN_PROGRESS until 12.342s; fence 1 of "w1" began 1s in doubt since 2s, abandoned
        5s commit orders/biller 0:0.1 nack reason=boom effects="effect/orders/biller k.1 succeeded result=1"
            committed before
        6s commit orders/biller 0:0.2 effects="effect/orders/biller l.2 succeeded"
            committed
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn a_final_nack_may_produce_a_compensation() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s topic refunds 1 => created
        0s produce orders a run=r1 => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=retry
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s commit orders/biller 0:0.1 final reason=no effects="effect/orders/biller k.1 failed error=declined" produce="refunds r"
            committed, refunds 0:0
            dead letter 0:0 rejected after 1 of biller, "no"
            orders/biller 0:0 dead
        3s commit orders/biller 0:0.1 final reason=no effects="effect/orders/biller k.1 failed error=declined" produce="refunds r"
            committed before, refunds 0:0
        3s ack orders/biller 0:0.1 => stale: dead
        4s effect effect/orders/biller k
            effect/orders/biller k.1 FAILED_FINAL "declined", kept until 604802s
        5s peek refunds 0 run=r1 => 0:0 r (scanned 1, the end)
    "#]]);
}

#[test]
fn the_messages_of_a_commit_are_exempt_from_a_full_topic() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s topic receipts 1 max_messages=1 => created
        0s produce orders a => stored 0:0
        0s produce receipts full => stored 0:0
        0s produce receipts over => full: messages
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s commit orders/biller 0:0.1 produce="receipts r"
            committed, receipts 0:1
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn a_result_is_stored_as_an_effect_under_the_message_key() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a idem=k + produce orders b idem=l + produce orders c idem=m
            stored 0:0
            stored 0:1
            stored 0:2
        0s join a orders/biller lease=10s credit=3 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
            a gets orders/biller 0:1.1 "b" spent 1 until 10s
            a gets orders/biller 0:2.1 "c" spent 1 until 10s
        1s commit orders/biller 0:0.1 result=42
            committed
            orders/biller 0:0 acked
        2s commit orders/biller 0:0.1 result=42 => committed before
        2s commit orders/biller 0:0.1 result=43
            refused: this delivery is already committed with different content
        2s effect effect/orders/biller k
            effect/orders/biller k.1 SUCCEEDED result 42, kept until 604801s
        3s begin-under orders/biller 0:1.1 on=park
            EXECUTE: effect/orders/biller l.1 IN_PROGRESS until 10s
        3s commit orders/biller 0:1.1 result=42
            committed
            orders/biller 0:1 acked
        3s effect effect/orders/biller l
            effect/orders/biller l.1 SUCCEEDED result 42, kept until 604803s
        4s begin-under orders/biller 0:2.1 on=park
            EXECUTE: effect/orders/biller m.1 IN_PROGRESS until 10s
        4s finish effect/orders/biller m.1 failed error=no
            effect/orders/biller m.1 FAILED_FINAL "no"
        5s commit orders/biller 0:2.1 result=42
            refused: this fence is already finished with a different outcome
        6s rows held => held 1
    "#]]);
}

#[test]
fn a_repeated_commit_is_answered_after_a_crash_until_its_record_expires() {
    check(expect![[r#"
        0s topic orders 1 dedupe=1h => created
        0s topic receipts 1 => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s commit orders/biller 0:0.1 produce="receipts r"
            committed, receipts 0:0
            orders/biller 0:0 acked
        2s crash
        3s commit orders/biller 0:0.1 produce="receipts r" => committed before, receipts 0:0
        3600s commit orders/biller 0:0.1 produce="receipts r" => committed before, receipts 0:0
        3601s commit orders/biller 0:0.1 produce="receipts r"
            expire to 3601.001s
            stale: settled
        3602s view receipts => receipts 0..1 (1 bytes), dead 0, groups []
    "#]]);
}

#[test]
fn a_nack_commit_of_a_dead_letter_cannot_produce() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s topic receipts 1 => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        2s join b dlq.orders/ops lease=10s credit=1 owner=w2
            joined
            b gets dlq.orders/ops 0:0.1 "a" spent 1 until 12s after "nack"
        3s commit dlq.orders/ops 0:0.1 final produce="receipts r"
            refused: produce: is allowed only with ack, because a nacked dead letter is delivered again
        3s commit dlq.orders/ops 0:0.1 produce="receipts r"
            committed, receipts 0:0
            dlq.orders/ops 0:0 acked
    "#]]);
}

#[test]
fn an_effect_replayed_by_another_message_still_counts_for_its_delivery() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
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
        3s begin-under orders/biller 0:1.1 key=k on=park
            REPLAY: effect/orders/biller k.1 SUCCEEDED result 1
        4s commit orders/biller 0:0.1 effects="effect/orders/biller k.1 succeeded result=1"
            committed
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn a_late_commit_is_rejected_with_the_current_fence_of_its_effect() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1h,1h => created
        0s produce orders a + produce orders b
            stored 0:0
            stored 0:1
        0s join a orders/biller lease=10s credit=2 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
            a gets orders/biller 0:1.1 "b" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=retry
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        5s extend orders/biller 0:1.1 lease=1m => extended until 65s
        12s begin-under orders/biller 0:1.1 key=k on=retry
            effect/orders/biller k.1 in doubt: lease_expired
            orders/biller 0:0 expired, due 1882.645s
            EXECUTE: effect/orders/biller k.2 IN_PROGRESS until 65s; fence 1 of "w1" began 1s in doubt since 10s, lease_expired
        13s commit orders/biller 0:0.1 effects="effect/orders/biller k.1 succeeded result=1"
            refused: effects[0]: fence 1 is not current: the effect is IN_PROGRESS at fence 2
    "#]]);
}
