//! Checks operator changes: settings, pauses, deleted dead letters, and groups that expire because
//! no consumer reads them. `DeadLetteredOnce`, `Pause`, and of `NoLoss` that a group in use is not
//! deleted.

use crate::history::{Retry, Settings};
use crate::ids::{CallId, CursorId, EntryId, LabelId, LaneId, NameId, ReaderId};
use crate::invariant::Invariant::{DeadLetteredOnce, NoLoss, Pause};
use crate::timeline::Ask;

use super::state::{Message, Model};

/// The fraction of the idle time (one eighth) by which a group may be deleted early. The node
/// writes the time of the last consumer in eight steps per idle time, so the stored time may be
/// one step behind.
const IDLE_SLACK: u64 = 8;

impl<'a> Model<'_, 'a> {
    /// Records a request that only an operator makes.
    pub(super) fn operated(&mut self, call: CallId) {
        let call = &self.timeline.calls[call];
        if call.outcome.is_refused() {
            return;
        }
        match call.ask {
            Ask::Purge { ids, dry_run: false } => {
                for id in ids.iter().filter_map(|id| self.timeline.places.labels.find(id)) {
                    self.operator.purge_asked[id] = true;
                }
            }
            Ask::DeleteGroup(reader) => {
                self.operator.delete_asked[reader] = true;
            }
            Ask::DeleteTopic(topic) => {
                self.operator.topic_delete_asked[topic] = true;
            }
            _ => {}
        }
    }

    pub(super) fn paused(&mut self, reader: ReaderId, until: Option<u64>) {
        self.operator.paused[reader] = Some(until.unwrap_or(u64::MAX));
    }

    pub(super) fn resumed(&mut self, reader: ReaderId) {
        let until = self.operator.paused[reader].take();
        let used_at = until.map_or(0, |until| until.min(self.now));
        self.operator.used_at[reader] = self.operator.used_at[reader].max(used_at);
    }

    /// The end of the pause of a group, if it is paused.
    pub(super) fn paused_until(&self, reader: ReaderId) -> Option<u64> {
        self.operator.paused[reader].filter(|until| self.now < *until)
    }

    /// Whether a group was paused and not resumed. The pause may have ended by itself.
    pub(super) fn has_pause(&self, reader: ReaderId) -> bool {
        self.operator.paused[reader].is_some()
    }

    pub(super) fn not_paused(&mut self, entry: EntryId) {
        let places = &self.timeline.places;
        let reader = places.cursors.key(places.cursor_of(entry)).0;
        if self.paused_until(reader).is_some() {
            self.breaks(Pause, entry, format_args!("is granted while its group is paused"));
        }
    }

    /// Records that a group starts: it counts as used.
    pub(super) fn group_begins(&mut self, reader: ReaderId) {
        self.operator.used_at[reader] = self.now;
    }

    /// Checks that a group was deleted because a client requested it, or because it was idle long
    /// enough.
    pub(super) fn group_deleted(&mut self, reader: ReaderId) {
        let places = &self.timeline.places;
        let (topic, group) = places.readers.key(reader);
        let (until, used_at) = (self.operator.paused[reader].take(), self.operator.used_at[reader]);
        let source = places.names.key(topic).strip_prefix("dlq.");
        let source = source.and_then(|source| places.names.find(source));
        let is_asked = self.operator.delete_asked[reader]
            || self.operator.topic_delete_asked[topic]
            || source.is_some_and(|source| self.operator.topic_delete_asked[source]);
        // Without settings, the harness does not report when groups expire.
        let Some(settings) = self.operator.settings[topic].filter(|_| !is_asked) else { return };
        // The shard knows the last use under an earlier epoch only from its row, which may be out
        // of date.
        let began_at = self.operator.epoch_began_at.get(&self.operator.shard);
        if began_at.is_some_and(|began_at| *began_at >= used_at) {
            return;
        }
        let is_read = self.is_connected(reader);
        let used_at = used_at.max(until.map_or(0, |until| until.min(self.now)));
        let idle_ms = self.now.saturating_sub(used_at);
        let replaced = self.operator.replaced[topic].filter(|(seq, _)| *seq == self.seq);
        let replaced = replaced.map(|(_, settings)| settings);
        let is_idle_by = |settings: &Settings| {
            settings.group_idle_ms.is_some_and(|ms| idle_ms >= ms - ms / IDLE_SLACK)
        };
        let is_idle = is_idle_by(settings) || replaced.is_some_and(is_idle_by);
        if is_read || !is_idle {
            let text = places.names.key(group);
            let detail =
                format_args!("group {text} was deleted after only {idle_ms} ms without a consumer");
            self.findings.add(NoLoss, self.seq, detail);
        }
    }

    /// Checks that a dead letter was deleted because a client requested it, or because its
    /// retention ended.
    pub(super) fn dropped(&mut self, id: LabelId) {
        let places = &self.timeline.places;
        let name = places.labels.key(id);
        let letter = self.stored_as(id).filter(|letter| letter.put.stored.dead_letter);
        let is_again = std::mem::replace(&mut self.operator.dropped[id], true);
        let Some(letter) = letter.filter(|_| !is_again) else {
            let detail = format_args!("{name} was deleted, but it is not an existing dead letter");
            self.findings.add(DeadLetteredOnce, self.seq, detail);
            return;
        };
        let source = letter.put.stored.topic.strip_prefix("dlq.");
        let source = source.and_then(|source| places.names.find(source));
        let settings = source.and_then(|source| self.operator.settings[source]);
        let kept_ms = settings.and_then(|settings| settings.dlq_retention_ms);
        let is_old = kept_ms.is_some_and(|ms| letter.at.saturating_add(ms) <= self.now);
        if !is_old && !self.operator.purge_asked[id] {
            let detail = format_args!(
                "dead letter {name} was deleted, but its retention has not ended and no client requested it"
            );
            self.findings.add(DeadLetteredOnce, self.seq, detail);
        }
    }

    /// Checks that a repair gave up only a message that was damaged.
    pub(super) fn lost(&mut self, lane: LaneId, offset: u64) {
        let (places, seq) = (&self.timeline.places, self.seq);
        let is_damaged =
            self.timeline.corrupted.iter().any(|(since, of, offsets)| {
                *since < seq && *of == lane && offsets.contains(&offset)
            });
        let message = places.positions.find(lane, offset).and_then(|at| self.messages[at]);
        match message.filter(|_| is_damaged) {
            Some(message) => self.operator.dropped[message.put.id] = true,
            None => {
                let text = places.lane_text(lane);
                let detail = format_args!(
                    "{text}/{offset} was given up by a repair, but it was not damaged"
                );
                self.findings.add(NoLoss, seq, detail);
            }
        }
    }

    /// Whether the message at an offset was deleted or lost.
    pub(super) fn is_dropped(&self, cursor: CursorId, offset: u64) -> bool {
        let places = &self.timeline.places;
        let at = places.positions.find(places.cursors.key(cursor).1, offset);
        let message = at.and_then(|at| self.messages[at]);
        message.is_some_and(|message| self.operator.dropped[message.put.id])
    }

    pub(super) fn purged(&mut self, entry: EntryId) {
        self.operator.purged.push(entry);
    }

    /// Checks that entries that ended because their dead letter was deleted were deleted in the
    /// same batch.
    pub(super) fn close_purges(&mut self) {
        for entry in std::mem::take(&mut self.operator.purged) {
            let places = &self.timeline.places;
            if !self.is_dropped(places.cursor_of(entry), places.offset_of(entry)) {
                self.breaks(
                    DeadLetteredOnce,
                    entry,
                    format_args!("ended as deleted, but its dead letter was not deleted"),
                );
            }
        }
    }

    /// The current retry policy of a message.
    pub(super) fn retry_of(&self, message: &Message<'a>) -> Retry {
        let stored = message.put.stored;
        let topic = self.timeline.places.names.find(&stored.topic).filter(|_| stored.follows_topic);
        let settings = topic.and_then(|topic| self.operator.settings[topic]);
        settings.map_or(stored.retry, |settings| settings.retry)
    }

    /// Whether `spent` attempts are all that the policy allows. A policy that was lowered since
    /// allows fewer.
    pub(super) fn is_exhausted(&self, message: &Message<'a>, spent: u32) -> bool {
        let max = self.retry_of(message).max_attempts;
        if message.put.stored.follows_topic {
            max.is_some_and(|max| max <= spent) || self.was_exhausted(message, spent)
        } else {
            max == Some(spent)
        }
    }

    /// The same for the settings that were replaced in this batch: the order of both is not
    /// recorded.
    fn was_exhausted(&self, message: &Message<'a>, spent: u32) -> bool {
        let topic = self.timeline.places.names.find(&message.put.stored.topic);
        let replaced = topic.and_then(|topic| self.operator.replaced[topic]);
        replaced.is_some_and(|(seq, settings)| {
            seq == self.seq && settings.retry.max_attempts.is_some_and(|max| max <= spent)
        })
    }

    /// Applies new settings of a topic.
    pub(super) fn set(&mut self, topic: NameId, settings: &'a Settings) {
        let before = self.operator.settings[topic].replace(settings);
        self.operator.replaced[topic] = before.map(|before| (self.seq, before));
    }
}
