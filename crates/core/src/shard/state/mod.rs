//! The state of a shard: its durable and its volatile part.

pub(super) mod absorb;
pub(super) mod cache;
pub(super) mod image;
pub(super) mod open;
pub(super) mod open_delivery;
pub(super) mod owner_activity;
pub(super) mod recent;
pub(super) mod seen;
pub(super) mod violation;
pub(super) mod volatile;

use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map};

use crate::activity::Activity;
use crate::change::{
    Chore, CursorStart, Entry, EntryState, GroupRow, LaneState, Prefetch, TopicKind, TopicRow,
    UnkeyedTurn,
};
use crate::command::Peer;
use crate::format::Format;
use crate::id::{BatchNo, ConsumerId, GroupId, Lane, Offset, OwnerId, Text, TopicId};
use crate::limits::{BETWEEN_POLLS_MS, BLOCK_OFFSETS, MARKS_PER_RETENTION};
use crate::pack::Damaged;
use crate::retry::RetryPolicy;
use crate::settings::Settings;
use crate::shard::state::cache::Cache;
use crate::shard::state::open::OpenEntries;
use crate::shard::state::owner_activity::OwnerActivity;
use crate::shard::state::recent::Recent;
use crate::time::Timestamp;

/// A shorter interval would cost more than the space it frees.
const RETENTION_INTERVAL_MS_MIN: u64 = 250;

/// A topic.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) row: TopicRow,
    /// The defaults with the topic's patch applied.
    pub(crate) settings: Settings,
    pub(crate) lanes: Vec<LaneState>,
    /// Derived: its groups by name.
    pub(crate) groups: BTreeMap<Text, GroupId>,
    /// Derived: its dead-letter topic.
    pub(crate) dlq: Option<TopicId>,
    /// Volatile: where the last message without a key was stored, if one was.
    pub(crate) unkeyed: Option<UnkeyedTurn>,
    /// Volatile: lanes with a page that is damaged or missing.
    pub(crate) damaged: BTreeMap<Lane, Damaged>,
    /// Volatile: messages stored in the last minute.
    pub(crate) produced: Recent,
}

impl Topic {
    /// A topic without messages.
    pub(crate) fn new(row: TopicRow, defaults: &Settings) -> Topic {
        Topic {
            settings: defaults.with(&row.patch),
            lanes: vec![LaneState::default(); row.partitions as usize],
            groups: Default::default(),
            dlq: None,
            unkeyed: None,
            damaged: Default::default(),
            produced: Default::default(),
            row,
        }
    }

    /// Returns the partition of the unkeyed messages of a batch, if the topic spreads them. One
    /// batch writes one page of them, as it would with one partition.
    pub(crate) fn turn_of(&self, batch: BatchNo) -> u32 {
        match self.unkeyed {
            Some(last) if last.batch == batch => last.partition,
            Some(last) => (last.partition + 1) % self.row.partitions,
            None => 0,
        }
    }

    pub(crate) fn lane(&self, lane: Lane) -> &LaneState {
        &self.lanes[lane.index()]
    }

    /// Returns how often the retention of its lanes is checked.
    pub(crate) fn retention_interval_ms(&self) -> u64 {
        (self.settings.retention_ms / MARKS_PER_RETENTION).max(RETENTION_INTERVAL_MS_MIN)
    }

    /// Returns the topic whose dead letters this one keeps.
    pub(crate) fn dead_letters_of(&self) -> Option<TopicId> {
        match self.row.kind {
            TopicKind::Topic => None,
            TopicKind::Dlq(source) => Some(source),
        }
    }

    pub(crate) fn is_dlq(&self) -> bool {
        self.dead_letters_of().is_some()
    }

    /// Whether it keeps, or has kept, message history.
    pub(crate) fn keeps_history(&self) -> bool {
        self.settings.history || self.row.patch.history.is_some()
    }

