//! The volatile part of a shard: consumers, their turns, wakeups and planned chores.
//!
//! No guarantee depends on it. It is empty after recovery.

use std::collections::BTreeSet;

use crate::change::{Chore, Prefetch, VolatileChange};
use crate::command::PeerKind;
use crate::id::{ConsumerId, GroupId, Lane, Offset, TopicId};
use crate::limits::WORKERS_LEFT_MAX;
use crate::shard::Shard;
use crate::shard::state::{Consumer, Wakeup};
use crate::time::Timestamp;

impl Shard {
    /// Applies a volatile change.
    pub(crate) fn absorb_volatile(&mut self, note: &VolatileChange) {
        match note {
            VolatileChange::Joined {
                consumer,
                group,
                owner,
                lease_ms,
                credit,
                credit_bytes,
                peer,
            } => {
                // A repeated join keeps the deliveries that the consumer holds.
                let before = self.forget_consumer(*consumer);
                let before = before.filter(|before| before.group == *group);
                let (held, held_bytes) =
                    before.map_or((0, 0), |before| (before.held, before.held_bytes));
                let joined = Consumer {
                    group: *group,
                    owner: *owner,
                    lease_ms: *lease_ms,
                    credit: *credit,
                    credit_bytes: *credit_bytes,
                    held,
                    held_bytes,
                    is_answered: false,
                    queued: false,
                    peer: peer.clone(),
                    since: self.now,
                    last_settle_at: None,
                };
                self.owners.count(*owner, 0, 1);
                self.volatile.consumers.insert(*consumer, joined);
                if let Some(group) = self.groups.get_mut(group) {
                    group.consumers.insert(*consumer);
                    group.seen = self.now;
                }
                self.saw(*group, *owner).worker.clone_from(&peer.worker);
                self.enqueue(*consumer);
                self.plan_idle(*group);
            }
            VolatileChange::Left(consumer) => drop(self.forget_consumer(*consumer)),
            VolatileChange::WorkerLeft { worker, until } => {
                let (now, left) = (self.now, &mut self.volatile.left);
                if left.len() >= WORKERS_LEFT_MAX {
                    left.retain(|_, until| now < *until);
                }
                // Above the limit a worker is forgotten: its own SDK sends no further request.
                if left.len() < WORKERS_LEFT_MAX {
                    left.insert(worker.clone(), *until);
                }
            }
            VolatileChange::Turned { group, turns } => self.turn(*group, *turns),
            VolatileChange::Visited { group, lane, more, stalled, fresh } => {
                let Some(of) = self.groups.get_mut(group) else { return };
                of.lane_rotor = *lane;
                of.cursors[lane.index()].fresh_run = *fresh;
                if !more {
                    of.work.remove(lane);
                }
                of.unread.remove(lane);
                if *stalled {
                    of.stalled.insert(*lane);
                }
                if !of.has_work() {
                    self.volatile.active.remove(group);
                }
            }
            VolatileChange::Idle(group) => {
                self.volatile.active.remove(group);
            }
            VolatileChange::Rotor(group) => self.volatile.rotor = *group,
            VolatileChange::Repaired { topic, lane } => self.end_quarantine(*topic, *lane),
            VolatileChange::Reopened { group, lane, block, to } => {
                self.reopened_to(*group, *lane, *block, *to);
            }
            VolatileChange::Used { topic, lane, offset } => {
                self.volatile.cache.touch(*topic, *lane, *offset)
            }
            VolatileChange::Loading(want) => {
                self.volatile.loading.insert(*want);
            }
            VolatileChange::Unread { group, lane } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.unread.insert(*lane);
                }
            }
            VolatileChange::Starved { group, lane } => {
                self.volatile.starved.insert((*group, *lane));
            }
            VolatileChange::GroupFull { group, lane } => {
                self.volatile.full.entry(*group).or_default().insert(*lane);
            }
            VolatileChange::Unkeyed { topic, last } => {
                if let Some(topic) = self.topics.get_mut(topic) {
                    topic.unkeyed = Some(*last);
                }
            }
            VolatileChange::StorageLow(is_low) => self.volatile.storage_low = *is_low,
            VolatileChange::StoredAt { group, lane, offset, at } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.cursors[lane.index()].produced_at = Some((*offset, *at));
                }
            }
            VolatileChange::Wake { at, group } => {
                self.volatile.wakeups.insert((*at, Wakeup::Pause(*group)));
            }
            VolatileChange::Chore(chore, at) => self.set_chore(*chore, *at),
        }
    }

    /// Rotates the group's queue to where the run ended.
    fn turn(&mut self, id: GroupId, turns: usize) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        let length = group.ready.len();
        if length == 0 || turns == 0 {
            return;
        }
        group.ready.rotate_left(turns % length);
        self.thin_queue(id);
    }

    /// Marks the polls that this batch delivered to as answered, once its dispatch is complete.
    pub(crate) fn answer_polls(&mut self) {
        let mut groups = BTreeSet::new();
        for poll in std::mem::take(&mut self.volatile.polls_given) {
            if let Some(poll) = self.volatile.consumers.get_mut(&poll) {
                poll.is_answered |= poll.held > 0;
                groups.insert(poll.group);
            }
        }
        groups.into_iter().for_each(|group| self.thin_queue(group));
    }

    /// Queues a consumer again whose delivery was withheld. A poll has no answer yet.
    pub(crate) fn requeue(&mut self, id: ConsumerId) {
        if let Some(consumer) = self.volatile.consumers.get_mut(&id) {
            consumer.is_answered = false;
            self.enqueue(id);
        }
    }

    /// Removes consumers without credit from the queue.
    fn thin_queue(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        let consumers = &mut self.volatile.consumers;
        group.ready.retain(|id| {
            let consumer = consumers.get_mut(id).expect("queued consumers are known");
            consumer.queued = consumer.has_credit();
            consumer.queued
        });
        if group.ready.is_empty() {
            self.volatile.active.remove(&id);
        }
    }

    pub(crate) fn enqueue(&mut self, id: ConsumerId) {
        let Some(consumer) = self.volatile.consumers.get_mut(&id) else { return };
        let group = consumer.group;
        let Some(of) = self.groups.get_mut(&group) else { return };
        if !consumer.queued && consumer.has_credit() {
            consumer.queued = true;
            of.ready.push_back(id);
        }
        of.work.append(&mut of.stalled);
        self.activate(group);
    }

    /// Activates a lane of a group if it may have something to deliver.
    pub(crate) fn offer(&mut self, id: GroupId, lane: Lane) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let cursor = &group.cursors[lane.index()];
        let high = self.topics.get(&group.row.topic).map_or(0, |topic| topic.lane(lane).high);
        if cursor.next < high || cursor.waiting() > 0 {
            group.work.insert(lane);
            self.activate(id);
        }
    }

    /// Reactivates the lanes that waited until fewer messages are open. All of them, because a
    /// single one might have no consumer, and the others would wait forever.
    pub(crate) fn reactivate_full_lanes(&mut self) {
        if self.volatile.full.is_empty() {
            return;
        }
        for (id, lanes) in std::mem::take(&mut self.volatile.full) {
            let Some(group) = self.groups.get(&id) else { continue };
            if self.group_has_room(group, 0) {
                lanes.into_iter().for_each(|lane| self.offer(id, lane));
            } else {
                self.volatile.full.insert(id, lanes);
            }
        }
    }

    /// Reactivates the groups of a topic, because of a message that was stored, with the time at which
    /// it was produced, or because messages were read.
    pub(crate) fn wake_readers(
        &mut self,
        topic: TopicId,
        lane: Lane,
        stored: Option<(Offset, Timestamp)>,
    ) {
        let Some(of) = self.topics.get(&topic) else {
            return;
        };
        for id in of.groups.values() {
            let Some(group) = self.groups.get_mut(id) else {
                continue;
            };
            group.work.insert(lane);
            if !group.ready.is_empty() {
                self.volatile.active.insert(*id);
            }
            let cursor = &mut group.cursors[lane.index()];
            if let Some((offset, _)) = stored
                && cursor.next == offset
            {
                cursor.produced_at = stored;
            }
        }
    }

    pub(crate) fn activate(&mut self, id: GroupId) {
        if self.groups.get(&id).is_some_and(|group| group.has_work()) {
            self.volatile.active.insert(id);
        }
    }

    pub(crate) fn forget_consumer(&mut self, id: ConsumerId) -> Option<Consumer> {
        let consumer = self.volatile.consumers.remove(&id)?;
        self.owners.count(consumer.owner, 0, -1);
        if let Some(group) = self.groups.get_mut(&consumer.group) {
            group.consumers.remove(&id);
            group.seen = self.now;
            group.ready.retain(|&other| other != id);
            if consumer.peer.kind == PeerKind::Poll {
                group.polled_at = Some(self.now);
            }
            self.saw(consumer.group, consumer.owner);
        }
        Some(consumer)
    }

    /// Ends a read for dispatch and reactivates the lanes that waited for it.
    pub(crate) fn loaded(&mut self, want: &Prefetch) {
        self.volatile.loading.remove(want);
        match want {
            Prefetch::Ahead { topic, lane, .. } => self.wake_readers(*topic, *lane, None),
            Prefetch::Retry { group, lane, .. } => {
                self.offer(*group, *lane);
                for (group, lane) in std::mem::take(&mut self.volatile.starved) {
                    self.offer(group, lane);
                }
            }
        }
    }

    pub(crate) fn set_chore(&mut self, chore: Chore, at: Option<Timestamp>) {
        if let Some(before) = self.volatile.chores.remove(&chore) {
            self.volatile.chores_due.remove(&(before, chore));
        }
        if let Some(at) = at {
            self.volatile.chores.insert(chore, at);
            self.volatile.chores_due.insert((at, chore));
        }
    }

    /// Checks a topic again after a settings change: limits may be higher, and retention shorter.
    pub(crate) fn recheck_topic(&mut self, topic: TopicId) {
        let Some(of) = self.topics.get(&topic) else { return };
        let groups: Vec<GroupId> = of.groups.values().copied().collect();
        for lane in (0..of.row.partitions).map(Lane::of) {
            groups.iter().for_each(|group| self.offer(*group, lane));
            if self.has_settled(topic, lane) {
                self.set_chore(Chore::Retain { topic, lane }, Some(self.now));
            }
        }
        groups.iter().for_each(|group| self.plan_idle(*group));
        // The age of its dead letters is known only after they are read.
        self.plan_drop(topic, Timestamp(0));
    }

    /// Plans the retention check of a lane, unless one is planned.
    pub(crate) fn plan_chore(&mut self, topic: TopicId, lane: Lane) {
        let chore = Chore::Retain { topic, lane };
        if !self.volatile.chores.contains_key(&chore)
            && let Some(of) = self.topics.get(&topic)
            && !of.is_dlq()
        {
            let at = self.now.after(of.retention_interval_ms());
            self.set_chore(chore, Some(at));
        }
    }

    /// Plans an idle check of a group, if its topic deletes idle groups.
    pub(crate) fn plan_idle(&mut self, id: GroupId) {
        let topic = self.groups.get(&id).and_then(|group| self.topics.get(&group.row.topic));
        if topic.is_some_and(|topic| topic.settings.group_idle_ms.is_some()) {
            self.set_chore(Chore::Idle(id), Some(self.now));
        }
    }

    /// Plans the expiry of a topic's dead letters from `since` on.
    pub(crate) fn plan_drop(&mut self, source: TopicId, since: Timestamp) {
        let Some(topic) = self.topics.get(&source).filter(|topic| topic.dlq.is_some()) else {
            return;
        };
        let at = topic.settings.dlq_retention_ms.map(|ms| since.after(ms));
        let chore = Chore::ExpireDeadLetters { source };
        let planned = self.volatile.chores.get(&chore).copied();
        self.set_chore(chore, [planned, at].into_iter().flatten().min().filter(|_| at.is_some()));
    }
}
