//! Read-ahead is bounded in rows and in bytes in flight, and every partition is read eventually.

use driftq_core::command::Join;
use driftq_core::limits::{READ_AHEAD_PAGES_MAX, VALUE_BYTES_CAP, VALUE_BYTES_DEFAULT};
use driftq_core::row::{Key, Read, Row};
use driftq_core::{
    Command, ConsumerId, Envelope, PipelineConfig, SettingsPatch, ShardConfig, Timestamp,
};
use driftq_storage::Memory;

use super::ready;
use crate::held::{Held, ack, join, keyed, poll, produce, produce_with, topic};

const PARTITIONS: u32 = 32;
const MIB: usize = 1 << 20;

/// A topic with `each` messages of one mebibyte per partition and nothing in memory.
fn with_large_backlog(each: usize) -> Held {
    with_large_backlog_of(each, ShardConfig::default())
}

fn with_large_backlog_of(each: usize, config: ShardConfig) -> Held {
    let engine = Memory::new(|| Timestamp(0));
    let open =
        |engine: Memory| Held::of(config.clone(), engine, Timestamp(0), PipelineConfig::default());
    let mut held = open(engine);
    held.ask(topic(PARTITIONS, SettingsPatch::default())).expect("a topic");
    held.ask(join(9, "biller", 1, 30_000)).expect("it creates the group");
    held.ask(Command::Leave(ConsumerId(9))).expect("it leaves");
    let value = "x".repeat(VALUE_BYTES_DEFAULT - 64);
    for partition in 0..PARTITIONS {
        let envelope = Envelope { partition_override: Some(partition), ..Envelope::default() };
        for _ in 0..each {
            held.arrive(produce_with(&value, envelope.clone()));
        }
        held.settle();
    }
    open(held.engine)
}

/// Total bytes of all reads in flight.
fn in_flight(held: &mut Held) -> usize {
    while held.reads.iter().any(|reading| reading.rows.is_none()) {
        held.look();
    }
    let rows = held.reads.iter().flat_map(|reading| reading.rows.iter().flatten().flatten());
    rows.map(|row: &Row| row.body.len()).sum()
}

/// Page reads in flight, each with its row limit.
fn page_reads(held: &Held) -> Vec<usize> {
    let reads = held.reads.iter().flat_map(|reading| &reading.reads);
    let rows = |read: &Read| match read {
        Read::Range { from: Key::Page { .. }, rows, .. } => Some(*rows),
        Read::Range { .. } | Read::Key(_) | Read::Unending { .. } | Read::Ending { .. } => None,
    };
    reads.filter_map(rows).collect()
}

/// Runs the pipeline until it is idle. Returns the number of lookups.
fn lookups_until_idle(held: &mut Held) -> usize {
    let mut lookups = 0;
    for _ in 0..1_000 {
        let before = held.reads.len();
        held.turn();
        lookups += held.reads.iter().skip(before).map(|reading| reading.reads.len()).sum::<usize>();
        match held.reads.is_empty() {
            true if held.commits.is_empty() => return lookups,
            true => held.finish_commit(),
            false => held.finish_read(),
        }
    }
    panic!("the pipeline does not become idle");
}

#[test]
fn read_ahead_of_many_partitions_reads_all_within_its_budget() {
    for read_ahead_bytes in [ShardConfig::default().read_ahead_bytes, 32 * MIB] {
        let config = ShardConfig { read_ahead_bytes, ..ShardConfig::default() };
        let limit = config.read_in_flight_bytes();
        let mut held = with_large_backlog_of(2, config);
        held.arrive(join(1, "biller", 1_000, 30_000));
        let mut most = 0;
        for _ in 0..1_000 {
            held.turn();
            let bytes = in_flight(&mut held);
            assert!(bytes <= limit, "{bytes} bytes are in flight");
            let kept = held.pipeline.shard().cached_bytes();
            assert!(kept + limit <= read_ahead_bytes, "{kept} bytes are kept");
            most = most.max(bytes);
            match held.reads.is_empty() {
                true if held.commits.is_empty() => break,
                true => held.finish_commit(),
                false => held.finish_read(),
            }
        }
        assert_eq!(held.deliveries.len(), 2 * PARTITIONS as usize, "no partition is forgotten");
        assert!(most > limit / 2, "at most {most} bytes: the budget is not used");
    }
}

#[test]
fn reads_that_no_consumer_waits_for_are_not_started() {
    let mut held = with_large_backlog(2);
    held.arrive(poll(1, "biller", 30_000));
    held.turn();
    held.finish_commit();
    held.turn();
    let started = page_reads(&held).len();
    assert!((1..PARTITIONS as usize / 2).contains(&started), "{started} partitions are read");
    held.arrive(Command::Leave(ConsumerId(1)));
    held.turn();
    while !held.commits.is_empty() {
        held.finish_commit();
    }
    while !held.reads.is_empty() {
        held.finish_read();
        held.turn();
        assert!(page_reads(&held).len() <= started, "no more reads than before");
    }
    let read_again = (0..10).any(|_| {
        held.turn();
        !held.reads.is_empty()
    });
    assert!(!read_again, "the consumer has left");
    held.arrive(join(2, "biller", 1_000, 30_000));
    held.settle();
    assert_eq!(held.deliveries.len(), 2 * PARTITIONS as usize, "the next one gets everything");
}

