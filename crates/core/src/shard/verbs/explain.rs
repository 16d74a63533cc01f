//! Explains the state of a message, a group or an effect. The sentences are in
//! [`summary`](crate::shard::verbs::summary).
//!
//! Explain reports the current state and the last error. How a message ended in a group is known
//! while its tombstone is kept. A plain ack of the first attempt leaves no tombstone.

use std::sync::Arc;

use crate::change::{DeadRow, Decision, Lookup, Reads};
use crate::command::{
    EffectView, Explain, ExplainState, Explained, ExplainedDeath, ExplainedMessage, InGroup,
    Missing, Rejection, Reply,
};
use crate::id::{Lane, Offset, TopicId, no_text};
use crate::limits::READ_LOOKUPS_MAX;
use crate::message::Message;
use crate::pack;
use crate::refusal::{Decided, Refusal};
use crate::row::Key;
use crate::shard::context::Context;
use crate::shard::ledger;
use crate::shard::rules::tombstone::{self, Ended};
use crate::shard::state::open_delivery::OpenDelivery;
use crate::shard::verbs::summary::{self, MessageState};
use crate::shard::{Group, Shard, Topic};
use crate::view::Blocked;

/// The message to explain.
struct Subject<'a> {
    topic: &'a Topic,
    lane: Lane,
    offset: Offset,
}

impl Shard {
    pub(crate) fn explain_reads(&self, explain: &Explain) -> Reads {
        match explain {
            Explain::Effect(query) => return self.effect_reads(query),
            Explain::Group(name) => return self.group_reads(name),
            Explain::Message { .. } | Explain::Id { .. } => {}
        }
        let Ok(Some(Subject { topic, lane, offset })) = self.subject(explain) else {
            return Vec::new();
        };
        let topic = topic.row.id;
        match self.volatile.cache.get(topic, lane, offset) {
            Some(_) => Vec::new(),
            None => vec![Lookup::Message { topic, lane, offset }],
        }
    }
}

impl Context<'_> {
    pub(crate) fn explain(&self, explain: &Explain) -> Decided {
        let mut volatile = Vec::new();
        let explained = match (explain, self.subject(explain)?) {
            (Explain::Effect(query), _) => {
                let view = Box::new(self.effect_view(query)?);
                Explained::Effect { summary: ledger::of_effect(self.now, &view), view }
            }
            (Explain::Group(name), _) => {
                let (_, group) = self.group_named(name)?;
                let view;
                (view, volatile) = self.show_group_with_owners(group);
                let view = Box::new(view);
                let full = self.filled_by(group);
                Explained::Group { summary: summary::of_group(self.now, &view, &full), view }
            }
            (Explain::Message { .. }, Some(subject)) => {
                Explained::Message(self.explain_message(&subject, None)?)
            }
            (Explain::Id { id, .. }, Some(subject)) => {
                Explained::Message(self.explain_message(&subject, Some(id.restore))?)
            }
            (Explain::Message { .. } | Explain::Id { .. }, None) => {
                unreachable!("these name a message")
            }
        };
        Ok(Decision { volatile, ..Decision::reply(Reply::Explained(Box::new(explained))) })
    }
}

impl Shard {
    /// The message to explain, or `None` if the command names a group or an effect.
    fn subject(&self, explain: &Explain) -> Result<Option<Subject<'_>>, Rejection> {
        let (topic, lane, offset) = match explain {
            Explain::Group(_) | Explain::Effect(_) => return Ok(None),
            Explain::Message { topic, partition, offset } => {
                let topic = self.topic_named(topic)?;
                if *partition >= topic.row.partitions {
                    return Err(Rejection::invalid("partition", "does not exist in this topic"));
                }
                (topic, Lane::of(*partition), *offset)
            }
            Explain::Id { namespace, id } => {
                let is_here = id.shard == self.config.shard;
                let topic = self.topics.get(&id.topic).filter(|_| is_here);
                let topic = topic.filter(|topic| topic.row.namespace == *namespace);
                let topic = topic.filter(|topic| id.lane.0 < topic.row.partitions);
                (topic.ok_or(Rejection::NotFound(Missing::Message))?, id.lane, id.offset)
            }
        };
        if offset < topic.lane(lane).high {
            Ok(Some(Subject { topic, lane, offset }))
        } else {
            Err(Rejection::NotFound(Missing::Message))
        }
    }
}

