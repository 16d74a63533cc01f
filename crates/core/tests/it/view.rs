//! A view of a group reports why no fresh message is delivered: the first reason that applies.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn paused_is_reported_before_all_other_reasons() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s group orders/biller => created
        1s pause orders/biller => ok
        2s view orders/biller
            paused by ops since 1s; next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, paused
    "#]]);
}

#[test]
fn a_group_without_consumers_reports_no_consumers() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s group orders/biller => created
        2s view orders/biller
            next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, no_consumers
        3s join a orders/biller => joined
        4s leave a => ok
        5s view orders/biller
            next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, no_consumers
    "#]]);
}

#[test]
fn full_consumers_are_reported_as_consumers_full() {
    check(expect![[r#"
        1s topic orders 1 max_in_flight=1 max_open=1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller credit=1
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s view orders/biller
            next 1 of 2, committed -1, backlog 2, leased 1, waiting 0, consumers_full
    "#]]);
}

#[test]
fn max_in_flight_leases_are_reported_as_in_flight_limit() {
    check(expect![[r#"
        1s topic orders 1 max_in_flight=1 max_open=1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s view orders/biller
            next 1 of 2, committed -1, backlog 2, leased 1, waiting 0, in_flight_limit
    "#]]);
}

#[test]
fn max_open_messages_are_reported_as_max_open() {
    check(expect![[r#"
        1s topic orders 1 max_in_flight=1 max_open=1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s nack orders/biller 0:0.1 delay=1h
            ok
            orders/biller 0:0 nacked, due 3602s
        3s view orders/biller
            next 1 of 2, committed -1, backlog 2, leased 0, waiting 1 (first 3602s), max_open
    "#]]);
}

#[test]
fn an_empty_backlog_is_reported_as_nothing_new() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller => joined
        1s view orders/biller
            next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, nothing_new
        1s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s nack orders/biller 0:0.1 delay=1h
            ok
            orders/biller 0:0 nacked, due 3602s
        3s view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 3602s), nothing_new
    "#]]);
}

#[test]
fn messages_being_read_are_reported_as_loading() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        2s crash
        3s join a orders/biller + view orders/biller
            joined
            next 0 of 1, committed -1, backlog 1, leased 0, waiting 0, loading
            a gets orders/biller 0:0.1 "m0" spent 1 until 33s
        4s view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
    "#]]);
}

#[test]
fn no_reason_is_reported_while_messages_are_delivered() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller => joined
        2s produce orders m0 + view orders/biller
            stored 0:0
            next 0 of 1, committed -1, backlog 1, leased 0, waiting 0, flows
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
    "#]]);
}

#[test]
fn each_partition_has_its_own_reason() {
    check(expect![[r#"
        1s topic orders 3 max_in_flight=1 max_open=1 => created
        1s produce orders m0 p=0 + produce orders m1 p=0 + produce orders n0 p=1 + produce orders n1 p=1
            stored 0:0
            stored 0:1
            stored 1:0
            stored 1:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 1:0.1 "n0" spent 1 until 31s
        2s nack orders/biller 1:0.1 delay=1h
            ok
            orders/biller 1:0 nacked, due 3602s
        3s view orders/biller
            next 1 of 2, committed -1, backlog 2, leased 1, waiting 0, in_flight_limit; next 1 of 2, committed -1, backlog 2, leased 0, waiting 1 (first 3602s), max_open; next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, nothing_new
    "#]]);
}

#[test]
fn settled_through_is_below_the_lowest_open_message() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        2s view orders/biller
            next 3 of 3, committed -1, backlog 2, leased 2, waiting 0, nothing_new
        3s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        3s view orders/biller
            next 3 of 3, committed 1, backlog 1, leased 1, waiting 0, nothing_new
        4s ack orders/biller 0:2.1
            ok
            orders/biller 0:2 acked
        4s view orders/biller
            next 3 of 3, committed 2, backlog 0, leased 0, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_view_does_not_include_later_commands_of_its_batch() {
    check(expect![[r#"
        1s topic orders 1 => created
        2s view orders + produce orders m0 + view orders + produce orders m1 + view orders
            orders 0..0 (0 bytes), dead 0, groups []
            stored 0:0
            orders 0..1 (2 bytes), dead 0, groups []
            stored 0:1
            orders 0..2 (4 bytes), dead 0, groups []
    "#]]);
}
