//! A partition accepts no more than its topic allows. The backlog of the slowest group counts, and
//! the rejection names that group. A message that can never fit is rejected as too large. Dead
//! letters are exempt.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_full_partition_rejects_messages_and_names_the_slowest_group() {
    check(expect![[r#"
        1s topic orders 2 max_messages=2 => created
        1s join a orders/fast credit=9 => joined
        1s group orders/slow => created
        1s produce orders m0 p=0 + produce orders m1 p=0
            stored 0:0
            stored 0:1
            a gets orders/fast 0:0.1 "m0" spent 1 until 31s
            a gets orders/fast 0:1.1 "m1" spent 1 until 31s
        2s ack orders/fast 0:0.1 + ack orders/fast 0:1.1
            ok
            ok
            orders/fast 0:0 acked
            orders/fast 0:1 acked
        3s produce orders m2 p=0 => full: messages, held by slow
        3s produce orders n0 p=1
            stored 1:0
            a gets orders/fast 1:0.1 "n0" spent 1 until 33s
        4s join b orders/slow
            joined
            b gets orders/slow 0:0.1 "m0" spent 1 until 34s
            b gets orders/slow 0:1.1 "m1" spent 1 until 34s
            b gets orders/slow 1:0.1 "n0" spent 1 until 34s
        5s ack orders/slow 0:0.1
            ok
            orders/slow 0:0 acked
        6s produce orders m2 p=0
            stored 0:2
            a gets orders/fast 0:2.1 "m2" spent 1 until 36s
            b gets orders/slow 0:2.1 "m2" spent 1 until 36s
        6s produce orders m3 p=0 => full: messages, held by slow
    "#]]);
}

#[test]
fn bytes_of_key_and_value_count() {
    check(expect![[r#"
        1s topic orders 1 max_bytes=20 => created
        1s group orders/biller => created
        1s produce orders 9bytes key=k => stored 0:0
        1s produce orders 10bytes key=k => full: bytes, held by biller
        1s produce orders 9bytes key=k => stored 0:1
        2s produce orders 1bytes => full: bytes, held by biller
        3s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "xxxxxxxxx" spent 1 until 33s
            a gets orders/biller 0:1.1 "xxxxxxxxx" spent 1 until 33s
        4s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        5s produce orders 10bytes
            stored 0:2
            a gets orders/biller 0:2.1 "xxxxxxxxxx" spent 1 until 35s
    "#]]);
}

#[test]
fn a_message_that_can_never_fit_is_too_large() {
    check(expect![[r#"
        1s topic orders 1 max_bytes=20 => created
        1s produce orders 20bytes key=k => refused: message must be at most 20 bytes (got 21)
        1s produce orders 21bytes => refused: message must be at most 20 bytes (got 21)
        1s produce orders 19bytes key=k => stored 0:0
        2s produce orders 20bytes => full: bytes
    "#]]);
}

#[test]
fn without_a_group_stored_messages_count() {
    check(expect![[r#"
        1s topic orders 1 max_messages=2 => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            full: messages
        1h produce orders m2 => full: messages
        2h join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 7230s
            a gets orders/biller 0:1.1 "m1" spent 1 until 7230s
        2h ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        2h produce orders m2
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 7230s
        2h delete orders/biller
            deleted with backlog 2, open 2
            a is dismissed
            sweep blocks 3 0:1..3
            sweep cursor 3 0
        3h produce orders m3 => full: messages
    "#]]);
}

#[test]
fn open_messages_count_until_they_are_settled() {
    check(expect![[r#"
        1s topic orders 1 max_messages=2 => created
        1s join a orders/biller => joined
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
        2s nack orders/biller 0:0.1 delay=1h
            ok
            orders/biller 0:0 nacked, due 3602s
        3s produce orders m2 => full: messages, held by biller
        4s bury orders/biller 0:1.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        5s produce orders m2
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 35s
        6s produce orders m3 => full: messages, held by biller
    "#]]);
}

#[test]
fn open_bytes_count_until_they_are_settled() {
    check(expect![[r#"
        1s topic orders 1 max_bytes=20 => created
        1s join a orders/biller => joined
        1s produce orders 15bytes
            stored 0:0
            a gets orders/biller 0:0.1 "xxxxxxxxxxxxxxx" spent 1 until 31s
        2s produce orders 6bytes => full: bytes, held by biller
        3s nack orders/biller 0:0.1 delay=1h
            ok
            orders/biller 0:0 nacked, due 3603s
        4s produce orders 6bytes => full: bytes, held by biller
        5s crash
        6s produce orders 6bytes => full: bytes, held by biller
        6s produce orders 5bytes => stored 0:1
    "#]]);
}

#[test]
fn dead_letters_are_exempt() {
    check(expect![[r#"
        1s topic orders 1 max_messages=1 retry=1,1s,1s => created
        1s join a orders/biller => joined
        1s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s nack orders/biller 0:0.1
            ok
            dead letter 0:0 exhausted after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s produce orders m1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 33s
        4s nack orders/biller 0:1.1
            ok
            dead letter 0:1 exhausted after 1 of biller, "nack"
            orders/biller 0:1 dead
        5s produce orders m2
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 35s
        6s bury orders/biller 0:2.1
            ok
            dead letter 0:2 rejected after 1 of biller, "nack"
            orders/biller 0:2 dead
        7s view dlq.orders => dlq.orders (dead letters) 0..3 (6 bytes), dead 0, groups []
    "#]]);
}

#[test]
fn a_deleted_group_has_no_backlog() {
    check(expect![[r#"
        1s topic orders 1 max_messages=1 => created
        1s group orders/slow => created
        1s join a orders/fast => joined
        1s produce orders m0
            stored 0:0
            a gets orders/fast 0:0.1 "m0" spent 1 until 31s
        2s ack orders/fast 0:0.1
            ok
            orders/fast 0:0 acked
        3s produce orders m1 => full: messages, held by slow
        4s delete orders/slow
            deleted with backlog 1, open 0
            sweep blocks 3 0:0..0
            sweep cursor 3 0
        5s produce orders m1
            stored 0:1
            a gets orders/fast 0:1.1 "m1" spent 1 until 35s
    "#]]);
}

#[test]
fn after_a_seek_the_backlog_is_counted_from_the_new_cursor() {
    check(expect![[r#"
        1s topic orders 1 max_messages=3 max_bytes=1000 => created
        1s group orders/slow => created
        1s produce orders m0 + produce orders m1 + produce orders m2 + produce orders m3
            stored 0:0
            stored 0:1
            stored 0:2
            full: messages, held by slow
        2s seek orders/slow latest
            moved [(0, 0, 3)] redelivers 0 skips 3 dropped 0
            sweep blocks 3 0:0..0
            sweep cursor 3 0
        3s produce orders m3 => stored 0:3
        4s seek orders/slow 0:1
            moved [(0, 3, 1)] redelivers 2 skips 0 dropped 0
            sweep blocks 4 0:3..3
            sweep cursor 4 0
        5s produce orders m4 => full: messages, held by slow
        6s seek orders/slow 0:2
            moved [(0, 1, 2)] redelivers 0 skips 1 dropped 0
            sweep blocks 5 0:1..1
            sweep cursor 5 0
        7s produce orders m4 => stored 0:4
    "#]]);
}

#[test]
fn nearly_full_storage_rejects_new_messages_and_accepts_settles() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller credit=9 => joined
        1s produce orders m0 idem=k0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s bury orders/biller 0:2.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:2 dead
        2s storage low => ok
        2s produce orders m3 => full: storage
        2s produce orders m0 idem=k0 => stored 0:0 before
        2s redrive orders 0:0 => full: storage
        3s ack orders/biller 0:0.1 + nack orders/biller 0:1.1
            ok
            ok
            orders/biller 0:0 acked
            orders/biller 0:1 nacked, due 3.999s
        9s storage fine
            a gets orders/biller 0:1.2 "m1" spent 2 until 33.999s after "nack"
            ok
        9s produce orders m3
            stored 0:3
            a gets orders/biller 0:3.1 "m3" spent 1 until 39s
        9s redrive orders 0:0
            redriven as 0:4
            a gets orders/biller 0:4.1 "m2" spent 1 until 39s redriven 1 times from 0:2
    "#]]);
}
