//! One shard: the unit of order, ownership, commit and recovery.
//!
//! # Invariants
//!
//! 1. Deciding takes `&self`; state changes only by absorbing decisions.
//! 2. A shard rebuilt from its rows equals the shard that wrote them, except for its volatile part.
//! 3. Below a cursor's `next` everything that is not open is settled.
//! 4. An entry uses each attempt number once.
//! 5. The id counter returns each number once.
//!
//! A shard has no access to storage, clocks, randomness, other shards or HTTP.

mod chores;
mod context;
mod dispatch;
mod ledger;
mod read_ahead;
mod rules;
mod state;
mod verbs;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::Tip;
use crate::change::{Change, Chore, Decision, Garbage, Lookup, Prefetch, Reads};
use crate::command::{Command, LeaseId, Missing, Rejection, Reply, TopicName};
use crate::format::Format;
use crate::id::{BatchNo, GroupId, Lane, MessageId, Offset, ShardId, Text, TopicId};
use crate::limits::{EXPIRE_EVERY_MS, LEASE_EXPIRY_MAX};
use crate::pack::Damaged;
use crate::read_view::{PageRun, PrefetchResult, ReadView, missing};
use crate::refusal::Decided;
use crate::row::MarkKind;
use crate::settings::{Settings, Unkeyed};
use crate::time::Timestamp;

pub use state::image::Image;

pub(crate) use state::cache::Staged;
pub(crate) use state::open::Open;
#[cfg(any(test, fuzzing))]
pub(crate) use state::open::OpenEntries;
pub(crate) use state::{Cursor, DamagedBlock, Group, Topic};
pub(crate) use work::Work;
#[cfg(fuzzing)]
pub(crate) use {
    rules::dedupe::DedupeRecord, rules::tombstone::Tombstone, verbs::commit::CommitRecord,
    verbs::route::RoutePin,
};

use context::Context;
use state::cache::Cache;
use state::{Owners, Volatile, Wakeup};

/// Configuration of a shard.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// Its number.
    pub shard: ShardId,
    /// Number of shards.
    pub shards: u32,
    /// Restore generation of the storage.
    pub restore: u32,
    /// Settings that topics use by default.
    pub defaults: Settings,
    /// The setting `unkeyed` that a new topic stores if its creator names none.
    pub unkeyed_of_new_topics: Option<Unkeyed>,
    /// Bytes of the largest message value.
    pub value_bytes_max: usize,
    /// Retries whose message may be read at the same time.
    pub retry_reads_max: usize,
    /// Messages that may be leased or waiting at the same time.
    pub open_max: u64,
    /// Topics that may exist, not counting dead-letter topics.
    pub topics_max: u64,
    /// Cursors that may exist: one per group and partition.
    pub cursors_max: u64,
    /// Bytes of messages read ahead for delivery: in memory or being read.
    pub read_ahead_bytes: usize,
}

impl ShardConfig {
    /// Returns how many bytes may be in flight from the engine for dispatch. The default is eight
    /// full steps, more than a disk delivers during one commit. One read is always allowed.
    pub fn read_in_flight_bytes(&self) -> usize {
        self.read_ahead_bytes / 4
    }

    /// Returns how many bytes of messages are kept in memory: the rest of `read_ahead_bytes`.
    fn cache_bytes(&self) -> usize {
        self.read_ahead_bytes - self.read_in_flight_bytes()
    }

    /// Returns the limit for messages in memory for a retry, and for those being read for one. One
    /// message always fits.
    fn retry_bytes(&self) -> usize {
        self.read_ahead_bytes / 8
    }
}

impl Default for ShardConfig {
    fn default() -> ShardConfig {
        ShardConfig {
            shard: ShardId(0),
            shards: 1,
            restore: 0,
            defaults: Settings::default(),
            unkeyed_of_new_topics: None,
            value_bytes_max: crate::limits::VALUE_BYTES_DEFAULT,
            retry_reads_max: crate::limits::RETRY_READS_MAX,
            open_max: crate::limits::SHARD_OPEN_MAX,
            topics_max: crate::limits::SHARD_TOPICS_MAX,
            cursors_max: crate::limits::SHARD_CURSORS_MAX,
            read_ahead_bytes: crate::limits::READ_AHEAD_BYTES_MAX,
        }
    }
}

