//! Settling a delivery: ack, nack, release, give back.
//!
//! The reply depends on the verb and on the state of the message in the group.
//! `docs/reference/settle-table.md` lists every case, and the test `settle_table` reads it.
//! [`DeliveryState`] is the left column of the table.

use crate::change::{Change, Decision, End, Entry, EntryState, LastError};
use crate::command::{Claim, LeaseId, Missing, Nack, NackKind, Rejection, Stale};
use crate::effect::DoubtCause;
use crate::id::cut;
use crate::id::{Lane, Offset, Text};
use crate::limits::{DELAY_MS_MAX, FREE_RETURNS, REASON_BYTES_MAX};
use crate::message::DeathReason;
use crate::refusal::{Decided, Refusal};
use crate::shard::context::Context;
use crate::shard::ledger::OpenEffects;
use crate::shard::rules::backoff::backoff_ms;
use crate::shard::rules::dead_letter::DeadLettering;
use crate::shard::rules::tombstone::{self, Ended};
use crate::shard::state::open_delivery::{OpenDelivery, forget_note, open};
use crate::shard::{Group, Shard, Topic, close, done};
use crate::time::Timestamp;

/// State of the delivery that a claim names.
pub(crate) enum DeliveryState<'a> {
    /// Leased to this attempt. The lease may have run out without being marked as expired yet.
    Leased(OpenDelivery<'a>),
    /// This attempt expired, and no later attempt has started.
    Expired(OpenDelivery<'a>),
    /// This attempt was nacked or given back.
    GivenUp(OpenDelivery<'a>),
    /// Acked by this attempt. A claim by owner does not prove its attempt, so any ack counts for
    /// it.
    Acked,
    /// Dead-lettered because this attempt requested it.
    DeadLettered,
    /// The claim cannot settle the delivery, for this reason.
    Over(Rejection),
}

impl<'a> DeliveryState<'a> {
    /// Returns the leased delivery, for operations that only the current holder of the lease may
    /// perform.
    pub(crate) fn leased(self, claim: &Claim) -> Result<OpenDelivery<'a>, Rejection> {
        match self {
            DeliveryState::Leased(held) => Ok(held),
            DeliveryState::Expired(_) | DeliveryState::GivenUp(_) => {
                Err(stale_lease(Stale::Waiting, claim))
            }
            DeliveryState::Acked => Err(stale_lease(Stale::Settled, claim)),
            DeliveryState::DeadLettered => Err(stale_lease(Stale::Dead, claim)),
            DeliveryState::Over(rejection) => Err(rejection),
        }
    }
}

impl Context<'_> {
    pub(crate) fn ack(&self, claim: &Claim) -> Decided {
        let held = match self.standing(claim)? {
            DeliveryState::Leased(held) | DeliveryState::Expired(held) => held,
            DeliveryState::GivenUp(held) => return Err(stale(Stale::Waiting, &held).into()),
            DeliveryState::Acked => return Ok(done()),
            DeliveryState::DeadLettered => return Err(stale_lease(Stale::Dead, claim).into()),
            DeliveryState::Over(rejection) => return Err(rejection.into()),
        };
        let effects = self.effects_of_delivery(&held)?;
        let mut decision = done();
        self.ack_held(&held, effects, &mut decision.changes)?;
        Ok(decision)
    }

    /// Acks an open entry and ends the effects begun under it.
    pub(crate) fn ack_held(
        &self,
        held: &OpenDelivery<'_>,
        effects: OpenEffects,
        changes: &mut Vec<Change>,
    ) -> Result<(), Rejection> {
        self.end_effects(held, effects, changes)?;
        self.end(held, End::Acked, changes);
        self.remember_ack(held, changes);
        Ok(())
    }

    pub(crate) fn nack(&self, nack: &Nack) -> Decided {
        if nack.delay_ms.is_some_and(|delay| delay > DELAY_MS_MAX) {
            return Err(Rejection::invalid("delay_ms", "must be at most 604800000").into());
        }
        if nack.kind == NackKind::Final && nack.delay_ms.is_some() {
            return Err(Rejection::invalid("delay_ms", "is not allowed with dead_letter").into());
        }
        let held = match self.standing(&nack.claim)? {
            DeliveryState::Leased(held) => held,
            // Only the reason is recorded, because the retry is already scheduled.
            DeliveryState::Expired(held) => return Ok(self.record_late_reason(&held, nack)),
            DeliveryState::GivenUp(_) | DeliveryState::DeadLettered => return Ok(done()),
            DeliveryState::Acked => return Err(stale_lease(Stale::Settled, &nack.claim).into()),
            DeliveryState::Over(rejection) => return Err(rejection.into()),
        };
        match nack.kind {
            NackKind::Release => {
                let mut decision = self.return_delivery(&held, nack.delay_ms.unwrap_or(0));
                let effects = self.unfinished_of_delivery(&held)?;
                self.doubt_effects(effects, DoubtCause::Abandoned, &mut decision.changes);
                Ok(decision)
            }
            NackKind::Failed | NackKind::Final => self.fail(&held, nack, None),
        }
    }

    /// Fails an attempt: schedules a retry, or dead-letters the message. `effects` contains the
    /// effects of the entry if the caller has changed them.
    pub(crate) fn fail(
        &self,
        held: &OpenDelivery<'_>,
        nack: &Nack,
        effects: Option<OpenEffects>,
    ) -> Decided {
        let entry = held.entry;
        let policy = entry.policy(&held.topic.settings);
        let death = if held.topic.is_dlq() {
            // A dead letter that fails waits for a retry. It is never dead-lettered again.
            None
        } else if nack.kind == NackKind::Final {
            Some(DeathReason::Final)
        } else if entry.is_past_deadline(self.now) {
            Some(DeathReason::Deadline)
        } else {
            policy.is_exhausted_by(entry.spent).then_some(DeathReason::Exhausted)
        };
        if let Some(reason) = death {
            let last_error = nack.reason.clone().unwrap_or_else(|| "nack".into());
            let last_error = cut(&last_error, REASON_BYTES_MAX);
            let dead_lettering = DeadLettering::of(held, reason, Some(last_error));
            let effects = match effects {
                Some(effects) => effects,
                None => self.effects_of_delivery(held)?,
            };
            return self.dead_letter(&dead_lettering, effects, DoubtCause::Abandoned);
        }
        let wait_ms = match nack.delay_ms {
            Some(delay) => delay,
            None if held.topic.is_dlq() => policy.max_backoff_ms,
            None => backoff_ms(policy, self.message_id_of(held), entry.spent),
        };
        let effects = match effects {
            Some(effects) => effects,
            None => self.unfinished_of_delivery(held)?,
        };
        let mut decision = done();
        self.doubt_effects(effects, DoubtCause::Abandoned, &mut decision.changes);
        let error = self.record_reason(held, nack.reason.as_ref(), &mut decision.changes);
        let entry = Entry {
            state: EntryState::Nacked,
            returns: 0,
            at: self.now.after(wait_ms),
            error,
            ..*entry
        };
        decision.changes.push(open(held, entry));
        Ok(decision)
    }

    /// Returns the effects of an entry, if one of them may be unfinished.
    pub(crate) fn unfinished_of_delivery(
        &self,
        held: &OpenDelivery<'_>,
    ) -> Result<OpenEffects, Refusal> {
        match held.entry.unfinished {
            0 => Ok(OpenEffects::default()),
            _ => self.effects_of_delivery(held),
        }
    }

    /// Records the reason of a nack that arrived after its lease had expired.
    fn record_late_reason(&self, held: &OpenDelivery<'_>, nack: &Nack) -> Decision {
        let mut decision = done();
        if nack.kind != NackKind::Release {
            let error = self.record_reason(held, nack.reason.as_ref(), &mut decision.changes);
            decision.changes.push(open(held, Entry { error, ..*held.entry }));
        }
        decision
    }

    fn record_reason(
        &self,
        held: &OpenDelivery<'_>,
        reason: Option<&Text>,
        changes: &mut Vec<Change>,
    ) -> LastError {
        let OpenDelivery { group, lane, offset, .. } = *held;
        let generation = group.cursor(lane).start.generation;
        match reason {
            Some(reason) => {
                let text = cut(reason, REASON_BYTES_MAX);
                let group = group.row.id;
                changes.push(Change::LastError { group, generation, lane, offset, text });
                LastError::Note
            }
            None => {
                forget_note(held, changes);
                LastError::Nack
            }
        }
    }

    /// Undoes a delivery. It does not count, and the message is delivered before fresh ones.
    fn return_delivery(&self, held: &OpenDelivery<'_>, delay_ms: u64) -> Decision {
        let entry = held.entry;
        let returns = entry.returns.saturating_add(1);
        let wait_ms = if returns > FREE_RETURNS {
            delay_ms.max(entry.policy(&held.topic.settings).backoff_ms)
        } else {
            delay_ms
        };
        let entry = Entry {
            state: EntryState::Returned,
            spent: entry.spent - 1,
            returns,
            at: self.now.after(wait_ms),
            ..*entry
        };
        done().with(open(held, entry))
    }

    /// Gives back a lease that never reached its consumer. Does nothing if the lease has ended.
    pub(crate) fn give_back(&self, hold: &LeaseId) -> Decision {
        match self.held(hold) {
            Some(held) => self.return_delivery(&held, 0),
            None => done(),
        }
    }
}

