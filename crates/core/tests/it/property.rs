//! For any order of settles, any crash, and any number of groups and partitions:
//! - no acknowledged message is lost
//! - no settled message is delivered again
//! - no attempt number is granted twice
//! - no older attempt settles a message leased to a newer one

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::change::Delivery;
use driftq_core::command::{NackKind, Start};
use driftq_core::{Command, Envelope, LeaseToken, Reply, SettingsPatch, Ticket, Timestamp};
use proptest::prelude::*;

use crate::held::{Held, ack, group_name, join, nack, produce_with, topic};

/// The next step.
#[derive(Debug, Clone)]
enum Step {
    Produce {
        partition: u32,
        key: Option<u8>,
    },
    /// Settles one of the deliveries released so far, newest first.
    Settle {
        pick: usize,
        how: How,
    },
    /// Stores the oldest commit without (`Store`) or with (`Commit`) notifying the pipeline.
    Store,
    Commit,
    /// Reads the rows of the oldest read without (`Look`) or with (`Read`) completing it.
    Look,
    Read,
    Time {
        ms: u64,
    },
    /// Stores this many more commits, then loses everything in memory.
    Crash {
        stored: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Ack,
    Nack,
    Release,
}

/// One message in one group.
type Place = (usize, u32, u64);

/// The guarantees as callers see them.
#[derive(Default)]
struct Model {
    groups: usize,
    partitions: u32,
    /// Values sent to be stored, by ticket.
    asked: BTreeMap<Ticket, (u32, String)>,
    /// Values acknowledged as stored.
    stored: BTreeMap<(u32, u64), String>,
    /// All released deliveries, in order.
    shown: Vec<(Place, LeaseToken)>,
    newest: BTreeMap<Place, u32>,
    /// Acks without a reply: the message, and whether a newer attempt had been released before.
    acking: BTreeMap<Ticket, (Place, bool)>,
    /// Acks that a crash left without a reply.
    unknown: BTreeSet<Place>,
    settled: BTreeSet<Place>,
    values: u64,
}

impl Model {
    fn step(&mut self, held: &mut Held, step: &Step) {
        match *step {
            Step::Produce { partition, key } => {
                self.values += 1;
                let partition = partition % self.partitions;
                let value = match key {
                    // One key always has the same content, so a repeat is a valid repeat.
                    Some(key) => format!("keyed {key}"),
                    None => format!("value {}", self.values),
                };
                let envelope = Envelope {
                    partition_override: Some(
                        key.map_or(partition, |key| u32::from(key) % self.partitions),
                    ),
                    idempotency_key: key.map(|key| format!("key {key}").into()),
                    ..Envelope::default()
                };
                let partition = envelope.partition_override.expect("just set");
                let ticket = held.arrive(produce_with(&value, envelope));
                self.asked.insert(ticket, (partition, value));
            }
            Step::Settle { pick, how } => {
                let Some(at) = self.shown.len().checked_sub(1 + pick % self.shown.len().max(1))
                else {
                    return;
                };
                let (place, token) = &self.shown[at];
                let is_old = self.newest[place] > token.attempt;
                let command = match how {
                    How::Ack => ack(token),
                    How::Nack => nack(token, NackKind::Failed),
                    How::Release => nack(token, NackKind::Release),
                };
                let place = *place;
                let ticket = held.arrive(command);
                if how == How::Ack {
                    self.acking.insert(ticket, (place, is_old));
                }
            }
            Step::Store if held.commits.iter().any(|commit| !commit.is_stored) => {
                held.store_commit()
            }
            Step::Commit if !held.commits.is_empty() => held.finish_commit(),
            Step::Look if held.reads.iter().any(|reading| reading.rows.is_none()) => held.look(),
            Step::Read if !held.reads.is_empty() => held.finish_read(),
            Step::Store | Step::Commit | Step::Look | Step::Read => {}
            Step::Time { ms } => held.now = Timestamp(held.now.0 + ms),
            Step::Crash { stored } => self.crash(held, stored),
        }
        held.turn();
        self.see(held);
    }

    fn crash(&mut self, held: &mut Held, stored: usize) {
        for _ in 0..stored {
            if held.commits.iter().any(|commit| !commit.is_stored) {
                held.store_commit();
            }
        }
        self.unknown.extend(std::mem::take(&mut self.acking).into_values().map(|(place, _)| place));
        self.asked.clear();
        held.crash();
        self.come_back(held);
    }

