//! Begins an effect: grants the right to execute it, or replays its outcome.

use crate::change::{Change, Decision, Entry};
use crate::command::{
    Began, Begin, BeginDecision, BeginOf, Claim, LeaseId, Missing, Rejection, Reply, Request,
};
use crate::effect::{DeliveryRef, EffectName, EffectRow, EffectState, Outcome, Scope};
use crate::id::{MessageId, Text};
use crate::limits::{
    EFFECTS_MAX, NONCE_CHARS_MAX, PARKED_RETRY_MS, REQUEST_HASH_CHARS_MAX, YEAR_MS,
};
use crate::message::{DeathReason, Message};
use crate::pack::effect_hash;
use crate::refusal::{Decided, Refusal};
use crate::settings::{EFFECT_TTL_MS, OnDoubt};
use crate::shard::context::Context;
use crate::shard::state::open_delivery::{OpenDelivery, open};
use crate::time::Timestamp;
use crate::token::EffectToken;
use crate::validate::{check_key, check_lease, check_owner};

/// The default lease of an effect without a delivery.
const LEASE_MS: u64 = 30_000;

/// Number of bits for the fences between two restores. Together with the 32 bits of the restore
/// generation a fence stays below 2^53, so every JSON client can represent it.
const FENCE_BITS: u32 = 21;

/// A begin with its defaults filled in.
struct BeginRequest<'a> {
    name: EffectName,
    request: Option<Text>,
    on_doubt: Option<OnDoubt>,
    ttl_ms: u64,
    owner: Text,
    place: Place<'a>,
    /// When the key was accepted as new, if it is the key of the message.
    accepted_at: Option<Timestamp>,
}

/// Where the lease comes from.
enum Place<'a> {
    /// From the delivery.
    Delivery(OpenDelivery<'a>, DeliveryRef),
    /// A lease of its own. With `again`, no new effect is created.
    Alone { lease_ms: u64, again: bool },
}