/// A shard.
#[derive(Debug, Clone)]
pub struct Shard {
    pub(crate) config: ShardConfig,
    /// Next number of the id counter.
    pub(crate) ids: u64,
    /// The time of the last step.
    pub(crate) now: Timestamp,
    pub(crate) topics: BTreeMap<TopicId, Topic>,
    pub(crate) groups: BTreeMap<GroupId, Group>,
    pub(crate) owners: Owners,
    pub(crate) marks: BTreeMap<(MarkKind, u64), u64>,
    pub(crate) garbage: BTreeMap<u64, Garbage>,
    /// Derived: whether a topic keeps, or has kept, message history.
    has_history: bool,
    /// The tip of each audit chain.
    pub(crate) chains: BTreeMap<Text, Tip>,
    /// Derived: topics by name.
    names: BTreeMap<TopicName, TopicId>,
    /// Derived: the dead-letter topic of each topic.
    dlq_of: BTreeMap<TopicId, TopicId>,
    /// Derived: leases by their end.
    leases: BTreeSet<(Timestamp, GroupId, Lane, Offset)>,
    /// Derived: open entries of all groups.
    open_total: u64,
    /// Derived: cursors of all groups.
    cursors_total: u64,
    volatile: Volatile,
}

impl Shard {
    /// Creates an empty shard.
    pub(crate) fn empty(config: ShardConfig) -> Shard {
        let cache = Cache::new(config.cache_bytes(), config.retry_bytes());
        Shard {
            config,
            ids: 1,
            now: Timestamp(0),
            topics: BTreeMap::new(),
            groups: BTreeMap::new(),
            owners: Owners::default(),
            marks: BTreeMap::new(),
            garbage: BTreeMap::new(),
            has_history: false,
            chains: BTreeMap::new(),
            names: BTreeMap::new(),
            dlq_of: BTreeMap::new(),
            leases: BTreeSet::new(),
            open_total: 0,
            cursors_total: 0,
            volatile: Volatile { cache, format: Format::NEWEST, ..Volatile::default() },
        }
    }

    /// Returns the rows that deciding `work` will read, as far as they are cheap to predict.
    pub(crate) fn reads(&self, work: &Work) -> Reads {
        match work {
            Work::Command(command) => self.command_reads(command),
            Work::ExpireLease(_) => Vec::new(),
            Work::Chore(chore) => match *chore {
                Chore::ExpireDeadLetters { source } => self.expire_dead_letters_reads(source),
                Chore::Send { target } => self.send_reads(target),
                Chore::ExpireRecords => self.expire_records_reads(),
                Chore::Sweep(id) => self.sweep_reads(id),
                Chore::Deadline { .. } | Chore::Retain { .. } | Chore::Idle(_) => Vec::new(),
            },
        }
    }

