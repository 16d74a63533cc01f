//! Expires leases, and dead-letters messages that waited past their deadline.

use crate::change::{Chore, Entry, EntryState, LastError, VolatileChange};
use crate::command::LeaseId;
use crate::effect::DoubtCause;
use crate::id::{GroupId, Lane, Offset};
use crate::message::DeathReason;
use crate::refusal::Decided;
use crate::shard::context::Context;
use crate::shard::done;
use crate::shard::rules::backoff::backoff_ms;
use crate::shard::rules::dead_letter::DeadLettering;
use crate::shard::state::open_delivery::{OpenDelivery, open};

impl Context<'_> {
    /// Dead-letters a message whose deadline passed while it waited for a retry, with the effects
    /// begun under it.
    pub(crate) fn pass_deadline(&self, group: GroupId, lane: Lane, offset: Offset) -> Decided {
        let chore = Chore::Deadline { group, lane, offset };
        let mut decision = done();
        if let Some(held) = self.waiting_entry(group, lane, offset)
            && held.entry.is_past_deadline(self.now)
            && !held.topic.is_dlq()
        {
            let dead_lettering = DeadLettering::of(&held, DeathReason::Deadline, None);
            let effects = self.effects_of_delivery(&held)?;
            decision = self.dead_letter(&dead_lettering, effects, DoubtCause::Abandoned)?;
        }
        decision.volatile.push(VolatileChange::Chore(chore, None));
        Ok(decision)
    }

    fn waiting_entry(
        &self,
        group: GroupId,
        lane: Lane,
        offset: Offset,
    ) -> Option<OpenDelivery<'_>> {
        let group = self.groups.get(&group)?;
        let topic = self.topics.get(&group.row.topic)?;
        let entry = &group.cursors.get(lane.index())?.open.get(offset)?.entry;
        (!entry.is_leased()).then_some(OpenDelivery { topic, group, lane, offset, entry })
    }

    /// Expires a lease, which counts like a failure. Does nothing if the attempt that `hold` names
    /// has ended or was extended.
    pub(crate) fn expire_lease(&self, hold: &LeaseId) -> Decided {
        let Some(held) = self.held(hold).filter(|held| self.effective_end(held.entry) <= self.now)
        else {
            return Ok(done());
        };
        let entry = held.entry;
        let policy = entry.policy(&held.topic.settings);
        if !held.topic.is_dlq() {
            let reason = if entry.is_past_deadline(self.now) {
                Some(DeathReason::Deadline)
            } else {
                policy.is_exhausted_by(entry.spent).then_some(DeathReason::Exhausted)
            };
            if let Some(reason) = reason {
                let last_error = Some("ack_timeout".into());
                let dead_lettering = DeadLettering::of(&held, reason, last_error);
                let effects = self.effects_of_delivery(&held)?;
                return self.dead_letter(&dead_lettering, effects, DoubtCause::LeaseExpired);
            }
        }
        let wait_ms = if held.topic.is_dlq() {
            policy.max_backoff_ms
        } else {
            backoff_ms(policy, self.message_id_of(&held), entry.spent)
        };
        let waiting = Entry {
            state: EntryState::Expired,
            returns: 0,
            at: self.now.after(wait_ms),
            error: LastError::Timeout,
            ..*entry
        };
        let mut decision = done();
        let effects = self.unfinished_of_delivery(&held)?;
        self.doubt_effects(effects, DoubtCause::LeaseExpired, &mut decision.changes);
        crate::shard::state::open_delivery::forget_note(&held, &mut decision.changes);
        decision.changes.push(open(&held, waiting));
        Ok(decision)
    }
}