impl Context<'_> {
    pub(crate) fn begin(&self, begin: &Begin) -> Decided {
        check(begin)?;
        let asked = self.asked(begin)?;
        let again = matches!(asked.place, Place::Alone { again: true, .. });
        let row = self.find_effect(&asked.name)?;
        let fence = self.next_fence(row.as_ref());
        let Some(row) = row.filter(|row| !is_of_earlier_life(row, asked.accepted_at)) else {
            if again {
                return Err(Rejection::NotFound(Missing::Effect).into());
            }
            self.check_storage()?;
            return self.grant(begin, &asked, fence, None);
        };
        if row.request != asked.request && !(again && asked.request.is_none()) {
            return Err(Rejection::RequestConflict.into());
        }
        match super::state_now(self.now, &row) {
            EffectState::InProgress => self.in_progress(begin, &asked, row),
            EffectState::Succeeded | EffectState::FailedFinal => self.replay(&asked, row),
            EffectState::FailedRetryable => match (&asked.place, again) {
                (Place::Alone { .. }, false) => {
                    Ok(self.began(BeginDecision::Retryable, row, Vec::new()))
                }
                // The queue, or the caller, has already decided to try again.
                (Place::Alone { .. }, true) | (Place::Delivery(..), _) => {
                    self.grant(begin, &asked, fence, Some(row))
                }
            },
            EffectState::InDoubt => self.grant(begin, &asked, fence, Some(row)),
            EffectState::Parked => {
                let doubt = Box::new(row.doubt.expect("an effect in doubt has a cause"));
                Err(Rejection::Parked { doubt, retry_after_ms: PARKED_RETRY_MS }.into())
            }
        }
    }

    fn asked<'a>(&'a self, begin: &Begin) -> Result<BeginRequest<'a>, Refusal> {
        let request = begin.request.as_ref().map(fingerprint);
        match &begin.of {
            BeginOf::Scope { name, lease_ms, again } => {
                if let Scope::Delivery(_) = name.scope {
                    let why = "effect/… requires a lease_token";
                    return Err(Rejection::invalid("scope", why).into());
                }
                if begin.on_doubt.is_none() && !again {
                    return Err(no_policy().into());
                }
                let lease_ms = lease_ms.unwrap_or(LEASE_MS);
                check_lease(lease_ms)?;
                Ok(BeginRequest {
                    name: self.effect_name(name)?,
                    request,
                    on_doubt: begin.on_doubt,
                    ttl_ms: begin.ttl_ms.unwrap_or(EFFECT_TTL_MS),
                    owner: begin.owner.clone().unwrap_or_default(),
                    place: Place::Alone { lease_ms, again: *again },
                    accepted_at: None,
                })
            }
            BeginOf::Delivery { token, key } => {
                let claim = Claim::Token(token.clone(), None);
                let held = self.standing(&claim)?.leased(&claim)?;
                let on_doubt = begin.on_doubt.or(held.topic.settings.on_doubt);
                if on_doubt.is_none() {
                    return Err(no_policy().into());
                }
                let topic = held.topic.row.id;
                let message = self.message_at(topic, held.lane, held.offset)?;
                let (hold, id) = (hold_of(&held), self.id_of(&held, &message));
                let name = self.delivery_effect(&held, &message, key.as_ref())?;
                Ok(BeginRequest {
                    accepted_at: accepted_at(&name, &message),
                    name,
                    request,
                    on_doubt,
                    ttl_ms: begin.ttl_ms.unwrap_or(held.topic.settings.effect_ttl_ms),
                    owner: match &begin.owner {
                        Some(owner) => owner.clone(),
                        None => self.owners.name(held.entry.owner),
                    },
                    place: Place::Delivery(held, DeliveryRef { hold, message: id }),
                })
            }
        }
    }

    pub(crate) fn id_of(&self, held: &OpenDelivery<'_>, message: &Message) -> MessageId {
        self.message_id_of(held).under(message.restore)
    }

    /// Returns the name of an effect under a delivery. The key defaults to the key or id of the
    /// message.
    pub(super) fn delivery_effect(
        &self,
        held: &OpenDelivery<'_>,
        message: &Message,
        key: Option<&Text>,
    ) -> Result<EffectName, Rejection> {
        let key = match key.or(message.envelope.idempotency_key.as_ref()) {
            Some(key) => key.clone(),
            None => message.origin.unwrap_or(self.id_of(held, message)).to_string().into(),
        };
        check_key(&key)?;
        let topic = &held.topic.row;
        Ok(EffectName {
            namespace: topic.namespace.clone(),
            tenant: message.tenant().into(),
            topic: Some(topic.id),
            scope: super::delivery_scope(&topic.name, &held.group.row.name).into(),
            key,
        })
    }

    /// Returns the next fence. After a restore it is above every fence granted before the restore.
    pub(super) fn next_fence(&self, before: Option<&EffectRow>) -> u64 {
        let least = u64::from(self.config.restore) << FENCE_BITS;
        before.map_or(0, |row| row.fence).max(least) + 1
    }

    /// Repeats the reply if the holder retries its begin, which it proves with its nonce. Rejects
    /// any other caller.
    fn in_progress(&self, begin: &Begin, asked: &BeginRequest<'_>, row: EffectRow) -> Decided {
        let hold = match &asked.place {
            Place::Delivery(_, under) => Some(under.hold),
            Place::Alone { .. } => None,
        };
        let is_holder = begin.nonce.is_some()
            && begin.nonce == row.nonce
            && hold == row.under.map(|under| under.hold);
        if is_holder {
            return Ok(self.began(granted_as(&row), row, Vec::new()));
        }
        Err(self.in_progress_elsewhere(row).into())
    }

    pub(super) fn in_progress_elsewhere(&self, row: EffectRow) -> Rejection {
        let until = self.held_until(&row).unwrap_or(self.now);
        let retry_after_ms = until.since(self.now).max(1);
        Rejection::InProgress { fence: row.fence, owner: row.owner, retry_after_ms }
    }

    /// Replays the outcome. It does not expire while the message is open.
    fn replay(&self, asked: &BeginRequest<'_>, row: EffectRow) -> Decided {
        let mut changes = Vec::new();
        let mut row = row;
        if let Place::Delivery(held, under) = &asked.place
            && !self.holds(held, effect_hash(&row.name))?
        {
            self.hold_effect(held, &row.name, 0, &mut changes)?;
            row = EffectRow { under: Some(*under), expires: Timestamp::MAX, ..row };
            row.hold(under.hold.generation, under.hold.lane);
            self.put_effect(row.clone(), &mut changes);
        }
        Ok(self.began(BeginDecision::Replay, row, changes))
    }

    /// Grants the right to execute under `fence`.
    fn grant(
        &self,
        begin: &Begin,
        asked: &BeginRequest<'_>,
        fence: u64,
        before: Option<EffectRow>,
    ) -> Decided {
        let mut changes = Vec::new();
        let mut is_new_holder = false;
        let is_known = before.as_ref().is_some_and(|row| row.state.is_known());
        let renew = before.as_ref().is_some_and(|row| row.renew);
        let (under, lease_ms) = match &asked.place {
            Place::Delivery(held, under) => {
                let was_here = before
                    .as_ref()
                    .and_then(|row| row.under)
                    .is_some_and(|before| before.is_of_same_entry(&under.hold));
                let is_counted = was_here && !is_known;
                if self.holds(held, effect_hash(&asked.name))? {
                    self.count_effect(held, 0, u8::from(!is_counted), &mut changes);
                } else {
                    self.hold_effect(held, &asked.name, 1, &mut changes)?;
                    is_new_holder = true;
                }
                (Some(*under), 0)
            }
            Place::Alone { lease_ms, .. } => (None, *lease_ms),
        };
        let on_doubt = match (&before, asked.on_doubt) {
            (Some(row), _) => row.on_doubt,
            (None, Some(on_doubt)) => on_doubt,
            (None, None) => return Err(no_policy().into()),
        };
        let mut row = EffectRow {
            name: asked.name.clone(),
            state: EffectState::InProgress,
            fence,
            born: before.as_ref().map_or(self.now, |row| row.born),
            began_at: self.now,
            updated_at: self.now,
            expires: Timestamp::MAX,
            ttl_ms: match (&before, begin.ttl_ms) {
                (Some(row), None) => row.ttl_ms,
                (Some(_) | None, _) => asked.ttl_ms,
            },
            request: match &before {
                Some(row) => row.request.clone(),
                None => asked.request.clone(),
            },
            nonce: begin.nonce.clone(),
            on_doubt,
            lease_ms,
            until: self.now.after(lease_ms),
            under,
            holders: before.as_ref().map_or(0, |row| row.holders),
            held_by: before.as_ref().map_or_else(Vec::new, |row| row.held_by.clone()),
            owner: asked.owner.clone(),
            window_ms: before.as_ref().and_then(|row| row.window_ms).or(begin.window_ms),
            key_since: before.as_ref().filter(|_| !renew).map_or(self.now, |row| row.key_since),
            renewed: before.as_ref().map_or(0, |row| row.renewed) + u32::from(renew),
            renew: false,
            outcome: Outcome::default(),
            doubt: before.filter(|_| !is_known).and_then(|row| row.doubt),
            resolution: None,
        };
        if let Some(under) = under.filter(|_| is_new_holder) {
            row.hold(under.hold.generation, under.hold.lane);
        }
        self.audit_begin(&row, &mut changes);
        self.put_effect(row.clone(), &mut changes);
        Ok(self.began(granted_as(&row), row, changes))
    }

    fn began(&self, decision: BeginDecision, row: EffectRow, changes: Vec<Change>) -> Decision {
        let token = match decision {
            BeginDecision::Execute | BeginDecision::Probe => Some(EffectToken {
                restore: self.config.restore,
                namespace: row.name.namespace.clone(),
                shard: self.config.shard,
                hash: effect_hash(&row.name),
                born: row.born,
                fence: row.fence,
            }),
            BeginDecision::Replay | BeginDecision::Retryable => None,
        };
        let effect = self.show_effect(row);
        let reply = Reply::Began(Box::new(Began { decision, effect, token }));
        Decision { changes, ..Decision::reply(reply) }
    }

    /// Links an effect to the open entry it is begun under.
    fn hold_effect(
        &self,
        held: &OpenDelivery<'_>,
        name: &EffectName,
        unfinished: u8,
        changes: &mut Vec<Change>,
    ) -> Result<(), Rejection> {
        if held.entry.begun >= EFFECTS_MAX {
            return Err(Rejection::invalid("key", "a message has at most 32 effects in a group"));
        }
        let LeaseId { lane, generation, offset, .. } = hold_of(held);
        changes.push(Change::EffectLink { generation, lane, offset, hash: effect_hash(name) });
        self.count_effect(held, 1, unfinished, changes);
        Ok(())
    }

    fn count_effect(
        &self,
        held: &OpenDelivery<'_>,
        begun: u8,
        unfinished: u8,
        changes: &mut Vec<Change>,
    ) {
        let before = held.entry;
        let begun = before.begun + begun;
        // An effect that was begun under another message in between is already counted.
        let unfinished = before.unfinished.saturating_add(unfinished).min(begun);
        let entry = Entry { begun, unfinished, ..*before };
        if entry != *before {
            changes.push(open(held, entry));
        }
    }
}