    fn command_reads(&self, command: &Command) -> Reads {
        match command {
            Command::Produce(produce) => self.produce_reads(produce),
            Command::ProduceWithNonce(part) => self.produce_with_nonce_reads(part),
            Command::Redrive(redrive) => self.redrive_reads(redrive),
            Command::Peek(peek) => self.peek_reads(peek),
            Command::ListDead(list) => self.list_dead_reads(list),
            Command::Explain(explain) => self.explain_reads(explain),
            Command::Purge(purge) | Command::WouldPurge(purge) => self.purge_reads(purge),
            Command::Repair(repair) => self.repair_reads(repair),
            Command::Commit(commit) => self.commit_reads(commit),
            Command::Arrive(arrive) => self.arrive_reads(arrive),
            Command::Arrived(arrived) => self.arrived_reads(arrived),
            Command::Begin(begin) => self.begin_reads(begin),
            Command::Finish(finish) => vec![ledger::record_lookup(finish.token.hash)],
            Command::ExtendEffect(extend) => vec![ledger::record_lookup(extend.token.hash)],
            Command::Resolve(resolve) => self.effect_reads(&resolve.name),
            Command::ViewEffect(query) => self.effect_reads(query),
            Command::ReadAudit(read) => self.audit_reads(read),
            Command::Recorded(recorded) => self.command_reads(&recorded.command),
            Command::ListEffects(list) => vec![Lookup::Unending { from: list.from }],
            Command::ListGroups(name) => self.groups_reads(name),
            Command::ViewAll { namespace } => self.all_reads(namespace),
            Command::CreateTopic(_)
            | Command::PatchTopic(_)
            | Command::DeleteTopic(_)
            | Command::WouldDeleteTopic(_)
            | Command::CreateGroup(..)
            | Command::DeleteGroup(_)
            | Command::WouldDeleteGroup(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Seek(_)
            | Command::Join(_)
            | Command::Leave(_)
            | Command::LeaveWorker { .. }
            | Command::Ack(_)
            | Command::Nack(_)
            | Command::Extend(_)
            | Command::GiveBack(_)
            | Command::ViewTopic(_)
            | Command::ViewGroup(_)
            | Command::ListTopics { .. }
            | Command::ViewRouted(_)
            | Command::ViewPointer(_)
            | Command::ListPointers(_)
            | Command::ViewChain { .. }
            | Command::StorageLow(_) => Vec::new(),
        }
    }

    /// Applies a decision to the state. Nothing of it leaves the node before its batch is durable.
    pub(crate) fn apply(&mut self, now: Timestamp, decision: &mut Decision) {
        self.now = now;
        let mut told = Vec::new();
        for change in &decision.changes {
            if self.has_history {
                told.extend(self.event(now, change, &decision.changes));
            }
            self.absorb(change);
        }
        decision.changes.extend(told);
        for note in &decision.volatile {
            self.absorb_volatile(note);
        }
    }

    /// Decides a command, a lease expiry or a chore. Changes nothing.
    pub(crate) fn decide(&self, now: Timestamp, work: &Work, found: &ReadView<'_>) -> Decided {
        let context = Context { shard: self, now, rows: found };
        match work {
            Work::Command(command) => self.decide_command(&context, command),
            Work::ExpireLease(hold) => context.expire_lease(hold),
            Work::Chore(chore) => match *chore {
                Chore::ExpireDeadLetters { source } => context.expire_dead_letters(source),
                Chore::Send { target } => context.send(target),
                Chore::ExpireRecords => context.expire_records(),
                Chore::Sweep(id) => context.sweep_cursor(id),
                Chore::Deadline { group, lane, offset } => {
                    context.pass_deadline(group, lane, offset)
                }
                // These read no rows: `maintain` decides them.
                Chore::Retain { .. } | Chore::Idle(_) => Ok(done()),
            },
        }
    }

    fn decide_command(&self, context: &Context<'_>, command: &Command) -> Decided {
        match command {
            Command::CreateTopic(create) => context.create_topic(create),
            Command::PatchTopic(patch) => context.patch_topic(patch),
            Command::DeleteTopic(name) => context.delete_topic(name),
            Command::WouldDeleteTopic(name) => context.would_delete_topic(name),
            Command::CreateGroup(name, start) => context.create_group(name, *start),
            Command::DeleteGroup(name) => context.delete_group(name),
            Command::WouldDeleteGroup(name) => context.would_delete_group(name),
            Command::Pause(pause) => context.pause(pause),
            Command::Resume(name) => context.resume(name),
            Command::Seek(seek) => context.seek(seek),
            Command::Produce(produce) => context.produce(produce),
            Command::ProduceWithNonce(part) => context.produce_with_nonce(part),
            Command::Join(join) => context.join(join),
            Command::Leave(consumer) => Ok(context.leave(*consumer)),
            Command::Ack(claim) => context.ack(claim),
            Command::Nack(nack) => context.nack(nack),
            Command::Extend(extend) => context.extend(extend),
            Command::GiveBack(hold) => Ok(context.give_back(hold)),
            Command::Redrive(redrive) => context.redrive(redrive),
            Command::ViewTopic(name) => context.view_topic(name),
            Command::ViewGroup(name) => context.view_group(name),
            Command::ListTopics { namespace } => Ok(context.list_topics(namespace)),
            Command::ViewAll { namespace } => Ok(context.view_all(namespace)),
            Command::LeaveWorker { worker } => context.leave_worker(worker),
            Command::ListGroups(name) => context.list_groups(name),
            Command::Peek(peek) => context.peek(peek),
            Command::ListDead(list) => context.list_dead(list),
            Command::Explain(explain) => context.explain(explain),
            Command::Purge(purge) => context.purge(purge),
            Command::WouldPurge(purge) => context.would_purge(purge),
            Command::Repair(repair) => context.repair(repair),
            Command::Commit(commit) => context.commit(commit),
            Command::Arrive(arrive) => context.arrive(arrive),
            Command::Arrived(arrived) => context.arrived(arrived),
            Command::Begin(begin) => context.begin(begin),
            Command::Finish(finish) => context.finish(finish),
            Command::ExtendEffect(extend) => context.extend_effect(extend),
            Command::Resolve(resolve) => context.resolve(resolve),
            Command::ViewEffect(query) => context.view_effect(query),
            Command::ViewPointer(query) => context.view_pointer(query),
            Command::ListPointers(list) => context.list_pointers(list),
            Command::ViewRouted(key) => context.view_routed(key),
            Command::ListEffects(list) => context.list_effects(list),
            Command::ViewChain { namespace, .. } => Ok(context.view_chain(namespace)),
            Command::ReadAudit(read) => context.read_audit(read),
            Command::StorageLow(is_low) => Ok(rules::backlog::storage_low(*is_low)),
            Command::Recorded(recorded) => {
                let mut decision = self.decide_command(context, &recorded.command)?;
                context.audit_act(recorded, &mut decision);
                Ok(decision)
            }
        }
    }

    /// Returns the leases that have expired by `horizon`, the time up to which every decision is
    /// durable. So no lease expires while its own commit is in flight.
    pub(crate) fn expired_leases(&self, horizon: Timestamp) -> impl Iterator<Item = LeaseId> + '_ {
        let due = self.leases.iter().take_while(move |(end, ..)| *end <= horizon);
        due.take(LEASE_EXPIRY_MAX).map(|&(_, group, lane, offset)| {
            let cursor = self.groups[&group].cursor(lane);
            let attempt = cursor.open.get(offset).map_or(0, |open| open.entry.attempt);
            LeaseId { group, lane, generation: cursor.start.generation, offset, attempt }
        })
    }

