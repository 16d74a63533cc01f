//! Redrives a dead letter to the group that failed.

use std::sync::Arc;

use crate::change::{Change, DeadRow, Decision, LaneState, Lookup, Reads, Redriven};
use crate::command::{Missing, Redrive, Rejection, Reply};
use crate::id::TopicId;
use crate::id::cut;
use crate::limits::REASON_BYTES_MAX;
use crate::message::{DeathReason, Message};
use crate::pack;
use crate::refusal::{Decided, Refusal};
use crate::row::Key;
use crate::shard::context::Context;
use crate::shard::{Shard, Topic, done};

impl Shard {
    pub(crate) fn redrive_reads(&self, redrive: &Redrive) -> Reads {
        let id = redrive.id;
        match self.dead_letters(redrive) {
            Ok((_, topic)) => vec![Lookup::Message { topic, lane: id.lane, offset: id.offset }],
            Err(_) => Vec::new(),
        }
    }

    /// Returns the source topic and its dead-letter topic. Rejects an id outside of that topic.
    fn dead_letters(&self, redrive: &Redrive) -> Result<(&Topic, TopicId), Rejection> {
        let source = self.topic_named(&redrive.topic)?;
        let id = redrive.id;
        let dlq = source.dlq.filter(|dlq| {
            (self.config.shard, *dlq) == (id.shard, id.topic)
                && id.lane.0 < source.row.partitions
                && id.offset < self.topics[dlq].lane(id.lane).high
        });
        Ok((source, dlq.ok_or(Rejection::NotFound(Missing::Message))?))
    }
}

impl Context<'_> {
    /// Stores the message again at the end of its partition, for its group only. Attempts start at
    /// 1, and the message keeps its origin id.
    pub(crate) fn redrive(&self, redrive: &Redrive) -> Decided {
        let (source, dlq) = self.dead_letters(redrive)?;
        let lane = redrive.id.lane;
        let dead = self.dead_message(dlq, lane, redrive.id.offset)?;
        let dead = dead.ok_or(Rejection::NotFound(Missing::Message))?;
        let death = dead.death.as_ref().ok_or(Rejection::NotFound(Missing::Message))?;
        let listed = self.rows.row(Key::Dead { topic: dlq, seq: death.seq })?;
        let listed: DeadRow = pack::dead_row(listed.ok_or(Rejection::NotFound(Missing::Message))?)?;
        if listed.restore != redrive.id.restore {
            // Offsets are reused after a restore: the id was issued before it, for another dead
            // letter.
            return Err(Rejection::NotFound(Missing::Message).into());
        }
        if let Some(before) = &listed.redriven {
            return Ok(Decision::reply(Reply::Redriven { new: before.new, already: true }));
        }
        if death.reason == DeathReason::Undeliverable {
            // The message was produced for another topic.
            return Err(Rejection::Undeliverable.into());
        }
        if !source.groups.contains_key(&death.group) {
            return Err(Refusal::Rejected(Rejection::NotFound(Missing::Group)));
        }
        let kept_until = listed.effects_until;
        let kept_until = kept_until.unwrap_or(death.at.after(source.settings.effect_ttl_ms));
        if death.had_effects && self.now >= kept_until && !redrive.force {
            return Err(Rejection::EffectsExpired.into());
        }
        self.check_storage()?;
        let offset = source.lane(lane).high;
        let new = self.message_id(source.row.id, lane, offset);
        let mut message = Message {
            restore: self.config.restore,
            origin: Some(dead.origin.unwrap_or(death.id)),
            redriven: dead.redriven + 1,
            for_group: Some(death.group.clone()),
            death: None,
            ..Message::clone(&dead)
        };
        if death.reason == DeathReason::Deadline {
            message.envelope.deadline = None;
        }
        let redriven = Redriven {
            by: cut(&redrive.by, REASON_BYTES_MAX),
            reason: cut(&redrive.reason, REASON_BYTES_MAX),
            at: self.now,
            new,
        };
        let state = source.lane(lane);
        let state = LaneState { dead: state.dead.saturating_sub(1), ..state.clone() };
        let topic = source.row.id;
        Ok(Decision { reply: Reply::Redriven { new, already: false }, ..done() }
            .with(Change::Lane { topic, lane, state })
            .with(Change::Message { topic, lane, offset, message: Arc::new(message) })
            .with(Change::Dead(Box::new(DeadRow { redriven: Some(redriven), ..listed }))))
    }
}