    /// Whether a tombstone of a delivery granted at `granted_at` would still be stored.
    pub(crate) fn remembers(&self, now: Timestamp, granted_at: Timestamp) -> bool {
        let forgot = self.row.forgot.filter(|forgot| granted_at <= forgot.until);
        let after_ms = forgot.map_or(u64::MAX, |forgot| forgot.after_ms);
        now.since(granted_at) < self.settings.tombstone_ms().min(after_ms)
    }
}

/// A reader of a topic.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) row: GroupRow,
    /// One per partition.
    pub(crate) cursors: Vec<Cursor>,
    /// Derived: open entries of all cursors.
    pub(crate) open: u64,
    /// Volatile: its consumers.
    pub(crate) consumers: BTreeSet<ConsumerId>,
    /// Volatile: when a consumer last joined or left.
    pub(crate) seen: Timestamp,
    /// Volatile: when a poll last ended.
    pub(crate) polled_at: Option<Timestamp>,
    /// Volatile: consumers with credit, in turn order.
    pub(crate) ready: VecDeque<ConsumerId>,
    /// Volatile: lanes that may have something to deliver right now.
    pub(crate) work: BTreeSet<Lane>,
    /// Volatile: lanes whose next messages must be read, but enough is being read.
    pub(crate) unread: BTreeSet<Lane>,
    /// Volatile: lanes with messages that no consumer has credit for.
    pub(crate) stalled: BTreeSet<Lane>,
    /// Volatile: the lane visited last.
    pub(crate) lane_rotor: Lane,
    /// Volatile: what happened in the last minute.
    pub(crate) recent: GroupRecent,
}

/// What happened in a group in the last minute.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GroupRecent {
    pub(crate) delivered: Recent,
    pub(crate) acked: Recent,
    /// Nacks, expired leases and dead letters.
    pub(crate) failed: Recent,
}

impl Group {
    pub(crate) fn cursor(&self, lane: Lane) -> &Cursor {
        &self.cursors[lane.index()]
    }

    /// Whether a consumer is present. It has a stream or poll, holds a lease, or its last poll has
    /// just ended: between two polls it is busy.
    pub(crate) fn has_consumers(&self, now: Timestamp) -> bool {
        let has_polled = self.polled_at.is_some_and(|at| now < at.after(BETWEEN_POLLS_MS));
        !self.consumers.is_empty() || has_polled || self.cursors.iter().any(|of| of.leased > 0)
    }

    /// Whether a lane may have messages and a consumer has credit.
    pub(crate) fn has_work(&self) -> bool {
        let is_idle = self.work.is_empty() && self.unread.is_empty();
        !is_idle && !self.ready.is_empty()
    }

    pub(crate) fn is_paused(&self, now: Timestamp) -> bool {
        self.row.paused.as_ref().is_some_and(|paused| paused.until.is_none_or(|until| now < until))
    }
}

/// A group's position in a lane.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    pub(crate) start: CursorStart,
    /// First offset never delivered. Below it everything that is not open is settled.
    pub(crate) next: Offset,
    /// The lane's byte total at `next`.
    pub(crate) bytes: u64,
    pub(crate) open: OpenEntries,
    /// Derived: how many open entries are leased.
    pub(crate) leased: u32,
    /// Derived: total size of the open entries.
    pub(crate) open_bytes: u64,
    /// Derived: entries that wait for a retry, by due time.
    pub(crate) retries: BTreeSet<(Timestamp, Offset)>,
    /// Derived: entries that were given back, by due time. They are delivered before fresh ones.
    pub(crate) returned: BTreeSet<(Timestamp, Offset)>,
    /// Volatile: fresh messages since the last retry.
    pub(crate) fresh_run: u8,
    /// Volatile: when the message at this offset was produced, for the age of the one at `next`.
    pub(crate) produced_at: Option<(Offset, Timestamp)>,
    /// Volatile: blocks that are damaged or missing. Which of their messages are open is unknown.
    pub(crate) damaged: BTreeMap<u64, DamagedBlock>,
}

