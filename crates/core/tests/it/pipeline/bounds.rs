//! Batches, reads and commits in flight are bounded. Commands beyond a bound wait.

use driftq_core::command::NackKind;
use driftq_core::row::{Read, Write};
use driftq_core::{Envelope, SettingsPatch};

use super::ready;
use crate::held::{Held, delete, join, keyed, nack, produce, produce_with, topic};

#[test]
fn batches_are_committed_in_order_and_at_most_two_at_once() {
    let mut held = ready();
    let before = held.released.last().copied().expect("the topic's batch");
    let mut tickets = Vec::new();
    for value in ["m0", "m1", "m2", "m3"] {
        tickets.push(held.arrive(produce(value)));
        held.turn();
    }
    let under_way: Vec<u64> = held.commits.iter().map(|commit| commit.batch.no.0).collect();
    assert_eq!(under_way, [before + 1, before + 2], "the rest waits");
    assert_eq!(held.pipeline.commits_in_flight(), 2);
    held.finish_commit();
    held.turn();
    let third = held.commits.back().expect("the third batch");
    assert_eq!((third.batch.no.0, third.batch.replies.len()), (before + 3, 2));
    held.settle();
    let expected: Vec<u64> = (1..=before + 3).collect();
    assert_eq!(held.released, expected);
    let answers: Vec<_> = tickets.iter().map(|ticket| held.answer(*ticket)).collect();
    let stored = ["stored 0:0", "stored 0:1", "stored 0:2", "stored 0:3"];
    assert_eq!(answers, stored.map(|text| Some(text.to_owned())));
}

#[test]
fn a_full_pipeline_waits_for_a_commit_not_for_a_timer() {
    let mut held = ready();
    held.arrive(join(1, "biller", 9, 1_000));
    held.arrive(produce("m0"));
    held.turn();
    held.arrive(produce("m1"));
    held.turn();
    assert_eq!(held.pipeline.next_deadline(), None);
}

#[test]
fn a_batch_has_at_most_commands_max_commands() {
    let mut held = ready();
    for _ in 0..10_000 {
        held.arrive(produce("m"));
    }
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < 10_000 {
        held.turn();
        for commit in &held.commits {
            sizes.push(commit.batch.replies.len());
        }
        while !held.commits.is_empty() {
            held.finish_commit();
        }
    }
    assert_eq!(sizes, [4_096, 4_096, 1_808]);
}

#[test]
fn a_batch_is_bounded_in_bytes_and_a_larger_command_gets_its_own() {
    let mut held = ready();
    let value = "x".repeat(1 << 20);
    for _ in 0..20 {
        held.arrive(produce(&value));
    }
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < 20 {
        held.turn();
        while let Some(commit) = held.commits.front() {
            sizes.push(commit.batch.replies.len());
            let bytes: usize = commit.writes.iter().map(row_bytes).sum();
            assert!(bytes < 9 << 20, "{bytes} bytes");
            held.finish_commit();
        }
    }
    assert_eq!(sizes, [8, 8, 4]);
}

fn row_bytes(write: &Write) -> usize {
    match write {
        Write::Put(row) => row.body.len(),
        Write::Delete(_)
        | Write::DeleteRange { .. }
        | Write::Trim { .. }
        | Write::Touch { .. }
        | Write::Expire { .. } => 0,
    }
}

/// Settings whose limits allow all messages of these tests.
fn large() -> SettingsPatch {
    SettingsPatch {
        max_in_flight: Some(100_000),
        max_open: Some(100_000),
        ..SettingsPatch::default()
    }
}

#[test]
fn a_batch_delivers_and_expires_a_bounded_number_of_messages() {
    let mut held = Held::new();
    held.ask(topic(3, large())).expect("a topic");
    for at in 0..4_500_u32 {
        let envelope = Envelope { partition_override: Some(at % 3), ..Envelope::default() };
        held.arrive(produce_with("m", envelope));
    }
    held.settle();
    let joined = held.arrive(join(1, "biller", 10_000, 10_000));
    let mut delivered = Vec::new();
    while held.answer(joined).is_none() || held.deliveries.len() < 4_500 {
        held.turn();
        let before = held.deliveries.len();
        held.finish_commit();
        delivered.push(held.deliveries.len() - before);
    }
    assert!(delivered.iter().all(|count| *count <= 2_048 + 64), "{delivered:?}");
    assert_eq!(delivered.iter().sum::<usize>(), 4_500);
    held.turn_at(10_000);
    let lapsed: Vec<usize> = held.commits.iter().map(|commit| commit.batch.changes.len()).collect();
    assert!(lapsed.iter().all(|count| *count <= 1_024), "{lapsed:?}");
}

