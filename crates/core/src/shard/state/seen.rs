//! Records what happens, and what the owners of a group do. Volatile: nothing depends on it.

use crate::activity::{Activity, DeliveryEvent};
use crate::id::{GroupId, OwnerId, TopicId};
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
        self.volatile.activity.push(activity);
    }

    /// Returns what happened since the last call, and counts it in the rates of topics and groups.
    /// Events of one batch are mostly of one group, so each run of them is counted at once.
    pub(crate) fn take_activity(&mut self) -> Vec<Activity> {
        let expected = Vec::with_capacity(self.volatile.activity.len());
        let activity = std::mem::replace(&mut self.volatile.activity, expected);
        for run in activity.chunk_by(|one, other| rated(one) == rated(other)) {
            self.count_run(&run[0], run.len() as u32);
        }
        activity
    }

    fn count_run(&mut self, of: &Activity, count: u32) {
        let now = self.now;
        match rated(of) {
            Some(Rated::Produced(topic)) => {
                if let Some(topic) = self.topics.get_mut(&topic) {
                    topic.produced.add(now, count);
                }
            }
            Some(Rated::Of(group, rate)) => {
                if let Some(group) = self.groups.get_mut(&group) {
                    let recent = &mut group.recent;
                    match rate {
                        Rate::Delivered => recent.delivered.add(now, count),
                        Rate::Acked => recent.acked.add(now, count),
                        Rate::Failed => recent.failed.add(now, count),
                    }
                }
            }
            None => {}
        }
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
                count.add(now, 1);
                if let Some(granted_at) = granted_at {
                    seen.held.get_or_insert_default().add(now, now.since(granted_at));
                }
            }
            // An expiry is no sign of life.
            LeaseEnd::Expired => {
                if let Some(seen) = self.volatile.seen.get_mut(&(group, owner)) {
                    seen.expired.add(now, 1);
                }
            }
            LeaseEnd::Other => {}
        }
    }
}

/// The rate that an activity counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rated {
    Produced(TopicId),
    Of(GroupId, Rate),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rate {
    Delivered,
    Acked,
    Failed,
}

fn rated(activity: &Activity) -> Option<Rated> {
    match activity {
        Activity::Produced { topic, .. } => Some(Rated::Produced(*topic)),
        Activity::DeadLetter { group, reason, .. } => {
            reason.and(*group).map(|group| Rated::Of(group, Rate::Failed))
        }
        Activity::Delivery { group, event } => {
            let rate = match event {
                DeliveryEvent::Delivered | DeliveryEvent::Redelivered(_) => Rate::Delivered,
                DeliveryEvent::Acked => Rate::Acked,
                DeliveryEvent::Nacked | DeliveryEvent::Expired => Rate::Failed,
                DeliveryEvent::Returned => return None,
            };
            Some(Rated::Of(*group, rate))
        }
        Activity::TopicDeleted(_) | Activity::GroupDeleted { .. } => None,
    }
}