/// A block of open entries that cannot be read.
#[derive(Debug, Clone)]
pub(crate) struct DamagedBlock {
    pub(crate) why: Damaged,
    /// The batch that wrote it, or None if it is missing.
    pub(crate) batch: Option<BatchNo>,
    /// A repair has reopened its messages below this offset.
    pub(crate) repaired_to: Offset,
}

impl Cursor {
    pub(crate) fn new(start: CursorStart) -> Cursor {
        Cursor {
            start,
            next: start.offset,
            bytes: start.bytes,
            open: OpenEntries::default(),
            leased: 0,
            open_bytes: 0,
            retries: BTreeSet::new(),
            returned: BTreeSet::new(),
            fresh_run: 0,
            produced_at: None,
            damaged: BTreeMap::new(),
        }
    }

    /// Returns the lowest offset that recovery must read.
    pub(crate) fn low(&self) -> Offset {
        let unknown = self.damaged.keys().next().map(|block| block * BLOCK_OFFSETS);
        [self.open.first(), unknown].into_iter().flatten().min().unwrap_or(self.next)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.open.len() - self.leased as usize
    }
}

impl Entry {
    pub(crate) fn is_leased(&self) -> bool {
        self.state == EntryState::Leased
    }

    /// Returns the retry policy of this entry.
    pub(crate) fn policy<'a>(&'a self, settings: &'a Settings) -> &'a RetryPolicy {
        self.policy.as_ref().unwrap_or(&settings.retry_policy)
    }

    pub(crate) fn is_past_deadline(&self, now: Timestamp) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// A consumer's name, and how many entries and consumers use it.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) name: Text,
    pub(crate) entries: u64,
    pub(crate) consumers: u64,
}

/// Consumer names by id, and ids by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Owners {
    pub(crate) by_id: BTreeMap<OwnerId, Owner>,
    pub(crate) by_name: BTreeMap<Text, OwnerId>,
    /// Unused names, which can be deleted.
    pub(crate) unused: BTreeSet<OwnerId>,
}

impl Owners {
    pub(crate) fn add(&mut self, id: OwnerId, name: Text) {
        self.by_name.insert(name.clone(), id);
        self.by_id.insert(id, Owner { name, entries: 0, consumers: 0 });
        self.unused.insert(id);
    }

    /// Restores the owner of a stored entry. If the owner's row is lost, only its name is lost,
    /// because ids are never reused.
    pub(crate) fn restore(&mut self, id: OwnerId) {
        if let btree_map::Entry::Vacant(vacant) = self.by_id.entry(id) {
            vacant.insert(Owner { name: Text::default(), entries: 0, consumers: 0 });
            self.unused.insert(id);
        }
    }

    pub(crate) fn remove(&mut self, id: OwnerId) {
        if let Some(owner) = self.by_id.remove(&id)
            && self.by_name.get(&owner.name) == Some(&id)
        {
            self.by_name.remove(&owner.name);
        }
        self.unused.remove(&id);
    }

    pub(crate) fn count(&mut self, id: OwnerId, entries: i64, consumers: i64) {
        let owner = self.by_id.get_mut(&id).expect("an owner is stored before it is used");
        let was_unused = owner.entries == 0 && owner.consumers == 0;
        owner.entries = owner.entries.strict_add_signed(entries);
        owner.consumers = owner.consumers.strict_add_signed(consumers);
        let is_unused = owner.entries == 0 && owner.consumers == 0;
        if is_unused && !was_unused {
            self.unused.insert(id);
        } else if was_unused && !is_unused {
            self.unused.remove(&id);
        }
    }

    pub(crate) fn name(&self, id: OwnerId) -> Text {
        self.by_id.get(&id).map(|owner| owner.name.clone()).unwrap_or_default()
    }
}