/// Returns whether the holder of a fence may execute the effect or must probe first.
fn granted_as(row: &EffectRow) -> BeginDecision {
    match (&row.doubt, row.on_doubt) {
        (Some(_), OnDoubt::Probe) => BeginDecision::Probe,
        (Some(_), OnDoubt::Retry | OnDoubt::Park) | (None, _) => BeginDecision::Execute,
    }
}

pub(super) fn hold_of(held: &OpenDelivery<'_>) -> LeaseId {
    LeaseId {
        group: held.group.row.id,
        lane: held.lane,
        generation: held.group.cursor(held.lane).start.generation,
        offset: held.offset,
        attempt: held.entry.attempt,
    }
}

/// Returns the stored form of a request. The prefix distinguishes a hash of the caller from a
/// computed one.
fn fingerprint(request: &Request) -> Text {
    match request {
        Request::Content(content) => format!("blake3:{}", blake3::hash(content).to_hex()).into(),
        Request::Hash(hash) => format!("own:{hash}").into(),
    }
}

fn no_policy() -> Rejection {
    let why =
        "must be retry, probe or park: it decides what happens if a worker dies before finish";
    Rejection::invalid("on_doubt", why)
}

/// Returns when the key of an effect was accepted as new, if it is the key of its message. No topic
/// has accepted the key of an undeliverable message.
pub(super) fn accepted_at(name: &EffectName, message: &Message) -> Option<Timestamp> {
    let is_its_own = message.envelope.idempotency_key.as_ref() == Some(&name.key);
    let death = message.death.as_ref();
    let is_accepted = death.is_none_or(|death| death.reason != DeathReason::Undeliverable);
    (is_its_own && is_accepted).then_some(message.produced_at)
}

