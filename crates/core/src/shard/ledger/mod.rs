//! The effect ledger: it accepts at most one outcome per effect, and doubt is a state.
//!
//! # Guarantees
//!
//! 1. The right to execute an effect is granted to one holder at a time, each under a higher fence.
//!    The next holder is granted the right only if the previous fence failed retryably, or if it is
//!    in doubt and the policy allows it.
//! 2. Only the latest fence can finish, and only once. Repeating the same finish succeeds; any
//!    other finish is rejected.
//! 3. A known outcome is replayed until it expires. It does not expire while a message it belongs
//!    to is open.
//! 4. Effects under a delivery share the lease of the delivery. An attempt that ends before its
//!    effects puts them in doubt in the same commit, and its message cannot be acked while an
//!    outcome is unknown.
//!
//! The ledger does not know what an effect does, and never calls a provider.

mod begin;
mod delivery_effects;
mod finish;
mod holders;
mod list;
mod message_result;
mod resolve;
mod summary;

pub(super) use delivery_effects::OpenEffects;
pub(super) use finish::{check as check_finish, conclude, is_of};
pub(super) use summary::of_effect;

use data_encoding::BASE32_NOPAD;

use crate::change::{Change, Decision, Lookup, Reads};
use crate::command::{Begin, BeginOf, EffectQuery, EffectView, Missing, Rejection, Reply};
use crate::effect::{Doubt, DoubtCause, EffectName, EffectRow, EffectState, Scope};
use crate::id::Text;
use crate::limits::{RECOVERY_GRACE_MS, TENANT_BYTES_MAX};
use crate::pack::{effect_hash, effect_row};
use crate::refusal::{Decided, Refusal};
use crate::row::{Hash16, Key, RecordKind};
use crate::settings::OnDoubt;
use crate::shard::Shard;
use crate::shard::context::Context;
use crate::time::Timestamp;
use crate::validate::check_key;

fn record_key(hash: Hash16) -> Key {
    Key::Record { kind: RecordKind::Effect, hash }
}

pub(super) fn record_lookup(hash: Hash16) -> Lookup {
    Lookup::Row(record_key(hash))
}

impl Shard {
    /// Returns the rows that a begin needs, as far as they are known without a read.
    pub(super) fn begin_reads(&self, begin: &Begin) -> Reads {
        match &begin.of {
            BeginOf::Scope { name, .. } => self.effect_reads(name),
            // The key may be the one of the message, which is not read yet.
            BeginOf::Delivery { .. } => Vec::new(),
        }
    }

    pub(super) fn effect_reads(&self, query: &EffectQuery) -> Reads {
        let name = self.effect_name(query).ok();
        name.map(|name| record_lookup(effect_hash(&name))).into_iter().collect()
    }
}

impl Context<'_> {
    /// Shows an effect, or a claimed idempotency key.
    pub(super) fn view_effect(&self, query: &EffectQuery) -> Decided {
        if let Scope::Produce(topic) = &query.scope {
            return self.view_claimed_key(topic, query.tenant(), &query.key);
        }
        let effect = self.effect_view(query)?;
        Ok(Decision::reply(Reply::Effect(Box::new(effect))))
    }

    pub(super) fn effect_view(&self, query: &EffectQuery) -> Result<EffectView, Refusal> {
        let row = self.find_effect(&self.effect_name(query)?)?;
        let row = row.ok_or(Rejection::NotFound(Missing::Effect))?;
        Ok(self.show_effect(row))
    }
}

impl Shard {
    /// Returns the full name of the effect with this scope and key.
    fn effect_name(&self, query: &EffectQuery) -> Result<EffectName, Rejection> {
        check_key(&query.key)?;
        if query.tenant.len() > TENANT_BYTES_MAX {
            return Err(Rejection::invalid("tenant_id", "must be at most 255 bytes"));
        }
        let (topic, scope) = match &query.scope {
            Scope::Op(name) => (None, format!("op/{name}")),
            Scope::Delivery(name) => {
                let topic = self.topic_named(&name.topic)?;
                (Some(topic.row.id), delivery_scope(&topic.row.name, &name.group))
            }
            Scope::Produce(_) => {
                return Err(Rejection::invalid("scope", "produce/… is read-only"));
            }
        };
        Ok(EffectName {
            namespace: query.namespace.clone(),
            tenant: query.tenant().into(),
            topic,
            scope: scope.into(),
            key: query.key.clone(),
        })
    }
}

