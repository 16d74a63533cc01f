//! An outcome is kept while a message it was begun under is open. However such a message ends, the
//! time to live of the outcome starts, and a key accepted as new after that is a new effect.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_seek_releases_the_effects_of_open_messages() {
    check(expect![[r#"
        0s topic orders 1 dedupe=60s => created
        0s produce orders pay idem=weekly => stored 0:0
        0s join a orders/biller lease=30s credit=1 owner=w
            joined
            a gets orders/biller 0:0.1 "pay" spent 1 until 30s
        1s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller weekly.1 IN_PROGRESS until 30s
        2s finish effect/orders/biller weekly.1 succeeded result=1
            effect/orders/biller weekly.1 SUCCEEDED result 1
        3s leave a => ok
        3s seek orders/biller 0:0
            moved [(0, 1, 0)] redelivers 1 skips 0 dropped 1
            sweep blocks 3 0:0..1
            sweep cursor 3 0
        3s effect effect/orders/biller weekly
            effect/orders/biller weekly.1 SUCCEEDED result 1, kept until 63s
        4s join b orders/biller lease=30s credit=1 owner=w
            joined
            b gets orders/biller 0:0.1 "pay" spent 1 until 34s
        5s begin-under orders/biller 0:0.1 on=park
            REPLAY: effect/orders/biller weekly.1 SUCCEEDED result 1
        6s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        7s effect effect/orders/biller weekly
            effect/orders/biller weekly.1 SUCCEEDED result 1, kept until 66s
        7s rows held => held 0
        61s produce orders pay idem=weekly
            expire to 60.001s
            stored 0:1
            b gets orders/biller 0:1.1 "pay" spent 1 until 91s
        62s begin-under orders/biller 0:1.1 on=park
            EXECUTE: effect/orders/biller weekly.2 IN_PROGRESS until 91s
    "#]]);
}

#[test]
fn a_seek_past_open_messages_lets_their_outcomes_expire() {
    check(expect![[r#"
        0s topic orders 1 dedupe=60s => created
        0s produce orders pay idem=weekly => stored 0:0
        0s join a orders/biller lease=30s credit=1 owner=w
            joined
            a gets orders/biller 0:0.1 "pay" spent 1 until 30s
        1s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller weekly.1 IN_PROGRESS until 30s
        2s finish effect/orders/biller weekly.1 succeeded result=1
            effect/orders/biller weekly.1 SUCCEEDED result 1
        3s leave a => ok
        3s seek orders/biller latest
            moved [(0, 1, 1)] redelivers 0 skips 0 dropped 1
            sweep blocks 3 0:0..1
            sweep cursor 3 0
        4s effect effect/orders/biller weekly
            effect/orders/biller weekly.1 SUCCEEDED result 1, kept until 63s
        4s rows held => held 0
        70s effect effect/orders/biller weekly
            expire to 60.001s
            expire to 70.001s
            refused: no such effect
    "#]]);
}

#[test]
fn deleting_a_group_lets_its_outcomes_expire() {
    check(expect![[r#"
        0s topic orders 1 dedupe=60s => created
        0s produce orders pay idem=weekly => stored 0:0
        0s join a orders/biller lease=30s credit=1 owner=w
            joined
            a gets orders/biller 0:0.1 "pay" spent 1 until 30s
        1s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller weekly.1 IN_PROGRESS until 30s
        2s finish effect/orders/biller weekly.1 succeeded result=1
            effect/orders/biller weekly.1 SUCCEEDED result 1
        3s delete orders/biller
            deleted with backlog 1, open 1
            a is dismissed
            sweep blocks 3 0:0..1
            sweep cursor 3 0
        4s effect effect/orders/biller weekly
            effect/orders/biller weekly.1 SUCCEEDED result 1, kept until 63s
        4s join b orders/biller lease=30s credit=1 owner=w
            joined
            b gets orders/biller 0:0.1 "pay" spent 1 until 34s
        5s begin-under orders/biller 0:0.1 on=park
            REPLAY: effect/orders/biller weekly.1 SUCCEEDED result 1
    "#]]);
}

#[test]
fn deleting_a_topic_lets_its_outcomes_expire() {
    check(expect![[r#"
        0s topic orders 1 dedupe=60s => created
        0s produce orders pay idem=weekly => stored 0:0
        0s join a orders/biller lease=30s credit=1 owner=w
            joined
            a gets orders/biller 0:0.1 "pay" spent 1 until 30s
        1s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller weekly.1 IN_PROGRESS until 30s
        2s finish effect/orders/biller weekly.1 succeeded result=1
            effect/orders/biller weekly.1 SUCCEEDED result 1
        3s delete orders
            deleted 1 messages, 0 dead letters
            sweep pages topic 1 0:0..1
            sweep lane topic 1 0
            a is dismissed
            sweep dead letters topic 1 0..4096
            sweep blocks 3 0:0..1
            sweep cursor 3 0
            sweep the last pointers topic 1
        4s rows held => held 0
        4s rows record => record 2
        200s rows record
            expire to 60.001s
            expire to 70.001s
            record 0
    "#]]);
}

#[test]
fn a_deadline_that_passes_before_a_retry_releases_the_effects() {
    check(expect![[r#"
        0s topic orders 1 dedupe=60s retry=5,20s,20s => created
        0s produce orders pay idem=weekly deadline=10s => stored 0:0
        0s join a orders/biller lease=30s credit=1 owner=w
            joined
            a gets orders/biller 0:0.1 "pay" spent 1 until 30s
        1s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller weekly.1 IN_PROGRESS until 30s
        1s begin-under orders/biller 0:0.1 on=park key=other
            EXECUTE: effect/orders/biller other.1 IN_PROGRESS until 30s
        2s finish effect/orders/biller weekly.1 succeeded result=1
            effect/orders/biller weekly.1 SUCCEEDED result 1
        3s nack orders/biller 0:0.1
            ok
            effect/orders/biller other.1 in doubt: abandoned
            orders/biller 0:0 nacked, due 11.585s
        60s effect effect/orders/biller weekly
            effect/orders/biller other.1 in doubt: abandoned
            dead letter 0:0 deadline after 1 of biller, "nack"
            orders/biller 0:0 dead
            expire to 60.001s
            effect/orders/biller weekly.1 SUCCEEDED result 1, kept until 71.585s
        60s effect effect/orders/biller other
            effect/orders/biller other.1 PARKED; fence 1 of "w" began 1s in doubt since 3s, abandoned
        60s rows held => held 0
        61s produce orders pay idem=weekly
            stored 0:1
            a gets orders/biller 0:1.1 "pay" spent 1 until 91s
        62s begin-under orders/biller 0:1.1 on=park
            EXECUTE: effect/orders/biller weekly.2 IN_PROGRESS until 91s
    "#]]);
}

#[test]
fn a_purge_of_open_dead_letters_releases_their_effects() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        0s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 30s
            a gets orders/biller 0:1.1 "m1" spent 1 until 30s
        1s bury orders/biller 0:0.1 + bury orders/biller 0:1.1
            ok
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        2s join b dlq.orders/undertaker lease=30s
            joined
            b gets dlq.orders/undertaker 0:0.1 "m0" spent 1 until 32s after "nack"
            b gets dlq.orders/undertaker 0:1.1 "m1" spent 1 until 32s after "nack"
        3s begin-under dlq.orders/undertaker 0:0.1 key=shared on=park
            EXECUTE: effect/dlq.orders/undertaker shared.1 IN_PROGRESS until 32s
        4s finish effect/dlq.orders/undertaker shared.1 succeeded result=1
            effect/dlq.orders/undertaker shared.1 SUCCEEDED result 1
        5s begin-under dlq.orders/undertaker 0:1.1 key=shared on=park
            REPLAY: effect/dlq.orders/undertaker shared.1 SUCCEEDED result 1
        6s purge orders 0:0 0:1
            purged 2
            dlq.orders/undertaker 0:0 purged
            dead letter 0:0 is gone
            dlq.orders/undertaker 0:1 purged
            dead letter 0:1 is gone
        7s effect effect/dlq.orders/undertaker shared
            effect/dlq.orders/undertaker shared.1 SUCCEEDED result 1, kept until 604806s
        7s rows held => held 0
    "#]]);
}

/// Two open messages share an effect, which is kept until both are settled.
#[test]
fn an_outcome_is_kept_for_every_open_message_that_shares_it() {
    check(expect![[r#"
        0s topic orders 2 => created
        0s produce orders m0 p=0 + produce orders m1 p=1
            stored 0:0
            stored 1:0
        0s join a orders/biller lease=30s
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 30s
            a gets orders/biller 1:0.1 "m1" spent 1 until 30s
        1s begin-under orders/biller 0:0.1 key=shared on=park
            EXECUTE: effect/orders/biller shared.1 IN_PROGRESS until 30s
        2s finish effect/orders/biller shared.1 succeeded result=1
            effect/orders/biller shared.1 SUCCEEDED result 1
        3s begin-under orders/biller 1:0.1 key=shared on=park
            REPLAY: effect/orders/biller shared.1 SUCCEEDED result 1
        4s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        5s effect effect/orders/biller shared => effect/orders/biller shared.1 SUCCEEDED result 1
        6s leave a => ok
        6s seek orders/biller 1:0
            moved [(1, 1, 0)] redelivers 1 skips 0 dropped 1
            sweep blocks 3 1:0..1
            sweep cursor 3 1
        7s effect effect/orders/biller shared
            effect/orders/biller shared.1 SUCCEEDED result 1, kept until 604806s
    "#]]);
}