impl Context<'_> {
    fn explain_message(
        &self,
        subject: &Subject<'_>,
        restore: Option<u32>,
    ) -> Result<ExplainedMessage, Refusal> {
        let Subject { topic, lane, offset } = *subject;
        let groups = || topic.groups.values().map(|id| &self.groups[id]);
        let is_kept = offset >= topic.lane(lane).first
            || groups().any(|group| group.cursor(lane).open.contains(offset));
        let message = match self.volatile.cache.get(topic.row.id, lane, offset) {
            _ if !is_kept => None,
            Some(kept) => Some(kept.message.clone()),
            None => self.rows.stored(topic.row.id, lane, offset)?,
        };
        let is_another = message
            .as_ref()
            .is_some_and(|message| restore.is_some_and(|restore| restore != message.restore));
        if is_another || (is_kept || topic.is_dlq()) && message.is_none() {
            return Err(Rejection::NotFound(Missing::Message).into());
        }
        let mut needs: Reads = Vec::new();
        let mut in_groups = Vec::new();
        for group in groups() {
            match self.in_group(subject, group, message.as_ref()) {
                Ok(in_group) => in_groups.push(in_group),
                Err(Refusal::Needs(more)) => needs.extend(more),
                Err(refusal) => return Err(refusal),
            }
        }
        let mut history = None;
        if topic.settings.history {
            match self.history(topic.row.id, lane, offset) {
                Ok(events) => history = Some(events),
                Err(Refusal::Needs(more)) => needs.extend(more),
                Err(refusal) => return Err(refusal),
            }
        }
        let mut dead = None;
        match self.death_of(topic.row.id, message.as_deref()) {
            Ok(death) => dead = death,
            Err(Refusal::Needs(more)) => needs.extend(more),
            Err(refusal) => return Err(refusal),
        }
        if !needs.is_empty() {
            needs.truncate(READ_LOOKUPS_MAX);
            return Err(needs.into());
        }
        let stored_under = message.as_ref().map_or(self.config.restore, |message| message.restore);
        Ok(ExplainedMessage {
            id: self.message_id(topic.row.id, lane, offset).under(restore.unwrap_or(stored_under)),
            topic: topic.row.name.clone(),
            partition: lane.partition(),
            offset,
            message,
            groups: in_groups,
            history,
            dead,
        })
    }

    /// Returns how the message of a dead-letter topic died. `None` for other messages.
    fn death_of(
        &self,
        dlq: TopicId,
        message: Option<&Message>,
    ) -> Result<Option<Box<ExplainedDeath>>, Refusal> {
        let Some(death) = message.and_then(|message| message.death.as_ref()) else {
            return Ok(None);
        };
        let Some(row) = self.dead_letter_row(Some(dlq), death.seq)? else { return Ok(None) };
        let summary = summary::of_dead_letter(self.now, death, &row);
        Ok(Some(Box::new(ExplainedDeath { summary, row: *row })))
    }

    fn in_group(
        &self,
        subject: &Subject<'_>,
        group: &Group,
        message: Option<&Arc<Message>>,
    ) -> Result<InGroup, Refusal> {
        let Subject { topic, lane, offset } = *subject;
        let known = self.known(subject, group, message)?;
        let own = message.and_then(|message| message.envelope.retry_policy);
        let policy = own.map(|own| own.over(&topic.settings.retry_policy));
        let policy = policy.unwrap_or(topic.settings.retry_policy);
        // A dead letter is never dead-lettered again, so it has no attempt limit.
        let max_attempts = if topic.is_dlq() { -1 } else { policy.max_attempts };
        let entry = if let MessageState::Open(entry) = known { Some(entry) } else { None };
        let last_error = if let MessageState::Dead { row: Some(row), .. } = &known {
            // Truncated, as in the list. The dead letter has the full text.
            row.error.clone()
        } else {
            self.last_error(group, lane, offset, entry)?
        };
        let last_owner = entry.map_or_else(no_text, |entry| self.owners.name(entry.owner));
        let effects = match entry {
            Some(entry) => {
                let held = OpenDelivery { topic, group, lane, offset, entry };
                self.effects_of_delivery(&held)?.all()
            }
            None => Vec::new(),
        };
        let effects: Vec<EffectView> =
            effects.into_iter().map(|row| self.show_effect(row)).collect();
        let blocked = self.blocked(self.now, topic, group, lane, group.has_consumers(self.now));
        let blocked = blocked.filter(|why| is_blocked_by(&known, *why));
        let (state, attempts) = state_and_attempts(&known);
        let told = summary::MessageSummary {
            now: self.now,
            group,
            known: &known,
            max_attempts,
            last_error: &last_error,
            last_owner: &last_owner,
            blocked,
            effects: &effects,
        };
        Ok(InGroup {
            group: group.row.name.clone(),
            state,
            summary: told.summary(),
            attempts,
            max_attempts,
            next_attempt_at: entry.filter(|entry| !entry.is_leased()).map(|entry| entry.at),
            leased_until: entry.filter(|entry| entry.is_leased()).map(|entry| entry.at),
            blocked,
            dead_letter: self.dead_letter_of(topic, &known),
            last_error,
            last_owner,
            effects,
        })
    }

    fn known<'a>(
        &self,
        subject: &Subject<'_>,
        group: &'a Group,
        message: Option<&Arc<Message>>,
    ) -> Result<MessageState<'a>, Refusal> {
        let Subject { topic, lane, offset } = *subject;
        let cursor = group.cursor(lane);
        if let Some(open) = cursor.open.get(offset) {
            return Ok(MessageState::Open(&open.entry));
        }
        let for_group = message.and_then(|message| message.for_group.clone());
        if let Some(meant) = for_group.filter(|meant| *meant != group.row.name) {
            return Ok(MessageState::NotMeant(meant));
        }
        if offset >= cursor.next {
            return Ok(MessageState::Fresh { before: offset - cursor.next });
        }
        if offset < cursor.start.offset {
            return Ok(if message.is_some() {
                MessageState::Earlier
            } else {
                MessageState::Trimmed
            });
        }
        match tombstone::find(self.now, group, lane, offset, self.rows)? {
            Some(stone) => match stone.ended {
                Ended::Dead { seq, .. } => {
                    let row = self.dead_letter_row(topic.dlq, seq)?;
                    Ok(MessageState::Dead { attempts: stone.attempt, row })
                }
                Ended::Acked => Ok(MessageState::Done(Some(stone.attempt))),
            },
            None if message.is_none() => Ok(MessageState::Trimmed),
            None => Ok(MessageState::Done(None)),
        }
    }

    fn dead_letter_row(
        &self,
        dlq: Option<TopicId>,
        seq: u64,
    ) -> Result<Option<Box<DeadRow>>, Refusal> {
        let Some(topic) = dlq else { return Ok(None) };
        let row = self.rows.row(Key::Dead { topic, seq })?;
        Ok(row.map(pack::dead_row).transpose()?.map(Box::new))
    }

    fn dead_letter_of(
        &self,
        topic: &Topic,
        known: &MessageState<'_>,
    ) -> Option<crate::id::MessageId> {
        let MessageState::Dead { row: Some(row), .. } = known else { return None };
        Some(self.message_id(topic.dlq?, row.lane, row.offset).under(row.restore))
    }
}