    /// Joins a consumer to every group again.
    fn come_back(&self, held: &mut Held) {
        for group in 0..self.groups {
            held.arrive(join(group as u64, &format!("g{group}"), 5, 10_000));
        }
    }

    /// Records the released replies and deliveries.
    fn see(&mut self, held: &mut Held) {
        assert_eq!(held.damaged, []);
        for (ticket, answered) in std::mem::take(&mut held.answers) {
            if let Some((partition, value)) = self.asked.remove(&ticket) {
                let Ok(Reply::Produced(receipt)) = answered else { panic!("{answered:?}") };
                assert_eq!(receipt.partition, partition);
                let place = (partition, receipt.offset);
                let before = self.stored.insert(place, value.clone());
                assert!(
                    before.is_none_or(|before| before == value),
                    "{place:?} was assigned twice"
                );
            } else if let Some((place, is_old)) = self.acking.remove(&ticket)
                && answered.is_ok()
            {
                assert!(!is_old, "an older attempt settled {place:?}");
                self.settled.insert(place);
            }
        }
        for (consumer, delivery) in std::mem::take(&mut held.deliveries) {
            self.deliver(consumer.0 as usize, delivery);
        }
    }

    fn deliver(&mut self, group: usize, delivery: Delivery) {
        let (partition, offset) = (delivery.hold.lane.partition(), delivery.hold.offset);
        let place = (group, partition, offset);
        assert!(!self.settled.contains(&place), "{place:?} was settled and is redelivered");
        let before = self.newest.insert(place, delivery.hold.attempt);
        assert!(before < Some(delivery.hold.attempt), "{place:?}: an attempt was granted twice");
        let value = String::from_utf8_lossy(&delivery.message.value).into_owned();
        let stored = self.stored.entry((partition, offset)).or_insert_with(|| value.clone());
        assert_eq!(*stored, value, "{place:?} has another value");
        self.shown.push((place, delivery.token));
    }

    /// Completes everything and checks that no message is missing.
    fn drain(&mut self, held: &mut Held) {
        for _ in 0..100 {
            held.settle();
            self.see(held);
            let backlog: u64 = held
                .pipeline
                .shard()
                .groups()
                .flat_map(|group| group.partitions)
                .map(|cursor| cursor.backlog)
                .sum();
            if backlog == 0 {
                break;
            }
            for (place, token) in std::mem::take(&mut self.shown) {
                let is_old = self.newest[&place] > token.attempt;
                let ticket = held.arrive(ack(&token));
                self.acking.insert(ticket, (place, is_old));
            }
            held.now = Timestamp(held.now.0 + 3_000);
        }
        for (partition, offset) in self.stored.keys() {
            for group in 0..self.groups {
                let place = (group, *partition, *offset);
                assert!(
                    self.settled.contains(&place) || self.unknown.contains(&place),
                    "{place:?} was lost"
                );
            }
        }
        assert_eq!(held.pipeline.defects(), 0, "deciding panicked");
        assert_eq!(held.pipeline.shard().violation(), None);
        assert_eq!(held.pipeline.shard().open_entries(), 0);
    }
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![4 => Just(How::Ack), 1 => Just(How::Nack), 1 => Just(How::Release)];
    prop_oneof![
        6 => (0..3_u32, proptest::option::weighted(0.2, 0..4_u8))
            .prop_map(|(partition, key)| Step::Produce { partition, key }),
        8 => (0..12_usize, how).prop_map(|(pick, how)| Step::Settle { pick, how }),
        2 => Just(Step::Store),
        9 => Just(Step::Commit),
        1 => Just(Step::Look),
        6 => Just(Step::Read),
        2 => (0..12_000_u64).prop_map(|ms| Step::Time { ms }),
        1 => (0..3_usize).prop_map(|stored| Step::Crash { stored }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_message_is_lost_and_no_settled_message_is_redelivered(
        groups in 1..=4_usize,
        partitions in 1..=3_u32,
        keeps_settled: bool,
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let retention_ms = if keeps_settled { None } else { Some(0) };
        let mut held = Held::new();
        held.ask(topic(partitions, SettingsPatch { retention_ms, ..SettingsPatch::default() }))
            .expect("a topic");
        for group in 0..groups {
            let name = group_name(&format!("g{group}"));
            held.ask(Command::CreateGroup(name, Start::Earliest)).expect("a group");
        }
        let mut model = Model { groups, partitions, ..Model::default() };
        model.come_back(&mut held);
        for step in &steps {
            model.step(&mut held, step);
        }
        model.crash(&mut held, steps.len() % 3);
        model.drain(&mut held);
    }
}
