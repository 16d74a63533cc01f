//! Each message is delivered to every group until the group settles it. No consumer holds more than
//! its limits allow.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_message_is_delivered_and_acked() {
    check(expect![[r#"
        0s topic orders 2 => created
        0s produce orders hello key=a => stored 0:0
        1s join a orders/biller lease=30s
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        3s ack orders/biller 0:0.1 => ok
        60s view orders/biller
            next 1 of 1, committed 0, backlog 0, leased 0, waiting 0, nothing_new; next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_message_waits_for_its_first_consumer_through_a_crash() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders hello => stored 0:0
        1h crash
        2h join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 7230s
        2h view orders => orders 0..1 (5 bytes), dead 0, groups ["biller"]
    "#]]);
}

#[test]
fn every_group_gets_every_message_and_settles_it_alone() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller => joined
        1s join b orders/mailer => joined
        1s produce orders hello
            stored 0:0
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
            b gets orders/mailer 0:0.1 "hello" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        3s view orders/biller
            next 1 of 1, committed 0, backlog 0, leased 0, waiting 0, nothing_new
        3s view orders/mailer
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
        4s nack orders/mailer 0:0.1 delay=10s
            ok
            orders/mailer 0:0 nacked, due 14s
        5s view orders/biller
            next 1 of 1, committed 0, backlog 0, leased 0, waiting 0, nothing_new
        20s ack orders/mailer 0:0.2
            b gets orders/mailer 0:0.2 "hello" spent 2 until 44s after "nack"
            ok
            orders/mailer 0:0 acked
    "#]]);
}

#[test]
fn a_new_group_starts_at_the_oldest_or_at_the_next_message() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders old => stored 0:0
        2s group orders/all => created
        2s group orders/new latest => created
        3s produce orders new => stored 0:1
        4s join a orders/all
            joined
            a gets orders/all 0:0.1 "old" spent 1 until 34s
            a gets orders/all 0:1.1 "new" spent 1 until 34s
        4s join b orders/new
            joined
            b gets orders/new 0:1.1 "new" spent 1 until 34s
        5s join c orders/late latest => joined
        6s group orders/all latest => exists
        6s view orders/all => next 2 of 2, committed -1, backlog 2, leased 2, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_consumer_holds_no_more_messages_than_its_prefetch() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller credit=2
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
        2s view orders/biller
            next 2 of 3, committed -1, backlog 3, leased 2, waiting 0, consumers_full
        3s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
            a gets orders/biller 0:2.1 "m2" spent 1 until 33s
    "#]]);
}

/// The poll returns with its first batch. Later messages would have to be given back.
#[test]
fn a_poll_receives_messages_from_one_batch_only() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s join a orders/biller poll => joined
        1s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s produce orders m1 => stored 0:1
        3s view orders/biller
            next 1 of 2, committed -1, backlog 2, leased 1, waiting 0, consumers_full
    "#]]);
}

#[test]
fn a_poll_whose_messages_were_given_back_receives_no_more() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s join a orders/biller poll => joined
        1s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s giveback orders/biller 0:0.1
            ok
            orders/biller 0:0 returned, due 2s
        3s join b orders/biller poll
            joined
            b gets orders/biller 0:0.2 "m0" spent 1 until 33s
    "#]]);
}

#[test]
fn a_poll_whose_messages_are_settled_receives_no_more() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s join a orders/biller poll => joined
        1s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        3s produce orders m1 => stored 0:1
        4s join b orders/biller poll
            joined
            b gets orders/biller 0:1.1 "m1" spent 1 until 34s
    "#]]);
}

#[test]
fn a_consumer_holds_no_more_bytes_than_its_limit_but_always_one_message() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders 50bytes + produce orders 60bytes + produce orders 500bytes
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller bytes=100
            joined
            a gets orders/biller 0:0.1 "50 bytes" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:1.1 "60 bytes" spent 1 until 32s
        3s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
            a gets orders/biller 0:2.1 "500 bytes" spent 1 until 33s
        4s ack orders/biller 0:2.1
            ok
            orders/biller 0:2 acked
    "#]]);
}

