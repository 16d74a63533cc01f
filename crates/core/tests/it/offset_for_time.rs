//! A group can start at, or be moved to, the offsets of its topic at a given time.

use driftq_core::command::{Seek, SeekTo, Start};
use driftq_core::{Command, Reply, SettingsPatch, Timestamp};
use expect_test::expect;

use crate::held::{Held, group_name, produce, topic};
use crate::transcript::check;

#[test]
fn a_seek_by_time_moves_to_the_first_message_at_or_after_it() {
    check(expect![[r#"
        1s topic orders 3 => created
        1s produce orders a0 p=0 + produce orders a1 p=0
            stored 0:0
            stored 0:1
        2s produce orders b0 p=1 => stored 1:0
        3s produce orders a2 p=0 + produce orders b1 p=1
            stored 0:2
            stored 1:1
        5s produce orders a3 p=0 => stored 0:3
        6s group orders/biller => created
        7s seek orders/biller time=3s dry
            moved [(0, 0, 2), (1, 0, 1), (2, 0, 0)] redelivers 0 skips 3 dropped 0
        7s seek orders/biller time=2s
            moved [(0, 0, 2), (1, 0, 0), (2, 0, 0)] redelivers 0 skips 2 dropped 0
            sweep blocks 3 0:0..0
            sweep cursor 3 0
            sweep blocks 3 1:0..0
            sweep cursor 3 1
            sweep blocks 3 2:0..0
            sweep cursor 3 2
        7s seek orders/biller time=4s
            moved [(0, 2, 3), (1, 0, 2), (2, 0, 0)] redelivers 0 skips 3 dropped 0
            sweep blocks 6 2:0..0
            sweep cursor 6 2
            sweep blocks 5 1:0..0
            sweep cursor 5 1
            sweep blocks 4 0:2..2
            sweep cursor 4 0
        7s seek orders/biller time=0s
            moved [(0, 3, 0), (1, 2, 0), (2, 0, 0)] redelivers 5 skips 0 dropped 0
            sweep blocks 9 2:0..0
            sweep cursor 9 2
            sweep blocks 8 1:2..2
            sweep cursor 8 1
            sweep blocks 7 0:3..3
            sweep cursor 7 0
        7s seek orders/biller time=7s
            moved [(0, 0, 4), (1, 0, 2), (2, 0, 0)] redelivers 0 skips 6 dropped 0
            sweep blocks 12 2:0..0
            sweep cursor 12 2
            sweep blocks 11 1:0..0
            sweep cursor 11 1
            sweep blocks 10 0:0..0
            sweep cursor 10 0
        7s seek orders/biller time=1h
            moved [(0, 4, 4), (1, 2, 2), (2, 0, 0)] redelivers 0 skips 0 dropped 0
            sweep blocks 15 2:0..0
            sweep cursor 15 2
            sweep blocks 14 1:2..2
            sweep cursor 14 1
            sweep blocks 13 0:4..4
            sweep cursor 13 0
        8s crash
        9s seek orders/biller time=3s
            moved [(0, 4, 2), (1, 2, 1), (2, 0, 0)] redelivers 3 skips 0 dropped 0
            sweep blocks 18 2:0..0
            sweep cursor 18 2
            sweep blocks 17 1:2..2
            sweep cursor 17 1
            sweep blocks 16 0:4..4
            sweep cursor 16 0
        9s join w orders/biller
            joined
            w gets orders/biller 0:2.1 "a2" spent 1 until 39s
            w gets orders/biller 0:3.1 "a3" spent 1 until 39s
            w gets orders/biller 1:1.1 "b1" spent 1 until 39s
    "#]]);
}

#[test]
fn a_group_can_start_at_a_time() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        2s produce orders m1 => stored 0:1
        3s produce orders m2 => stored 0:2
        4s crash
        5s group orders/biller time=2s => created
        5s group orders/mailer time=9s => created
        6s join a orders/biller + join b orders/mailer
            joined
            joined
            a gets orders/biller 0:1.1 "m1" spent 1 until 36s
            a gets orders/biller 0:2.1 "m2" spent 1 until 36s
        7s produce orders m3
            stored 0:3
            a gets orders/biller 0:3.1 "m3" spent 1 until 37s
            b gets orders/mailer 0:3.1 "m3" spent 1 until 37s
        8s join c orders/other time=2s => refused: start: must be earliest or latest
        8s join c orders/biller time=2s => joined
    "#]]);
}

#[test]
fn a_seek_by_time_does_not_reach_trimmed_messages() {
    check(expect![[r#"
        1s topic orders 1 retention=1s => created
        1s join a orders/biller => joined
        1s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s produce orders m1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 32s
        3s ack orders/biller 0:0.1 + ack orders/biller 0:1.1
            ok
            ok
            orders/biller 0:0 acked
            trim 0:0..1
            orders/biller 0:1 acked
        60s produce orders m2
            trim 0:0..2
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 90s
        61s leave a => ok
        61s seek orders/biller time=1s dry => moved [(0, 3, 2)] redelivers 1 skips 0 dropped 1
    "#]]);
}

/// A redriven message keeps its produce time. The search uses the time of the redrive.
#[test]
fn a_redriven_message_is_found_by_the_time_of_its_redrive() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        2s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
        3s produce orders m1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 33s
        4s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        5s redrive orders 0:0
            redriven as 0:2
            a gets orders/biller 0:2.1 "m0" spent 1 until 35s redriven 1 times from 0:0
        6s produce orders m2
            stored 0:3
            a gets orders/biller 0:3.1 "m2" spent 1 until 36s
        7s leave a => ok
        7s seek orders/biller time=4s dry => moved [(0, 4, 2)] redelivers 2 skips 0 dropped 3
        7s seek orders/biller time=3s dry => moved [(0, 4, 1)] redelivers 3 skips 0 dropped 3
        7s group dlq.orders/undertaker time=2s => created
        7s seek dlq.orders/undertaker time=4s dry
            moved [(0, 0, 0)] redelivers 0 skips 0 dropped 0
        7s seek dlq.orders/undertaker time=5s dry
            moved [(0, 0, 1)] redelivers 0 skips 1 dropped 0
    "#]]);
}

#[test]
fn a_seek_by_time_sees_messages_that_are_not_durable_yet() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        2s crash
        3s produce orders m1 + group orders/biller time=2s
            stored 0:1
            created
        4s view orders/biller
            next 1 of 2, committed 0, backlog 1, leased 0, waiting 0, no_consumers
    "#]]);
}

fn seek(at: u64) -> Command {
    let to = SeekTo::Time(Timestamp(at));
    Command::Seek(Seek { name: group_name("biller"), to, dry_run: true })
}

fn target(answered: &Result<Reply, driftq_core::Rejection>) -> u64 {
    let Ok(Reply::Sought(sought)) = answered else { panic!("{answered:?}") };
    sought.moved[0].2
}

/// The search looks at few pages however long the lane is, and reads no page body.
#[test]
fn the_search_looks_at_few_pages_and_reads_no_message() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held.ask(Command::CreateGroup(group_name("biller"), Start::Earliest)).expect("a group");
    for at in 0..1_000 {
        held.now = Timestamp(at * 10);
        held.ask(produce("m")).expect("stored");
    }
    held.crash();
    for (at, offset) in [(0, 0), (1, 1), (10, 1), (4_321, 433), (9_990, 999), (9_991, 1_000)] {
        let ticket = held.arrive(seek(at));
        let mut reads = 0;
        held.turn();
        while held.answer(ticket).is_none() {
            while let Some(reading) = held.reads.front() {
                let is_bare = |read: &driftq_core::row::Read| {
                    matches!(read, driftq_core::row::Read::Range { bodies: false, rows: 1, .. })
                };
                assert!(reading.reads.iter().all(is_bare), "{:?}", reading.reads);
                reads += reading.reads.len();
                held.finish_read();
            }
            held.turn();
            while !held.commits.is_empty() {
                held.finish_commit();
            }
        }
        assert_eq!(target(&held.answers[&ticket]), offset, "at {at}");
        assert!(reads <= 11, "{reads} reads at {at}");
    }
}

/// The search ends even if the lane grows faster than the search proceeds.
#[test]
fn the_search_ends_on_a_lane_that_keeps_growing() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held.ask(Command::CreateGroup(group_name("biller"), Start::Earliest)).expect("a group");
    for at in 0..300 {
        held.now = Timestamp(at * 10);
        held.ask(produce("m")).expect("stored");
    }
    held.crash();
    let ticket = held.arrive(seek(1_111));
    let mut rounds = 0;
    while held.answer(ticket).is_none() {
        rounds += 1;
        assert!(rounds < 20, "the search does not end");
        for _ in 0..7 {
            held.arrive(produce("more"));
        }
        held.turn();
        while !held.commits.is_empty() {
            held.finish_commit();
        }
        while !held.reads.is_empty() {
            held.finish_read();
        }
    }
    assert_eq!(target(&held.answers[&ticket]), 112);
}
