//! A peek returns messages in slices and changes nothing.

use driftq_core::command::{Peek, PeekFilter, Peeked, TopicName};
use driftq_core::limits::{PEEK_BYTES, PEEK_ERRORS_MAX};
use driftq_core::{Command, Reply, SettingsPatch};
use expect_test::expect;

use crate::held::{Held, produce, topic};
use crate::transcript::{World, check};

#[test]
fn messages_are_returned_in_order_from_memory_and_from_rows() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s produce orders m0 p=1 + produce orders m1 p=1
            stored 1:0
            stored 1:1
        2s produce orders m2 p=1 => stored 1:2
        3s peek orders 1 => 1:0 m0; 1:1 m1; 1:2 m2 (scanned 3, the end)
        3s peek orders 0 => none (scanned 0, the end)
        4s crash
        5s peek orders 1 => 1:0 m0; 1:1 m1; 1:2 m2 (scanned 3, the end)
        5s peek orders 1 from=1 limit=1 => 1:1 m1 (scanned 1, next 2)
        5s peek orders 1 from=2 => 1:2 m2 (scanned 1, the end)
        5s peek orders 1 from=3 => none (scanned 0, the end)
        5s peek orders 1 from=9 => none (scanned 0, the end)
    "#]]);
}

#[test]
fn a_peek_with_a_group_returns_the_state_of_each_message() {
    check(expect![[r#"
        1s topic orders 1 max_in_flight=4 => created
        1s produce orders m0 + produce orders m1 + produce orders m2 + produce orders m3
            stored 0:0
            stored 0:1
            stored 0:2
            stored 0:3
        1s produce orders m4 => stored 0:4
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
            a gets orders/biller 0:3.1 "m3" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:4.1 "m4" spent 1 until 32s
        2s nack orders/biller 0:1.1 reason=boom delay=1h
            ok
            orders/biller 0:1 nacked, due 3602s
        2s nack orders/biller 0:2.1 delay=2h
            ok
            orders/biller 0:2 nacked, due 7202s
        2s release orders/biller 0:3.1 delay=3h
            ok
            orders/biller 0:3 returned, due 10802s
        3s produce orders m5
            stored 0:5
            a gets orders/biller 0:5.1 "m5" spent 1 until 33s
        4s peek orders 0 group=biller
            0:0 m0 settled; 0:1 m1 waiting after 1 "boom", due 3602s; 0:2 m2 waiting after 1 "nack", due 7202s; 0:3 m3 waiting, due 10802s; 0:4 m4 leased after 1, attempt 1 of a until 32s; 0:5 m5 leased after 1, attempt 1 of a until 33s (scanned 6, the end)
        4s peek orders 0 group=biller state=waiting limit=2
            0:1 m1 waiting after 1 "boom", due 3602s; 0:2 m2 waiting after 1 "nack", due 7202s (scanned 2, next 3)
        4s peek orders 0 group=biller state=settled => 0:0 m0 settled (scanned 6, the end)
        4s pause orders/biller => ok
        4s produce orders m6 => stored 0:6
        4s peek orders 0 group=biller state=ready => 0:6 m6 ready (scanned 7, the end)
        5s crash
        6s peek orders 0 group=biller
            0:0 m0 settled; 0:1 m1 waiting after 1 "boom", due 3602s; 0:2 m2 waiting after 1 "nack", due 7202s; 0:3 m3 waiting, due 10802s; 0:4 m4 leased after 1, attempt 1 of a until 32s; 0:5 m5 leased after 1, attempt 1 of a until 33s; 0:6 m6 ready (scanned 7, the end)
        7s group orders/mailer => created
        7s peek orders 0 group=mailer state=ready limit=1 => 0:0 m0 ready (scanned 1, next 1)
    "#]]);
}

#[test]
fn filters_are_combined_with_and() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 key=k1 run=r1 step=s1 tenant=acme idem=i0 => stored 0:0
        2s produce orders m1 key=k1 run=r1 step=s2 => stored 0:1
        3s produce orders m2 key=k2 run=r2 step=s1 tenant=acme => stored 0:2
        4s peek orders 0 key=k1 => 0:0 m0; 0:1 m1 (scanned 3, the end)
        4s peek orders 0 run=r1 step=s2 => 0:1 m1 (scanned 3, the end)
        4s peek orders 0 step=s1 tenant=acme => 0:0 m0; 0:2 m2 (scanned 3, the end)
        4s peek orders 0 tenant=default => 0:1 m1 (scanned 3, the end)
        4s peek orders 0 idem=i0 => 0:0 m0 (scanned 3, the end)
        4s peek orders 0 idem=i1 => none (scanned 3, the end)
        4s peek orders 0 since=2s => 0:1 m1; 0:2 m2 (scanned 3, the end)
        4s peek orders 0 until=2s => 0:0 m0 (scanned 3, the end)
        4s peek orders 0 since=2s until=3s => 0:1 m1 (scanned 3, the end)
        5s crash
        6s peek orders 0 key=k1 limit=1 => 0:0 m0 (scanned 1, next 1)
    "#]]);
}

#[test]
fn an_invalid_peek_is_rejected() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s peek orders 1 => refused: partition: does not exist in this topic
        1s peek orders 0 state=ready => refused: state: requires a group
        1s peek orders 0 group=biller => refused: no such group
        1s peek nothing 0 => refused: no such topic
    "#]]);
}

#[test]
fn trimmed_messages_are_skipped_and_open_ones_below_are_returned() {
    check(expect![[r#"
        1s topic orders 1 retention=1s => created
        1s join a orders/biller lease=12h => joined
        1s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 43201s
        1s produce orders m1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 43201s
        1s produce orders m2
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 43201s
        2s ack orders/biller 0:0.1 + ack orders/biller 0:2.1
            ok
            ok
            orders/biller 0:0 acked
            orders/biller 0:2 acked
        60s produce orders m3
            trim 0:0..1
            trim 0:2..3
            stored 0:3
            a gets orders/biller 0:3.1 "m3" spent 1 until 43260s
        60s view orders => orders 3..4 (2 bytes), dead 0, groups ["biller"], changed retention_ms
        60s peek orders 0 => 0:1 m1; 0:3 m3 (scanned 2, the end)
        61s crash
        62s peek orders 0
            trim 0:2..3
            0:1 m1; 0:3 m3 (scanned 2, the end)
        62s peek orders 0 from=2 group=biller
            0:3 m3 leased after 1, attempt 1 of a until 43260s (scanned 1, the end)
        63s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
            trim 0:0..3
        64s peek orders 0 => 0:3 m3 (scanned 1, the end)
    "#]]);
}

#[test]
fn a_peek_includes_messages_that_are_not_durable_yet() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        2s crash
        3s peek orders 0 + produce orders m1 + peek orders 0 from=1
            stored 0:1
            0:1 m1 (scanned 1, the end)
            0:0 m0; 0:1 m1 (scanned 2, the end)
        4s crash
        5s produce orders m2 + peek orders 0
            stored 0:2
            0:0 m0; 0:1 m1; 0:2 m2 (scanned 3, the end)
    "#]]);
}

#[test]
fn a_message_redriven_for_one_group_is_settled_for_the_others() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller + group orders/mailer
            joined
            created
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s pause orders/biller => ok
        4s redrive orders 0:0 => redriven as 0:1
        5s peek orders 0 group=biller => 0:0 m0 settled; 0:1 m0 ready (scanned 2, the end)
        5s peek orders 0 group=mailer => 0:0 m0 ready; 0:1 m0 settled (scanned 2, the end)
        5s peek dlq.orders 0 => 0:0 m0 (scanned 1, the end)
    "#]]);
}

fn peek(from: u64, limit: u32, group: Option<&str>) -> Command {
    let topic = TopicName { namespace: "default".into(), topic: "orders".into() };
    let group = group.map(Into::into);
    let filter = PeekFilter::default();
    Command::Peek(Box::new(Peek {
        topic,
        partition: 0,
        from,
        group,
        filter,
        limit,
        scan: u64::MAX,
    }))
}

fn peeked(held: &mut Held, from: u64, limit: u32) -> Peeked {
    let Ok(Reply::Peeked(peeked)) = held.ask(peek(from, limit, None)) else {
        panic!("a peek returns messages")
    };
    *peeked
}

/// Each peek reads a bounded part of the partition, and consecutive peeks return every message
/// once.
#[test]
fn a_partition_larger_than_one_read_is_returned_in_slices() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    let value = "x".repeat(PEEK_BYTES / 10);
    for _ in 0..35 {
        held.ask(produce(&value)).expect("stored");
    }
    held.crash();
    let (mut from, mut seen, mut slices) = (Some(0), Vec::new(), 0);
    while let Some(offset) = from {
        let slice = peeked(&mut held, offset, 1_000);
        assert!(slice.messages.len() <= 11, "{} messages in one slice", slice.messages.len());
        assert_eq!(slice.scanned, slice.messages.len() as u64);
        seen.extend(slice.messages.iter().map(|message| message.offset));
        from = slice.next;
        slices += 1;
    }
    assert_eq!(seen, (0..35).collect::<Vec<_>>());
    assert!(slices >= 4, "{slices} slices");
}

/// More messages than one read returns may lie between the last one read and the first that is not
/// durable yet.
#[test]
fn a_slice_does_not_skip_messages_beyond_its_read() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    let value = "x".repeat(PEEK_BYTES / 2);
    for _ in 0..8 {
        held.ask(produce(&value)).expect("stored");
    }
    held.crash();
    let looked = held.arrive(peek(0, 1_000, None));
    held.turn();
    held.look();
    held.arrive(produce("not durable"));
    held.turn();
    held.finish_read();
    held.settle();
    let Ok(Reply::Peeked(peeked)) = &held.answers[&looked] else { panic!("it was answered") };
    let offsets: Vec<u64> = peeked.messages.iter().map(|message| message.offset).collect();
    assert_eq!((offsets, peeked.next), (vec![0, 1], Some(2)));
}

