//! Records what the owners of a group do. Volatile: nothing depends on it.

use crate::id::{GroupId, OwnerId};
use crate::limits::SEEN_MAX;
use crate::shard::Shard;
use crate::shard::state::owner_activity::OwnerActivity;
use crate::time::Timestamp;

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    Acked,
    Failed,
    Expired,
    /// Given back or purged: it says nothing about the owner.
    Other,
}

impl Shard {
    /// Records a sign of life of an owner.
    pub(crate) fn saw(&mut self, group: GroupId, owner: OwnerId) -> &mut OwnerActivity {
        let (now, seen) = (self.now, &mut self.volatile.seen);
        if seen.len() >= 2 * SEEN_MAX {
            let mut times: Vec<Timestamp> = seen.values().map(|seen| seen.at).collect();
            let (_, oldest, _) = times.select_nth_unstable(SEEN_MAX);
            let oldest = *oldest;
            seen.retain(|_, seen| seen.at > oldest);
        }
        let seen = seen
            .entry((group, owner))
            .or_insert_with(|| OwnerActivity::new(self.owners.name(owner), now));
        seen.at = now;
        seen
    }

    /// Records the end of a lease.
    pub(crate) fn saw_lease_end(
        &mut self,
        group: GroupId,
        owner: OwnerId,
        granted_at: Option<Timestamp>,
        end: LeaseEnd,
    ) {
        let now = self.now;
        match end {
            LeaseEnd::Acked | LeaseEnd::Failed => {
                let seen = self.saw(group, owner);
                seen.last_settle_at = Some(now);
                let count = if end == LeaseEnd::Acked { &mut seen.acked } else { &mut seen.failed };
                count.add(now);
                if let Some(granted_at) = granted_at {
                    seen.held.get_or_insert_default().add(now, now.since(granted_at));
                }
            }
            // An expiry is no sign of life.
            LeaseEnd::Expired => {
                if let Some(seen) = self.volatile.seen.get_mut(&(group, owner)) {
                    seen.expired.add(now);
                }
            }
            LeaseEnd::Other => {}
        }
    }
}
