//! A deleted group or topic stops existing at once. Its rows are swept in bounded steps, and a
//! group or topic recreated under the same name inherits nothing.

use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn a_deleted_group_leaves_only_the_messages_of_the_topic() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s produce orders m0 p=0 + produce orders m1 p=0 + produce orders n0 p=1
            stored 0:0
            stored 0:1
            stored 1:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 1:0.1 "n0" spent 1 until 31s
        2s nack orders/biller 0:0.1 reason=x
            ok
            orders/biller 0:0 nacked, due 2.342s
        2s rows page block note group owner => page 2, block 2, note 1, group 1, owner 1
        3s delete orders/biller
            a gets orders/biller 0:0.2 "m0" spent 2 until 32.342s after "x"
            deleted with backlog 3, open 3
            a is dismissed
            sweep blocks 3 0:0..2
            sweep cursor 3 0
            sweep blocks 3 1:0..1
            sweep cursor 3 1
        4s rows page block note group owner cursor garbage
            page 2, block 0, note 0, group 0, owner 0, cursor 0, garbage 0
        5s view orders => orders 0..2 (4 bytes), 0..1 (2 bytes), dead 0, groups []
        5s view orders/biller => refused: no such group
    "#]]);
}

#[test]
fn tokens_of_a_deleted_group_are_not_valid_for_a_recreated_one() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        1s keep orders/biller 0:0.1 as old
        2s delete orders/biller
            deleted with backlog 1, open 1
            a is dismissed
            sweep blocks 3 0:0..1
            sweep cursor 3 0
        3s ack token=old => refused: no such group
        4s join b orders/biller
            joined
            b gets orders/biller 0:0.1 "m0" spent 1 until 34s
        5s ack token=old => refused: no such group
        5s nack token=old => refused: no such group
        5s extend token=old => refused: no such group
        6s giveback token=old => ok
        7s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        8s crash
        9s ack token=old => refused: no such group
    "#]]);
}

#[test]
fn a_deleted_topic_leaves_no_rows() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s produce orders m0 p=0 + produce orders m1 p=0 + produce orders n0 p=1 idem=k
            stored 0:0
            stored 0:1
            stored 1:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 1:0.1 "n0" spent 1 until 31s
        1s join b orders/mailer credit=1
            joined
            b gets orders/mailer 0:0.1 "m0" spent 1 until 31s
        2s bury orders/biller 0:0.1 + nack orders/biller 0:1.1 reason=x
            ok
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
            orders/biller 0:1 nacked, due 2.999s
        2s join c dlq.orders/clerk
            joined
            c gets dlq.orders/clerk 0:0.1 "m0" spent 1 until 32s after "nack"
        3s rows topic group page block note dead
            a gets orders/biller 0:1.2 "m1" spent 2 until 32.999s after "x"
            topic 2, group 3, page 3, block 4, note 1, dead 1
        4s delete orders
            deleted 3 messages, 1 dead letters
            sweep pages topic 1 0:0..2
            sweep lane topic 1 0
            sweep pages topic 8 0:0..1
            sweep lane topic 8 0
            a is dismissed
            b is dismissed
            c is dismissed
            sweep pages topic 1 1:0..1
            sweep lane topic 1 1
            sweep pages topic 8 1:0..0
            sweep lane topic 8 1
            sweep blocks 11 0:0..1
            sweep cursor 11 0
            sweep blocks 6 0:0..1
            sweep cursor 6 0
            sweep blocks 3 0:1..2
            sweep cursor 3 0
            sweep dead letters topic 1 0..4096
            sweep dead letters topic 8 0..4096
            sweep blocks 11 1:0..0
            sweep cursor 11 1
            sweep blocks 6 1:0..0
            sweep cursor 6 1
            sweep blocks 3 1:0..1
            sweep cursor 3 1
            sweep the last pointers topic 1
            sweep the last pointers topic 8
        5s rows topic group page block note dead lane cursor garbage owner
            topic 0, group 0, page 0, block 0, note 0, dead 0, lane 0, cursor 0, garbage 0, owner 0
        6s crash
        7s rows topic group page block note dead lane cursor garbage owner
            topic 0, group 0, page 0, block 0, note 0, dead 0, lane 0, cursor 0, garbage 0, owner 0
    "#]]);
}