/// Whether an outcome belongs to an earlier message of the same key.
///
/// A key is free again before the last outcome under it expires, because the outcome starts to
/// expire later. A message that was accepted as new must not replay that outcome, or its own effect
/// would never happen.
pub(super) fn is_of_earlier_life(row: &EffectRow, accepted_at: Option<Timestamp>) -> bool {
    let is_over = row.state.is_known() && row.holders == 0;
    is_over && accepted_at.is_some_and(|accepted_at| row.updated_at < accepted_at)
}

fn check(begin: &Begin) -> Result<(), Rejection> {
    let Begin { request, ttl_ms, window_ms, owner, nonce, .. } = begin;
    let fits = |text: &str, most: usize| (1..=most).contains(&text.chars().count());
    if let Some(Request::Hash(hash)) = request
        && !fits(hash, REQUEST_HASH_CHARS_MAX)
    {
        return Err(Rejection::invalid("request_hash", "must be 1 to 128 characters"));
    }
    if ttl_ms.is_some_and(|ttl| !(60_000..=YEAR_MS).contains(&ttl)) {
        return Err(Rejection::invalid("ttl_ms", "must be between 60000 and 31536000000"));
    }
    if window_ms.is_some_and(|window| !(1..=10 * YEAR_MS).contains(&window)) {
        return Err(Rejection::invalid("provider_window_ms", "must be between 1 and 315360000000"));
    }
    if let Some(owner) = owner {
        check_owner(owner)?;
    }
    if nonce.as_ref().is_some_and(|nonce| !fits(nonce, NONCE_CHARS_MAX)) {
        return Err(Rejection::invalid("nonce", "must be 1 to 64 characters"));
    }
    Ok(())
}