impl Context<'_> {
    /// Returns the effect of that name, unless it has expired.
    fn find_effect(&self, name: &EffectName) -> Result<Option<EffectRow>, Refusal> {
        let row = self.find_record(effect_hash(name))?;
        Ok(row.filter(|row| row.name == *name))
    }

    pub(super) fn find_record(&self, hash: Hash16) -> Result<Option<EffectRow>, Refusal> {
        let Some(row) = self.rows.row(record_key(hash))? else { return Ok(None) };
        let row = effect_row(row)?;
        if row.expires <= self.now {
            return Ok(None);
        }
        Ok(Some(self.as_of(self.with_live_holders(row)?)))
    }

    /// Returns the row as of now. An effect whose holder has lost its lease is in doubt, even if
    /// that is not stored yet.
    fn as_of(&self, row: EffectRow) -> EffectRow {
        if row.state != EffectState::InProgress || self.held_until(&row).is_some() {
            return row;
        }
        let (cause, since) = match row.under {
            // Its cursor was moved or its group deleted. Neither stores the doubt.
            Some(_) => (DoubtCause::Abandoned, row.updated_at),
            None => (DoubtCause::LeaseExpired, self.lease_end(&row)),
        };
        in_doubt(row, cause, since)
    }

    /// Returns when the lease of the latest fence ends, if it holds the effect.
    fn held_until(&self, row: &EffectRow) -> Option<Timestamp> {
        if row.state != EffectState::InProgress {
            return None;
        }
        match &row.under {
            Some(under) => self.held(&under.hold).map(|held| self.effective_end(held.entry)),
            None => Some(self.lease_end(row)).filter(|end| self.now < *end),
        }
    }

    /// Returns the end of a lease. As with deliveries, a holder gets a grace period after a
    /// recovery, because it could not reach the shard. A lease that expired before the shard
    /// stopped stays expired.
    fn lease_end(&self, row: &EffectRow) -> Timestamp {
        if row.until <= self.volatile.stopped_at {
            return row.until;
        }
        let grace = RECOVERY_GRACE_MS.min(row.lease_ms);
        row.until.max(self.volatile.recovered_at.after(grace))
    }

    pub(super) fn show_effect(&self, row: EffectRow) -> EffectView {
        let held_until = self.held_until(&row);
        let downstream_key = downstream_key(&row);
        EffectView { state: state_now(self.now, &row), held_until, downstream_key, row }
    }

    /// Stores an effect.
    pub(super) fn put_effect(&self, row: EffectRow, changes: &mut Vec<Change>) {
        debug_assert!(row.expires > self.now, "an expired effect is not stored");
        changes.push(Change::Effect(Box::new(row)));
    }

    /// Returns when the row of a known outcome expires: never while a message it was begun under is
    /// open.
    fn end_of(&self, row: &EffectRow) -> Timestamp {
        let is_open = row.under.is_some_and(|under| self.open_entry(&under.hold).is_some());
        if is_open || row.holders > 0 { Timestamp::MAX } else { self.now.after(row.ttl_ms) }
    }
}

/// Puts an effect in doubt.
fn in_doubt(row: EffectRow, cause: DoubtCause, since: Timestamp) -> EffectRow {
    let doubt =
        Doubt { fence: row.fence, owner: row.owner.clone(), began_at: row.began_at, since, cause };
    EffectRow { state: EffectState::InDoubt, doubt: Some(doubt), ..row }
}

/// Returns the doubt that remains after an outcome. An outcome says nothing about earlier fences.
fn doubt_before(row: &EffectRow) -> Option<Doubt> {
    row.doubt.clone().filter(|doubt| doubt.fence < row.fence)
}

/// Returns the state, with the policy applied to doubt.
fn state_now(now: Timestamp, row: &EffectRow) -> EffectState {
    let is_past_window = row.downstream_until().is_some_and(|until| until <= now);
    match (row.state, row.on_doubt) {
        (EffectState::InDoubt, OnDoubt::Park) => EffectState::Parked,
        (EffectState::InDoubt, OnDoubt::Retry) if is_past_window => EffectState::Parked,
        (state, _) => state,
    }
}

fn delivery_scope(topic: &str, group: &str) -> String {
    format!("effect/{topic}/{group}")
}

/// Returns the downstream key, which is the same for every fence until it is renewed. It is derived
/// from the name alone, so that it is the same even if the record was lost with the storage: a
/// missing charge is better than a double charge.
fn downstream_key(row: &EffectRow) -> Text {
    let hash = blake3::Hasher::new_derive_key("driftq downstream key v1")
        .update(&effect_hash(&row.name))
        .update(&row.renewed.to_be_bytes())
        .finalize();
    format!("dq_{}", BASE32_NOPAD.encode(&hash.as_bytes()[..25]).to_ascii_lowercase()).into()
}