    /// Returns when, after `now`, the next lease, wakeup or chore is due.
    pub fn next_deadline(&self, now: Timestamp) -> Option<Timestamp> {
        let later = (now.after(1), GroupId(0), Lane(0), 0);
        let lease = self.leases.range(later..).next().map(|lease| lease.0);
        let wakeup = self.volatile.wakeups.first().map(|wakeup| wakeup.0);
        let chore = self.volatile.chores_due.first().map(|chore| chore.0);
        [lease, wakeup, chore].into_iter().flatten().min()
    }

    /// Handles the wakeups that are due. Returns the messages to read for retries that are due
    /// soon.
    pub(crate) fn wake(&mut self, now: Timestamp) -> Vec<Prefetch> {
        let mut wants = Vec::new();
        while let Some(&(at, wakeup)) = self.volatile.wakeups.first() {
            if at > now {
                break;
            }
            self.volatile.wakeups.pop_first();
            match wakeup {
                Wakeup::Soon(group, lane, offset) => {
                    let is_read = self.groups.get(&group).is_some_and(|group| {
                        let topic = &self.topics[&group.row.topic];
                        !group.consumers.is_empty()
                            && !group.is_paused(now)
                            && self.damage_of(topic, group, lane).is_none()
                    });
                    if is_read
                        && self.may_read_retries([].iter())
                        && let Some(want) = self.retry_to_read(group, lane, offset)
                    {
                        self.volatile.loading.insert(want);
                        wants.push(want);
                    }
                }
                Wakeup::Due(group, lane) => {
                    if let Some(of) = self.groups.get_mut(&group) {
                        of.work.insert(lane);
                    }
                    self.activate(group);
                }
                Wakeup::Pause(group) => self.activate(group),
            }
        }
        wants
    }

