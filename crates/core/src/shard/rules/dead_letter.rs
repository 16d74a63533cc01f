//! Dead-lettering: one decision ends the delivery and stores the dead letter, so that the message
//! is never in both places or in neither.

use std::borrow::Cow;
use std::sync::Arc;

use crate::change::{Change, DeadRow, End, Entry, LaneState, LastError, TopicKind, TopicRow};
use crate::command::{Rejection, TopicName};
use crate::effect::DoubtCause;
use crate::id::cut;
use crate::id::{Lane, MessageId, Offset, Text, TopicId};
use crate::message::{Death, DeathReason, Message};
use crate::placement::source_of;
use crate::refusal::{Decided, Refusal};
use crate::shard::context::Context;
use crate::shard::ledger::OpenEffects;
use crate::shard::rules::tombstone::Ended;
use crate::shard::state::open_delivery::OpenDelivery;
use crate::shard::{Group, Shard, Topic, done};
use crate::time::Timestamp;

/// Bytes of the error that are kept in the list of dead letters.
pub(crate) const LISTED_ERROR_BYTES: usize = 64;

/// A delivery whose message is dead-lettered.
pub(crate) struct DeadLettering<'a> {
    pub(crate) topic: &'a Topic,
    pub(crate) group: &'a Group,
    pub(crate) lane: Lane,
    pub(crate) offset: Offset,
    /// None if it was never delivered.
    pub(crate) entry: Option<&'a Entry>,
    pub(crate) reason: DeathReason,
    /// The last error, if it differs from the recorded one.
    pub(crate) last_error: Option<Text>,
}

/// The content of a new dead letter.
pub(crate) struct Letter<'a> {
    pub(crate) source: &'a Topic,
    pub(crate) lane: Lane,
    /// The dead-lettered message, or the message whose commit produced it.
    pub(crate) id: MessageId,
    pub(crate) group: Text,
    pub(crate) reason: DeathReason,
    pub(crate) attempts: u32,
    pub(crate) last_error: Text,
    pub(crate) last_owner: Text,
    pub(crate) first_delivered_at: Option<Timestamp>,
    pub(crate) had_effects: bool,
    /// When the first of these effects expires, if that is known.
    pub(crate) effects_until: Option<Timestamp>,
    pub(crate) message: Message,
}

impl<'a> DeadLettering<'a> {
    pub(crate) fn of(
        held: &OpenDelivery<'a>,
        reason: DeathReason,
        last_error: Option<Text>,
    ) -> DeadLettering<'a> {
        let OpenDelivery { topic, group, lane, offset, entry } = *held;
        DeadLettering { topic, group, lane, offset, entry: Some(entry), reason, last_error }
    }
}

impl Context<'_> {
    /// Ends the delivery and stores the dead letter.
    pub(crate) fn dead_letter(
        &self,
        dead_lettering: &DeadLettering<'_>,
        effects: OpenEffects,
        cause: DoubtCause,
    ) -> Decided {
        let DeadLettering { topic, group, lane, offset, .. } = *dead_lettering;
        let message = self.message_at(topic.row.id, lane, offset)?;
        let last_error = match &dead_lettering.last_error {
            Some(text) => text.clone(),
            None => self.last_error(group, lane, offset, dead_lettering.entry)?,
        };
        let mut decision = done();
        let until = effects.kept_ms().map(|kept_ms| self.now.after(kept_ms));
        if let Some(entry) = dead_lettering.entry {
            let held = OpenDelivery { topic, group, lane, offset, entry };
            self.detach_effects(&held, effects, cause, &mut decision.changes);
        }
        self.dead_letter_message(
            self.now,
            dead_lettering,
            &message,
            last_error,
            until,
            &mut decision.changes,
        );
        Ok(decision)
    }

    /// Returns a stored message, from memory or from its page.
    pub(crate) fn message_at(
        &self,
        topic: TopicId,
        lane: Lane,
        offset: Offset,
    ) -> Result<Arc<Message>, Refusal> {
        match self.volatile.cache.get(topic, lane, offset) {
            Some(kept) => Ok(kept.message.clone()),
            None => self.rows.message(topic, lane, offset),
        }
    }

    /// Returns a dead letter, or None if it was deleted.
    pub(crate) fn dead_message(
        &self,
        dlq: TopicId,
        lane: Lane,
        offset: Offset,
    ) -> Result<Option<Arc<Message>>, Refusal> {
        match self.volatile.cache.get(dlq, lane, offset) {
            Some(kept) => Ok(Some(kept.message.clone())),
            None => self.rows.stored(dlq, lane, offset),
        }
    }

    /// Returns why the last attempt at an open message failed.
    pub(crate) fn last_error(
        &self,
        group: &Group,
        lane: Lane,
        offset: Offset,
        entry: Option<&Entry>,
    ) -> Result<Text, Refusal> {
        let error = entry.map_or(LastError::None, |entry| entry.error);
        match error.text() {
            Some(text) => Ok(text.into()),
            None => Ok(self.rows.note(group.cursor(lane).start.generation, lane, offset)?),
        }
    }
}