#[test]
fn at_most_max_in_flight_messages_are_leased_per_group_and_partition() {
    check(expect![[r#"
        1s topic orders 2 max_in_flight=1 => created
        1s produce orders m0 p=0 + produce orders m1 p=0 + produce orders n0 p=1
            stored 0:0
            stored 0:1
            stored 1:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 1:0.1 "n0" spent 1 until 31s
        1s join b orders/mailer
            joined
            b gets orders/mailer 0:0.1 "m0" spent 1 until 31s
            b gets orders/mailer 1:0.1 "n0" spent 1 until 31s
        2s join c orders/biller => joined
        3s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:1.1 "m1" spent 1 until 33s
    "#]]);
}

#[test]
fn a_message_waiting_for_a_retry_counts_as_open_but_not_as_in_flight() {
    check(expect![[r#"
        1s topic orders 1 max_in_flight=1 max_open=2 => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s nack orders/biller 0:0.1 delay=1h
            ok
            orders/biller 0:0 nacked, due 3602s
            a gets orders/biller 0:1.1 "m1" spent 1 until 32s
        3s nack orders/biller 0:1.1 delay=1h
            ok
            orders/biller 0:1 nacked, due 3603s
        4s view orders/biller
            next 2 of 3, committed -1, backlog 3, leased 0, waiting 2 (first 3602s), max_open
        5s crash
        6s join a orders/biller => joined
        7s view orders/biller
            next 2 of 3, committed -1, backlog 3, leased 0, waiting 2 (first 3602s), max_open
        3602s ack orders/biller 0:0.2
            a gets orders/biller 0:0.2 "m0" spent 2 until 3632s after "nack"
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:2.1 "m2" spent 1 until 3632s
        3604s wait
    "#]]);
}

#[test]
fn a_consumer_that_left_may_still_settle_its_deliveries() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller credit=1 lease=10s
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 11s
        2s leave a => ok
        3s join b orders/biller credit=1 lease=10s
            joined
            b gets orders/biller 0:1.1 "m1" spent 1 until 13s
        4s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        5s view orders/biller
            next 2 of 2, committed 0, backlog 1, leased 1, waiting 0, consumers_full
    "#]]);
}

#[test]
fn unknown_topics_are_rejected_and_unknown_groups_without_auto_create() {
    check(expect![[r#"
        1s topic orders 1 no_auto_create => created
        1s produce nowhere hello => refused: no such topic
        1s join a nowhere/biller => refused: no such topic
        1s join a orders/biller => refused: no such group
        1s view orders/biller => refused: no such group
        2s group orders/biller => created
        2s produce orders hello => stored 0:0
        2s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 32s
    "#]]);
}

#[test]
fn creating_an_existing_topic_compares_partitions_and_settings() {
    check(expect![[r#"
        1s topic orders 2 lease=60s => created
        2s topic orders 2 lease=60s => exists
        3s topic orders 3 lease=60s
            refused: the topic already exists with different partitions or settings
        4s topic orders 2 lease=61s
            refused: the topic already exists with different partitions or settings
        5s topic orders 2 => exists
        6s view orders => orders 0..0 (0 bytes), 0..0 (0 bytes), dead 0, groups [], changed lease_ms
    "#]]);
}

#[test]
fn a_message_is_stored_in_the_topic_its_envelope_names() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s topic orders.eu 1 => created
        2s produce orders hello to=orders.eu => stored 0:0 in orders.eu
        3s produce orders hello to=orders => stored 0:0
        4s produce orders hello to=orders.us => refused: no such topic
        5s join a orders.eu/biller
            joined
            a gets orders.eu/biller 0:0.1 "hello" spent 1 until 35s
        6s join b orders/biller
            joined
            b gets orders/biller 0:0.1 "hello" spent 1 until 36s
    "#]]);
}

#[test]
fn acks_in_any_order_survive_and_only_the_rest_is_redelivered() {
    check(expect![[r#"
        1s topic orders 1 lease=10s retry=5,1s,1s => created
        1s produce orders m0 + produce orders m1 + produce orders m2 + produce orders m3
            stored 0:0
            stored 0:1
            stored 0:2
            stored 0:3
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 11s
            a gets orders/biller 0:1.1 "m1" spent 1 until 11s
            a gets orders/biller 0:2.1 "m2" spent 1 until 11s
            a gets orders/biller 0:3.1 "m3" spent 1 until 11s
        2s ack orders/biller 0:3.1 + ack orders/biller 0:1.1
            ok
            ok
            orders/biller 0:3 acked
            orders/biller 0:1 acked
        3s view orders/biller
            next 4 of 4, committed -1, backlog 2, leased 2, waiting 0, nothing_new
        4s crash
        5s join b orders/biller => joined
        30s view orders/biller
            orders/biller 0:0 expired, due 14.342s
            orders/biller 0:2 expired, due 14.922s
            b gets orders/biller 0:0.2 "m0" spent 2 until 24.342s after "ack_timeout"
            b gets orders/biller 0:2.2 "m2" spent 2 until 24.922s after "ack_timeout"
            orders/biller 0:0 expired, due 24.805s
            b gets orders/biller 0:0.3 "m0" spent 3 until 34.805s after "ack_timeout"
            orders/biller 0:2 expired, due 25.731s
            b gets orders/biller 0:2.3 "m2" spent 3 until 35.731s after "ack_timeout"
            next 4 of 4, committed -1, backlog 2, leased 2, waiting 0, nothing_new
    "#]]);
}