#[test]
fn a_slice_ends_at_the_limit_of_last_errors_read() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 1");
    world.play("1s join a orders/biller credit=1000");
    let count = PEEK_ERRORS_MAX + 20;
    for offset in 0..count {
        world.play("1s produce orders m");
        world.play(&format!("1s nack orders/biller 0:{offset}.1 reason=e{offset} delay=7d"));
    }
    world.play("2s crash");
    let said = world.ask("2s peek orders 0 group=biller limit=1000");
    assert!(said.ends_with("(scanned 256, next 256)"), "{said}");
    assert!(said.contains("0:255 m waiting after 1 \"e255\", due"), "{said}");
    let said = world.ask("2s peek orders 0 from=256 group=biller limit=1000");
    assert!(said.ends_with("(scanned 20, the end)"), "{said}");
}

#[test]
fn a_slice_ends_at_the_limit_of_scanned_messages() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders a + produce orders b + produce orders c
            stored 0:0
            stored 0:1
            stored 0:2
        2s peek orders 0 scan=2 => 0:0 a; 0:1 b (scanned 2, next 2)
        2s peek orders 0 scan=2 from=2 => 0:2 c (scanned 1, the end)
        2s peek orders 0 scan=2 key=none => none (scanned 2, next 2)
    "#]]);
}

