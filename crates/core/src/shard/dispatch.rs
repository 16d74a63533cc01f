//! Dispatch: leases messages to consumers, one run over one lane of one group at a time.
//!
//! 1. Fresh messages are delivered in offset order. A cursor moves past a message only by
//!    delivering it, dead-lettering it, or skipping it because it is for another group. In a
//!    dead-letter topic it also moves past purged messages.
//! 2. Returned messages are delivered first. While retries and fresh messages both wait, four fresh
//!    ones are delivered after each retry.
//! 3. Dispatch reads no rows. It requests messages that are not in memory, and a later run delivers
//!    them.

use std::collections::BTreeSet;
use std::ops::Bound::{self, Excluded, Unbounded};
use std::sync::Arc;

use crate::change::{
    Action, Change, Chore, Decision, Delivery, Entry, EntryState, LastError, Prefetch,
    VolatileChange,
};
use crate::command::LeaseId;
use crate::id::{ConsumerId, GroupId, Lane, Offset, Text, no_text};
use crate::limits::{DISPATCH_RUN_MAX, FRESH_PER_RETRY};
use crate::message::{DeathReason, Kept, Message};
use crate::shard::rules::dead_letter::DeadLettering;
use crate::shard::state::Consumer;
use crate::shard::{Cursor, Group, Shard, Topic, done};
use crate::time::Timestamp;
use crate::token::LeaseToken;

impl Shard {
    /// Decides one run over the next lane of the next group that may have something to deliver.
    pub(crate) fn dispatch(&self, now: Timestamp) -> Option<Decision> {
        let group = self.next_group()?;
        let topic = &self.topics[&group.row.topic];
        let lane = self.next_lane(group).filter(|_| !group.is_paused(now) && group.has_work());
        let Some(lane) = lane else {
            let mut decision = done();
            let until = group.row.paused.as_ref().and_then(|paused| paused.until);
            let wake = |at| VolatileChange::Wake { at, group: group.row.id };
            decision.volatile.extend(until.filter(|_| group.is_paused(now)).map(wake));
            decision.volatile.push(VolatileChange::Idle(group.row.id));
            return Some(decision);
        };
        if self.damage_of(topic, group, lane).is_some() {
            // A repair reactivates the lane.
            let (group, fresh) = (group.row.id, group.cursor(lane).fresh_run);
            let visited =
                VolatileChange::Visited { group, lane, more: false, stalled: false, fresh };
            return Some(Decision {
                volatile: vec![visited, VolatileChange::Rotor(group)],
                ..done()
            });
        }
        let mut run = Run::new(self, now, topic, group, lane);
        run.hand_out();
        Some(run.decision())
    }

    /// Skips the next group until a change reactivates it.
    pub(crate) fn pass_over(&self) -> Option<Decision> {
        let id = self.next_group()?.row.id;
        Some(Decision {
            volatile: vec![VolatileChange::Idle(id), VolatileChange::Rotor(id)],
            ..done()
        })
    }

    /// Whether message and last error of a waiting entry are in memory.
    fn has_retry(&self, group: &Group, lane: Lane, offset: Offset) -> bool {
        let cursor = group.cursor(lane);
        let cache = &self.volatile.cache;
        cache.staged(cursor.start.generation, lane, offset).is_some()
            || cursor.open.get(offset).is_some_and(|open| open.entry.error != LastError::Note)
                && cache.get(group.row.topic, lane, offset).is_some()
    }

    /// Returns the read that a waiting entry needs before it can be delivered, if it needs one.
    pub(super) fn retry_to_read(
        &self,
        id: GroupId,
        lane: Lane,
        offset: Offset,
    ) -> Option<Prefetch> {
        let group = self.groups.get(&id)?;
        let cursor = group.cursors.get(lane.index())?;
        cursor.open.get(offset).filter(|open| !open.entry.is_leased())?;
        let (topic, generation) = (group.row.topic, cursor.start.generation);
        let want = Prefetch::Retry { topic, group: id, generation, lane, offset };
        let is_needed =
            !self.has_retry(group, lane, offset) && !self.volatile.loading.contains(&want);
        is_needed.then_some(want)
    }