impl Shard {
    /// Returns the entry that `hold` names, if it is still leased to that attempt.
    pub(crate) fn held(&self, hold: &LeaseId) -> Option<OpenDelivery<'_>> {
        let held = self.open_entry(hold)?;
        (held.entry.attempt == hold.attempt && held.entry.is_leased()).then_some(held)
    }

    /// Returns the open entry that `hold` names, regardless of the attempt.
    pub(crate) fn open_entry(&self, hold: &LeaseId) -> Option<OpenDelivery<'_>> {
        let group = self.groups.get(&hold.group)?;
        let topic = self.topics.get(&group.row.topic)?;
        let cursor = group.cursors.get(hold.lane.index())?;
        let entry = &cursor.open.get(hold.offset)?.entry;
        let (lane, offset) = (hold.lane, hold.offset);
        let is_same_life = cursor.start.generation == hold.generation;
        is_same_life.then_some(OpenDelivery { topic, group, lane, offset, entry })
    }

    /// Deletes an open entry and its last error, and trims its page if no other entry needs it.
    pub(crate) fn end(&self, held: &OpenDelivery<'_>, end: End, changes: &mut Vec<Change>) {
        changes.push(close(held.group, held.lane, held.offset, end));
        forget_note(held, changes);
        changes.extend(self.trim_gap(held.topic, held.lane, held.offset));
    }
}

