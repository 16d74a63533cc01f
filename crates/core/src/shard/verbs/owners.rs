//! The owners of a group: who holds leases, and who settles slowly or not at all.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{OwnerId, Text};
use crate::limits::{BETWEEN_POLLS_MS, OWNERS_SHOWN_MAX, SEEN_MS};
use crate::shard::state::owner_activity::{HoldTimes, OwnerActivity};
use crate::shard::{Group, Shard};
use crate::time::Timestamp;
use crate::view::OwnerView;

impl Shard {
    /// Returns the owners that a group has seen lately, sorted by name. Walks all open entries of
    /// the group.
    pub(crate) fn view_owners(&self, now: Timestamp, group: &Group) -> Vec<OwnerView> {
        let mut owners: BTreeMap<Text, OwnerView> = BTreeMap::new();
        let of_group = (group.row.id, OwnerId(0))..=(group.row.id, OwnerId(u64::MAX));
        for (_, seen) in self.volatile.seen.range(of_group) {
            of(&mut owners, &seen.name, seen.at).add(now, seen);
        }
        let mut present = BTreeSet::new();
        for consumer in group.consumers.iter().filter_map(|id| self.volatile.consumers.get(id)) {
            let name = self.owners.name(consumer.owner);
            of(&mut owners, &name, consumer.since);
            present.insert(name);
        }
        for (id, held) in leases(self, group) {
            // It may have been granted before the recovery.
            let owner = of(&mut owners, &self.owners.name(id), held.granted_at.min(now));
            owner.leased = held.count;
            owner.next_expiry_at = Some(held.first_end);
        }
        owners.retain(|name, owner| {
            let is_remembered = now < owner.last_seen_at.after(SEEN_MS);
            is_remembered || owner.leased > 0 || present.contains(name)
        });
        let mut owners: Vec<OwnerView> = owners.into_values().collect();
        if owners.len() > OWNERS_SHOWN_MAX {
            owners.sort_by_key(|owner| std::cmp::Reverse((owner.leased > 0, owner.last_seen_at)));
            owners.truncate(OWNERS_SHOWN_MAX);
            owners.sort_by(|one, other| one.owner.cmp(&other.owner));
        }
        owners
    }

    /// Counts the owners that are present: they have a stream or poll, hold a lease, or were seen
    /// less than [`BETWEEN_POLLS_MS`] ago. Walks at most `walk` open messages, and lowers it by
    /// them.
    pub(crate) fn present_owners(&self, now: Timestamp, group: &Group, walk: &mut usize) -> u64 {
        let mut present = BTreeSet::new();
        let of_group = (group.row.id, OwnerId(0))..=(group.row.id, OwnerId(u64::MAX));
        let seen = self.volatile.seen.range(of_group).map(|(_, seen)| seen);
        let lately = seen.filter(|seen| now < seen.at.after(BETWEEN_POLLS_MS));
        // By name, because an id is assigned again once nothing refers to it.
        present.extend(lately.map(|seen| seen.name.clone()));
        let connected = group.consumers.iter().filter_map(|id| self.volatile.consumers.get(id));
        let mut ids: BTreeSet<OwnerId> = connected.map(|consumer| consumer.owner).collect();
        let leased = group.cursors.iter().filter(|cursor| cursor.leased > 0);
        let open = leased.flat_map(|cursor| cursor.open.iter()).take(*walk);
        let open = open.inspect(|_| *walk -= 1);
        ids.extend(
            open.filter(|(_, open)| open.entry.is_leased()).map(|(_, open)| open.entry.owner),
        );
        present.extend(ids.into_iter().map(|id| self.owners.name(id)));
        present.len() as u64
    }
}

/// The leases of an owner.
struct Leases {
    count: u64,
    first_end: Timestamp,
    /// When the latest was granted or extended, as far as known.
    granted_at: Timestamp,
}

fn leases(shard: &Shard, group: &Group) -> BTreeMap<OwnerId, Leases> {
    let mut leases: BTreeMap<OwnerId, Leases> = BTreeMap::new();
    let entries = group.cursors.iter().flat_map(|cursor| cursor.open.iter());
    for (_, open) in entries.filter(|(_, open)| open.entry.is_leased()) {
        let entry = &open.entry;
        let end = shard.effective_end(entry);
        let assumed = Timestamp(entry.at.0.saturating_sub(entry.lease_ms.into()));
        let granted_at = open.granted_at.unwrap_or(assumed);
        let of =
            leases.entry(entry.owner).or_insert(Leases { count: 0, first_end: end, granted_at });
        of.count += 1;
        of.first_end = of.first_end.min(end);
        of.granted_at = of.granted_at.max(granted_at);
    }
    leases
}

fn of<'a>(
    owners: &'a mut BTreeMap<Text, OwnerView>,
    name: &Text,
    seen_at: Timestamp,
) -> &'a mut OwnerView {
    let owner = owners.entry(name.clone()).or_insert_with(|| OwnerView {
        owner: name.clone(),
        leased: 0,
        next_expiry_at: None,
        acked_1m: 0,
        failed_1m: 0,
        expired_1m: 0,
        hold_p50_ms: None,
        hold_p95_ms: None,
        last_seen_at: seen_at,
        last_settle_at: None,
        worker: None,
    });
    owner.last_seen_at = owner.last_seen_at.max(seen_at);
    owner
}

impl OwnerView {
    fn add(&mut self, now: Timestamp, seen: &OwnerActivity) {
        let percentile = |percent| {
            seen.held.as_deref().and_then(|held: &HoldTimes| held.percentile(now, percent))
        };
        self.acked_1m += seen.acked.total(now);
        self.failed_1m += seen.failed.total(now);
        self.expired_1m += seen.expired.total(now);
        // A name whose id was deleted and assigned again: the later id has the later times.
        self.hold_p50_ms = percentile(50).or(self.hold_p50_ms);
        self.hold_p95_ms = percentile(95).or(self.hold_p95_ms);
        self.last_settle_at = self.last_settle_at.max(seen.last_settle_at);
        self.worker = seen.worker.clone().or(self.worker.take());
    }
}