    /// Whether another retry may be read. Messages being read have the same limit as those in
    /// memory.
    pub(super) fn may_read_retries<'a>(
        &'a self,
        asked: impl Iterator<Item = &'a Prefetch>,
    ) -> bool {
        let under_way =
            self.volatile.loading.iter().chain(asked).filter_map(|want| self.wanted(want));
        let (mut count, mut bytes) = (0, 0);
        for open in under_way {
            count += 1;
            bytes += u64::from(open.entry.size);
        }
        count < self.config.retry_reads_max && bytes < self.config.retry_bytes() as u64
    }

    /// Whether a group may open another message after `opened` new ones. A group may use at most
    /// half of the capacity that the other groups leave.
    pub(super) fn group_has_room(&self, group: &Group, opened: u64) -> bool {
        let others = self.open_total - group.open;
        group.open + opened < self.config.open_max.saturating_sub(others) / 2
    }

    fn next_group(&self) -> Option<&Group> {
        let active = &self.volatile.active;
        let after = (Excluded(self.volatile.rotor), Unbounded);
        let id = active.range(after).next().or_else(|| active.first())?;
        Some(&self.groups[id])
    }

    /// Returns the next lane in turn. Lanes that need a read are skipped while enough is being
    /// read.
    fn next_lane(&self, group: &Group) -> Option<Lane> {
        let may_read = !group.unread.is_empty() && !self.reads_enough(group);
        let next = |after: Bound<Lane>| {
            let work = group.work.range((after, Unbounded)).next();
            let unread = group.unread.range((after, Unbounded)).next().filter(|_| may_read);
            work.into_iter().chain(unread).min().copied()
        };
        next(Excluded(group.lane_rotor)).or_else(|| next(Unbounded))
    }
}

/// Why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The lane has nothing more to deliver right now.
    Dry,
    /// The lane may have more. The run reached its limit or dead-lettered a message.
    More,
    /// The lane has more, and no consumer has credit for it.
    Full,
}

/// A run over one lane of one group.
struct Run<'a> {
    shard: &'a Shard,
    now: Timestamp,
    topic: &'a Topic,
    group: &'a Group,
    lane: Lane,
    cursor: &'a Cursor,
    decision: Decision,
    /// Consecutive messages in memory from `next` on.
    ahead: &'a [Kept],
    /// The cursor's `next` after this run.
    next: Offset,
    bytes: u64,
    /// Leases granted in this run.
    given: u32,
    /// Entries opened in this run.
    opened: u32,
    fresh_run: u8,
    /// Turns used in the group's queue. `taken` has the messages and bytes granted to each
    /// consumer.
    turns: usize,
    taken: Vec<(u32, u64)>,
    /// Some retries could not be requested.
    starved: bool,
    /// Fresh messages were not requested, because enough is being read.
    unread: bool,
    stop: Stop,
}

