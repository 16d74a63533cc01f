//! Deletes idle groups, if the topic sets `group_idle_ms`.
//!
//! The row of a group stores when it last had a consumer, so that a restart does not reset the idle
//! time. The time is written at most eight times per idle period, so it is at most an eighth of the
//! period behind. After a recovery that eighth is added. A paused group counts as read.

use crate::change::{Change, Chore, GroupRow, VolatileChange};
use crate::id::GroupId;
use crate::limits::SEEN_PER_IDLE;
use crate::shard::{Group, Shard};
use crate::time::Timestamp;

impl Shard {
    /// Stores that a group is read, or deletes a group that had no consumer for too long.
    pub(crate) fn check_idle(&self, now: Timestamp, id: GroupId) -> (Vec<Change>, VolatileChange) {
        let again = |at| VolatileChange::Chore(Chore::Idle(id), at);
        let Some(group) = self.groups.get(&id) else { return (Vec::new(), again(None)) };
        let topic = &self.topics[&group.row.topic];
        let Some(idle_ms) = topic.settings.group_idle_ms else {
            return (Vec::new(), again(None));
        };
        let step_ms = idle_ms / SEEN_PER_IDLE;
        let is_read = !group.consumers.is_empty() || group.is_paused(now);
        let seen = if is_read { now } else { last_seen(group) };
        // After a recovery its consumers need time to reconnect.
        let goes_at = seen.after(idle_ms).max(self.volatile.recovered_at.after(step_ms));
        if goes_at <= now {
            return (self.discarded(topic, group), again(None));
        }
        let (changes, written) = if seen.since(group.row.seen) >= step_ms {
            (vec![Change::Group(Box::new(GroupRow { seen, ..group.row.clone() }))], seen)
        } else {
            (Vec::new(), group.row.seen)
        };
        // One step after the stored time, not after now: a consumer may have joined in the middle
        // of a step.
        (changes, again(Some(if is_read { written.after(step_ms) } else { goes_at })))
    }

    /// Restores when each group last had a consumer. A consumer may have been connected after the
    /// row was written, so one step is added.
    pub(crate) fn recover_idle(&mut self, now: Timestamp) {
        let ids: Vec<GroupId> = self.groups.keys().copied().collect();
        for id in ids {
            let group = self.groups.get_mut(&id).expect("the id was listed above");
            let topic = self.topics.get(&group.row.topic);
            let idle_ms = topic.and_then(|topic| topic.settings.group_idle_ms).unwrap_or(0);
            let step_ms = idle_ms / SEEN_PER_IDLE;
            group.seen = group.row.seen.after(step_ms).min(now);
            self.plan_idle(id);
        }
    }
}

/// Returns when the group last had a consumer or was last paused.
fn last_seen(group: &Group) -> Timestamp {
    let paused = group.row.paused.as_ref().and_then(|paused| paused.until);
    group.seen.max(paused.unwrap_or(group.seen))
}
