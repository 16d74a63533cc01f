//! Consistency checks of the state. They run after every step in tests and simulation, and on
//! demand in production.

use std::collections::BTreeMap;

use crate::change::EntryState;
use crate::id::{ConsumerId, GroupId, Lane, Offset, OwnerId, TopicId};
use crate::shard::{Cursor, Shard};

impl Shard {
    /// Describes the first inconsistency of the state, if there is one.
    pub fn violation(&self) -> Option<String> {
        let mut open_total = 0;
        let mut leases = 0;
        let mut held: BTreeMap<ConsumerId, (u32, u64)> = BTreeMap::new();
        let mut entries: BTreeMap<OwnerId, u64> = BTreeMap::new();
        for (id, group) in &self.groups {
            let Some(topic) = self.topics.get(&group.row.topic) else {
                return Some(format!("group {id} reads a topic that does not exist"));
            };
            if group.cursors.len() != topic.lanes.len() {
                return Some(format!("group {id} does not have one cursor per lane"));
            }
            let open: usize = group.cursors.iter().map(|cursor| cursor.open.len()).sum();
            if group.open != open as u64 {
                return Some(format!(
                    "group {id} counts {} open entries but has {open}",
                    group.open
                ));
            }
            open_total += group.open;
            for (index, cursor) in group.cursors.iter().enumerate() {
                let lane = Lane::of(index as u32);
                if cursor.next > topic.lane(lane).high {
                    return Some(format!("group {id} is past the end of lane {lane}"));
                }
                if let Some(wrong) = self.cursor_violation(*id, lane, cursor) {
                    return Some(format!("group {id}, lane {lane}: {wrong}"));
                }
                leases += cursor.leased as usize;
                for (_, open) in cursor.open.iter() {
                    *entries.entry(open.entry.owner).or_default() += 1;
                    if let Some(holder) = open.holder.filter(|_| open.entry.is_leased()) {
                        let held = held.entry(holder).or_default();
                        *held = (held.0 + 1, held.1 + u64::from(open.entry.size));
                    }
                }
            }
        }
        let cursors: usize = self.groups.values().map(|group| group.cursors.len()).sum();
        if cursors as u64 != self.cursors_total {
            return Some(format!("{cursors} cursors exist but {} are counted", self.cursors_total));
        }
        if (open_total, leases) != (self.open_total, self.leases.len()) {
            return Some(format!("{open_total} open and {leases} leased, but the totals differ"));
        }
        self.consumers_violation(&held).or_else(|| self.owners_violation(&entries))
    }

    /// Describes the first lane whose pages do not end at its high offset. Pages below `first` may
    /// be deleted, and dead letters may be purged.
    pub(crate) fn pages_violation(
        &self,
        ends: &BTreeMap<(TopicId, Lane), Offset>,
    ) -> Option<String> {
        for (id, topic) in &self.topics {
            for (index, lane) in topic.lanes.iter().enumerate() {
                let of = Lane::of(index as u32);
                let end = ends.get(&(*id, of)).copied().unwrap_or(0);
                let is_kept = lane.first < lane.high && !topic.is_dlq();
                if end > lane.high || (is_kept && end < lane.high) {
                    let high = lane.high;
                    return Some(format!(
                        "lane {of} of topic {id} ends at {high}, its pages at {end}"
                    ));
                }
            }
        }
        None
    }

    fn cursor_violation(&self, id: GroupId, lane: Lane, cursor: &Cursor) -> Option<String> {
        let (mut leased, mut bytes, mut waiting) = (0, 0, 0);
        for (offset, open) in cursor.open.iter() {
            let entry = &open.entry;
            if offset >= cursor.next || offset < cursor.start.offset {
                return Some(format!("offset {offset} is open outside the delivered range"));
            }
            if entry.attempt == 0 || entry.spent > entry.attempt {
                return Some(format!(
                    "offset {offset} has attempt {} and spent {}",
                    entry.attempt, entry.spent
                ));
            }
            bytes += u64::from(entry.size);
            let listed = match entry.state {
                EntryState::Leased => {
                    leased += 1;
                    self.leases.contains(&(self.effective_end(entry), id, lane, offset))
                }
                EntryState::Expired | EntryState::Nacked => {
                    cursor.retries.contains(&(entry.at, offset))
                }
                EntryState::Returned => cursor.returned.contains(&(entry.at, offset)),
            };
            waiting += usize::from(!entry.is_leased());
            if !listed {
                return Some(format!("offset {offset} is {:?} but not indexed so", entry.state));
            }
        }
        if (leased, bytes) != (cursor.leased, cursor.open_bytes) {
            return Some(format!(
                "{leased} leased and {bytes} bytes open, but the counters differ"
            ));
        }
        let listed = cursor.retries.len() + cursor.returned.len();
        (listed != waiting).then(|| format!("{waiting} entries wait but {listed} are indexed"))
    }

    fn consumers_violation(&self, held: &BTreeMap<ConsumerId, (u32, u64)>) -> Option<String> {
        for (id, consumer) in &self.volatile.consumers {
            let is = held.get(id).copied().unwrap_or_default();
            if is != (consumer.held, consumer.held_bytes) {
                return Some(format!(
                    "consumer {id} holds {is:?} (messages, bytes), but its counters differ"
                ));
            }
            let queued =
                self.groups.get(&consumer.group).is_some_and(|group| group.ready.contains(id));
            if queued != consumer.queued || (consumer.has_credit() && !queued) {
                return Some(format!(
                    "consumer {id} has credit but is not queued, or its queued flag is wrong"
                ));
            }
        }
        None
    }

    fn owners_violation(&self, entries: &BTreeMap<OwnerId, u64>) -> Option<String> {
        for (id, owner) in &self.owners.by_id {
            let consumers =
                self.volatile.consumers.values().filter(|consumer| consumer.owner == *id).count();
            let is = (entries.get(id).copied().unwrap_or(0), consumers as u64);
            if is != (owner.entries, owner.consumers) {
                return Some(format!(
                    "owner {id} is used by {is:?} (entries, consumers), but its counters differ"
                ));
            }
        }
        let known = entries.keys().all(|id| self.owners.by_id.contains_key(id));
        (!known).then(|| "an entry has an unknown owner".to_owned())
    }
}
