//! A redrive appends a dead letter to its partition once, for the group that failed and no other,
//! with attempts from 1 and under its first id.

use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn a_redrive_appends_to_the_partition_and_delivers_to_one_group_only() {
    check(expect![[r#"
        1s topic orders 2 retry=2,1s,1s => created
        1s join a orders/biller => joined
        1s join b orders/mailer => joined
        1s produce orders m0 p=1 + produce orders m1 p=1
            stored 1:0
            stored 1:1
            a gets orders/biller 1:0.1 "m0" spent 1 until 31s
            a gets orders/biller 1:1.1 "m1" spent 1 until 31s
            b gets orders/mailer 1:0.1 "m0" spent 1 until 31s
            b gets orders/mailer 1:1.1 "m1" spent 1 until 31s
        2s ack orders/mailer 1:0.1 + ack orders/mailer 1:1.1 + ack orders/biller 1:1.1
            ok
            ok
            ok
            orders/mailer 1:0 acked
            orders/mailer 1:1 acked
            orders/biller 1:1 acked
        2s bury orders/biller 1:0.1
            ok
            dead letter 1:0 rejected after 1 of biller, "nack"
            orders/biller 1:0 dead
        3s redrive orders 1:0
            redriven as 1:2
            a gets orders/biller 1:2.1 "m0" spent 1 until 33s redriven 1 times from 1:0
        4s redrive orders 1:0 => redriven as 1:2 before
        5s view orders/mailer
            next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, nothing_new; next 3 of 3, committed 2, backlog 0, leased 0, waiting 0, nothing_new
        5s view orders
            orders 0..0 (0 bytes), 0..3 (6 bytes), dead 0, groups ["biller", "mailer"], changed retry_policy
        6s nack orders/biller 1:2.1 delay=1s
            ok
            orders/biller 1:2 nacked, due 7s
        8s nack orders/biller 1:2.2
            a gets orders/biller 1:2.2 "m0" spent 2 until 37s after "nack" redriven 1 times from 1:0
            ok
            dead letter 1:1 exhausted after 2 of biller, "nack"
            orders/biller 1:2 dead
        9s redrive orders 1:1
            redriven as 1:3
            a gets orders/biller 1:3.1 "m0" spent 1 until 39s redriven 2 times from 1:0
        10s redrive orders 1:0 => redriven as 1:2 before
    "#]]);
}

#[test]
fn a_redrive_survives_a_crash() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s crash
        4s redrive orders 0:0 + redrive orders 0:0
            redriven as 0:1
            redriven as 0:1 before
        5s crash
        6s redrive orders 0:0 => redriven as 0:1 before
        7s join b orders/late
            joined
            b gets orders/late 0:0.1 "hello" spent 1 until 37s
        8s join a orders/biller
            joined
            a gets orders/biller 0:1.1 "hello" spent 1 until 38s redriven 1 times from 0:0
    "#]]);
}

#[test]
fn a_redrive_removes_a_deadline_only_if_it_was_the_cause_of_death() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders late deadline=10s => stored 0:0
        11s join a orders/biller
            joined
            dead letter 0:0 deadline after 0 of biller, ""
        12s redrive orders 0:0
            redriven as 0:1
            a gets orders/biller 0:1.1 "late" spent 1 until 42s redriven 1 times from 0:0
        13s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        14s produce orders m2 deadline=20s
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 44s
        15s bury orders/biller 0:2.1
            ok
            dead letter 0:2 rejected after 1 of biller, "nack"
            orders/biller 0:2 dead
        21s redrive orders 0:2
            redriven as 0:3
            dead letter 0:3 deadline after 0 of biller, ""
    "#]]);
}

#[test]
fn a_dead_letter_of_a_deleted_group_is_not_redriven() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s delete orders/biller
            deleted with backlog 0, open 0
            a is dismissed
            sweep blocks 3 0:1..1
            sweep cursor 3 0
        4s redrive orders 0:0 => refused: no such group
        5s view orders => orders 0..1 (5 bytes), dead 1, groups []
        6s group orders/biller latest => created
        7s redrive orders 0:0 => redriven as 0:1
    "#]]);
}

#[test]
fn a_dead_letter_survives_the_deletion_of_its_group_and_not_of_its_topic() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
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
        4s redrive orders 0:0 => refused: no such topic
        5s topic orders 1 => created
        6s redrive orders 0:0 => refused: no such message
    "#]]);
}

#[test]
fn the_reason_of_a_redrive_is_truncated_to_one_kibibyte() {
    use driftq_core::row::{Key, Read};
    use driftq_storage::Engine;
    use driftq_storage::conformance::wait;

    let mut world = World::new(Default::default());
    world.play("1s topic orders 1");
    world.play("1s produce orders hello");
    world.play("1s join a orders/biller");
    world.play("2s bury orders/biller 0:0.1");
    let reason = "x".repeat(5_000);
    assert_eq!(world.ask(&format!("3s redrive orders 0:0 reason={reason}")), "redriven as 0:1");
    let death = world.letter("orders 0:0").death.as_ref().expect("it is dead");
    let (ownership, _) = wait(world.engine.claim(driftq_core::ShardId(0))).expect("a claim");
    let topic = world.dead_id("orders 0:0").topic;
    let read = Read::Key(Key::Dead { topic, seq: death.seq });
    let rows = wait(world.engine.read(ownership, vec![read])).expect("a read");
    assert!(rows[0][0].body.len() < 2_048, "{} bytes", rows[0][0].body.len());
}
