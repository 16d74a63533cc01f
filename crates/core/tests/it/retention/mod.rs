//! A message that some group has not received is never trimmed, whatever its age. A message that
//! every group has received is kept for the retention time and then trimmed in bounded steps. An
//! open message keeps its page until it is settled.

mod trimming;

use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn a_message_every_group_received_is_trimmed_after_retention_ms() {
    check(expect![[r#"
        1000s topic orders 1 retention=80s => created
        1000s produce orders m0 => stored 0:0
        1000s produce orders m1 => stored 0:1
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
            a gets orders/biller 0:1.1 "m1" spent 1 until 1030s
        1001s ack orders/biller 0:0.1 + ack orders/biller 0:1.1
            ok
            ok
            orders/biller 0:0 acked
            orders/biller 0:1 acked
        1079s rows page => page 2
        1100s rows page
            trim 0:0..2
            page 0
        1101s view orders => orders 2..2 (0 bytes), dead 0, groups ["biller"], changed retention_ms
        1102s join b orders/late => joined
    "#]]);
}

#[test]
fn a_message_some_group_has_not_received_is_kept_at_any_age() {
    check(expect![[r#"
        1000s topic orders 1 retention=80s => created
        1000s group orders/slow => created
        1000s produce orders m0 => stored 0:0
        1000s produce orders m1 => stored 0:1
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
            a gets orders/biller 0:1.1 "m1" spent 1 until 1030s
        1001s ack orders/biller 0:0.1 + ack orders/biller 0:1.1
            ok
            ok
            orders/biller 0:0 acked
            orders/biller 0:1 acked
        30d rows page => page 2
        30d join b orders/slow credit=1
            joined
            b gets orders/slow 0:0.1 "m0" spent 1 until 2592030s
        30d ack orders/slow 0:0.1 + leave b
            ok
            ok
            orders/slow 0:0 acked
        31d rows page
            trim 0:0..1
            page 1
    "#]]);
}

#[test]
fn without_a_group_nothing_is_trimmed() {
    check(expect![[r#"
        1000s topic orders 1 retention=0s retention_bytes=0 => created
        1000s produce orders m0 => stored 0:0
        1000s produce orders m1 => stored 0:1
        30d rows page => page 2
        30d crash
        60d rows page => page 2
        60d join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 5184030s
            a gets orders/biller 0:1.1 "m1" spent 1 until 5184030s
    "#]]);
}

#[test]
fn a_new_group_starts_at_the_oldest_message_kept() {
    check(expect![[r#"
        1000s topic orders 1 retention=80s => created
        1000s produce orders m0 => stored 0:0
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
        1001s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        1200s produce orders m1
            trim 0:0..1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 1230s
        1200s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        1201s join b orders/late
            joined
            b gets orders/late 0:1.1 "m1" spent 1 until 1231s
        1201s view orders/late
            next 2 of 2, committed 0, backlog 1, leased 1, waiting 0, nothing_new
        1201s view orders
            orders 1..2 (2 bytes), dead 0, groups ["biller", "late"], changed retention_ms
    "#]]);
}

#[test]
fn an_open_message_below_the_trim_point_is_read_from_its_page() {
    check(expect![[r#"
        1000s topic orders 1 retention=0s => created
        1000s produce orders m0 => stored 0:0
        1000s produce orders m1 => stored 0:1
        1000s produce orders m2 => stored 0:2
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
            a gets orders/biller 0:1.1 "m1" spent 1 until 1030s
            a gets orders/biller 0:2.1 "m2" spent 1 until 1030s
        1001s ack orders/biller 0:0.1 + ack orders/biller 0:2.1 + nack orders/biller 0:1.1 delay=1h
            ok
            ok
            ok
            orders/biller 0:0 acked
            trim 0:0..1
            orders/biller 0:2 acked
            trim 0:2..3
            orders/biller 0:1 nacked, due 4601s
        1010s rows page => page 1
        1010s view orders => orders 3..3 (0 bytes), dead 0, groups ["biller"], changed retention_ms
        1011s crash
        1012s join b orders/biller => joined
        4602s rows page
            b gets orders/biller 0:1.2 "m1" spent 2 until 4631s after "nack"
            page 1
        4603s ack orders/biller 0:1.2
            ok
            orders/biller 0:1 acked
            trim 0:0..3
        4604s rows page => page 0
    "#]]);
}

#[test]
fn a_page_is_deleted_when_its_last_open_message_is_settled() {
    check(expect![[r#"
        1000s topic orders 1 retention=0s => created
        1000s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1000s produce orders m3 => stored 0:3
        1000s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 4600s
            a gets orders/biller 0:1.1 "m1" spent 1 until 4600s
            a gets orders/biller 0:2.1 "m2" spent 1 until 4600s
            a gets orders/biller 0:3.1 "m3" spent 1 until 4600s
        1001s ack orders/biller 0:1.1 + ack orders/biller 0:3.1
            ok
            ok
            orders/biller 0:1 acked
            trim 0:1..2
            orders/biller 0:3 acked
            trim 0:3..4
        1010s rows page => page 1
        1011s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            trim 0:0..2
        1012s rows page => page 1
        1013s bury orders/biller 0:2.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:2 dead
            trim 0:0..4
        1014s rows page => page 1
    "#]]);
}

#[test]
fn a_page_is_kept_until_both_groups_settle_its_message() {
    check(expect![[r#"
        1000s topic orders 1 retention=0s => created
        1000s produce orders m0 => stored 0:0
        1000s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 4600s
        1000s join b orders/mailer lease=1h
            joined
            b gets orders/mailer 0:0.1 "m0" spent 1 until 4600s
        1010s rows page => page 1
        1011s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        1012s rows page => page 1
        1013s ack orders/mailer 0:0.1
            ok
            orders/mailer 0:0 acked
            trim 0:0..1
        1014s rows page => page 0
    "#]]);
}

#[test]
fn a_message_settled_in_one_group_and_waiting_in_another_is_kept() {
    check(expect![[r#"
        1000s topic orders 2 retention=0s => created
        1000s produce orders m0 p=0 => stored 0:0
        1000s produce orders n0 p=1 => stored 1:0
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
            a gets orders/biller 1:0.1 "n0" spent 1 until 1030s
        1000s join b orders/mailer credit=1
            joined
            b gets orders/mailer 0:0.1 "m0" spent 1 until 1030s
        1001s ack orders/biller 0:0.1 + ack orders/biller 1:0.1 + nack orders/mailer 0:0.1 delay=1h
            ok
            ok
            ok
            orders/biller 0:0 acked
            orders/biller 1:0 acked
            orders/mailer 0:0 nacked, due 4601s
            b gets orders/mailer 1:0.1 "n0" spent 1 until 1031s
        1010s rows page => page 2
        1011s crash
        1012s view orders
            orders 1..1 (0 bytes), 1..1 (0 bytes), dead 0, groups ["biller", "mailer"], changed retention_ms
    "#]]);
}

#[test]
fn dead_letters_are_not_trimmed() {
    check(expect![[r#"
        1000s topic orders 1 retention=0s => created
        1000s produce orders m0 => stored 0:0
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
        1000s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        1001s join b dlq.orders/clerk
            trim 0:0..1
            joined
            b gets dlq.orders/clerk 0:0.1 "m0" spent 1 until 1031s after "nack"
        1002s ack dlq.orders/clerk 0:0.1
            ok
            dlq.orders/clerk 0:0 acked
        30d rows page dead
            expire to 605800.001s
            page 1, dead 1
        30d redrive orders 0:0
            redriven as 0:1
            a gets orders/biller 0:1.1 "m0" spent 1 until 2592030s redriven 1 times from 0:0
    "#]]);
}

#[test]
fn a_message_dead_lettered_below_the_trim_point_frees_its_page() {
    check(expect![[r#"
        1000s topic orders 1 retention=0s => created
        1000s produce orders m0 => stored 0:0
        1000s produce orders m1 => stored 0:1
        1000s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 4600s
            a gets orders/biller 0:1.1 "m1" spent 1 until 4600s
        1010s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
            trim 0:0..1
        1011s rows page => page 2
        1012s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
            trim 0:0..2
        1013s rows page => page 1
    "#]]);
}

#[test]
fn retention_bytes_end_retention_early_under_steady_traffic() {
    let mut world = World::new(Default::default());
    world.play("1000s topic orders 1 retention_bytes=10000");
    world.play("1000s join a orders/biller");
    for minute in 0..50 {
        let second = 1_000 + minute * 60;
        world.play(&format!("{second}s produce orders 1000bytes"));
        world.play(&format!("{second}s ack orders/biller 0:{minute}.1"));
    }
    world.check();
    // Trimmed before the hour of retention ends, but checked only every eighth of it.
    let kept = world.rows("page");
    assert!((10..=26).contains(&kept), "{kept} pages of 1 000 bytes are kept");
}

#[test]
fn retention_bytes_end_retention_early_after_a_burst() {
    let mut world = World::new(Default::default());
    world.play("1000s topic orders 1 retention_bytes=10000");
    world.play("1000s join a orders/biller");
    for offset in 0..50 {
        world.play("1000s produce orders 1000bytes");
        world.play(&format!("1000s ack orders/biller 0:{offset}.1"));
    }
    world.play("3000s wait");
    let kept = world.rows("page");
    assert!((10..=26).contains(&kept), "{kept} pages of 1 000 bytes are kept");
}