#[test]
fn tokens_of_a_deleted_topic_are_not_valid_for_a_recreated_one() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        1s keep orders/biller 0:0.1 as old
        2s delete orders
            deleted 1 messages, 0 dead letters
            sweep pages topic 1 0:0..1
            sweep lane topic 1 0
            a is dismissed
            sweep blocks 3 0:0..1
            sweep cursor 3 0
            sweep dead letters topic 1 0..4096
            sweep the last pointers topic 1
        3s ack token=old => refused: no such topic
        3s ack orders/biller 0:0 owner=a => refused: no such topic
        4s topic orders 1 => created
        4s produce orders other => stored 0:0
        4s join b orders/biller
            joined
            b gets orders/biller 0:0.1 "other" spent 1 until 34s
        5s ack token=old => refused: no such topic
        5s nack token=old => refused: no such topic
        5s extend token=old => refused: no such topic
        6s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn a_recreated_topic_may_have_other_partitions_and_no_dead_letters() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s delete orders
            deleted 1 messages, 1 dead letters
            sweep pages topic 1 0:0..1
            sweep lane topic 1 0
            sweep pages topic 5 0:0..1
            sweep lane topic 5 0
            a is dismissed
            sweep blocks 3 0:1..1
            sweep cursor 3 0
            sweep dead letters topic 1 0..4096
            sweep dead letters topic 5 0..4096
            sweep the last pointers topic 1
            sweep the last pointers topic 5
        4s topic orders 3 => created
        4s view orders => orders 0..0 (0 bytes), 0..0 (0 bytes), 0..0 (0 bytes), dead 0, groups []
        4s view dlq.orders
            dlq.orders (dead letters) 0..0 (0 bytes), 0..0 (0 bytes), 0..0 (0 bytes), dead 0, groups []
        5s produce orders m0 p=2 => stored 2:0
        5s join b orders/biller
            joined
            b gets orders/biller 2:0.1 "m0" spent 1 until 35s
        6s bury orders/biller 2:0.1
            ok
            dead letter 2:0 rejected after 1 of biller, "nack"
            orders/biller 2:0 dead
        7s view dlq.orders
            dlq.orders (dead letters) 0..0 (0 bytes), 0..0 (0 bytes), 0..1 (2 bytes), dead 0, groups []
        8s crash
        9s view dlq.orders
            dlq.orders (dead letters) 0..0 (0 bytes), 0..0 (0 bytes), 0..1 (2 bytes), dead 0, groups []
    "#]]);
}

#[test]
fn a_dead_letter_topic_cannot_be_deleted_on_its_own() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s delete dlq.orders => refused: a dead-letter topic cannot be changed or deleted by itself
        4s view dlq.orders => dlq.orders (dead letters) 0..1 (2 bytes), dead 0, groups []
    "#]]);
}

#[test]
fn deleting_an_unknown_topic_or_group_is_rejected() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s delete nowhere => refused: no such topic
        1s delete orders/absent => refused: no such group
        1s delete nowhere/absent => refused: no such topic
    "#]]);
}

#[test]
fn a_create_and_a_delete_in_one_batch_leave_no_rows() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller => joined
        2s produce orders m0 + produce orders m1 + delete orders
            stored 0:0
            stored 0:1
            deleted 2 messages, 0 dead letters
            sweep pages topic 1 0:0..2
            sweep lane topic 1 0
            a is dismissed
            sweep blocks 3 0:0..0
            sweep cursor 3 0
            sweep dead letters topic 1 0..4096
            sweep the last pointers topic 1
        3s rows topic group page block garbage => topic 0, group 0, page 0, block 0, garbage 0
        4s topic orders 1 => created
        4s produce orders m0 => stored 0:0
        4s join a orders/biller lease=10s
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 14s
        5s nack orders/biller 0:0.1 reason=x + delete orders/biller
            ok
            deleted with backlog 1, open 1
            group 6 0:0 nacked, due 5.155s
            a is dismissed
            sweep blocks 7 0:0..1
            sweep cursor 7 0
        6s rows group block note garbage => group 0, block 0, note 0, garbage 0
    "#]]);
}

