//! The only code that changes durable state, both while serving and during recovery.

use crate::activity::{Activity, DeliveryEvent, RedeliveryCause};
use crate::change::{
    Change, Chore, End, Entry, EntryState, Garbage, GroupRow, LaneState, LastError, TopicKind,
    TopicRow,
};
use crate::command::{PeerKind, TopicName};
use crate::id::{ConsumerId, Generation, GroupId, Lane, Offset, ShardId, Text, TopicId};
use crate::limits::{RECOVERY_GRACE_MS, RETRY_READ_AHEAD_MS};
use crate::message::Kept;
use crate::row::MarkKind;
use crate::shard::Shard;
use crate::shard::state::cache::Staged;
use crate::shard::state::open::Open;
use crate::shard::state::seen::LeaseEnd;
use crate::shard::state::{Cursor, Group, Topic, Wakeup};
use crate::time::Timestamp;

impl Shard {
    /// Applies a durable change.
    pub(crate) fn absorb(&mut self, change: &Change) {
        match change {
            Change::Ids(next) => self.ids = *next,
            Change::Topic(row) => self.absorb_topic(row),
            Change::TopicGone(topic) => self.absorb_topic_gone(*topic),
            Change::Group(row) => self.absorb_group(row),
            Change::GroupGone(group) => self.absorb_group_gone(*group),
            Change::Lane { topic, lane, state } => self.absorb_lane(*topic, *lane, state),
            Change::Message { topic, lane, offset, message } => {
                let Some(of) = self.topics.get_mut(topic) else {
                    return;
                };
                let state = &mut of.lanes[lane.index()];
                assert_eq!(state.high, *offset, "offsets of a lane are dense");
                let kept = Kept { bytes_before: state.high_bytes, message: message.clone() };
                state.high += 1;
                state.high_bytes += message.size();
                self.volatile.cache.append(*topic, *lane, *offset, kept);
                self.wake_readers(*topic, *lane, Some((*offset, message.produced_at)));
                if message.death.is_none() {
                    let bytes = message.content_bytes();
                    self.happened(Activity::Produced { topic: *topic, bytes });
                }
            }
            Change::Cursor { group, lane, next, bytes } => {
                let Some(of) = self.groups.get_mut(group) else {
                    return;
                };
                let cursor = &mut of.cursors[lane.index()];
                cursor.next = *next;
                cursor.bytes = *bytes;
                let topic = of.row.topic;
                self.plan_chore(topic, *lane);
                if self.needs_mark(topic, *lane) {
                    self.set_chore(Chore::Retain { topic, lane: *lane }, Some(self.now));
                }
            }
            Change::Open { group, lane, offset, entry, holder } => {
                self.absorb_open(*group, *lane, *offset, entry, *holder);
            }
            Change::Close { group, lane, offset, end } => {
                self.absorb_close(*group, *lane, *offset, *end);
            }
            Change::LastError { group, generation, lane, offset, text } => {
                self.absorb_note(*group, *generation, *lane, *offset, text);
            }
            Change::Owner { owner, name } => self.owners.add(*owner, name.clone()),
            Change::OwnerGone(owner) => self.owners.remove(*owner),
            Change::Mark { kind, id, value } => {
                let mark = self.marks.entry((*kind, *id)).or_default();
                *mark = (*mark).max(*value);
                if *kind == MarkKind::OutboxNext {
                    self.plan_send(ShardId(*id as u32), self.now);
                }
            }
            Change::Garbage { id, garbage } => {
                let is_new = self.garbage.insert(*id, Garbage::clone(garbage)).is_none();
                if is_new && matches!(**garbage, Garbage::Cursor { .. }) {
                    self.set_chore(Chore::Sweep(*id), Some(self.now));
                }
            }
            Change::GarbageGone(id) => {
                self.garbage.remove(id);
            }
            Change::NoteGone { generation, lane, offset } => {
                self.volatile.cache.unstage(*generation, *lane, *offset);
            }
            Change::MessageGone { topic, lane, offset } => {
                self.volatile.cache.forget(*topic, *lane, *offset);
            }
            Change::Lost { topic, .. } => self.volatile.cache.forget_topic(*topic),
            Change::BlockGone { group, lane, block, .. } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.cursors[lane.index()].damaged.remove(block);
                }
            }
            Change::Dead(row) => {
                if let Some(source) = self.topics.get(&row.topic).and_then(Topic::dead_letters_of) {
                    self.plan_drop(source, row.at);
                    let topic = self.topics.get(&source);
                    let group = topic.and_then(|topic| topic.groups.get(&row.group)).copied();
                    let reason = row.redriven.is_none().then_some(row.reason);
                    self.happened(Activity::DeadLetter { topic: source, group, reason });
                }
            }
            Change::Audit(link) => {
                self.chains.insert(link.chain.clone(), link.tip);
            }
            Change::Record(record) => self.plan_expiry(record.bucket),
            Change::Effect(effect) if effect.expires < Timestamp::MAX => {
                self.plan_expiry(effect.expires.0);
            }
            // These rows are not kept in memory. They are read when they are needed.
            Change::Effect(_)
            | Change::EffectLink { .. }
            | Change::HeldGone { .. }
            | Change::Outbox { .. }
            | Change::OutboxGone { .. }
            | Change::Pointer(_)
            | Change::History { .. }
            | Change::DeadGone { .. }
            | Change::Trim { .. }
            | Change::Expire { .. }
            | Change::Sweep(_) => {}
        }
    }

    fn absorb_topic(&mut self, row: &TopicRow) {
        let new = Topic::new(row.clone(), &self.config.defaults);
        self.has_history |= new.settings.history;
        if let Some(topic) = self.topics.get_mut(&row.id) {
            topic.row = new.row;
            topic.settings = new.settings;
            self.recheck_topic(row.id);
            return;
        }
        let name = TopicName { namespace: row.namespace.clone(), topic: row.name.clone() };
        self.names.insert(name, row.id);
        let dlq = self.dlq_of.get(&row.id).copied();
        self.topics.insert(row.id, Topic { dlq, ..new });
        if let TopicKind::Dlq(source) = row.kind {
            self.dlq_of.insert(source, row.id);
            if let Some(source) = self.topics.get_mut(&source) {
                source.dlq = Some(row.id);
            }
        }
    }

    fn absorb_topic_gone(&mut self, topic: TopicId) {
        if let Some(gone) = self.topics.remove(&topic) {
            self.happened(Activity::TopicDeleted(gone.row.name.clone()));
            self.names.remove(&TopicName { namespace: gone.row.namespace, topic: gone.row.name });
            if let TopicKind::Dlq(source) = gone.row.kind {
                self.dlq_of.remove(&source);
            }
        }
        self.volatile.cache.forget_topic(topic);
    }

    fn absorb_group(&mut self, row: &GroupRow) {
        let Some(known) = self.groups.get(&row.id) else {
            let cursors = row.cursors.iter().map(|start| Cursor::new(*start)).collect();
            let group = Group {
                row: row.clone(),
                cursors,
                open: 0,
                consumers: Default::default(),
                seen: row.seen,
                polled_at: None,
                ready: Default::default(),
                work: (0..row.cursors.len() as u32).map(Lane::of).collect(),
                unread: Default::default(),
                stalled: Default::default(),
                lane_rotor: Lane(u32::MAX),
                recent: Default::default(),
            };
            self.cursors_total += group.cursors.len() as u64;
            self.groups.insert(row.id, group);
            if let Some(topic) = self.topics.get_mut(&row.topic) {
                topic.groups.insert(row.name.clone(), row.id);
            }
            self.plan_idle(row.id);
            return;
        };
        let generations: Vec<_> =
            known.cursors.iter().map(|cursor| cursor.start.generation).collect();
        for (index, start) in row.cursors.iter().enumerate() {
            if generations[index] != start.generation {
                let lane = Lane::of(index as u32);
                self.drop_cursor(row.id, lane);
                let group = self.groups.get_mut(&row.id).expect("found above");
                group.cursors[index] = Cursor::new(*start);
                group.work.insert(lane);
                self.plan_chore(row.topic, lane);
            }
        }
        let group = self.groups.get_mut(&row.id).expect("found above");
        group.row = row.clone();
        group.seen = group.seen.max(row.seen);
        self.activate(row.id);
        self.reactivate_full_lanes();
    }

    fn absorb_group_gone(&mut self, id: GroupId) {
        for index in 0..self.groups.get(&id).map_or(0, |group| group.cursors.len()) {
            self.drop_cursor(id, Lane::of(index as u32));
        }
        let Some(group) = self.groups.remove(&id) else {
            return;
        };
        self.cursors_total -= group.cursors.len() as u64;
        if let Some(topic) = self.topics.get_mut(&group.row.topic) {
            topic.groups.remove(&group.row.name);
            let topic = topic.row.name.clone();
            self.happened(Activity::GroupDeleted { topic, group: group.row.name.clone() });
        }
        for consumer in group.consumers {
            self.forget_consumer(consumer);
        }
        self.volatile.active.remove(&id);
        for index in 0..group.cursors.len() {
            self.plan_chore(group.row.topic, Lane::of(index as u32));
        }
        self.reactivate_full_lanes();
    }

    /// Removes a cursor's open entries from all state derived from them.
    fn drop_cursor(&mut self, id: GroupId, lane: Lane) {
        let group = self.groups.get_mut(&id).expect("callers check the group");
        let cursor = &mut group.cursors[lane.index()];
        let open = std::mem::take(&mut cursor.open);
        let generation = cursor.start.generation;
        group.open -= open.len() as u64;
        self.open_total -= open.len() as u64;
        for (offset, entry) in open.iter() {
            if entry.entry.is_leased() {
                let end = self.effective_end(&entry.entry);
                self.leases.remove(&(end, id, lane, offset));
                self.release_holder(entry, false);
            }
            self.owners.count(entry.entry.owner, -1, 0);
            self.volatile.cache.unstage(generation, lane, offset);
        }
    }

    fn absorb_lane(&mut self, topic: TopicId, lane: Lane, state: &LaneState) {
        if let Some(of) = self.topics.get_mut(&topic) {
            let known = &mut of.lanes[lane.index()];
            known.first = state.first;
            known.first_bytes = state.first_bytes;
            known.trimmed = state.trimmed;
            known.dead = state.dead;
            known.marks.clone_from(&state.marks);
        }
        if state.trimmed < state.first {
            self.plan_chore(topic, lane);
        }
    }

    fn absorb_open(
        &mut self,
        id: GroupId,
        lane: Lane,
        offset: Offset,
        entry: &Entry,
        holder: Option<ConsumerId>,
    ) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let cursor = &mut group.cursors[lane.index()];
        // A lease that recovery has read was granted at an unknown time.
        let granted_at = holder.map(|_| self.now);
        let before = cursor.open.insert(offset, Open { entry: *entry, holder, granted_at });
        let kept = before.filter(|before| before.is_kept(entry));
        if let Some(Open { granted_at, .. }) = kept {
            cursor.open.insert(offset, Open { entry: *entry, holder, granted_at });
        }
        let generation = cursor.start.generation;
        match before {
            None => {
                cursor.open_bytes += u64::from(entry.size);
                group.open += 1;
                self.open_total += 1;
                self.owners.count(entry.owner, 1, 0);
            }
            Some(before) => {
                self.unlist(id, lane, offset, &before, Ok(entry));
                if before.entry.error != entry.error && entry.error != LastError::Note {
                    self.volatile.cache.unstage(generation, lane, offset);
                }
                if before.entry.owner != entry.owner {
                    self.owners.count(before.entry.owner, -1, 0);
                    self.owners.count(entry.owner, 1, 0);
                }
            }
        }
        if kept.is_some() {
            self.saw(id, entry.owner);
        } else if let Some(event) = delivery_event(before.as_ref(), entry) {
            self.happened(Activity::Delivery { group: id, event });
        }
        let end = self.effective_end(entry);
        let cursor = &mut self.groups.get_mut(&id).expect("found above").cursors[lane.index()];
        match entry.state {
            EntryState::Leased => {
                cursor.leased += 1;
                self.leases.insert((end, id, lane, offset));
                if let Some(consumer) =
                    holder.and_then(|holder| self.volatile.consumers.get_mut(&holder))
                {
                    consumer.held += 1;
                    consumer.held_bytes += u64::from(entry.size);
                    if consumer.peer.kind == PeerKind::Poll {
                        self.volatile.polls_given.extend(holder);
                    }
                }
                if before.is_some() {
                    self.volatile.cache.unstage(generation, lane, offset);
                }
            }
            EntryState::Expired | EntryState::Nacked => {
                cursor.retries.insert((entry.at, offset));
            }
            EntryState::Returned => {
                cursor.returned.insert((entry.at, offset));
            }
        }
        if !entry.is_leased() {
            let soon = Timestamp(entry.at.0.saturating_sub(RETRY_READ_AHEAD_MS));
            self.volatile.wakeups.insert((soon, Wakeup::Soon(id, lane, offset)));
            self.volatile.wakeups.insert((entry.at, Wakeup::Due(id, lane)));
            self.offer(id, lane);
        }
    }

    /// Stages the error with its message if the message is in memory. Then the retry needs no read.
    fn absorb_note(
        &mut self,
        group: GroupId,
        generation: Generation,
        lane: Lane,
        offset: Offset,
        text: &Text,
    ) {
        let topic = self.groups.get(&group).map(|group| group.row.topic);
        let kept = topic.and_then(|topic| self.volatile.cache.get(topic, lane, offset));
        match kept.map(|kept| kept.message.clone()) {
            Some(message) => {
                let staged = Staged { message, last_error: text.clone() };
                self.volatile.cache.stage(generation, lane, offset, staged);
            }
            None => self.volatile.cache.unstage(generation, lane, offset),
        }
    }

    fn absorb_close(&mut self, id: GroupId, lane: Lane, offset: Offset, end: End) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let cursor = &mut group.cursors[lane.index()];
        let Some(before) = cursor.open.remove(offset) else {
            return;
        };
        cursor.open_bytes -= u64::from(before.entry.size);
        group.open -= 1;
        self.open_total -= 1;
        let generation = cursor.start.generation;
        self.unlist(id, lane, offset, &before, Err(end));
        if end == End::Acked {
            self.happened(Activity::Delivery { group: id, event: DeliveryEvent::Acked });
        }
        self.owners.count(before.entry.owner, -1, 0);
        if !before.entry.is_leased() {
            self.volatile.cache.unstage(generation, lane, offset);
        }
        self.offer(id, lane);
        self.reactivate_full_lanes();
    }

    /// Removes an entry from the sets for its state, because of its next state or its end.
    fn unlist(
        &mut self,
        id: GroupId,
        lane: Lane,
        offset: Offset,
        before: &Open,
        after: Result<&Entry, End>,
    ) {
        let end = self.effective_end(&before.entry);
        let cursor =
            &mut self.groups.get_mut(&id).expect("callers check the group").cursors[lane.index()];
        match before.entry.state {
            EntryState::Leased => {
                cursor.leased -= 1;
                self.leases.remove(&(end, id, lane, offset));
                // An extension keeps the lease with its holder.
                if after.is_ok_and(|after| before.is_kept(after)) {
                    self.uncount_holder(before, false);
                } else {
                    self.release_holder(before, self.now < end);
                    let ended = lease_end(after, self.now < end);
                    self.saw_lease_end(id, before.entry.owner, before.granted_at, ended);
                }
            }
            EntryState::Expired | EntryState::Nacked => {
                cursor.retries.remove(&(before.entry.at, offset));
            }
            EntryState::Returned => {
                cursor.returned.remove(&(before.entry.at, offset));
            }
        }
    }

    /// Returns when a lease expires. It never expires before the grace period after recovery.
    pub(crate) fn effective_end(&self, entry: &Entry) -> Timestamp {
        let grace = RECOVERY_GRACE_MS.min(u64::from(entry.lease_ms));
        entry.at.max(self.volatile.recovered_at.after(grace))
    }

    fn uncount_holder(&mut self, open: &Open, is_settled: bool) -> Option<ConsumerId> {
        let holder = open.holder?;
        let consumer = self.volatile.consumers.get_mut(&holder)?;
        consumer.held -= 1;
        consumer.held_bytes -= u64::from(open.entry.size);
        if is_settled {
            consumer.last_settle_at = Some(self.now);
        }
        Some(holder)
    }

    /// Returns credit to the entry's holder and queues it.
    fn release_holder(&mut self, open: &Open, is_settled: bool) {
        if let Some(holder) = self.uncount_holder(open, is_settled) {
            self.enqueue(holder);
        }
    }

    /// Restores a stored lane during recovery, including its end.
    pub(crate) fn restore_lane(&mut self, topic: TopicId, lane: Lane, state: LaneState) {
        if let Some(topic) = self.topics.get_mut(&topic) {
            topic.lanes[lane.index()] = state;
        }
    }

    /// Adds groups to topics that recovery loaded after them.
    pub(crate) fn adopt_groups(&mut self) {
        for (id, group) in &self.groups {
            if let Some(topic) = self.topics.get_mut(&group.row.topic) {
                topic.groups.insert(group.row.name.clone(), *id);
            }
        }
    }
}