#[test]
fn a_batch_that_answers_a_client_decides_fewer_deliveries_and_expiries() {
    let mut held = Held::new();
    held.ask(topic(1, large())).expect("a topic");
    for _ in 0..2_000 {
        held.arrive(produce("m"));
    }
    held.settle();
    held.arrive(join(1, "biller", 10_000, 10_000));
    held.arrive(produce("awaited"));
    held.turn();
    held.finish_commit();
    assert!((1..=512 + 64).contains(&held.deliveries.len()), "{}", held.deliveries.len());
    held.settle();
    assert_eq!(held.deliveries.len(), 2_001, "the other deliveries follow");
    held.arrive(produce("awaited"));
    held.turn_at(10_000);
    let expired = held.commits[0].batch.changes.len();
    assert!((1..=512 + 64).contains(&expired), "{expired}");
}

#[test]
fn at_most_four_reads_of_bounded_size_are_in_flight() {
    let mut held = ready();
    let mut tickets = Vec::new();
    for at in 0..2_000 {
        tickets.push(held.arrive(keyed("pay", &format!("k{at}"))));
    }
    held.turn();
    assert_eq!(held.reads.len(), 4);
    assert!(held.reads.iter().all(|reading| reading.reads.len() <= 256));
    held.settle();
    assert!(tickets.iter().all(|ticket| held.answer(*ticket).is_some()));
}

#[test]
fn retries_due_together_are_read_within_the_memory_limit() {
    let mut held = ready();
    let value = "x".repeat(1 << 20);
    for at in 0..80 {
        held.arrive(produce(&value));
        if at % 8 == 7 {
            held.settle();
        }
    }
    held.ask(join(1, "biller", 100, 30_000)).expect("joined");
    for (_, delivery) in std::mem::take(&mut held.deliveries) {
        held.arrive(nack(&delivery.token, NackKind::Failed));
    }
    held.settle();
    held.crash();
    // No consumer has joined.
    held.turn_at(60_000);
    let pages = held
        .reads
        .iter()
        .flat_map(|reading| &reading.reads)
        .filter(|read| matches!(read, Read::Range { .. }))
        .count();
    assert!(pages <= 64, "{pages} MiB are read at once, the limit is 64");
}

#[test]
fn retries_that_wait_for_reads_of_other_partitions_are_delivered() {
    let mut held = Held::new();
    held.ask(topic(4, SettingsPatch::default())).expect("a topic");
    for at in 0..400_u32 {
        let envelope = Envelope { partition_override: Some(at % 4), ..Envelope::default() };
        held.arrive(produce_with("m", envelope));
    }
    held.ask(join(1, "biller", 1_000, 30_000)).expect("joined");
    held.settle();
    for (_, delivery) in std::mem::take(&mut held.deliveries) {
        held.arrive(nack(&delivery.token, NackKind::Failed));
    }
    held.settle();
    held.crash();
    held.turn_at(60_000);
    held.ask(join(2, "biller", 1_000, 30_000)).expect("joined");
    held.settle();
    assert_eq!(held.deliveries.len(), 400, "all of them are due");
}

#[test]
fn a_lease_that_is_not_durable_yet_sets_no_deadline() {
    let mut held = ready();
    held.ask(join(1, "biller", 9, 1_000)).expect("joined");
    held.arrive(produce("m0"));
    held.turn();
    assert_eq!(held.commits.len(), 1, "the lease is not durable yet");
    held.turn_at(20_000);
    assert_eq!(held.commits.len(), 1, "the lease does not expire");
    let next = held.pipeline.next_deadline();
    assert!(next.is_none_or(|at| at > held.now), "{next:?} at {:?}", held.now);
}

#[test]
fn a_shard_being_given_up_decides_queued_commands_and_starts_nothing() {
    let mut held = ready();
    for _ in 0..10_000 {
        held.arrive(produce("m"));
    }
    held.settle();
    // The sweep after this delete takes many steps, and one has started.
    held.arrive(delete());
    held.turn();
    let before = held.released.len();
    let asked = held.arrive(topic(1, SettingsPatch::default()));
    held.pipeline.close();
    held.settle();
    assert_eq!(held.answer(asked).as_deref(), Some("created"));
    assert_eq!(held.released.len() - before, 3, "the rest is left to the next owner");
}
