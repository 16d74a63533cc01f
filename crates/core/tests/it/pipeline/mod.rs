//! The pipeline releases nothing before it is durable, decides on rows that include all earlier
//! decisions, keeps the order of produces, and stops at the first damaged row.

mod bounds;
mod read_ahead;

use driftq_core::command::NackKind;
use driftq_core::{PipelineConfig, Rejection, Reply, SettingsPatch};

use crate::held::{Held, ack, join, keyed, nack, produce, topic, view};

fn ready() -> Held {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held
}

#[test]
fn replies_deliveries_and_rejections_are_released_after_their_commit() {
    let mut held = ready();
    let stored = held.arrive(produce("hello"));
    let refused = held.arrive(produce(""));
    let joined = held.arrive(join(1, "biller", 9, 30_000));
    let looked = held.arrive(view());
    held.turn();
    assert_eq!(held.commits.len(), 1, "one batch");
    for ticket in [stored, refused, joined, looked] {
        assert_eq!(held.answer(ticket), None);
    }
    assert!(held.deliveries.is_empty());
    held.store_commit();
    held.turn();
    assert_eq!(held.answer(refused), None, "stored, but the pipeline has not been notified");
    held.finish_commit();
    assert_eq!(held.answer(stored).as_deref(), Some("stored 0:0"));
    assert_eq!(held.answer(refused).as_deref(), Some("refused: value: must not be empty"));
    assert_eq!(held.answer(joined).as_deref(), Some("joined"));
    assert!(held.answer(looked).is_some());
    assert_eq!(held.deliveries.len(), 1);
}

#[test]
fn a_read_started_before_a_commit_sees_the_key_it_stored() {
    let mut held = ready();
    let first = held.arrive(keyed("pay", "k"));
    held.turn();
    held.finish_read();
    held.turn();
    assert_eq!(held.commits.len(), 1);
    // The repeat reads its key before the engine has stored it.
    let repeat = held.arrive(keyed("pay", "k"));
    let other = held.arrive(keyed("other", "k"));
    held.turn();
    held.look();
    held.finish_commit();
    held.turn();
    assert_eq!(held.answer(first).as_deref(), Some("stored 0:0"));
    // More batches are committed before the reply of the engine arrives.
    for _ in 0..3 {
        held.arrive(view());
        held.turn();
        while !held.commits.is_empty() {
            held.finish_commit();
        }
        held.turn();
    }
    held.finish_read();
    held.settle();
    assert_eq!(held.answer(repeat).as_deref(), Some("stored 0:0 before"));
    assert_eq!(
        held.answer(other).as_deref(),
        Some(
            "refused: this idempotency key was used for a different message: value differs; use a new key for new content"
        )
    );
}

#[test]
fn a_key_stored_in_a_batch_that_is_not_durable_counts() {
    let mut held = ready();
    let first = held.arrive(keyed("pay", "k"));
    held.turn();
    held.finish_read();
    held.turn();
    let repeat = held.arrive(keyed("pay", "k"));
    held.turn();
    held.finish_read();
    held.turn();
    assert_eq!(held.commits.len(), 2, "the repeat is decided on top of the first");
    held.finish_commit();
    assert_eq!(held.answer(first).as_deref(), Some("stored 0:0"));
    assert_eq!(held.answer(repeat), None);
    held.finish_commit();
    assert_eq!(held.answer(repeat).as_deref(), Some("stored 0:0 before"));
}

#[test]
fn two_produces_with_one_key_in_one_batch_are_one_message() {
    let mut held = ready();
    let tickets = ["pay", "pay", "other"].map(|value| held.arrive(keyed(value, "k")));
    held.turn();
    assert_eq!(held.reads.len(), 1, "one read looks up all of them");
    held.finish_read();
    held.turn();
    assert_eq!(held.commits.len(), 1);
    held.finish_commit();
    assert_eq!(held.answer(tickets[0]).as_deref(), Some("stored 0:0"));
    assert_eq!(held.answer(tickets[1]).as_deref(), Some("stored 0:0 before"));
    assert!(matches!(held.answers[&tickets[2]], Err(Rejection::KeyConflictIn { .. })));
}

#[test]
fn a_tombstone_of_a_batch_in_flight_is_seen() {
    let mut held = ready();
    held.ask(produce("m0")).expect("stored");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    let (_, delivery) = held.deliveries.remove(0);
    let buried = held.arrive(nack(&delivery.token, NackKind::Final));
    held.turn();
    // The ack is decided before the dead letter is durable, on rows read before it.
    let late = held.arrive(ack(&delivery.token));
    held.turn();
    while !held.reads.is_empty() {
        held.finish_read();
    }
    held.turn();
    assert_eq!((held.answer(buried), held.answer(late)), (None, None));
    held.settle();
    assert_eq!(held.answer(buried).as_deref(), Some("ok"));
    assert_eq!(held.answer(late).as_deref(), Some("stale: dead"));
}

