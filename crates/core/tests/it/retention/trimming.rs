//! Trimming works in bounded steps, becomes idle, and runs again when a group is deleted or moved.

use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn a_flood_is_trimmed_in_bounded_steps() {
    let mut world = World::new(Default::default());
    world.play("1000s topic orders 1 retention=0s max_in_flight=100000 max_open=100000");
    world.play("1000s join a orders/biller credit=10000");
    for _ in 0..5 {
        let produces = vec!["produce orders x"; 1_000].join(" + ");
        world.play(&format!("1000s {produces}"));
    }
    let acks: Vec<String> = (0..5_000).map(|at| format!("ack orders/biller 0:{at}.1")).collect();
    let mut shown = Vec::new();
    for (part, acks) in acks.chunks(1_000).enumerate() {
        shown.extend(world.play(&format!("{}s {}", 1_001 + part, acks.join(" + "))));
    }
    shown.extend(world.play("1010s wait"));
    let widest = shown
        .iter()
        .filter_map(|line| line.strip_prefix("trim 0:")?.split_once(".."))
        .map(|(from, to)| {
            to.parse::<u64>().expect("an offset") - from.parse::<u64>().expect("an offset")
        })
        .max();
    assert!(widest.is_some_and(|offsets| offsets <= 4_096 + 1_023), "{widest:?} offsets at once");
    assert_eq!(world.rows("page"), 0);
    world.check();
}

#[test]
fn many_gaps_between_open_messages_are_trimmed() {
    let mut world = World::new(Default::default());
    world.play("1000s topic orders 1 retention=0s");
    let produces = vec!["produce orders x"; 200].join(" + ");
    world.play(&format!("1000s {produces}"));
    world.play("1000s join a orders/biller lease=1h credit=200");
    let evens: Vec<String> =
        (0..200).step_by(2).map(|at| format!("ack orders/biller 0:{at}.1")).collect();
    world.play(&format!("1000s {}", evens.join(" + ")));
    world.play("1010s wait");
    let odds: Vec<String> =
        (1..200).step_by(2).map(|at| format!("ack orders/biller 0:{at}.1")).collect();
    world.play(&format!("1011s {}", odds.join(" + ")));
    assert_eq!(world.rows("page"), 0);
}

#[test]
fn deleting_a_group_leaves_no_page_of_its_open_messages() {
    check(expect![[r#"
        1000s topic orders 1 retention=0s => created
        1000s produce orders m0 => stored 0:0
        1000s produce orders m1 => stored 0:1
        1000s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 4600s
            a gets orders/biller 0:1.1 "m1" spent 1 until 4600s
        1001s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
            trim 0:1..2
        1010s rows page => page 1
        1011s delete orders/biller
            deleted with backlog 1, open 1
            a is dismissed
            sweep blocks 3 0:0..2
            sweep cursor 3 0
        1012s rows page
            trim 0:0..2
            page 0
        1013s crash
        1014s delete orders
            deleted 0 messages, 0 dead letters
            sweep pages topic 1 0:0..2
            sweep lane topic 1 0
            sweep dead letters topic 1 0..4096
            sweep the last pointers topic 1
        1015s rows page lane garbage => page 0, lane 0, garbage 0
    "#]]);
}

#[test]
fn deleting_a_group_keeps_a_page_that_another_group_has_open() {
    check(expect![[r#"
        1000s topic orders 1 retention=0s => created
        1000s produce orders m0 => stored 0:0
        1000s produce orders m1 => stored 0:1
        1000s join a orders/biller lease=1h + join b orders/mailer lease=1h
            joined
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 4600s
            a gets orders/biller 0:1.1 "m1" spent 1 until 4600s
            b gets orders/mailer 0:0.1 "m0" spent 1 until 4600s
            b gets orders/mailer 0:1.1 "m1" spent 1 until 4600s
        1001s ack orders/biller 0:1.1 + ack orders/mailer 0:1.1
            ok
            ok
            orders/biller 0:1 acked
            orders/mailer 0:1 acked
            trim 0:1..2
        1010s delete orders/biller
            deleted with backlog 1, open 1
            a is dismissed
            sweep blocks 3 0:0..2
            sweep cursor 3 0
        1020s rows page
            trim 0:1..2
            page 1
        1021s crash
        1022s nack orders/mailer 0:0.1 delay=1s
            ok
            orders/mailer 0:0 nacked, due 1023s
        1023s join c orders/mailer
            joined
            c gets orders/mailer 0:0.2 "m0" spent 2 until 1053s after "nack"
        1024s ack orders/mailer 0:0.2
            ok
            orders/mailer 0:0 acked
            trim 0:0..2
        1025s rows page => page 0
    "#]]);
}

#[test]
fn a_seek_leaves_no_page_of_the_dropped_open_messages() {
    let mut world = World::new(Default::default());
    world.play("1000s topic orders 1 retention=0s");
    world.play("1000s produce orders m0");
    world.play("1000s produce orders m1");
    world.play("1000s join a orders/biller lease=1h");
    world.play("1001s ack orders/biller 0:1.1 + leave a");
    world.play("1010s seek orders/biller latest");
    world.play("2000s wait");
    assert_eq!(world.rows("page"), 0);
}

#[test]
fn messages_only_a_deleted_group_had_not_received_are_trimmed() {
    let mut world = World::new(Default::default());
    world.play("1000s topic orders 1 retention=80s");
    world.play("1000s group orders/slow");
    world.play("1000s produce orders m0");
    world.play("1000s join a orders/biller");
    world.play("1001s ack orders/biller 0:0.1");
    world.play("1200s delete orders/slow");
    world.play("1d wait");
    assert_eq!(world.rows("page"), 0);
}

#[test]
fn messages_skipped_by_the_last_group_are_trimmed() {
    let mut world = World::new(Default::default());
    world.play("1000s topic orders 1 retention=80s");
    world.play("1000s group orders/slow");
    world.play("1000s produce orders m0");
    world.play("1000s join a orders/biller");
    world.play("1001s ack orders/biller 0:0.1");
    world.play("1200s seek orders/slow latest");
    world.play("1d wait");
    assert_eq!(world.rows("page"), 0);
}

#[test]
fn messages_after_a_backward_seek_are_kept_until_redelivered() {
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
        1070s pause orders/biller => ok
        1070s seek orders/biller earliest
            moved [(0, 2, 0)] redelivers 2 skips 0 dropped 0
            sweep blocks 3 0:2..2
            sweep cursor 3 0
        30d rows page => page 2
        30d resume orders/biller
            ok
            a gets orders/biller 0:0.1 "m0" spent 1 until 2592030s
            a gets orders/biller 0:1.1 "m1" spent 1 until 2592030s
    "#]]);
}

#[test]
fn messages_redelivered_after_a_seek_are_kept_for_retention_ms() {
    let mut world = World::new(Default::default());
    world.play("1000s topic orders 1 retention=80s");
    world.play("1000s produce orders m0");
    world.play("1000s join a orders/biller");
    world.play("1001s ack orders/biller 0:0.1");
    world.play("1070s pause orders/biller");
    world.play("1070s seek orders/biller earliest");
    world.play("1200s resume orders/biller");
    world.play("1200s ack orders/biller 0:0.1");
    world.play("1240s wait");
    assert_eq!(world.rows("page"), 1, "it was delivered 40 s ago and is kept for 80 s");
}
