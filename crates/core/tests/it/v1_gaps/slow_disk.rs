//! In v1, leases expire while their own commit waits for the disk, and messages are dead-lettered
//! without a failure.

use driftq_core::change::{Change, EntryState};
use driftq_core::command::Claim;
use driftq_core::{Command, RetryPolicy, SettingsPatch, Timestamp};

use crate::held::{Held, ack, group_name, join, poll, produce, topic};

#[test]
fn v1_a_lease_with_a_slow_commit_is_given_back_uncounted() {
    let mut held = Held::new();
    let twice = RetryPolicy { max_attempts: 2, backoff_ms: 100, max_backoff_ms: 100 };
    let patch = SettingsPatch { retry_policy: Some(twice), ..SettingsPatch::default() };
    held.ask(topic(1, patch)).expect("a topic");
    held.ask(join(1, "biller", 9, 10_000)).expect("joined");
    held.arrive(produce("m0"));
    held.turn();
    assert_eq!(held.commits.len(), 1, "the lease from 0 to 10 s waits for the disk");
    for ms in (1_000..=60_000).step_by(1_000) {
        held.turn_at(ms);
        assert_eq!(held.commits.len(), 1, "nothing expires at {ms} ms");
    }
    held.finish_commit();
    assert_eq!((held.withheld, held.deliveries.len()), (1, 0), "half of the lease has passed");
    held.turn();
    let states: Vec<EntryState> = held.commits[0]
        .batch
        .changes
        .iter()
        .filter_map(|change| {
            let Change::Open { entry, .. } = change else { return None };
            Some(entry.state)
        })
        .collect();
    assert_eq!(states, [EntryState::Returned, EntryState::Leased]);
    held.finish_commit();
    let (_, delivery) = held.deliveries.remove(0);
    assert_eq!(
        (delivery.hold.attempt, delivery.spent),
        (2, 1),
        "another attempt, the first counted one"
    );
    assert_eq!(delivery.expires_at, Timestamp(70_000));
    held.ask(ack(&delivery.token)).expect("acked");
}

/// The poll has no reply yet, so it keeps waiting.
#[test]
fn v1_a_poll_whose_delivery_is_withheld_receives_another() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held.ask(poll(1, "biller", 10_000)).expect("joined");
    held.arrive(produce("m0"));
    held.turn();
    held.turn_at(6_000);
    held.finish_commit();
    assert_eq!((held.withheld, held.deliveries.len()), (1, 0));
    held.settle();
    let attempts: Vec<u32> =
        held.deliveries.iter().map(|(_, delivery)| delivery.hold.attempt).collect();
    assert_eq!(attempts, [2]);
}

#[test]
fn v1_a_poll_whose_message_was_settled_before_release_gets_the_next() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held.ask(poll(1, "biller", 10_000)).expect("joined");
    held.arrive(produce("m0"));
    held.turn();
    // By position, as in v1, while the commit waits for the disk.
    let name = group_name("biller");
    let owner = "worker-1".into();
    held.arrive(Command::Ack(Claim::Owner { name, partition: 0, offset: 0, owner }));
    held.turn_at(6_000);
    held.finish_commit();
    assert_eq!((held.withheld, held.deliveries.len()), (1, 0));
    held.settle();
    held.ask(produce("m1")).expect("stored");
    assert_eq!(held.deliveries.len(), 1);
}

#[test]
fn v1_a_delivery_is_released_up_to_half_of_its_lease() {
    for (ms, shown) in [(5_000, 1), (5_001, 0)] {
        let mut held = Held::new();
        held.ask(topic(1, SettingsPatch::default())).expect("a topic");
        held.ask(join(1, "biller", 9, 10_000)).expect("joined");
        held.arrive(produce("m0"));
        held.turn();
        held.turn_at(ms);
        held.finish_commit();
        assert_eq!(held.deliveries.len(), shown, "after {ms} ms");
    }
}

#[test]
fn v1_an_ack_received_in_time_counts_however_slow_the_disk() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held.ask(join(1, "biller", 9, 10_000)).expect("joined");
    held.ask(produce("m0")).expect("stored");
    let (_, delivery) = held.deliveries.remove(0);
    // Two commits are in flight, so nothing more can be decided.
    held.arrive(produce("m1"));
    held.turn();
    held.arrive(produce("m2"));
    held.turn();
    held.turn_at(9_000);
    let acked = held.arrive(ack(&delivery.token));
    for ms in [10_000, 30_000, 60_000] {
        held.turn_at(ms);
    }
    held.finish_commit();
    held.settle();
    assert_eq!(held.answer(acked).as_deref(), Some("ok"));
    let again = held.deliveries.iter().filter(|(_, other)| other.hold.offset == 0).count();
    assert_eq!(again, 0, "it is not delivered again");
}