#[test]
fn a_retry_whose_reason_is_not_durable_yet_is_delivered_with_it() {
    let mut held = ready();
    held.ask(produce("m0")).expect("stored");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    let (_, delivery) = held.deliveries.remove(0);
    // After the crash nothing is in memory.
    held.crash();
    held.ask(join(2, "biller", 9, 30_000)).expect("joined");
    let failed = driftq_core::command::Nack {
        claim: driftq_core::command::Claim::Token(delivery.token, None),
        reason: Some("card declined".into()),
        delay_ms: Some(1_500),
        kind: NackKind::Failed,
    };
    held.arrive(driftq_core::Command::Nack(failed));
    held.turn();
    assert_eq!(held.commits.len(), 1);
    // A second before the retry is due, its page and reason are read. The engine has not stored the
    // reason yet.
    held.turn_at(600);
    assert_eq!(held.reads.len(), 1);
    held.look();
    held.finish_commit();
    held.turn();
    held.finish_read();
    held.turn_at(1_500);
    held.settle();
    let (_, again) = held.deliveries.remove(0);
    assert_eq!((again.hold.attempt, &*again.last_error), (2, "card declined"));
}

#[test]
fn a_command_that_needs_a_page_is_decided_at_the_head_of_a_later_batch() {
    let mut held = ready();
    held.ask(produce("m0")).expect("stored");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    let (_, delivery) = held.deliveries.remove(0);
    held.crash();
    let buried = held.arrive(nack(&delivery.token, NackKind::Final));
    let stored = held.arrive(produce("m1"));
    held.turn();
    assert_eq!(held.commits.len(), 1);
    assert_eq!(held.commits[0].batch.replies.len(), 1, "only the produce was decided");
    assert_eq!(held.reads.len(), 1, "the page is read");
    held.finish_commit();
    assert!(held.answer(stored).is_some());
    assert_eq!(held.answer(buried), None);
    let after = held.arrive(produce("m2"));
    held.finish_read();
    held.turn();
    let batch = &held.commits[0].batch;
    let order: Vec<_> = batch.replies.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(order, [buried, after]);
    held.settle();
    assert_eq!(held.answer(buried).as_deref(), Some("ok"));
}

#[test]
fn a_message_whose_last_lease_expired_is_dead_lettered_once() {
    let mut held = Held::new();
    let once = driftq_core::RetryPolicy { max_attempts: 1, backoff_ms: 100, max_backoff_ms: 100 };
    let patch = SettingsPatch { retry_policy: Some(once), ..SettingsPatch::default() };
    held.ask(topic(1, patch)).expect("a topic");
    held.ask(produce("m0")).expect("stored");
    held.ask(join(1, "biller", 9, 10_000)).expect("joined");
    held.crash();
    for ms in [10_000, 11_000, 12_000] {
        held.turn_at(ms);
        assert_eq!((held.reads.len(), held.commits.len()), (1, 0), "read once by {ms} ms");
    }
    held.finish_read();
    held.turn();
    assert_eq!(held.commits.len(), 1);
    held.settle();
    let Ok(Reply::Topic(shown)) = held.ask(view()) else { panic!("a topic") };
    assert_eq!(shown.dead_letters, 1);
}

#[test]
fn produces_keep_their_order_while_one_of_them_waits_for_a_read() {
    let mut held = ready();
    let first = held.arrive(produce("m0"));
    let waits = held.arrive(keyed("m1", "k"));
    let behind = held.arrive(produce("m2"));
    held.turn();
    assert_eq!(held.commits[0].batch.replies.len(), 1, "earlier commands do not wait");
    held.finish_commit();
    held.turn();
    assert_eq!((held.answer(waits), held.answer(behind)), (None, None));
    held.finish_read();
    held.settle();
    assert_eq!(held.answer(first).as_deref(), Some("stored 0:0"));
    assert_eq!(held.answer(waits).as_deref(), Some("stored 0:1"));
    assert_eq!(held.answer(behind).as_deref(), Some("stored 0:2"));
}

#[test]
fn produces_keep_their_order_if_their_topic_is_created_in_the_same_batch() {
    let mut held = Held::new();
    held.arrive(topic(1, SettingsPatch::default()));
    let first = held.arrive(keyed("m0", "k"));
    let behind = held.arrive(produce("m1"));
    held.settle();
    assert_eq!(held.answer(first).as_deref(), Some("stored 0:0"));
    assert_eq!(held.answer(behind).as_deref(), Some("stored 0:1"));
}

#[test]
fn commands_that_arrive_together_form_one_batch() {
    let mut held = ready();
    for value in ["m0", "m1", "m2"] {
        held.arrive(keyed(value, value));
        held.arrive(produce(value));
    }
    held.ask_reads();
    held.finish_read();
    held.turn();
    assert_eq!(held.commits.len(), 1);
    assert_eq!(held.commits[0].batch.replies.len(), 6);
}

#[test]
fn settles_are_decided_before_earlier_commands() {
    let config = PipelineConfig { commands_max: 10, ..PipelineConfig::default() };
    let mut held = Held::with(config);
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held.ask(produce("m0")).expect("stored");
    held.ask(join(1, "biller", 1, 30_000)).expect("joined");
    let (_, delivery) = held.deliveries.remove(0);
    for _ in 0..50 {
        held.arrive(produce("more"));
    }
    let acked = held.arrive(ack(&delivery.token));
    held.turn();
    assert_eq!(held.commits[0].batch.replies[0].0, acked);
}