    /// Accepts the rows of a read for dispatch.
    pub(crate) fn supply(
        &mut self,
        want: &Prefetch,
        loaded: PrefetchResult,
    ) -> Result<(), Damaged> {
        match (want, loaded) {
            (Prefetch::Ahead { topic, lane, from }, PrefetchResult::Pages(run)) => {
                self.supply_pages(*topic, *lane, *from, run)?;
            }
            (
                Prefetch::Retry { generation, lane, offset, .. },
                PrefetchResult::Retry { message, last_error },
            ) => {
                self.volatile.cache.stage(
                    *generation,
                    *lane,
                    *offset,
                    Staged { message, last_error },
                );
            }
            (Prefetch::Ahead { .. } | Prefetch::Retry { .. }, PrefetchResult::Nothing) => {}
            (Prefetch::Ahead { .. }, PrefetchResult::Retry { .. })
            | (Prefetch::Retry { .. }, PrefetchResult::Pages(_)) => {
                unreachable!("a read returns its own kind of result")
            }
        }
        self.loaded(want);
        Ok(())
    }

    fn supply_pages(
        &mut self,
        topic: TopicId,
        lane: Lane,
        from: Offset,
        run: PageRun,
    ) -> Result<(), Damaged> {
        let Some(of) = self.topics.get(&topic) else { return Ok(()) };
        let (may_have_holes, high) = (of.is_dlq(), of.lane(lane).high);
        let mut expected = from;
        for page in run.pages {
            let end = page.base + page.messages.len() as u64;
            if page.base > expected && !may_have_holes {
                break;
            }
            if expected < end {
                self.volatile.cache.hole(topic, lane, expected, page.base);
                expected = expected.max(page.base);
                let wanted = page.messages[(expected - page.base) as usize..].to_vec();
                self.volatile.cache.insert(topic, lane, expected, wanted);
                expected = end;
            }
        }
        if may_have_holes {
            self.volatile.cache.hole(topic, lane, expected, run.end.min(high));
        } else if expected == from && self.is_needed(topic, lane, from) {
            // Otherwise the page was trimmed meanwhile, and no group needs it.
            return Err(missing(topic, lane, from));
        }
        Ok(())
    }

    /// Whether `offset` is the next message of a group.
    fn is_needed(&self, topic: TopicId, lane: Lane, offset: Offset) -> bool {
        let Some(topic) = self.topics.get(&topic) else { return false };
        let mut cursors = topic.groups.values().map(|group| self.groups[group].cursor(lane));
        offset >= topic.lane(lane).first && cursors.any(|cursor| cursor.next == offset)
    }

    /// Returns the entry that a prefetched retry is for, if it still waits.
    pub(super) fn wanted(&self, want: &Prefetch) -> Option<&Open> {
        let Prefetch::Retry { group, generation, lane, offset, .. } = want else {
            return None;
        };
        let cursor = self.groups.get(group)?.cursor(*lane);
        let open = cursor.open.get(*offset)?;
        (cursor.start.generation == *generation && !open.entry.is_leased()).then_some(open)
    }

    pub(crate) fn is_waiting(&self, want: &Prefetch) -> bool {
        self.wanted(want).is_some()
    }