/// Whether `why` blocks the message. Any reason blocks a fresh message; a retry is blocked only by
/// reasons that stop every delivery.
fn is_blocked_by(known: &MessageState<'_>, why: Blocked) -> bool {
    let stops_retries = match why {
        Blocked::Paused | Blocked::NoConsumers | Blocked::NoCredit | Blocked::InFlightLimit => true,
        Blocked::MaxOpen | Blocked::OpenLimit | Blocked::NothingNew | Blocked::Loading => false,
        Blocked::Quarantined => true,
    };
    match known {
        MessageState::Fresh { .. } => true,
        MessageState::Open(entry) => !entry.is_leased() && stops_retries,
        MessageState::NotMeant(_)
        | MessageState::Earlier
        | MessageState::Done(_)
        | MessageState::Dead { .. }
        | MessageState::Trimmed => false,
    }
}

/// Returns the state and the number of attempts that count.
fn state_and_attempts(known: &MessageState<'_>) -> (ExplainState, u32) {
    match known {
        MessageState::Fresh { .. } => (ExplainState::Ready, 0),
        MessageState::Open(entry) if entry.is_leased() => (ExplainState::Leased, entry.spent),
        MessageState::Open(entry) => (ExplainState::Waiting, entry.spent),
        MessageState::NotMeant(_) | MessageState::Earlier => (ExplainState::Settled, 0),
        MessageState::Done(attempts) => (ExplainState::Settled, attempts.unwrap_or(0)),
        MessageState::Dead { attempts, .. } => (ExplainState::Dead, *attempts),
        MessageState::Trimmed => (ExplainState::Trimmed, 0),
    }
}
