//! Topics and groups are listed completely and by name.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn topics_are_listed_by_name_including_dead_letter_topics() {
    check(expect![[r#"
        1s topics default => none
        1s topic refunds 1 lease=5s => created
        1s topic orders 2 => created
        2s produce orders m0 => stored 0:0
        2s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
        3s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        4s topics default
            dlq.orders (dead letters) 0..1 (2 bytes), 0..0 (0 bytes), dead 0, groups []; orders 0..1 (2 bytes), 0..0 (0 bytes), dead 1, groups ["biller"]; refunds 0..0 (0 bytes), dead 0, groups [], changed lease_ms
        5s topics another => none
        5s all another => none
        5s all default
            dlq.orders (dead letters) 0..1 (2 bytes), 0..0 (0 bytes), dead 0, groups []; orders 0..1 (2 bytes), 0..0 (0 bytes), dead 1, groups ["biller"]; refunds 0..0 (0 bytes), dead 0, groups [], changed lease_ms; biller backlog 0, oldest none, a holds 0 of 100 for 30000ms
        6s delete orders
            deleted 1 messages, 1 dead letters
            sweep pages topic 2 0:0..1
            sweep lane topic 2 0
            sweep pages topic 6 0:0..1
            sweep lane topic 6 0
            a is dismissed
            sweep pages topic 2 1:0..0
            sweep lane topic 2 1
            sweep pages topic 6 1:0..0
            sweep lane topic 6 1
            sweep blocks 4 0:1..1
            sweep cursor 4 0
            sweep dead letters topic 2 0..4096
            sweep dead letters topic 6 0..4096
            sweep blocks 4 1:0..0
            sweep cursor 4 1
            sweep the last pointers topic 2
            sweep the last pointers topic 6
        7s topics default => refunds 0..0 (0 bytes), dead 0, groups [], changed lease_ms
    "#]]);
}

#[test]
fn groups_are_listed_by_name_with_their_consumers() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s groups orders => none
        2s group orders/mailer => created
        2s produce orders m0 p=1 => stored 1:0
        3s produce orders m1 p=0 => stored 0:0
        4s join a orders/biller credit=5
            joined
            a gets orders/biller 0:0.1 "m1" spent 1 until 34s
            a gets orders/biller 1:0.1 "m0" spent 1 until 34s
        4s join b orders/biller credit=7 lease=2s owner=worker => joined
        5s groups orders
            biller backlog 2, oldest 2s, a holds 2 of 5 for 30000ms, worker holds 0 of 7 for 2000ms; mailer backlog 2, oldest 2s
        6s ack orders/biller 1:0.1
            ok
            orders/biller 1:0 acked
        6s groups orders
            biller backlog 1, oldest 3s, a holds 1 of 5 for 30000ms, worker holds 0 of 7 for 2000ms; mailer backlog 2, oldest 2s
        7s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        7s leave a => ok
        7s groups orders
            biller backlog 0, oldest none, worker holds 0 of 7 for 2000ms; mailer backlog 2, oldest 2s
        8s groups nothing => refused: no such topic
    "#]]);
}

#[test]
fn an_undelivered_message_is_the_oldest_one_too() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        2s group orders/biller => created
        3s groups orders => biller backlog 1, oldest 1s
        3s crash
        4s groups orders => biller backlog 1, oldest 1s
        4s crash
        5s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 35s
        6s crash
        7s groups orders => biller backlog 1, oldest 1s
    "#]]);
}