/// One stream or poll.
#[derive(Debug, Clone)]
pub(crate) struct Consumer {
    pub(crate) group: GroupId,
    pub(crate) owner: OwnerId,
    /// None: the topic's setting at the time of each delivery.
    pub(crate) lease_ms: Option<u32>,
    pub(crate) credit: u32,
    pub(crate) credit_bytes: u64,
    pub(crate) held: u32,
    pub(crate) held_bytes: u64,
    /// Whether a poll has its answer: the deliveries of one batch. More deliveries would only be
    /// given back, and each would use up an attempt number.
    pub(crate) is_answered: bool,
    /// Whether it is in the group's queue.
    pub(crate) queued: bool,
    pub(crate) peer: Peer,
    pub(crate) since: Timestamp,
    pub(crate) last_settle_at: Option<Timestamp>,
}

impl Consumer {
    pub(crate) fn has_credit(&self) -> bool {
        self.held < self.credit && !self.is_answered
    }

    /// Returns how many more bytes it may receive. One message always fits.
    pub(crate) fn room_bytes(&self) -> u64 {
        match self.has_credit() {
            true if self.held == 0 => self.credit_bytes.max(1),
            true => self.credit_bytes.saturating_sub(self.held_bytes),
            false => 0,
        }
    }

    /// Returns the lease of its deliveries.
    pub(crate) fn lease_ms(&self, topic: &Topic) -> u32 {
        self.lease_ms.unwrap_or(topic.settings.lease_ms as u32)
    }
}

/// The reason for a wakeup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wakeup {
    /// A retry will be due soon: its message should be in memory by then.
    Soon(GroupId, Lane, Offset),
    /// A retry is due.
    Due(GroupId, Lane),
    /// A pause has ended.
    Pause(GroupId),
}

/// State that no guarantee depends on. Empty after recovery.
#[derive(Debug, Clone, Default)]
pub(crate) struct Volatile {
    pub(crate) consumers: BTreeMap<ConsumerId, Consumer>,
    pub(crate) cache: Cache,
    /// Polls that received deliveries in the current batch.
    pub(crate) polls_given: Vec<ConsumerId>,
    /// Groups that may have something to deliver right now.
    pub(crate) active: BTreeSet<GroupId>,
    pub(crate) rotor: GroupId,
    /// Wakeups by time.
    pub(crate) wakeups: BTreeSet<(Timestamp, Wakeup)>,
    /// Reads for dispatch in flight.
    pub(crate) loading: BTreeSet<Prefetch>,
    /// Lanes whose retries wait until those of other lanes are read.
    pub(crate) starved: BTreeSet<(GroupId, Lane)>,
    /// Lanes with fresh messages whose group may open no more messages, by group.
    pub(crate) full: BTreeMap<GroupId, BTreeSet<Lane>>,
    /// When each chore is due next.
    pub(crate) chores: BTreeMap<Chore, Timestamp>,
    pub(crate) chores_due: BTreeSet<(Timestamp, Chore)>,
    /// The highest bucket of a record stored since recovery.
    pub(crate) last_bucket: u64,
    /// When the shard was recovered. No lease expires before its grace period after this.
    pub(crate) recovered_at: Timestamp,
    /// The time of the last batch before the recovery.
    pub(crate) stopped_at: Timestamp,
    /// The storage is nearly full.
    pub(crate) storage_low: bool,
    /// The newest format that all nodes read.
    pub(crate) format: Format,
    /// The batch that is being decided.
    pub(crate) batch: BatchNo,
    /// Until when each worker that has left gets nothing.
    pub(crate) left: BTreeMap<Text, Timestamp>,
    /// What happened since the last batch was closed.
    pub(crate) activity: Vec<Activity>,
    /// The owners that each group has seen.
    pub(crate) seen: BTreeMap<(GroupId, OwnerId), OwnerActivity>,
}