impl Shard {
    /// Adds the changes that dead-letter a message that is in memory.
    pub(crate) fn dead_letter_message(
        &self,
        now: Timestamp,
        dead_lettering: &DeadLettering<'_>,
        message: &Arc<Message>,
        last_error: Text,
        effects_until: Option<Timestamp>,
        changes: &mut Vec<Change>,
    ) {
        let DeadLettering { topic, group, lane, offset, entry, reason, .. } = *dead_lettering;
        let id = self.message_id(topic.row.id, lane, offset).under(message.restore);
        let letter = Letter {
            source: topic,
            lane,
            id,
            group: group.row.name.clone(),
            reason,
            attempts: entry.map_or(0, |entry| entry.spent),
            last_error,
            last_owner: entry.map_or_else(Text::default, |entry| self.owners.name(entry.owner)),
            first_delivered_at: entry.map(|entry| entry.first_at),
            // Effects begun before a redrive are unknown here.
            had_effects: entry.is_some_and(|entry| entry.begun > 0) || message.redriven > 0,
            effects_until,
            message: Message {
                origin: Some(message.origin.unwrap_or(id)),
                for_group: None,
                ..Message::clone(message)
            },
        };
        let seq = self.store_letter(now, letter, changes);
        let asked = reason == DeathReason::Final;
        if let Some(entry) = entry {
            let held = OpenDelivery { topic, group, lane, offset, entry };
            self.end(&held, End::Dead { asked }, changes);
        }
        let attempt = entry.map_or(0, |entry| entry.attempt);
        let ended = Ended::Dead { asked, seq };
        self.put_tombstone(now, &topic.settings, group, lane, offset, attempt, ended, changes);
    }

    /// Stores a dead letter, lists it and counts it. Returns its number.
    pub(crate) fn store_letter(
        &self,
        now: Timestamp,
        letter: Letter<'_>,
        changes: &mut Vec<Change>,
    ) -> u64 {
        let Letter { source, lane, group, reason, last_error, message, .. } = letter;
        let mut seq = self.ids;
        let dlq = match source.dlq {
            Some(dlq) => dlq,
            None => create_dead_letter_topic(now, source, &mut seq, changes).id,
        };
        changes.push(Change::Ids(seq + 1));
        let end = self.topics.get(&dlq).map(|dlq| dlq.lane(lane));
        let (offset, bytes) = end.map_or((0, 0), |end| (end.high, end.high_bytes));
        let listed = DeadRow {
            topic: dlq,
            seq,
            lane,
            offset,
            bytes,
            size: message.size(),
            restore: self.config.restore,
            group: group.clone(),
            reason,
            at: now,
            tenant: message.tenant().into(),
            run_id: message.envelope.run_id.clone(),
            key: message.envelope.idempotency_key.clone(),
            error: cut(&last_error, LISTED_ERROR_BYTES),
            redriven: None,
            effects_until: letter.effects_until,
        };
        let death = Death {
            seq,
            topic: source.row.name.clone(),
            id: letter.id,
            group,
            reason,
            attempts: letter.attempts,
            last_error,
            last_owner: letter.last_owner,
            first_delivered_at: letter.first_delivered_at,
            at: now,
            had_effects: letter.had_effects,
        };
        let restore = self.config.restore;
        let message = Message { restore, death: Some(Box::new(death)), ..message };
        let state = LaneState { dead: source.lane(lane).dead + 1, ..source.lane(lane).clone() };
        changes.push(Change::Message { topic: dlq, lane, offset, message: Arc::new(message) });
        changes.push(Change::Dead(Box::new(listed)));
        changes.push(Change::Lane { topic: source.row.id, lane, state });
        seq
    }
}

impl Context<'_> {
    /// Returns a topic for a new reader. The topic of dead letters exists as soon as its source
    /// does, but is stored when it is first used.
    pub(crate) fn topic_to_read(
        &self,
        name: &TopicName,
        ids: &mut u64,
        changes: &mut Vec<Change>,
    ) -> Result<Cow<'_, Topic>, Rejection> {
        match self.topic_named(name) {
            Ok(topic) => Ok(Cow::Borrowed(topic)),
            Err(rejection) => {
                let source = self.source_without_dead_letters(name).ok_or(rejection)?;
                let row = create_dead_letter_topic(self.now, source, ids, changes);
                Ok(Cow::Owned(Topic::new(row, &self.config.defaults)))
            }
        }
    }

    /// Returns a topic to show it. Nothing is stored.
    pub(crate) fn topic_to_show(&self, name: &TopicName) -> Result<Cow<'_, Topic>, Rejection> {
        self.topic_to_read(name, &mut self.ids.clone(), &mut Vec::new())
    }

    /// Returns the source of the named topic of dead letters, if that topic is not stored yet.
    fn source_without_dead_letters(&self, name: &TopicName) -> Option<&Topic> {
        let source = TopicName { topic: source_of(&name.topic)?.into(), ..name.clone() };
        let source = self.topic_named(&source).ok()?;
        (!source.is_dlq() && source.dlq.is_none()).then_some(source)
    }
}

/// Adds the topic for the dead letters of `source`. Takes its id from the counter.
fn create_dead_letter_topic(
    now: Timestamp,
    source: &Topic,
    ids: &mut u64,
    changes: &mut Vec<Change>,
) -> TopicRow {
    let row = TopicRow {
        id: TopicId(*ids),
        namespace: source.row.namespace.clone(),
        name: format!("dlq.{}", source.row.name).into(),
        kind: TopicKind::Dlq(source.row.id),
        partitions: source.row.partitions,
        patch: Default::default(),
        created_at: now,
        forgot: None,
    };
    *ids += 1;
    changes.push(Change::Topic(Box::new(row.clone())));
    row
}
