//! Ack, nack, release, give back: the end of a delivery.
//!
//! What each answers is a table (`docs/reference` will carry it; the test `settle_table` is it): by what
//! the shard knows of the message in that group. [`Standing`] is the table's left column.

use crate::change::{Change, Decision, End, Entry, EntryState, LastError};
use crate::command::{Claim, LeaseId, Missing, Nack, NackKind, Rejection, Stale};
use crate::effect::DoubtCause;
use crate::id::cut;
use crate::id::{Lane, Offset, Text};
use crate::limits::{DELAY_MS_MAX, FREE_RETURNS, REASON_BYTES_MAX};
use crate::message::DeathReason;
use crate::refusal::{Decided, Refusal};
use crate::shard::context::Context;
use crate::shard::ledger::Effects;
use crate::shard::rules::backoff::backoff_ms;
use crate::shard::rules::dead_letter::DeadLettering;
use crate::shard::rules::tombstone::{self, Ended};
use crate::shard::state::open_delivery::{OpenDelivery, forget_note, open};
use crate::shard::{Group, Shard, Topic, close, done};
use crate::time::Timestamp;

/// What the shard knows of the delivery a caller means.
pub(crate) enum Standing<'a> {
    /// Leased to this attempt, perhaps past its time and not yet noticed.
    Leased(OpenDelivery<'a>),
    /// This attempt expired and nobody else has it yet.
    Expired(OpenDelivery<'a>),
    /// This attempt was nacked or given back.
    GivenUp(OpenDelivery<'a>),
    /// Done by this attempt, or by somebody who need not prove which.
    Acked,
    /// Dead by the final nack of this attempt.
    DeadLettered,
    /// Over, and not by this attempt.
    Over(Rejection),
}

impl<'a> Standing<'a> {
    /// The lease, for what only its holder may do, and only in time.
    pub(crate) fn leased(self, claim: &Claim) -> Result<OpenDelivery<'a>, Rejection> {
        match self {
            Standing::Leased(held) => Ok(held),
            Standing::Expired(_) | Standing::GivenUp(_) => Err(stale_lease(Stale::Waiting, claim)),
            Standing::Acked => Err(stale_lease(Stale::Settled, claim)),
            Standing::DeadLettered => Err(stale_lease(Stale::Dead, claim)),
            Standing::Over(rejection) => Err(rejection),
        }
    }
}

impl Context<'_> {
    pub(crate) fn ack(&self, claim: &Claim) -> Decided {
        let held = match self.standing(claim)? {
            Standing::Leased(held) | Standing::Expired(held) => held,
            Standing::GivenUp(held) => return Err(stale(Stale::Waiting, &held).into()),
            Standing::Acked => return Ok(done()),
            Standing::DeadLettered => return Err(stale_lease(Stale::Dead, claim).into()),
            Standing::Over(rejection) => return Err(rejection.into()),
        };
        let effects = self.effects_of_delivery(&held)?;
        let mut decision = done();
        self.ack_held(&held, effects, &mut decision.changes)?;
        Ok(decision)
    }

    /// Ends an open entry, with the effects begun under it.
    pub(crate) fn ack_held(
        &self,
        held: &OpenDelivery<'_>,
        effects: Effects,
        changes: &mut Vec<Change>,
    ) -> Result<(), Rejection> {
        self.end_effects(held, effects, changes)?;
        self.end(held, End::Acked, changes);
        self.remember_ack(held, changes);
        Ok(())
    }

    pub(crate) fn nack(&self, nack: &Nack) -> Decided {
        if nack.delay_ms.is_some_and(|delay| delay > DELAY_MS_MAX) {
            return Err(Rejection::invalid("delay_ms", "is at most 604800000").into());
        }
        if nack.kind == NackKind::Final && nack.delay_ms.is_some() {
            return Err(Rejection::invalid("delay_ms", "does not go with dead_letter").into());
        }
        let held = match self.standing(&nack.claim)? {
            Standing::Leased(held) => held,
            // Nothing changes but the reason: the retry is already on its way.
            Standing::Expired(held) => return Ok(self.give_reason(&held, nack)),
            Standing::GivenUp(_) | Standing::DeadLettered => return Ok(done()),
            Standing::Acked => return Err(stale_lease(Stale::Settled, &nack.claim).into()),
            Standing::Over(rejection) => return Err(rejection.into()),
        };
        match nack.kind {
            NackKind::Release => {
                let mut decision = self.put_back(&held, nack.delay_ms.unwrap_or(0));
                let effects = self.unfinished_of_delivery(&held)?;
                self.doubt_effects(effects, DoubtCause::Abandoned, &mut decision.changes);
                Ok(decision)
            }
            NackKind::Failed | NackKind::Final => self.fail(&held, nack, None),
        }
    }

    /// `effects` are those of the entry, where the caller has changed them.
    pub(crate) fn fail(
        &self,
        held: &OpenDelivery<'_>,
        nack: &Nack,
        effects: Option<Effects>,
    ) -> Decided {
        let entry = held.entry;
        let policy = entry.policy(&held.topic.settings);
        let death = if held.topic.is_dlq() {
            // A dead letter that fails again waits; there is no dead letter of a dead letter.
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

    /// Effects of an entry, if one may be unfinished.
    pub(crate) fn unfinished_of_delivery(
        &self,
        held: &OpenDelivery<'_>,
    ) -> Result<Effects, Refusal> {
        match held.entry.unfinished {
            0 => Ok(Effects::default()),
            _ => self.effects_of_delivery(held),
        }
    }

    /// The reason of a nack that came after its lease had run out.
    fn give_reason(&self, held: &OpenDelivery<'_>, nack: &Nack) -> Decision {
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

    /// Undoes a delivery: it does not count, and the message goes before fresh ones.
    fn put_back(&self, held: &OpenDelivery<'_>, delay_ms: u64) -> Decision {
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

    /// A lease that never reached its consumer. One that is over needs nothing.
    pub(crate) fn give_back(&self, hold: &LeaseId) -> Decision {
        match self.held(hold) {
            Some(held) => self.put_back(&held, 0),
            None => done(),
        }
    }
}

impl Shard {
    /// The leased entry that `hold` names, if it is still that attempt's.
    pub(crate) fn held(&self, hold: &LeaseId) -> Option<OpenDelivery<'_>> {
        let held = self.open_entry(hold)?;
        (held.entry.attempt == hold.attempt && held.entry.is_leased()).then_some(held)
    }

    /// The open entry that `hold` names, whichever attempt is at it.
    pub(crate) fn open_entry(&self, hold: &LeaseId) -> Option<OpenDelivery<'_>> {
        let group = self.groups.get(&hold.group)?;
        let topic = self.topics.get(&group.row.topic)?;
        let cursor = group.cursors.get(hold.lane.index())?;
        let entry = &cursor.open.get(hold.offset)?.entry;
        let (lane, offset) = (hold.lane, hold.offset);
        let is_same_life = cursor.start.generation == hold.generation;
        is_same_life.then_some(OpenDelivery { topic, group, lane, offset, entry })
    }

    /// Takes an entry away, its last error with it, and the page it was the last to need.
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

    pub(crate) fn standing(&self, claim: &Claim) -> Result<Standing<'_>, Refusal> {
        let Place { topic, group, lane, offset } = self.place(claim)?;
        let cursor = group.cursor(lane);
        if offset >= cursor.next {
            return Ok(Standing::Over(Rejection::NotDelivered));
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

    fn standing_of_open<'a>(&self, claim: &Claim, held: OpenDelivery<'a>) -> Standing<'a> {
        match claim {
            // A token from before a repair may have any attempt: see `reopen`.
            Claim::Token(token, _)
                if token.attempt != held.entry.attempt
                    || token.granted_at < held.entry.first_at =>
            {
                let state = if held.entry.is_leased() { Stale::Leased } else { Stale::Waiting };
                let current = Some(held.entry.attempt);
                return Standing::Over(Rejection::StaleLease {
                    state,
                    attempt: token.attempt,
                    current,
                });
            }
            Claim::Owner { owner, .. } if self.owners.name(held.entry.owner) != *owner => {
                return Standing::Over(Rejection::NotOwner);
            }
            Claim::Token(_, Some(expected)) => {
                let owner = self.owners.name(held.entry.owner);
                if let Err(rejection) = expected.agrees_with_owner(&owner) {
                    return Standing::Over(rejection);
                }
            }
            Claim::Token(_, None) | Claim::Owner { .. } => {}
        }
        match held.entry.state {
            EntryState::Leased => Standing::Leased(held),
            EntryState::Expired => Standing::Expired(held),
            EntryState::Nacked | EntryState::Returned => Standing::GivenUp(held),
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
                    return Err(Rejection::invalid("partition", "there is no such partition"));
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

/// The rows of the table below "not open any more".
fn standing_of_settled<'a>(
    now: Timestamp,
    claim: &Claim,
    topic: &Topic,
    remembered: Option<tombstone::Tombstone>,
) -> Standing<'a> {
    let token = match claim {
        Claim::Token(token, _) => Some(token),
        Claim::Owner { .. } => None,
    };
    match (remembered.map(|stone| (stone.ended, stone.attempt)), token) {
        (Some((Ended::Acked, attempt)), Some(token)) if token.attempt != attempt => {
            Standing::Over(stale_lease(Stale::Settled, claim))
        }
        (Some((Ended::Acked, _)), _) => Standing::Acked,
        (Some((Ended::Dead { asked: true, .. }, attempt)), Some(token))
            if token.attempt == attempt =>
        {
            Standing::DeadLettered
        }
        (Some((Ended::Dead { .. }, _)), _) => Standing::Over(stale_lease(Stale::Dead, claim)),
        // Unfenced anyway.
        (None, None) => Standing::Acked,
        (None, Some(token)) => {
            if topic.remembers(now, token.granted_at) && token.attempt == 1 {
                Standing::Acked
            } else {
                Standing::Over(stale_lease(Stale::Gone, claim))
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