/// What happened to a delivery when its entry changed. An extension is not passed.
fn delivery_event(before: Option<&Open>, entry: &Entry) -> Option<DeliveryEvent> {
    let event = match entry.state {
        EntryState::Leased if entry.attempt == 1 => DeliveryEvent::Delivered,
        EntryState::Leased => DeliveryEvent::Redelivered(redelivery_cause(entry)),
        // The worker reported an error after its lease expired. The expiry was counted then.
        EntryState::Expired if before.is_none_or(|before| !before.entry.is_leased()) => {
            return None;
        }
        EntryState::Expired => DeliveryEvent::Expired,
        EntryState::Nacked => DeliveryEvent::Nacked,
        EntryState::Returned => DeliveryEvent::Returned,
    };
    Some(event)
}

fn redelivery_cause(entry: &Entry) -> RedeliveryCause {
    match entry.error {
        _ if entry.returns > 0 => RedeliveryCause::Returned,
        LastError::Timeout => RedeliveryCause::Expired,
        LastError::Nack | LastError::Note => RedeliveryCause::Nacked,
        LastError::None => RedeliveryCause::Returned,
    }
}

fn lease_end(after: Result<&Entry, End>, is_in_time: bool) -> LeaseEnd {
    match after.map(|entry| entry.state) {
        Err(End::Acked) => LeaseEnd::Acked,
        Ok(EntryState::Nacked) | Err(End::Dead { asked: true }) => LeaseEnd::Failed,
        Err(End::Dead { asked: false }) if is_in_time => LeaseEnd::Failed,
        Ok(EntryState::Expired | EntryState::Leased) | Err(End::Dead { .. }) => LeaseEnd::Expired,
        Ok(EntryState::Returned) | Err(End::Purged) => LeaseEnd::Other,
    }
}