#[test]
fn a_leased_message_is_shown_with_its_lease() {
    check(expect![[r#"
        0s topic orders 1 retry=5,60s,60s => created
        0s produce orders a + produce orders b + produce orders c + produce orders d
            stored 0:0
            stored 0:1
            stored 0:2
            stored 0:3
        0s join w orders/biller lease=30s credit=3
            joined
            w gets orders/biller 0:0.1 "a" spent 1 until 30s
            w gets orders/biller 0:1.1 "b" spent 1 until 30s
            w gets orders/biller 0:2.1 "c" spent 1 until 30s
        1s nack orders/biller 0:0.1
            ok
            orders/biller 0:0 nacked, due 24.201s
            w gets orders/biller 0:3.1 "d" spent 1 until 31s
        1s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        2s peek orders 0 group=biller
            0:0 a waiting after 1 "nack", due 24.201s; 0:1 b settled; 0:2 c leased after 1, attempt 1 of w until 30s; 0:3 d leased after 1, attempt 1 of w until 31s (scanned 4, the end)
        2s peek orders 0 group=biller state=leased
            0:2 c leased after 1, attempt 1 of w until 30s; 0:3 d leased after 1, attempt 1 of w until 31s (scanned 2, the end)
        2s peek orders 0 group=biller state=leased from=3
            0:3 d leased after 1, attempt 1 of w until 31s (scanned 1, the end)
        2s peek orders 0 group=biller state=waiting
            0:0 a waiting after 1 "nack", due 24.201s (scanned 4, the end)
        2s peek orders 0 group=biller state=waiting from=1 => none (scanned 0, the end)
    "#]]);
}