/// A poll for one message does not read every partition.
#[test]
fn queued_reads_are_not_started_for_a_consumer_that_has_enough() {
    let config = ShardConfig { read_ahead_bytes: 16 * MIB, ..ShardConfig::default() };
    let mut held = with_large_backlog_of(1, config);
    held.arrive(join(1, "biller", 1, 30_000));
    let begun = lookups_until_idle(&mut held);
    assert_eq!(held.deliveries.len(), 1);
    assert!((1..PARTITIONS as usize / 2).contains(&begun), "{begun} partitions were read");
    for delivered in 2..=PARTITIONS as usize {
        let token = held.deliveries[delivered - 2].1.token.clone();
        held.arrive(ack(&token));
        held.settle();
        assert_eq!(held.deliveries.len(), delivered, "no partition is forgotten");
    }
}

#[test]
fn a_read_larger_than_the_budget_runs_alone() {
    let config = ShardConfig { value_bytes_max: VALUE_BYTES_CAP, ..ShardConfig::default() };
    let engine = Memory::new(|| Timestamp(0));
    let open = |engine: &Memory| {
        Held::of(config.clone(), engine.clone(), Timestamp(0), PipelineConfig::default())
    };
    let mut held = open(&engine);
    held.ask(topic(2, SettingsPatch::default())).expect("a topic");
    let value = "x".repeat(VALUE_BYTES_CAP);
    for partition in [0, 1] {
        let envelope = Envelope { partition_override: Some(partition), ..Envelope::default() };
        held.ask(produce_with(&value, envelope)).expect("stored");
    }
    let mut held = open(&engine);
    held.arrive(join(1, "biller", 9, 30_000));
    for expected in [0, 1] {
        held.turn();
        assert_eq!(page_reads(&held).len(), 1, "one at a time");
        held.finish_read();
        assert_eq!(held.deliveries.len(), expected);
        held.turn();
        while !held.commits.is_empty() {
            held.finish_commit();
        }
    }
    assert_eq!(held.deliveries.len(), 2);
}

#[test]
fn a_command_does_not_wait_for_read_ahead() {
    let mut held = with_large_backlog(2);
    held.arrive(join(1, "biller", 1_000, 30_000));
    held.turn();
    let started = page_reads(&held).len();
    assert!(started < PARTITIONS as usize, "others wait");
    let ticket = held.arrive(keyed("pay", "k"));
    held.turn();
    let lookups = held.reads.back().expect("the lookup starts at once").reads.clone();
    assert!(matches!(*lookups, [Read::Key(Key::Record { .. })]), "{lookups:?}");
    assert_eq!(page_reads(&held).len(), started);
    held.settle();
    assert!(held.answer(ticket).is_some());
}

/// A poll reads about as much as it may receive, and as much again for the next poll. This also
/// holds if many partitions have messages for it.
#[test]
fn reads_of_a_topic_stop_at_the_prefetch_of_its_consumers() {
    let mut held = with_large_backlog(1);
    let mut all = 0;
    for round in 1..=PARTITIONS as usize / 3 {
        let poll = poll(round as u64, "biller", 30_000);
        let Command::Join(join) = poll else { unreachable!("it joins") };
        held.arrive(Command::Join(Join { credit_bytes: 4 * MIB as u64, ..join }));
        let begun = lookups_until_idle(&mut held);
        assert!(begun <= 10, "{begun} partitions were read for 4 messages");
        all += begun;
    }
    assert_eq!(held.deliveries.len(), PARTITIONS as usize, "no partition is forgotten");
    assert_eq!(all, PARTITIONS as usize, "each partition is read once");
}

#[test]
fn single_messages_are_read_in_steps_of_a_bounded_number_of_pages() {
    let count = 2 * READ_AHEAD_PAGES_MAX + 100;
    let patch = SettingsPatch {
        max_in_flight: Some(10_000),
        max_open: Some(10_000),
        ..SettingsPatch::default()
    };
    let mut held = Held::new();
    held.ask(topic(1, patch)).expect("a topic");
    for at in 0..count {
        held.ask(produce(&at.to_string())).expect("stored");
    }
    held.crash();
    held.arrive(join(1, "biller", 10_000, 30_000));
    let mut steps = Vec::new();
    for _ in 0..1_000 {
        held.turn();
        in_flight(&mut held);
        for reading in &held.reads {
            steps.extend(reading.rows.iter().flatten().map(Vec::len));
        }
        while !held.reads.is_empty() {
            held.finish_read();
        }
        while !held.commits.is_empty() {
            held.finish_commit();
        }
    }
    assert_eq!(steps, [READ_AHEAD_PAGES_MAX, READ_AHEAD_PAGES_MAX, 100]);
    let values: Vec<_> = held.deliveries.iter().map(|(_, of)| of.message.value.clone()).collect();
    let expected: Vec<_> = (0..count).map(|at| at.to_string()).collect();
    assert_eq!(values, expected, "each once, in order");
}

#[test]
fn large_envelopes_count_in_pages_and_in_memory() {
    let mut held = ready();
    let text = "t".repeat(1_024);
    let envelope = Envelope {
        run_id: Some((&*text).into()),
        step_id: Some((&*text).into()),
        parent_step_id: Some((&*text).into()),
        ..Envelope::default()
    };
    for _ in 0..1_000 {
        held.arrive(produce_with("v", envelope.clone()));
    }
    held.turn();
    let commit = held.commits.front().expect("they are stored");
    for write in &commit.writes {
        if let driftq_core::row::Write::Put(Row { key: Key::Page { .. }, body, .. }) = write {
            assert!(body.len() <= MIB + MIB / 16, "a page of {} bytes", body.len());
        }
    }
    held.settle();
    held.ask(join(1, "biller", 1, 30_000)).expect("joined");
    let (_, delivery) = held.deliveries.remove(0);
    held.ask(ack(&delivery.token)).expect("acked");
    let kept = held.pipeline.shard().cached_bytes();
    assert!(kept >= 3 * MIB, "{kept} bytes");
}
