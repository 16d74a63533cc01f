//! Fresh messages of a partition are delivered in offset order, and several consumers receive them
//! in turns. Groups and partitions do not wait for each other.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn fresh_messages_of_a_partition_are_delivered_in_offset_order() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller credit=3 => joined
        1s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        1s produce orders m1 + produce orders m2 + produce orders m3
            stored 0:1
            stored 0:2
            stored 0:3
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s ack orders/biller 0:2.1 + ack orders/biller 0:0.1 + produce orders m4
            ok
            ok
            stored 0:4
            orders/biller 0:2 acked
            orders/biller 0:0 acked
            a gets orders/biller 0:3.1 "m3" spent 1 until 32s
            a gets orders/biller 0:4.1 "m4" spent 1 until 32s
    "#]]);
}

#[test]
fn order_survives_a_crash() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s produce orders m2 => stored 0:2
        1s join a orders/biller credit=1
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s crash
        3s produce orders m3 => stored 0:3
        3s join b orders/biller credit=9
            joined
            b gets orders/biller 0:1.1 "m1" spent 1 until 33s
            b gets orders/biller 0:2.1 "m2" spent 1 until 33s
            b gets orders/biller 0:3.1 "m3" spent 1 until 33s
    "#]]);
}

#[test]
fn consumers_of_a_group_take_turns() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller + join b orders/biller + join c orders/biller
            joined
            joined
            joined
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            b gets orders/biller 0:1.1 "m1" spent 1 until 31s
            c gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s produce orders m3
            stored 0:3
            a gets orders/biller 0:3.1 "m3" spent 1 until 32s
        3s produce orders m4
            stored 0:4
            b gets orders/biller 0:4.1 "m4" spent 1 until 33s
        4s leave c => ok
        4s produce orders m5
            stored 0:5
            a gets orders/biller 0:5.1 "m5" spent 1 until 34s
        5s produce orders m6 + produce orders m7
            stored 0:6
            stored 0:7
            b gets orders/biller 0:6.1 "m6" spent 1 until 35s
            a gets orders/biller 0:7.1 "m7" spent 1 until 35s
    "#]]);
}

#[test]
fn the_next_run_continues_with_the_next_consumer() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller + join b orders/biller
            joined
            joined
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            b gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s produce orders m3
            stored 0:3
            b gets orders/biller 0:3.1 "m3" spent 1 until 32s
    "#]]);
}

#[test]
fn a_full_consumer_is_skipped_and_keeps_its_position_in_the_rotation() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller credit=1 + join b orders/biller credit=2
            joined
            joined
        1s produce orders m0 + produce orders m1 + produce orders m2 + produce orders m3
            stored 0:0
            stored 0:1
            stored 0:2
            stored 0:3
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            b gets orders/biller 0:1.1 "m1" spent 1 until 31s
            b gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:3.1 "m3" spent 1 until 32s
        3s ack orders/biller 0:2.1
            ok
            orders/biller 0:2 acked
        3s produce orders m4
            stored 0:4
            b gets orders/biller 0:4.1 "m4" spent 1 until 33s
    "#]]);
}

#[test]
fn groups_do_not_wait_for_each_other() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/slow credit=1 => joined
        1s join b orders/fast credit=1 => joined
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
            a gets orders/slow 0:0.1 "m0" spent 1 until 31s
            b gets orders/fast 0:0.1 "m0" spent 1 until 31s
        2s ack orders/fast 0:0.1
            ok
            orders/fast 0:0 acked
            b gets orders/fast 0:1.1 "m1" spent 1 until 32s
        3s ack orders/fast 0:1.1
            ok
            orders/fast 0:1 acked
            b gets orders/fast 0:2.1 "m2" spent 1 until 33s
        4s view orders/slow
            next 1 of 3, committed -1, backlog 3, leased 1, waiting 0, consumers_full
        4s view orders/fast
            next 3 of 3, committed 1, backlog 1, leased 1, waiting 0, consumers_full
    "#]]);
}

#[test]
fn each_partition_is_ordered_independently() {
    check(expect![[r#"
        1s topic orders 3 => created
        1s produce orders a0 p=0 + produce orders c0 p=2 + produce orders a1 p=0 + produce orders b0 p=1 + produce orders c1 p=2
            stored 0:0
            stored 2:0
            stored 0:1
            stored 1:0
            stored 2:1
        2s join w orders/biller credit=4
            joined
            w gets orders/biller 0:0.1 "a0" spent 1 until 32s
            w gets orders/biller 0:1.1 "a1" spent 1 until 32s
            w gets orders/biller 1:0.1 "b0" spent 1 until 32s
            w gets orders/biller 2:0.1 "c0" spent 1 until 32s
        3s nack orders/biller 0:0.1 delay=1h
            ok
            orders/biller 0:0 nacked, due 3603s
            w gets orders/biller 2:1.1 "c1" spent 1 until 33s
        4s view orders/biller
            next 2 of 2, committed -1, backlog 2, leased 1, waiting 1 (first 3603s), consumers_full; next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, consumers_full; next 2 of 2, committed -1, backlog 2, leased 2, waiting 0, consumers_full
    "#]]);
}

#[test]
fn a_partition_waiting_for_retries_does_not_block_the_others() {
    check(expect![[r#"
        1s topic orders 2 max_in_flight=1 max_open=1 => created
        1s join w orders/biller => joined
        1s produce orders a0 p=0 + produce orders a1 p=0 + produce orders b0 p=1
            stored 0:0
            stored 0:1
            stored 1:0
            w gets orders/biller 0:0.1 "a0" spent 1 until 31s
            w gets orders/biller 1:0.1 "b0" spent 1 until 31s
        2s nack orders/biller 0:0.1 delay=1h
            ok
            orders/biller 0:0 nacked, due 3602s
        2s ack orders/biller 1:0.1
            ok
            orders/biller 1:0 acked
        2s produce orders b1 p=1
            stored 1:1
            w gets orders/biller 1:1.1 "b1" spent 1 until 32s
        3s view orders/biller
            next 1 of 2, committed -1, backlog 2, leased 0, waiting 1 (first 3602s), max_open; next 2 of 2, committed 0, backlog 1, leased 1, waiting 0, in_flight_limit
    "#]]);
}

#[test]
fn a_message_larger_than_the_free_bytes_does_not_block_other_partitions() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s join a orders/biller bytes=100 => joined
        1s produce orders 60bytes p=0
            stored 0:0
            a gets orders/biller 0:0.1 "60 bytes" spent 1 until 31s
        2s produce orders small p=1
            stored 1:0
            a gets orders/biller 1:0.1 "small" spent 1 until 32s
        3s produce orders 60bytes p=0 + produce orders small p=1
            stored 0:1
            stored 1:1
            a gets orders/biller 1:1.1 "small" spent 1 until 33s
    "#]]);
}