impl Context<'_> {
    pub(crate) fn message_id_of(&self, held: &OpenDelivery<'_>) -> crate::id::MessageId {
        self.message_id(held.topic.row.id, held.lane, held.offset)
    }

    pub(crate) fn standing(&self, claim: &Claim) -> Result<DeliveryState<'_>, Refusal> {
        let Place { topic, group, lane, offset } = self.place(claim)?;
        let cursor = group.cursor(lane);
        if offset >= cursor.next {
            return Ok(DeliveryState::Over(Rejection::NotDelivered));
        }
        if let Some(open) = cursor.open.get(offset) {
            let held = OpenDelivery { topic, group, lane, offset, entry: &open.entry };
            return Ok(self.standing_of_open(claim, held));
        }
        if let Some(damaged) = cursor.damage_at(offset) {
            return Err(damaged.clone().into());
        }
        let remembered = tombstone::find(self.now, group, lane, offset, self.rows)?;
        Ok(standing_of_settled(self.now, claim, topic, remembered))
    }

    fn standing_of_open<'a>(&self, claim: &Claim, held: OpenDelivery<'a>) -> DeliveryState<'a> {
        match claim {
            // A token from before a repair may have any attempt: see `reopen`.
            Claim::Token(token, _)
                if token.attempt != held.entry.attempt
                    || token.granted_at < held.entry.first_at =>
            {
                let state = if held.entry.is_leased() { Stale::Leased } else { Stale::Waiting };
                let current = Some(held.entry.attempt);
                return DeliveryState::Over(Rejection::StaleLease {
                    state,
                    attempt: token.attempt,
                    current,
                });
            }
            Claim::Owner { owner, .. } if self.owners.name(held.entry.owner) != *owner => {
                return DeliveryState::Over(Rejection::NotOwner);
            }
            Claim::Token(_, Some(expected)) => {
                let owner = self.owners.name(held.entry.owner);
                if let Err(rejection) = expected.agrees_with_owner(&owner) {
                    return DeliveryState::Over(rejection);
                }
            }
            Claim::Token(_, None) | Claim::Owner { .. } => {}
        }
        match held.entry.state {
            EntryState::Leased => DeliveryState::Leased(held),
            EntryState::Expired => DeliveryState::Expired(held),
            EntryState::Nacked | EntryState::Returned => DeliveryState::GivenUp(held),
        }
    }
}