impl<'a> Run<'a> {
    fn new(
        shard: &'a Shard,
        now: Timestamp,
        topic: &'a Topic,
        group: &'a Group,
        lane: Lane,
    ) -> Run<'a> {
        let cursor = group.cursor(lane);
        let mut run = Run {
            shard,
            now,
            topic,
            group,
            lane,
            cursor,
            decision: done(),
            ahead: shard.volatile.cache.run(topic.row.id, lane, cursor.next),
            next: cursor.next,
            bytes: cursor.bytes,
            given: 0,
            opened: 0,
            fresh_run: cursor.fresh_run,
            turns: 0,
            taken: vec![(0, 0); group.ready.len()],
            starved: false,
            unread: false,
            stop: Stop::Dry,
        };
        run.pass_holes();
        run
    }

    /// Moves the cursor past holes. A purged dead letter leaves an offset without a message.
    fn pass_holes(&mut self) {
        let (cache, topic, lane) = (&self.shard.volatile.cache, self.topic, self.lane);
        while self.ahead.is_empty()
            && topic.is_dlq()
            && let Some(end) = cache.hole_end(topic.row.id, lane, self.next)
        {
            self.next = end;
            self.ahead = cache.run(topic.row.id, lane, end);
            let state = topic.lane(lane);
            if let Some(kept) = self.ahead.first() {
                self.bytes = kept.bytes_before;
            } else if end == state.high {
                self.bytes = state.high_bytes;
            }
        }
    }

    fn hand_out(&mut self) {
        let cursor = self.cursor;
        let due = |set: &'a BTreeSet<(Timestamp, Offset)>| {
            let now = self.now;
            set.iter().take_while(move |(due, _)| *due <= now).map(|(_, offset)| *offset)
        };
        let mut returned = due(&cursor.returned).take(DISPATCH_RUN_MAX).peekable();
        let mut retries = due(&cursor.retries).take(DISPATCH_RUN_MAX).peekable();
        self.request_ahead();
        for _ in 0..DISPATCH_RUN_MAX {
            if self.cursor.leased + self.given >= self.topic.settings.max_in_flight {
                // A settle of this lane reactivates it.
                self.stop = Stop::Dry;
                return;
            }
            self.skip_absent(&mut returned);
            self.skip_absent(&mut retries);
            if let Some(&offset) = returned.peek() {
                returned.next();
                if !self.again(offset) {
                    return;
                }
            } else if let Some(&offset) = retries.peek()
                && (self.fresh_run >= FRESH_PER_RETRY || !self.has_fresh())
            {
                retries.next();
                if !self.again(offset) {
                    return;
                }
                self.fresh_run = 0;
            } else if !self.fresh() {
                return;
            }
        }
        self.stop = Stop::More;
    }

    /// Skips due entries at the front whose message is not in memory, and requests the messages.
    fn skip_absent(&mut self, due: &mut std::iter::Peekable<impl Iterator<Item = Offset>>) {
        while let Some(&offset) = due.peek() {
            let (group, lane) = (self.group.row.id, self.lane);
            if self.shard.has_retry(self.group, lane, offset) {
                return;
            }
            let asked = self.decision.volatile.iter().filter_map(VolatileChange::loading);
            if self.shard.may_read_retries(asked) {
                let want = self.shard.retry_to_read(group, lane, offset);
                self.decision.volatile.extend(want.map(VolatileChange::Loading));
            } else if !self.starved {
                self.starved = true;
                self.decision.volatile.push(VolatileChange::Starved { group, lane });
            }
            due.next();
        }
    }

    /// Returns message and last error of a waiting entry, if they are in memory.
    fn retry_message(&self, offset: Offset, entry: &Entry) -> Option<(Arc<Message>, Text)> {
        let cache = &self.shard.volatile.cache;
        if let Some(staged) = cache.staged(self.cursor.start.generation, self.lane, offset) {
            return Some((staged.message.clone(), staged.last_error.clone()));
        }
        let last_error = entry.error.text()?;
        let kept = cache.get(self.topic.row.id, self.lane, offset)?;
        Some((kept.message.clone(), last_error.into()))
    }

    /// Delivers a waiting entry again. Returns whether the run continues.
    fn again(&mut self, offset: Offset) -> bool {
        let entry = self.cursor.open.get(offset).expect("a waiting entry is open").entry;
        let (message, last_error) =
            self.retry_message(offset, &entry).expect("absent messages were skipped");
        if entry.is_past_deadline(self.now) && !self.topic.is_dlq() {
            if entry.begun > 0 {
                self.plan_dead_letter(offset);
                return true;
            }
            self.dead_letter(offset, Some(&entry), &message, last_error);
            return false;
        }
        let Some(consumer) = self.next_consumer(u64::from(entry.size)) else {
            return false;
        };
        self.lease(offset, entry, consumer, message, last_error);
        true
    }

    fn has_fresh(&self) -> bool {
        self.next < self.topic.lane(self.lane).high && self.has_room() && !self.ahead.is_empty()
    }

    /// Whether another entry may be opened.
    fn has_room(&self) -> bool {
        let opened = u64::from(self.opened);
        let of_cursor = self.cursor.open.len() as u64 + opened;
        of_cursor < u64::from(self.topic.settings.max_open)
            && self.shard.group_has_room(self.group, opened)
    }

    /// Requests fresh messages that are not in memory, even if a retry is delivered first.
    fn request_ahead(&mut self) {
        let (topic, lane) = (self.topic.row.id, self.lane);
        let want = Prefetch::Ahead { topic, lane, from: self.next };
        let is_wanted = self.ahead.is_empty() && self.next < self.topic.lane(lane).high;
        let is_asked = self.shard.volatile.loading.contains(&want)
            || self
                .decision
                .volatile
                .iter()
                .filter_map(VolatileChange::loading)
                .any(|asked| *asked == want);
        if !is_wanted || is_asked || !self.has_room() {
            return;
        }
        if self.shard.reads_enough(self.group) {
            self.unread = true
        } else {
            self.decision.volatile.push(VolatileChange::Loading(want))
        }
    }

    /// Delivers, skips or dead-letters the next fresh message. Returns whether the run continues.
    fn fresh(&mut self) -> bool {
        if self.next >= self.topic.lane(self.lane).high {
            return false;
        }
        if !self.has_room() {
            if !self.shard.group_has_room(self.group, u64::from(self.opened)) {
                // A settle in another lane or group may free capacity. A settle in this lane
                // reactivates it anyway.
                let (group, lane) = (self.group.row.id, self.lane);
                self.decision.volatile.push(VolatileChange::GroupFull { group, lane });
            }
            return false;
        }
        let Some(kept) = self.ahead.first() else {
            self.request_ahead();
            return false;
        };
        let (offset, message) = (self.next, &kept.message);
        if message.for_group.as_ref().is_some_and(|group| *group != self.group.row.name) {
            self.advance(kept);
            return true;
        }
        let deadline = message.envelope.deadline.filter(|_| !self.topic.is_dlq());
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            self.advance(kept);
            self.dead_letter(offset, None, message, no_text());
            return false;
        }
        let Some(consumer) = self.next_consumer(message.size()) else {
            return false;
        };
        let policy =
            message.envelope.retry_policy.map(|p| p.over(&self.topic.settings.retry_policy));
        let entry = Entry {
            state: EntryState::Leased,
            attempt: 0,
            spent: 0,
            returns: 0,
            at: self.now,
            lease_ms: 0,
            owner: Default::default(),
            size: message.size() as u32,
            produced_at: message.produced_at,
            first_at: self.now,
            policy,
            deadline,
            error: LastError::None,
            begun: 0,
            unfinished: 0,
        };
        self.advance(kept);
        self.opened += 1;
        self.fresh_run = self.fresh_run.saturating_add(1);
        self.lease(offset, entry, consumer, message.clone(), no_text());
        true
    }

    fn advance(&mut self, kept: &'a Kept) {
        self.next += 1;
        self.bytes = kept.bytes_before + kept.message.size();
        self.ahead = &self.ahead[1..];
        if self.ahead.is_empty() {
            self.ahead = self.shard.volatile.cache.run(self.topic.row.id, self.lane, self.next);
            self.pass_holes();
        }
    }

    /// Plans a chore that dead-letters the message, because its effects must be read first.
    fn plan_dead_letter(&mut self, offset: Offset) {
        let chore = Chore::Deadline { group: self.group.row.id, lane: self.lane, offset };
        if !self.shard.volatile.chores.contains_key(&chore) {
            self.decision.volatile.push(VolatileChange::Chore(chore, Some(self.now)));
        }
    }

    /// Dead-letters a message past its deadline. This ends the run, because the changes of a dead
    /// letter are computed from the state before the run.
    fn dead_letter(
        &mut self,
        offset: Offset,
        entry: Option<&Entry>,
        message: &Arc<Message>,
        last_error: Text,
    ) {
        let Run { topic, group, lane, .. } = *self;
        let reason = DeathReason::Deadline;
        let dead_lettering =
            DeadLettering { topic, group, lane, offset, entry, reason, last_error: None };
        let changes = &mut self.decision.changes;
        self.shard.dead_letter_message(
            self.now,
            &dead_lettering,
            message,
            last_error,
            None,
            changes,
        );
        self.stop = Stop::More;
    }

    /// Returns the next consumer in turn that has credit for `size` bytes.
    fn next_consumer(&mut self, size: u64) -> Option<ConsumerId> {
        let ready = &self.group.ready;
        for _ in 0..ready.len() {
            let index = self.turns % ready.len();
            let id = ready[index];
            let consumer = &self.shard.volatile.consumers[&id];
            let taken = &mut self.taken[index];
            self.turns += 1;
            if has_room_for(consumer, *taken, size) {
                *taken = (taken.0 + 1, taken.1 + size);
                return Some(id);
            }
        }
        // A settle by any consumer reactivates the lane.
        self.stop = Stop::Full;
        None
    }

    fn lease(
        &mut self,
        offset: Offset,
        before: Entry,
        holder: ConsumerId,
        message: Arc<Message>,
        last_error: Text,
    ) {
        let consumer = &self.shard.volatile.consumers[&holder];
        let lease_ms = consumer.lease_ms(self.topic);
        let entry = Entry {
            state: EntryState::Leased,
            attempt: before.attempt + 1,
            spent: before.spent + 1,
            at: self.now.after(u64::from(lease_ms)),
            lease_ms,
            owner: consumer.owner,
            ..before
        };
        let (group, lane) = (self.group.row.id, self.lane);
        let open = Change::Open { group, lane, offset, entry, holder: Some(holder) };
        self.decision.changes.push(open);
        self.given += 1;
        let delivery = self.delivery(offset, &entry, message, last_error);
        self.decision.actions.push(Action::Deliver(holder, Box::new(delivery)));
    }

    fn delivery(
        &self,
        offset: Offset,
        entry: &Entry,
        message: Arc<Message>,
        last_error: Text,
    ) -> Delivery {
        let (topic, group, lane) = (&self.topic.row, &self.group.row, self.lane);
        let generation = self.cursor.start.generation;
        let id = self.shard.message_id(topic.id, lane, offset).under(message.restore);
        let token = LeaseToken {
            restore: self.shard.config.restore,
            namespace: topic.namespace.clone(),
            shard: id.shard,
            topic: topic.id,
            lane,
            offset,
            group: group.id,
            generation,
            attempt: entry.attempt,
            granted_at: self.now,
        };
        Delivery {
            hold: LeaseId { group: group.id, lane, generation, offset, attempt: entry.attempt },
            token,
            topic: topic.name.clone(),
            group: group.name.clone(),
            id,
            spent: entry.spent,
            lease_ms: entry.lease_ms,
            expires_at: entry.at,
            last_error,
            message,
        }
    }

    fn decision(self) -> Decision {
        let Run { group, lane, mut decision, .. } = self;
        let id: GroupId = group.row.id;
        if self.next != self.cursor.next {
            let moved = Change::Cursor { group: id, lane, next: self.next, bytes: self.bytes };
            decision.changes.push(moved);
            let (topic, offset) = (self.topic.row.id, self.cursor.next);
            decision.volatile.push(VolatileChange::Used { topic, lane, offset });
        }
        decision.volatile.push(VolatileChange::Turned { group: id, turns: self.turns });
        let (more, stalled) = (self.stop == Stop::More, self.stop == Stop::Full);
        let fresh = self.fresh_run;
        decision.volatile.push(VolatileChange::Visited { group: id, lane, more, stalled, fresh });
        decision.volatile.extend(self.unread.then_some(VolatileChange::Unread { group: id, lane }));
        decision.volatile.push(VolatileChange::Rotor(id));
        decision
    }
}

fn has_room_for(consumer: &Consumer, taken: (u32, u64), size: u64) -> bool {
    let held = consumer.held + taken.0;
    let bytes = consumer.held_bytes + taken.1 + size;
    held < consumer.credit && (held == 0 || bytes <= consumer.credit_bytes)
}