    /// Returns the last error of a prefetched retry, or None if it is in a row.
    pub(crate) fn plain_error(&self, want: &Prefetch) -> Option<&'static str> {
        self.wanted(want)?.entry.error.text()
    }

    /// Whether dispatch, a chore or a wakeup is due at `now`.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        !self.volatile.active.is_empty()
            || self.has_chores(now)
            || self.volatile.wakeups.first().is_some_and(|(at, ..)| *at <= now)
    }

    /// Starts serving after recovery. No lease expires before its grace period.
    pub(crate) fn resume_after_recovery(&mut self, stored: Timestamp, now: Timestamp) {
        self.volatile.stopped_at = stored;
        self.volatile.recovered_at = now;
        // Rows that recovery applied are no activity.
        self.volatile.activity.clear();
        self.now = now;
        let leases = std::mem::take(&mut self.leases);
        for (_, group, lane, offset) in leases {
            let open = self.groups[&group].cursor(lane).open.get(offset);
            let entry = open.expect("a lease belongs to an open entry").entry;
            self.leases.insert((self.effective_end(&entry), group, lane, offset));
        }
        let lanes: Vec<_> = self
            .topics
            .values()
            .flat_map(|topic| (0..topic.row.partitions).map(|p| (topic.row.id, Lane::of(p))))
            .filter(|(topic, lane)| self.has_settled(*topic, *lane))
            .collect();
        for (topic, lane) in lanes {
            self.plan_chore(topic, lane);
        }
        let sources: Vec<TopicId> = self.topics.keys().copied().collect();
        sources.into_iter().for_each(|source| self.plan_drop(source, Timestamp(0)));
        self.set_chore(Chore::ExpireRecords, Some(now.after(EXPIRE_EVERY_MS)));
        self.recover_idle(now);
        self.recover_outbox(now);
    }

    pub(crate) fn message_id(&self, topic: TopicId, lane: Lane, offset: Offset) -> MessageId {
        MessageId { restore: self.config.restore, shard: self.config.shard, topic, lane, offset }
    }

    pub(crate) fn topic_named(&self, name: &TopicName) -> Result<&Topic, Rejection> {
        let id = self.names.get(name).ok_or(Rejection::NotFound(Missing::Topic))?;
        Ok(&self.topics[id])
    }

    pub(crate) fn group_named(
        &self,
        name: &crate::command::GroupName,
    ) -> Result<(&Topic, &Group), Rejection> {
        let topic = self.topic_named(&name.topic)?;
        let id = topic.groups.get(&name.group).ok_or(Rejection::NotFound(Missing::Group))?;
        Ok((topic, &self.groups[id]))
    }

    /// Returns the bytes of messages in memory.
    pub fn cached_bytes(&self) -> usize {
        self.volatile.cache.bytes()
    }

    /// Begins a batch. All its changes are committed together.
    pub(crate) fn begin_batch(&mut self, no: BatchNo) {
        self.volatile.batch = no;
    }

    /// Sets the newest format that all nodes read. Rows are stored in no newer one.
    pub(crate) fn set_format(&mut self, format: Format) {
        self.volatile.format = format;
    }

    /// Returns every group, as [`Command::ViewGroup`] shows it.
    pub fn groups(&self) -> impl Iterator<Item = crate::view::GroupView> + '_ {
        let times = Default::default();
        self.groups.values().map(move |group| self.show_group(self.now, group, &times))
    }

    /// Returns a group, as [`Command::ViewGroup`] shows it.
    pub fn group(&self, id: GroupId) -> Option<crate::view::GroupView> {
        let group = self.groups.get(&id)?;
        Some(self.show_group(self.now, group, &Default::default()))
    }

    /// Returns the name of a topic.
    pub fn topic_name(&self, id: TopicId) -> Option<Text> {
        self.topics.get(&id).map(|topic| topic.row.name.clone())
    }

    /// Returns the ids of all groups.
    pub fn group_ids(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.groups.keys().copied()
    }

    /// Returns `topic/group`, for display.
    pub fn group_label(&self, id: GroupId) -> String {
        match self.groups.get(&id) {
            Some(group) => format!("{}/{}", self.topics[&group.row.topic].row.name, group.row.name),
            None => format!("group {id}"),
        }
    }

    /// Returns the number of open entries of all groups.
    pub fn open_entries(&self) -> u64 {
        self.open_total
    }
}

/// Returns a decision without changes whose reply is `Done`.
pub(crate) fn done() -> Decision {
    Decision::reply(Reply::Done)
}

pub(crate) fn close(group: &Group, lane: Lane, offset: Offset, end: crate::change::End) -> Change {
    Change::Close { group: group.row.id, lane, offset, end }
}
