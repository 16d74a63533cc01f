//! Groups that nobody reads any more go, where their topic says so.
//!
//! When a consumer was last there is part of the group's row, so that a restart does not begin to count
//! anew. It is written at most eight times in the time after which the group goes, and is at most one of these steps
//! behind; after a recovery that step is added. A paused group counts as read.

use crate::change::{Change, Chore, GroupRow, VolatileChange};
use crate::id::GroupId;
use crate::limits::SEEN_PER_IDLE;
use crate::shard::{Group, Shard};
use crate::time::Timestamp;

impl Shard {
    /// Writes down that somebody is there, or deletes a group where nobody was for too long.
    pub(crate) fn look_for_readers(
        &self,
        now: Timestamp,
        id: GroupId,
    ) -> (Vec<Change>, VolatileChange) {
        let again = |at| VolatileChange::Chore(Chore::Idle(id), at);
        let Some(group) = self.groups.get(&id) else { return (Vec::new(), again(None)) };
        let topic = &self.topics[&group.row.topic];
        let Some(idle_ms) = topic.settings.group_idle_ms else {
            return (Vec::new(), again(None));
        };
        let step_ms = idle_ms / SEEN_PER_IDLE;
        let is_read = !group.consumers.is_empty() || group.is_paused(now);
        let seen = if is_read { now } else { last_seen(group) };
        // After a recovery its consumers need time to come back.
        let goes_at = seen.after(idle_ms).max(self.volatile.recovered_at.after(step_ms));
        if goes_at <= now {
            return (self.discarded(topic, group), again(None));
        }
        let (changes, written) = if seen.since(group.row.seen) >= step_ms {
            (vec![Change::Group(Box::new(GroupRow { seen, ..group.row.clone() }))], seen)
        } else {
            (Vec::new(), group.row.seen)
        };
        // A step after the row, not after now: a reader may have come in the middle of a step.
        (changes, again(Some(if is_read { written.after(step_ms) } else { goes_at })))
    }

    /// Somebody may have been there after the row was written.
    pub(crate) fn recover_idle(&mut self, now: Timestamp) {
        let ids: Vec<GroupId> = self.groups.keys().copied().collect();
        for id in ids {
            let group = self.groups.get_mut(&id).expect("just seen");
            let topic = self.topics.get(&group.row.topic);
            let idle_ms = topic.and_then(|topic| topic.settings.group_idle_ms).unwrap_or(0);
            let step_ms = idle_ms / SEEN_PER_IDLE;
            group.seen = group.row.seen.after(step_ms).min(now);
            self.plan_idle(id);
        }
    }
}

/// When a consumer, or a pause, was last there.
fn last_seen(group: &Group) -> Timestamp {
    let paused = group.row.paused.as_ref().and_then(|paused| paused.until);
    group.seen.max(paused.unwrap_or(group.seen))
}
