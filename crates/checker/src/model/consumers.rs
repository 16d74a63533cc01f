//! Follows which consumers are connected, and checks of `Leave` that a worker that has left gets
//! nothing.

use crate::ids::{EntryId, ReaderId};
use crate::invariant::Invariant::Leave;
use crate::timeline::Joined;

use super::state::{Connected, Model};

/// How long a consumer counts as present after its poll has ended.
const BETWEEN_POLLS_MS: u64 = 10_000;

impl<'a> Model<'_, 'a> {
    /// Starts a batch of a shard. Under a new epoch, no consumer has joined yet.
    pub(super) fn served_by(&mut self, shard: u32, is_new_epoch: bool) {
        self.operator.shard = shard;
        let last_at = self.operator.last_batch_at.insert(shard, self.now);
        if !is_new_epoch {
            return;
        }
        // While no node serves the shard, no consumer is connected.
        let last_at = last_at.unwrap_or(self.now);
        self.operator.epoch_began_at.insert(shard, self.now);
        let used_at = &mut self.operator.used_at;
        self.connections.connected.retain(|_, of| {
            if of.shard == shard {
                let reader = of.joined.reader;
                used_at[reader] = used_at[reader].max(last_at);
            }
            of.shard != shard
        });
        // The new node does not know who polled or left before.
        self.connections.polled_at.retain(|_, (_, of)| *of != shard);
        self.connections.workers_left.retain(|(of, _), _| *of != shard);
    }

    pub(super) fn joined(&mut self, joined: Joined<'a>) {
        self.connections.workers.extend(joined.worker.map(|worker| (joined.consumer, worker)));
        let shard = self.operator.shard;
        if self.connections.left.contains(&joined.consumer) {
            // Its connection ended before the batch was durable.
            self.operator.used_at[joined.reader] = self.now;
            self.connections.left_at.insert(joined.reader, self.at);
        } else if !self.has_left(joined.worker) {
            let used_before =
                std::mem::replace(&mut self.operator.used_at[joined.reader], self.now);
            let deleted_seq = self.connections.deleted_seq.get(&joined.reader).copied();
            let connected = Connected {
                joined,
                joined_seq: self.seq,
                used_before,
                may_be_of_deleted_group: deleted_seq == Some(self.seq),
                shard,
                is_answered: false,
            };
            self.connections.connected.insert(joined.consumer, connected);
        }
    }

    pub(super) fn left(&mut self, consumer: u64, at: u64) {
        self.disconnected(consumer, at, true);
    }

    /// A worker left: its consumers on this shard are disconnected.
    pub(super) fn worker_left(&mut self, worker: &'a str, until: u64) {
        let shard = self.operator.shard;
        self.connections.workers_left.insert((shard, worker), until);
        let of_worker = |of: &Connected<'_>| of.shard == shard && of.joined.worker == Some(worker);
        let connected = self.connections.connected.values().filter(|of| of_worker(of));
        // Of a consumer that joined in the same batch it is not recorded whether it joined first, or
        // was dismissed at once and is no use of the group.
        let gone = connected.map(|of| of.joined.consumer);
        for consumer in gone.collect::<Vec<u64>>() {
            let of = &self.connections.connected[&consumer];
            let (reader, used_before) = (of.joined.reader, of.used_before);
            let is_certain = of.joined_seq != self.seq;
            self.disconnected(consumer, self.at, is_certain);
            if !is_certain {
                self.operator.used_at[reader] = used_before;
            }
        }
    }

    fn disconnected(&mut self, consumer: u64, at: u64, has_polled: bool) {
        self.connections.left.insert(consumer);
        let Some(of) = self.connections.connected.remove(&consumer) else { return };
        let reader = of.joined.reader;
        // Uses the clock of its own shard: the clocks of two nodes may be far apart.
        let now = self.operator.last_batch_at.get(&of.shard).copied().unwrap_or(0);
        self.operator.used_at[reader] = now;
        self.connections.left_at.insert(reader, at);
        if of.joined.poll && has_polled {
            self.connections.polled_at.insert(reader, (now, of.shard));
        }
    }

    /// A group was deleted. Its connections go on, but they belong to no group that is created
    /// again under its name.
    pub(super) fn forget_consumers(&mut self, reader: ReaderId) {
        self.connections.connected.retain(|_, of| of.joined.reader != reader);
        self.connections.polled_at.remove(&reader);
        self.connections.deleted_seq.insert(reader, self.seq);
    }

    /// Whether a worker has left this shard, and gets nothing.
    fn has_left(&self, worker: Option<&'a str>) -> bool {
        let shard = self.operator.shard;
        let until = worker.and_then(|of| self.connections.workers_left.get(&(shard, of)));
        until.is_some_and(|until| self.now < *until)
    }

    /// Records that a consumer was granted a message.
    pub(super) fn was_granted(&mut self, entry: EntryId, consumer: u64) {
        if let Some(of) = self.connections.connected.get_mut(&consumer) {
            of.is_answered |= of.joined.poll;
        }
        let worker = self.connections.workers.get(&consumer).copied();
        if self.has_left(worker) {
            let detail = format_args!("was granted to consumer {consumer} after its worker left");
            self.breaks(Leave, entry, detail);
        }
    }

    /// The number of open leases of a consumer.
    pub(super) fn leases_of(&self, consumer: u64) -> u64 {
        self.consumers.get(&consumer).copied().unwrap_or(0)
    }

    /// Whether a consumer of a group is connected.
    pub(super) fn is_connected(&self, reader: ReaderId) -> bool {
        self.connected(reader).next().is_some()
    }

    /// The connected consumers of a group.
    pub(super) fn connected(&self, reader: ReaderId) -> impl Iterator<Item = &Connected<'a>> {
        self.connections.connected.values().filter(move |of| of.joined.reader == reader)
    }

    /// Whether a consumer of a group is connected, holds a lease or has just polled.
    pub(super) fn has_consumers(&self, reader: ReaderId) -> bool {
        let polled_at = self.connections.polled_at.get(&reader);
        let has_polled = polled_at.is_some_and(|(at, _)| self.now < *at + BETWEEN_POLLS_MS);
        let cursors = &self.progress.cursors_of[reader];
        has_polled
            || cursors.iter().any(|cursor| self.cursors[*cursor].leased > 0)
            || self.is_connected(reader)
    }
}
