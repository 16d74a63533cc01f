//! Batches, reads and commits under way are bounded; what does not fit waits for the next.

use driftq_core::command::NackKind;
use driftq_core::row::{Read, Write};
use driftq_core::{Envelope, SettingsPatch};

use super::ready;
use crate::held::{Held, delete, join, keyed, nack, produce, produce_with, topic};

#[test]
fn batches_are_committed_in_order_and_no_more_than_two_at_once() {
    let mut held = ready();
    let before = held.released.last().copied().expect("the topic's batch");
    let mut tickets = Vec::new();
    for value in ["m0", "m1", "m2", "m3"] {
        tickets.push(held.arrive(produce(value)));
        held.turn();
    }
    let under_way: Vec<u64> = held.commits.iter().map(|commit| commit.batch.no.0).collect();
    assert_eq!(under_way, [before + 1, before + 2], "the rest waits");
    assert_eq!(held.pipeline.commits_under_way(), 2);
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
fn a_full_pipeline_waits_for_a_commit_and_not_for_the_time() {
    let mut held = ready();
    held.arrive(join(1, "biller", 9, 1_000));
    held.arrive(produce("m0"));
    held.turn();
    held.arrive(produce("m1"));
    held.turn();
    assert_eq!(held.pipeline.next_deadline(), None);
}

#[test]
fn a_batch_takes_no_more_commands_than_it_may() {
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
fn a_batch_is_closed_when_it_is_large_and_a_larger_command_is_a_batch_of_its_own() {
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

/// Settings with room for all messages of these tests.
fn large() -> SettingsPatch {
    SettingsPatch {
        max_in_flight: Some(100_000),
        max_open: Some(100_000),
        ..SettingsPatch::default()
    }
}

#[test]
fn a_batch_hands_out_a_bounded_number_of_messages_and_lets_as_many_run_out() {
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
    assert_eq!(held.deliveries.len(), 2_001, "the others follow");
    held.arrive(produce("awaited"));
    held.turn_at(10_000);
    let expired = held.commits[0].batch.changes.len();
    assert!((1..=512 + 64).contains(&expired), "{expired}");
}

#[test]
fn no_more_than_four_reads_are_under_way_and_each_asks_a_bounded_number_of_questions() {
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
fn retries_that_fall_due_together_are_read_within_the_bounds_of_memory() {
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
    // Nobody is there to take any of them.
    held.turn_at(60_000);
    let pages = held
        .reads
        .iter()
        .flat_map(|reading| &reading.reads)
        .filter(|read| matches!(read, Read::Range { .. }))
        .count();
    assert!(pages <= 64, "{pages} MiB are read at once, 64 may be kept");
}

#[test]
fn a_partition_whose_retries_must_wait_for_the_reads_of_others_has_its_turn() {
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
    assert_eq!(held.deliveries.len(), 400, "every one of them is due");
}

#[test]
fn a_deadline_that_nothing_can_come_of_is_no_deadline() {
    let mut held = ready();
    held.ask(join(1, "biller", 9, 1_000)).expect("joined");
    held.arrive(produce("m0"));
    held.turn();
    assert_eq!(held.commits.len(), 1, "the lease is not durable yet");
    held.turn_at(20_000);
    assert_eq!(held.commits.len(), 1, "and does not run out");
    let next = held.pipeline.next_deadline();
    assert!(next.is_none_or(|at| at > held.now), "{next:?} at {:?}", held.now);
}

#[test]
fn a_shard_that_is_given_up_decides_what_it_was_asked_and_begins_nothing() {
    let mut held = ready();
    for _ in 0..10_000 {
        held.arrive(produce("m"));
    }
    held.settle();
    // What it leaves behind is swept in many steps, of which one has begun.
    held.arrive(delete());
    held.turn();
    let before = held.released.len();
    let asked = held.arrive(topic(1, SettingsPatch::default()));
    held.pipeline.close();
    held.settle();
    assert_eq!(held.answer(asked).as_deref(), Some("created"));
    assert_eq!(held.released.len() - before, 3, "the rest is for the next owner");
}
