//! Records what happens, and what the owners of a group do. Volatile: nothing depends on it.

use crate::activity::{Activity, DeliveryEvent};
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
    /// Records what happened, for the batch and for the rates in views.
    pub(crate) fn happened(&mut self, activity: Activity) {
        let now = self.now;
        match &activity {
            Activity::Produced { topic, .. } => {
                if let Some(topic) = self.topics.get_mut(topic) {
                    topic.produced.add(now);
                }
            }
            Activity::DeadLetter { group, reason, .. } => {
                let group = group.filter(|_| reason.is_some());
                if let Some(group) = group.and_then(|group| self.groups.get_mut(&group)) {
                    group.recent.failed.add(now);
                }
            }
            Activity::Delivery { group, event } => {
                if let Some(group) = self.groups.get_mut(group) {
                    let recent = &mut group.recent;
                    match event {
                        DeliveryEvent::Delivered | DeliveryEvent::Redelivered(_) => {
                            recent.delivered.add(now);
                        }
                        DeliveryEvent::Acked => recent.acked.add(now),
                        DeliveryEvent::Nacked | DeliveryEvent::Expired => recent.failed.add(now),
                        DeliveryEvent::Returned => {}
                    }
                }
            }
            Activity::TopicDeleted(_) | Activity::GroupDeleted { .. } => {}
        }
        self.volatile.activity.push(activity);
    }

    /// Returns what happened since the last call.
    pub(crate) fn take_activity(&mut self) -> Vec<Activity> {
        std::mem::take(&mut self.volatile.activity)
    }

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