#[test]
fn a_settle_that_waits_for_a_read_does_not_block_others() {
    let mut held = ready();
    held.ask(produce("m0")).expect("stored");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    let (_, delivery) = held.deliveries.remove(0);
    held.ask(ack(&delivery.token)).expect("acked");
    let repeat = held.arrive(ack(&delivery.token));
    let behind = held.arrive(produce("m1"));
    held.turn();
    assert_eq!(held.reads.len(), 1, "the repeat reads the tombstone");
    held.finish_commit();
    assert_eq!((held.answer(repeat), held.answer(behind).is_some()), (None, true));
    held.settle();
    assert_eq!(held.answer(repeat).as_deref(), Some("ok"));
}

#[test]
fn a_damaged_page_stops_the_shard_wherever_the_damage_is() {
    let mut held = ready();
    held.ask(produce("hello")).expect("stored");
    held.crash();
    held.arrive(join(1, "biller", 9, 30_000));
    held.turn();
    held.finish_commit();
    let length = {
        held.look();
        held.reads[0].rows.as_ref().expect("looked")[0][0].body.len()
    };
    let engine = held.engine.clone();
    for at in 0..length * 8 {
        let mut held = Held::over(engine.clone(), held.now, PipelineConfig::default());
        held.arrive(join(1, "biller", 9, 30_000));
        held.turn();
        held.finish_read_with(|rows| {
            let row = &mut rows[0][0];
            let mut body = row.body.to_vec();
            body[at / 8] ^= 1 << (at % 8);
            row.body = body.into();
        });
        held.turn();
        let damaged = held.damaged.first().unwrap_or_else(|| panic!("bit {at} is not checked"));
        assert!(damaged.key.contains("Page"), "{damaged}");
        assert!(held.deliveries.is_empty());
    }
}

#[test]
fn a_damaged_record_fails_the_command_that_needs_it() {
    let mut held = ready();
    held.ask(keyed("pay", "k")).expect("stored");
    held.crash();
    let repeat = held.arrive(keyed("pay", "k"));
    held.turn();
    held.finish_read_with(|rows| {
        let row = &mut rows[0][0];
        let mut body = row.body.to_vec();
        body[3] ^= 1;
        row.body = body.into();
    });
    held.settle();
    let answer = held.answer(repeat).expect("it is answered");
    assert!(answer.contains("stored data is damaged"), "{answer}");
    assert_eq!(held.damaged.len(), 1);
    held.ask(keyed("pay", "other")).expect("the shard keeps serving");
}

#[test]
fn a_missing_page_is_detected() {
    let mut held = ready();
    held.ask(produce("hello")).expect("stored");
    held.crash();
    held.arrive(join(1, "biller", 9, 30_000));
    held.turn();
    held.finish_commit();
    held.finish_read_with(|rows| rows[0].clear());
    held.settle();
    let damaged = held.damaged.first().expect("a message is missing");
    assert_eq!(damaged.why, "it is missing");
    assert!(held.deliveries.is_empty());
}

#[test]
fn a_page_deleted_during_its_read_is_not_damage() {
    let mut held = Held::new();
    let patch = SettingsPatch { retention_ms: Some(0), ..SettingsPatch::default() };
    held.ask(topic(1, patch)).expect("a topic");
    held.ask(produce("m0")).expect("stored");
    held.ask(join(1, "fast", 9, 30_000)).expect("joined");
    let (_, delivery) = held.deliveries.remove(0);
    held.ask(ack(&delivery.token)).expect("acked");
    let create = driftq_core::Command::CreateGroup(
        crate::held::group_name("slow"),
        driftq_core::command::Start::Earliest,
    );
    held.ask(create).expect("a group");
    held.crash();
    // The slow group reads its first page. Before the read completes, the group and then the page
    // are deleted.
    held.arrive(join(2, "slow", 9, 30_000));
    held.turn();
    held.finish_commit();
    assert_eq!(held.reads.len(), 1);
    held.arrive(driftq_core::Command::DeleteGroup(crate::held::group_name("slow")));
    held.turn();
    held.finish_commit();
    for ms in [1_000, 2_000, 3_000] {
        held.turn_at(ms);
        while !held.commits.is_empty() {
            held.finish_commit();
            held.turn();
        }
    }
    held.finish_read();
    held.settle();
    assert_eq!(held.damaged, []);
}

/// A node that does not know whether a join arrived may send it again.
#[test]
fn a_join_that_arrives_twice_keeps_the_deliveries_of_the_consumer() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    for value in ["m0", "m1", "m2"] {
        held.ask(produce(value)).expect("stored");
    }
    held.ask(join(1, "biller", 2, 30_000)).expect("joined");
    held.ask(join(1, "biller", 2, 30_000)).expect("joined again");
    assert_eq!(held.deliveries.len(), 2, "its prefetch is used up");
    let token = held.deliveries[0].1.token.clone();
    held.ask(ack(&token)).expect("acked");
    assert_eq!(held.deliveries.len(), 3, "its prefetch allows one more");
}
