//! Reads that have not started, and how many bytes those under way may bring.
//!
//! Reads for dispatch have a budget of bytes: each reserves the most it may bring until its answer arrives. The
//! reads of one topic also stop where its waiting consumers have no room for more: a poll of 4 MB over 1 000
//! partitions reads about 4 MB. A read that does not fit waits. Reads of commands never wait for those of dispatch.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use crate::change::Want;
use crate::id::TopicId;

use super::Pipeline;
use super::reading::Asker;

/// Reads that have not started.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// In the order they were asked for.
    queue: VecDeque<Asker>,
    /// Reads for dispatch that did not fit, of each topic the oldest first.
    delayed: BTreeMap<TopicId, VecDeque<Want>>,
    /// The topic that was read for last: the next one comes first.
    rotor: Option<TopicId>,
    /// Bytes that reads for dispatch under way may bring.
    reserved: u64,
    /// Of each topic, also those that came and were not handed out yet.
    of_topic: BTreeMap<TopicId, u64>,
    /// Those that came.
    arrived: Vec<Reserved>,
}

/// Bytes that a read for a topic may bring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reserved {
    topic: TopicId,
    bytes: u64,
}

/// Bytes that the waiting consumers of topics have room for, while nothing is handed out.
pub(super) type Rooms = BTreeMap<TopicId, u64>;

impl Asking {
    pub(super) fn push(&mut self, asker: Asker) {
        self.queue.push_back(asker);
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    fn reserve(&mut self, reserved: Reserved) {
        self.reserved += reserved.bytes;
        *self.of_topic.entry(reserved.topic).or_default() += reserved.bytes;
    }

    /// The answer is here.
    pub(super) fn arrive(&mut self, reserved: Vec<Reserved>) {
        self.reserved -= reserved.iter().map(|reserved| reserved.bytes).sum::<u64>();
        self.arrived.extend(reserved);
    }

    /// What came has been handed out: the room of the consumers is what they have left.
    pub(super) fn handed_out(&mut self) {
        for Reserved { topic, bytes } in self.arrived.drain(..) {
            let left = self.of_topic.get_mut(&topic).expect("it was reserved");
            *left -= bytes;
            if *left == 0 {
                self.of_topic.remove(&topic);
            }
        }
    }

    /// Whether a read for dispatch may start. One always may, however large it is.
    fn has_room(&self, bytes: u64, limit: usize) -> bool {
        self.reserved == 0 || self.reserved + bytes <= limit as u64
    }

    /// The topic after `after` that has delayed reads, in a circle.
    fn topic_after(&self, after: Option<TopicId>) -> Option<TopicId> {
        let first = self.delayed.keys().next();
        let next = after.and_then(|after| self.delayed.range((Excluded(after), Unbounded)).next());
        next.map(|(topic, _)| topic).or(first).copied()
    }

    fn drop_first(&mut self, topic: TopicId) {
        let Some(delayed) = self.delayed.get_mut(&topic) else { return };
        delayed.pop_front();
        if delayed.is_empty() {
            self.delayed.remove(&topic);
        }
    }
}

/// What became of the reads that waited.
enum Delayed {
    /// This one may start.
    Starts(Want, Reserved),
    /// Their topics have enough under way. Others may start.
    OfTheirTopics,
    /// One waits for a read or for the budget, and nothing overtakes it.
    Budget,
}

impl Pipeline {
    /// The next that may be read for, with the bytes that it reserved: a command, or anyone if the read `is_for_all`.
    /// Delayed reads come first, so that no stream of commands keeps them waiting.
    pub(super) fn next_asker(
        &mut self,
        is_for_all: bool,
        rooms: &mut Rooms,
    ) -> Option<(Asker, Option<Reserved>)> {
        let mut delayed = if is_for_all { self.next_delayed(rooms) } else { Delayed::Budget };
        if let Delayed::Starts(want, reserved) = delayed {
            return Some((Asker::Dispatch(want), Some(reserved)));
        }
        while let Some(asker) = self.asking.queue.pop_front() {
            let Asker::Dispatch(want) = asker else { return Some((asker, None)) };
            let topic = want.topic();
            if !self.shard.has_reader(&want) {
                // The next consumer asks again.
                self.shard.loaded(&want);
                continue;
            }
            let bytes = self.shard.bytes_expected(&want);
            let may_start = matches!(delayed, Delayed::OfTheirTopics)
                && !self.asking.delayed.contains_key(&topic)
                && !self.is_topic_full(&want, rooms);
            if may_start && self.asking.has_room(bytes, self.shard.config.read_in_flight_bytes()) {
                let reserved = Reserved { topic, bytes };
                self.asking.reserve(reserved);
                return Some((asker, Some(reserved)));
            }
            if may_start {
                delayed = Delayed::Budget;
            }
            self.asking.delayed.entry(topic).or_default().push_back(want);
        }
        None
    }

    fn next_delayed(&mut self, rooms: &mut Rooms) -> Delayed {
        let limit = self.shard.config.read_in_flight_bytes();
        let mut after = self.asking.rotor;
        for _ in 0..self.asking.delayed.len() {
            let Some(topic) = self.asking.topic_after(after) else { break };
            after = Some(topic);
            while let Some(&want) = self.asking.delayed.get(&topic).and_then(VecDeque::front) {
                // Its consumer may have got enough meanwhile from lanes that were read sooner. The next one asks again.
                if !self.shard.has_ready_reader(&want) {
                    self.asking.drop_first(topic);
                    self.shard.loaded(&want);
                    continue;
                }
                if self.is_topic_full(&want, rooms) {
                    break;
                }
                let reserved = Reserved { topic, bytes: self.shard.bytes_expected(&want) };
                if !self.asking.has_room(reserved.bytes, limit) {
                    return Delayed::Budget;
                }
                self.asking.drop_first(topic);
                self.asking.rotor = after;
                self.asking.reserve(reserved);
                return Delayed::Starts(want, reserved);
            }
        }
        Delayed::OfTheirTopics
    }

    /// Whether what is under way fills the waiting consumers of a topic. Retries have a bound of their own.
    fn is_topic_full(&self, want: &Want, rooms: &mut Rooms) -> bool {
        let Want::Ahead { topic, .. } = *want else { return false };
        let Some(reserved) = self.asking.of_topic.get(&topic) else { return false };
        let most = self.shard.config.read_in_flight_bytes() as u64;
        let room = *rooms.entry(topic).or_insert_with(|| self.shard.room_of_readers(topic, most));
        *reserved >= room
    }
}