impl Shard {
    fn place(&self, claim: &Claim) -> Result<Place<'_>, Rejection> {
        match claim {
            Claim::Token(token, expected) => {
                let topic = self.topics.get(&token.topic);
                let topic = topic.filter(|topic| topic.row.namespace == token.namespace);
                let topic = topic.ok_or(Rejection::NotFound(Missing::Topic))?;
                let group =
                    self.groups.get(&token.group).ok_or(Rejection::NotFound(Missing::Group))?;
                if let Some(expected) = expected {
                    expected.agrees(token, topic, group)?;
                }
                let cursor = group.cursors.get(token.lane.index());
                let cursor = cursor.ok_or(Rejection::NotFound(Missing::Message))?;
                let current = cursor.start.generation == token.generation
                    && token.restore == self.config.restore;
                if !current {
                    return Err(stale_lease(Stale::Generation, claim));
                }
                Ok(Place { topic, group, lane: token.lane, offset: token.offset })
            }
            Claim::Owner { name, partition, offset, .. } => {
                let (topic, group) = self.group_named(name)?;
                if topic.settings.require_token {
                    return Err(Rejection::TokenRequired);
                }
                if *partition >= topic.row.partitions {
                    return Err(Rejection::invalid("partition", "does not exist in this topic"));
                }
                Ok(Place { topic, group, lane: Lane::of(*partition), offset: *offset })
            }
        }
    }
}

struct Place<'a> {
    topic: &'a Topic,
    group: &'a Group,
    lane: Lane,
    offset: Offset,
}

/// Returns the state of a delivery whose entry is not open any more.
fn standing_of_settled<'a>(
    now: Timestamp,
    claim: &Claim,
    topic: &Topic,
    remembered: Option<tombstone::Tombstone>,
) -> DeliveryState<'a> {
    let token = match claim {
        Claim::Token(token, _) => Some(token),
        Claim::Owner { .. } => None,
    };
    match (remembered.map(|stone| (stone.ended, stone.attempt)), token) {
        (Some((Ended::Acked, attempt)), Some(token)) if token.attempt != attempt => {
            DeliveryState::Over(stale_lease(Stale::Settled, claim))
        }
        (Some((Ended::Acked, _)), _) => DeliveryState::Acked,
        (Some((Ended::Dead { asked: true, .. }, attempt)), Some(token))
            if token.attempt == attempt =>
        {
            DeliveryState::DeadLettered
        }
        (Some((Ended::Dead { .. }, _)), _) => DeliveryState::Over(stale_lease(Stale::Dead, claim)),
        // A claim by owner is not fenced.
        (None, None) => DeliveryState::Acked,
        (None, Some(token)) => {
            if topic.remembers(now, token.granted_at) && token.attempt == 1 {
                DeliveryState::Acked
            } else {
                DeliveryState::Over(stale_lease(Stale::Gone, claim))
            }
        }
    }
}

fn stale(state: Stale, held: &OpenDelivery<'_>) -> Rejection {
    let attempt = held.entry.attempt;
    Rejection::StaleLease { state, attempt, current: Some(attempt) }
}

pub(crate) fn stale_lease(state: Stale, claim: &Claim) -> Rejection {
    let attempt = match claim {
        Claim::Token(token, _) => token.attempt,
        Claim::Owner { .. } => 0,
    };
    Rejection::StaleLease { state, attempt, current: None }
}