#[test]
fn a_sweep_continues_after_a_crash() {
    for commits in [1, 2, 7, 20] {
        let mut world = World::new(Default::default());
        world.play("1s topic orders 10");
        for partition in 0..10 {
            world.play(&format!("1s produce orders m p={partition}"));
        }
        world.play("1s join a orders/biller");
        world.play("1s nack orders/biller 3:0.1 reason=x delay=1h");
        world.play_partly("3s delete orders", commits);
        world.play("4s wait");
        world.check();
        for table in ["topic", "group", "page", "block", "note", "garbage", "lane", "cursor"] {
            assert_eq!(world.rows(table), 0, "{table} after a crash after {commits} commits");
        }
    }
}

#[test]
fn checkpoints_of_lanes_and_cursors_are_deleted_with_their_owner() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 1");
    world.play("1s topic other 1");
    world.play("1s produce orders m");
    world.play("1s join a orders/biller");
    for _ in 0..1_200 {
        world.play("2s produce other m");
    }
    world.check();
    assert_eq!((world.rows("lane"), world.rows("cursor")), (2, 1), "the heads are checkpointed");
    world.play("3s delete orders/biller");
    assert_eq!((world.rows("lane"), world.rows("cursor")), (2, 0));
    world.play("4s delete orders");
    assert_eq!((world.rows("lane"), world.rows("cursor")), (1, 0));
    world.check();
}

#[test]
fn a_long_topic_is_swept_in_bounded_steps() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 1 max_in_flight=100000 max_open=100000");
    world.play("1s join a orders/biller credit=10000");
    for _ in 0..9 {
        world.play(&format!("1s {}", vec!["produce orders x"; 1_000].join(" + ")));
    }
    let shown = world.play("2s delete orders");
    let widest = shown
        .iter()
        .filter_map(|line| line.strip_prefix("sweep pages")?.rsplit_once(':')?.1.split_once(".."))
        .map(|(from, to)| (from.parse::<u64>().expect("from"), to.parse::<u64>().expect("to")))
        .collect::<Vec<_>>();
    assert_eq!(widest, [(0, 4_096), (4_096, 8_192), (8_192, 9_000)]);
    assert_eq!((world.rows("page"), world.rows("block"), world.rows("garbage")), (0, 0, 0));
    world.check();
}

#[test]
fn a_dry_run_reports_what_a_delete_would_remove() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s produce orders m0 p=0 + produce orders m1 p=0 + produce orders m2 p=1
            stored 0:0
            stored 0:1
            stored 1:0
        2s join a orders/biller + group orders/mailer
            joined
            created
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
            a gets orders/biller 0:1.1 "m1" spent 1 until 32s
            a gets orders/biller 1:0.1 "m2" spent 1 until 32s
        3s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        4s join d dlq.orders/undertaker
            joined
            d gets dlq.orders/undertaker 0:0.1 "m0" spent 1 until 34s after "nack"
        5s would delete orders/biller => would delete backlog 2, open 2
        5s would delete orders => would delete 3 messages (3 open), 3 groups, 1 dead letters
        5s would delete dlq.orders
            refused: a dead-letter topic cannot be changed or deleted by itself
        5s would delete orders/absent => refused: no such group
        6s delete orders/biller
            deleted with backlog 2, open 2
            a is dismissed
            sweep blocks 3 0:1..2
            sweep cursor 3 0
            sweep blocks 3 1:0..1
            sweep cursor 3 1
        7s would delete orders => would delete 3 messages (1 open), 2 groups, 1 dead letters
        8s delete orders
            deleted 3 messages, 1 dead letters
            sweep pages topic 1 0:0..2
            sweep lane topic 1 0
            sweep pages topic 7 0:0..1
            sweep lane topic 7 0
            d is dismissed
            sweep pages topic 1 1:0..1
            sweep lane topic 1 1
            sweep pages topic 7 1:0..0
            sweep lane topic 7 1
            sweep blocks 10 0:0..1
            sweep cursor 10 0
            sweep blocks 6 0:0..0
            sweep cursor 6 0
            sweep dead letters topic 1 0..4096
            sweep dead letters topic 7 0..4096
            sweep blocks 10 1:0..0
            sweep cursor 10 1
            sweep blocks 6 1:0..0
            sweep cursor 6 1
            sweep the last pointers topic 1
            sweep the last pointers topic 7
        9s would delete orders => refused: no such topic
    "#]]);
}
