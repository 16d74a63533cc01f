//! Converts committed batches to the facts of a history.
//!
//! Reads committed batches only, in commit order, and keeps only the state that it needs to name
//! things.

mod command_context;
mod effect;
pub(crate) mod operator;
mod outbox;

use std::collections::BTreeMap;
use std::sync::Arc;

use driftq_checker::history::{
    Content, Fact, Granted, How, Lease, Name, Record, Retry, Stored, What,
};
use driftq_core::audit::ChainRecord;
use driftq_core::change::{Change, End, Entry, EntryState, GroupRow, TopicRow};
use driftq_core::row::RecordKind;
use driftq_core::{
    Batch, Command, CommandResult, ConsumerId, DeathReason, Extension, GroupId, Lane, Message,
    MessageId, Offset, Reply, RetryPolicy, Settings, ShardId, Ticket, Timestamp, TopicId,
};
use driftq_storage::Ownership;

use crate::stats::Stats;

use operator::set;

pub(crate) use command_context::CommandContext;
pub(crate) use effect::{effect_of, in_words};

/// How long a worker that has left gets nothing, as the API promises.
const LEAVE_MS: u64 = 60_000;

#[derive(Debug, Clone)]
struct KnownTopic {
    name: Name,
    partitions: u32,
    settings: Settings,
}

#[derive(Debug, Clone)]
struct KnownGroup {
    topic: TopicId,
    name: Name,
    generations: Vec<u64>,
    next: Vec<Offset>,
    paused: Option<Option<Timestamp>>,
}

/// The names behind the numbers of a shard.
#[derive(Debug, Clone, Default)]
struct Numbers {
    topics: BTreeMap<TopicId, KnownTopic>,
    groups: BTreeMap<GroupId, KnownGroup>,
    /// The topic and name of every group that ever existed, because effects outlive groups.
    group_names: BTreeMap<GroupId, (Name, Name)>,
    entries: BTreeMap<(GroupId, Lane, Offset), Entry>,
    firsts: BTreeMap<(TopicId, Lane), Offset>,
    /// Existing dead letters, by position.
    letters: BTreeMap<(TopicId, Lane, Offset), MessageId>,
}

impl Numbers {
    /// How long the records of a topic are kept.
    fn dedupe_ttl_ms(&self, topic: TopicId) -> u64 {
        self.topics.get(&topic).map_or(0, |topic| topic.settings.dedupe_ttl_ms)
    }

    fn topic_name(&self, topic: TopicId) -> Name {
        self.topics.get(&topic).map_or_else(|| "gone".into(), |topic| topic.name.clone())
    }
}

/// The state of all shards, as committed so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The shard of the current batch.
    shard: ShardId,
    /// Its names …
    here: Numbers,
    /// … and those of the other shards.
    elsewhere: BTreeMap<ShardId, Numbers>,
    effects: BTreeMap<(Name, Name, Name), Record>,
    /// The last number that arrived, per source and target shard.
    arrived: BTreeMap<(u32, ShardId), u64>,
    /// The requested topic of each body whose stored topic may differ.
    pub(crate) requested: BTreeMap<u64, Name>,
    /// The end of the pin of each key whose message goes to another shard.
    pins: BTreeMap<(Name, Name, Name), u64>,
    /// The end of the pin that the next message is stored for. Its key may have been pinned again
    /// since.
    routed_until: Option<u64>,
    /// The prefetch of each consumer, as requested by its client.
    pub(crate) credits: BTreeMap<ConsumerId, u32>,
    /// Dead letters that may be redriven: (topic, id).
    pub(crate) dead: Vec<(Name, MessageId)>,
    /// When each key is free again: (topic, tenant, key).
    pub(crate) keys: BTreeMap<(Name, Name, Name), u64>,
    /// Leases whose nack gave its own delay.
    pub(crate) asked_delays: std::collections::BTreeSet<Lease>,
    /// The message that each dead letter was redriven as.
    pub(crate) redriven: BTreeMap<Name, Name>,
    /// Dead letters that were read at the end.
    pub(crate) written_down: std::collections::BTreeSet<Name>,
    open: Vec<Fact>,
}

/// The number that a message was produced with.
pub(crate) fn body_of(message: &Message) -> u64 {
    body_in(std::str::from_utf8(&message.value).unwrap_or(""))
}

fn body_in(text: &str) -> u64 {
    let digits = text.split(' ').next().unwrap_or("");
    digits.parse().unwrap_or(0)
}

pub(crate) fn content(message: &Message) -> Content {
    Content {
        body: body_of(message),
        key: String::from_utf8_lossy(&message.key).into(),
        tenant: message.tenant().into(),
        extension: extension_text(message.envelope.extension.as_deref()),
    }
}

/// Labels and headers of a third of the messages, by their number.
pub(crate) fn extension_of(body: u64) -> Option<Box<Extension>> {
    let map = |name: &str, value: u64| [(name.into(), value.to_string().into())].into();
    let headers = if body.is_multiple_of(2) { map("n", body) } else { BTreeMap::new() };
    body.is_multiple_of(3).then(|| Extension::of(map("label", body), headers)).flatten()
}

/// The bytes that the message counts, without key and value.
pub(crate) fn extension_bytes(body: u64) -> usize {
    extension_of(body).map_or(0, |extension| {
        let entries = extension.labels.iter().chain(&extension.headers);
        entries.map(|(name, value)| name.len() + value.len()).sum()
    })
}

pub(crate) fn extension_text(extension: Option<&Extension>) -> Name {
    extension.map_or_else(|| "".into(), |extension| format!("{extension:?}").into())
}

fn retry(policy: &RetryPolicy) -> Retry {
    Retry {
        max_attempts: u32::try_from(policy.max_attempts).ok(),
        backoff_ms: policy.backoff_ms,
        max_backoff_ms: policy.max_backoff_ms,
    }
}

fn name(id: MessageId) -> Name {
    id.to_string().into()
}

impl Facts {
    /// Returns the facts of a batch that became durable.
    pub(crate) fn committed(
        &mut self,
        ownership: Ownership,
        batch: &Arc<Batch>,
        asked: &BTreeMap<Ticket, CommandContext>,
        stats: &mut Stats,
    ) -> What {
        self.turn_to(ownership.shard);
        let now = batch.now.0;
        let commits: Vec<(Ticket, TopicId, u64)> = (batch.replies.iter())
            .filter_map(|(ticket, answered)| match (answered, asked.get(ticket)) {
                (
                    Ok(Reply::Committed { repeated: false, .. }),
                    Some(CommandContext::Commit(topic)),
                ) => Some((*ticket, *topic, self.here.dedupe_ttl_ms(*topic))),
                _ => None,
            })
            .collect();
        for change in &batch.changes {
            self.change(change, now, stats);
        }
        for (ticket, topic, ttl_ms) in commits {
            // The batch may also patch the topic, before or after the commit.
            let until = now + ttl_ms.min(self.here.dedupe_ttl_ms(topic));
            self.open.push(Fact::Committed { call: ticket.0, until });
        }
        self.joins(batch, asked);
        let mut decided = Vec::new();
        for (ticket, answered) in &batch.replies {
            if let Some(
                CommandContext::OfTheLedger | CommandContext::Commit(_) | CommandContext::Operator,
            ) = asked.get(ticket)
            {
                decided.push(ticket.0);
            }
            let Some(CommandContext::Keyed { topic, tenant, idem, body }) =
                asked.get(ticket).cloned()
            else {
                continue;
            };
            let topic = self.requested.get(&body).cloned().unwrap_or(topic);
            if let Ok(Reply::Elsewhere(ask)) = answered
                && let Command::Produce(onward) = &**ask
            {
                self.pin(topic, tenant, idem, onward.routed, stats);
            } else if let Ok(Reply::Produced(receipt)) = answered
                && receipt.deduplicated
            {
                if self.keys.get(&(topic.clone(), tenant.clone(), idem.clone())) == Some(&(now + 1))
                {
                    stats.saw("key found in its last millisecond");
                }
                self.open.push(Fact::Deduplicated { topic, tenant, idem, id: name(receipt.id) });
            }
        }
        if !decided.is_empty() {
            self.open.push(Fact::Decided { calls: decided });
        }
        let facts = std::mem::take(&mut self.open);
        let (shard, epoch) = (ownership.shard.0, ownership.epoch.0);
        What::Committed { shard, epoch, batch: batch.no.0, now, facts }
    }

    /// Lists the joins and leaves of a batch, before its grants: dispatch comes after all commands.
    fn joins(&mut self, batch: &Batch, asked: &BTreeMap<Ticket, CommandContext>) {
        let fact = |(ticket, answered): &(Ticket, CommandResult)| {
            answered.as_ref().ok()?;
            match asked.get(ticket)? {
                CommandContext::Join(joined) => Some(joined.clone()),
                CommandContext::LeaveWorker(worker) => {
                    let until = batch.now.0 + LEAVE_MS;
                    Some(Fact::WorkerLeft { worker: worker.clone(), until })
                }
                CommandContext::Keyed { .. }
                | CommandContext::OfTheLedger
                | CommandContext::Commit(_)
                | CommandContext::Operator => None,
            }
        };
        let is_grant = |fact: &Fact| matches!(fact, Fact::Granted(_));
        let at = self.open.iter().position(is_grant).unwrap_or(self.open.len());
        self.open.splice(at..at, batch.replies.iter().filter_map(fact));
    }

    /// The name of a topic of a shard, if it exists.
    pub(crate) fn topic_called(&self, shard: ShardId, topic: TopicId) -> Option<Name> {
        let numbers =
            if shard == self.shard { Some(&self.here) } else { self.elsewhere.get(&shard) };
        Some(numbers?.topics.get(&topic)?.name.clone())
    }

    fn turn_to(&mut self, shard: ShardId) {
        if shard != self.shard {
            let there = self.elsewhere.remove(&shard).unwrap_or_default();
            let here = std::mem::replace(&mut self.here, there);
            self.elsewhere.insert(std::mem::replace(&mut self.shard, shard), here);
        }
    }

    fn id(&self, topic: TopicId, lane: Lane, offset: Offset, restore: u32) -> MessageId {
        MessageId { restore, shard: self.shard, topic, lane, offset }
    }

    fn all(&self) -> impl Iterator<Item = &Numbers> {
        self.elsewhere.values().chain([&self.here])
    }

    fn change(&mut self, change: &Change, now: u64, stats: &mut Stats) {
        match change {
            Change::Topic(row) => self.topic(row),
            Change::TopicGone(topic) => {
                if let Some(gone) = self.here.topics.remove(topic) {
                    self.open.push(Fact::TopicGone { topic: gone.name });
                }
            }
            Change::Group(row) => self.group(row),
            Change::GroupGone(id) => {
                if let Some(gone) = self.here.groups.remove(id) {
                    if gone.name.starts_with("guest-") {
                        stats.saw("group of a guest deleted");
                    }
                    let topic = self.topic_name(gone.topic);
                    self.open.push(Fact::GroupGone { topic, group: gone.name });
                }
                self.here.entries.retain(|(group, ..), _| group != id);
            }
            Change::Lane { topic, lane, state } => {
                let first = self.here.firsts.entry((*topic, *lane)).or_default();
                if state.first != *first {
                    if state.first > *first {
                        stats.saw("messages trimmed");
                    }
                    *first = state.first;
                    let topic = self.topic_name(*topic);
                    let partition = lane.partition();
                    self.open.push(Fact::Trimmed { topic, partition, first: state.first });
                }
            }
            Change::Record(record) if record.kind == RecordKind::Routed => {
                self.routed_until = Some(record.expires.0);
            }
            Change::Message { topic, lane, offset, message } => {
                self.stored(*topic, *lane, *offset, message, now, stats);
            }
            Change::Cursor { group, lane, next, .. } => {
                self.pass_up_to(*group, *lane, *next, stats)
            }
            Change::Open { group, lane, offset, entry, holder } => {
                self.opened(*group, *lane, *offset, entry, *holder, stats);
            }
            Change::Close { group, lane, offset, end } => {
                let Some(entry) = self.here.entries.remove(&(*group, *lane, *offset)) else {
                    return;
                };
                let lease = self.lease(*group, *lane, *offset, entry.attempt);
                let how = match end {
                    End::Acked => How::Acked,
                    End::Dead { asked } => How::Dead { asked: *asked },
                    End::Purged if lease.topic.starts_with("dlq.") => {
                        stats.saw("dead letter purged while a group had it");
                        How::Purged
                    }
                    End::Purged => {
                        stats.saw("message lost");
                        let (topic, partition) = (lease.topic.clone(), lane.partition());
                        self.open.push(Fact::Lost { topic, partition, offset: *offset });
                        How::Purged
                    }
                };
                if *end == End::Acked && entry.state == EntryState::Expired {
                    stats.saw("late ack accepted");
                }
                self.open.push(Fact::Ended { lease, how });
            }
            Change::Dead(row) => {
                if let Some(redriven) = &row.redriven {
                    let id = name(self.id(row.topic, row.lane, row.offset, row.restore));
                    stats.saw("dead letter redriven");
                    let (group, new) = (row.group.clone(), name(redriven.new));
                    self.redriven.insert(id.clone(), new.clone());
                    self.open.push(Fact::Redriven { id, new, group });
                }
            }
            Change::Outbox { target, seq, message } => self.sent(*target, *seq, message, stats),
            Change::OutboxGone { target, seq } => {
                self.open.push(Fact::Left { to: target.0, number: *seq });
            }
            Change::Mark { kind, id, value } => self.mark(*kind, *id as u32, *value, stats),
            Change::Expire { .. } => stats.saw("records expired"),
            Change::Effect(row) => self.effect(row, now, stats),
            Change::MessageGone { topic, lane, offset } => {
                self.dropped(*topic, *lane, *offset, stats);
            }
            Change::Lost { topic, lane, from, messages, .. } => {
                stats.saw("message lost");
                let (topic, partition) = (self.topic_name(*topic), lane.partition());
                for offset in (*from..).take(messages.len()) {
                    self.open.push(Fact::Lost { topic: topic.clone(), partition, offset });
                }
            }
            // No run damages blocks.
            Change::BlockGone { .. } => {}
            Change::Pointer(row) => self.pointed(row, stats),
            Change::Audit(link) => {
                if let ChainRecord::Act(record) = &link.record
                    && let Ok(call) = record.act.id.parse()
                {
                    self.open.push(Fact::Acted { call });
                }
            }
            Change::Ids(_)
            | Change::LastError { .. }
            | Change::NoteGone { .. }
            | Change::Owner { .. }
            | Change::OwnerGone(_)
            | Change::Record(_)
            | Change::EffectLink { .. }
            | Change::HeldGone { .. }
            | Change::History { .. }
            | Change::DeadGone { .. }
            | Change::Trim { .. }
            | Change::Garbage { .. }
            | Change::GarbageGone(_)
            | Change::Sweep(_) => {}
        }
    }

    /// Topics that exist and have dead letters.
    pub(crate) fn topics_with_dead_letters(&self) -> Vec<Name> {
        let topics = self.all().flat_map(|numbers| numbers.topics.values());
        topics.filter_map(|topic| topic.name.strip_prefix("dlq.")).map(Name::from).collect()
    }

    /// Topics that exist, except dead-letter topics.
    pub(crate) fn topics(&self) -> Vec<Name> {
        let topics = self.all().flat_map(|numbers| numbers.topics.values());
        let names = topics.map(|topic| topic.name.clone());
        names.filter(|name| !name.starts_with("dlq.")).collect()
    }

    /// The number of partitions of a topic, if it exists.
    pub(crate) fn partitions(&self, name: &Name) -> Option<u32> {
        let mut topics = self.all().flat_map(|numbers| numbers.topics.values());
        topics.find(|topic| topic.name == *name).map(|topic| topic.partitions)
    }

    /// Groups that exist.
    pub(crate) fn live_groups(&self) -> Vec<(Name, Name)> {
        let groups = self.all().flat_map(|numbers| {
            let named = |group: &KnownGroup| (numbers.topic_name(group.topic), group.name.clone());
            numbers.groups.values().map(named)
        });
        groups.collect()
    }

    fn topic_name(&self, topic: TopicId) -> Name {
        self.here.topic_name(topic)
    }

    fn topic(&mut self, row: &TopicRow) {
        let settings = Settings::default().with(&row.patch);
        let (name, partitions) = (row.name.clone(), row.partitions);
        self.open.push(set(&name, &settings));
        self.here.topics.insert(row.id, KnownTopic { name, partitions, settings });
    }

    fn group(&mut self, row: &GroupRow) {
        let topic = self.topic_name(row.topic);
        self.here.group_names.insert(row.id, (topic.clone(), row.name.clone()));
        let generations: Vec<u64> = row.cursors.iter().map(|cursor| cursor.generation.0).collect();
        let Some(known) = self.here.groups.get_mut(&row.id) else {
            let cursors = row.cursors.iter().map(|c| (c.generation.0, c.offset)).collect();
            self.open.push(Fact::GroupMade { topic, group: row.name.clone(), cursors });
            let next = row.cursors.iter().map(|cursor| cursor.offset).collect();
            let known = KnownGroup {
                topic: row.topic,
                name: row.name.clone(),
                generations,
                next,
                paused: None,
            };
            self.here.groups.insert(row.id, known);
            return;
        };
        let paused = row.paused.as_ref().map(|paused| paused.until);
        if known.paused != paused {
            known.paused = paused;
            let (topic, group) = (topic.clone(), row.name.clone());
            self.open.push(match paused {
                Some(until) => Fact::Paused { topic, group, until: until.map(|until| until.0) },
                None => Fact::Resumed { topic, group },
            });
        }
        for (index, cursor) in row.cursors.iter().enumerate() {
            if known.generations[index] != cursor.generation.0 {
                known.generations[index] = cursor.generation.0;
                known.next[index] = cursor.offset;
                let (partition, group) = (index as u32, row.name.clone());
                let (generation, offset) = (cursor.generation.0, cursor.offset);
                self.here.entries.retain(|(group, lane, _), _| {
                    *group != row.id || lane.partition() != partition
                });
                let topic = topic.clone();
                self.open.push(Fact::Moved { topic, group, partition, generation, offset });
            }
        }
    }

    fn stored(
        &mut self,
        topic: TopicId,
        lane: Lane,
        offset: Offset,
        message: &Message,
        now: u64,
        stats: &mut Stats,
    ) {
        let Some(known) = self.here.topics.get(&topic) else {
            return;
        };
        let (topic_name, settings) = (known.name.clone(), known.settings.clone());
        let policy = match &message.envelope.retry_policy {
            Some(request) => request.over(&settings.retry_policy),
            None => settings.retry_policy,
        };
        let is_new = message.origin.is_none();
        let idem = message.envelope.idempotency_key.clone().filter(|_| is_new);
        let asked = self.requested.get(&body_of(message)).filter(|asked| **asked != topic_name);
        let asked = asked.filter(|_| is_new).cloned();
        // The key belongs to the requested topic, so its window does too.
        let of_asked = asked.as_ref().and_then(|asked| {
            let mut topics = self.here.topics.values();
            topics.find(|topic| topic.name == *asked).map(|topic| topic.settings.dedupe_ttl_ms)
        });
        let mut until = now + of_asked.unwrap_or(settings.dedupe_ttl_ms);
        if let Some(key) = &idem {
            let topic = asked.clone().unwrap_or_else(|| topic_name.clone());
            let identity = (topic, message.tenant().into(), key.clone());
            let is_routed = asked
                .as_ref()
                .is_some_and(|asked| !self.here.topics.values().any(|topic| topic.name == *asked));
            if is_routed && let Some(pinned) = self.pins.get(&identity) {
                stats.saw("pinned message stored");
                until = self.routed_until.take().unwrap_or(*pinned);
            } else if self.keys.insert(identity, until) == Some(now) {
                stats.saw("key free in its first millisecond");
            }
        }
        self.open.push(Fact::Stored(Stored {
            topic: topic_name.clone(),
            partition: lane.partition(),
            offset,
            id: name(self.id(topic, lane, offset, message.restore)),
            message: content(message),
            size: message.size(),
            asked,
            idem: idem.map(|key| (key, until)),
            for_group: message.for_group.clone(),
            // Dead letters have no deadline.
            deadline: message.envelope.deadline.map(|d| d.0).filter(|_| message.death.is_none()),
            retry: retry(&policy),
            follows_topic: message.envelope.retry_policy.is_none(),
            dead_letter: message.death.is_some(),
        }));
        if let Some(death) = &message.death {
            let dead_id = self.id(topic, lane, offset, message.restore);
            self.here.letters.insert((topic, lane, offset), dead_id);
            if death.reason == DeathReason::Undeliverable {
                stats.saw("dead letter: undeliverable");
                self.open.push(Fact::CameBack { id: name(dead_id) });
                return;
            }
            self.dead.push((death.topic.clone(), dead_id));
            stats.saw(match death.reason.as_str() {
                "exhausted" => "dead letter: exhausted",
                "rejected" => "dead letter: final",
                _ if death.attempts == 0 => "dead letter: deadline before delivery",
                _ => "dead letter: deadline after delivery",
            });
            let group = self.here.groups.iter().find(|(_, group)| {
                group.name == death.group && self.topic_name(group.topic) == death.topic
            });
            let Some((&group, _)) = group else { return };
            let place = (group, death.id.lane, death.id.offset);
            let attempt = self.here.entries.get(&place).map_or(0, |entry| entry.attempt);
            if attempt == 0 {
                self.pass_up_to(group, death.id.lane, death.id.offset, stats);
                let known = self.here.groups.get_mut(&group).expect("found above");
                known.next[death.id.lane.partition() as usize] = death.id.offset + 1;
            }
            let lease = self.lease(group, death.id.lane, death.id.offset, attempt);
            let reason = death.reason.as_str().into();
            self.open.push(Fact::Died { lease, reason, id: name(dead_id) });
        }
    }

    /// Records the messages that a cursor skipped.
    fn pass_up_to(&mut self, id: GroupId, lane: Lane, next: Offset, stats: &mut Stats) {
        let Some(group) = self.here.groups.get_mut(&id) else {
            return;
        };
        let index = lane.partition() as usize;
        let (from, generation) = (group.next[index], group.generations[index]);
        group.next[index] = from.max(next);
        let (group, topic) = (group.name.clone(), group.topic);
        let topic = self.topic_name(topic);
        for offset in from..next {
            stats.saw("message of another group passed by");
            let (topic, group, partition) = (topic.clone(), group.clone(), lane.partition());
            self.open.push(Fact::Passed { topic, group, generation, partition, offset });
        }
    }

    fn lease(&self, group: GroupId, lane: Lane, offset: Offset, attempt: u32) -> Lease {
        let known = &self.here.groups[&group];
        Lease {
            topic: self.topic_name(known.topic),
            group: known.name.clone(),
            generation: known.generations[lane.partition() as usize],
            partition: lane.partition(),
            offset,
            attempt,
        }
    }

    fn opened(
        &mut self,
        group: GroupId,
        lane: Lane,
        offset: Offset,
        entry: &Entry,
        holder: Option<ConsumerId>,
        stats: &mut Stats,
    ) {
        if !self.here.groups.contains_key(&group) {
            return;
        }
        let before = self.here.entries.insert((group, lane, offset), *entry);
        let lease = self.lease(group, lane, offset, entry.attempt);
        let (due, until) = (entry.at.0, entry.at.0);
        if let Some(before) = before
            && before.state == entry.state
            && entry.state != EntryState::Leased
            && entry.at < before.at
        {
            stats.saw("message due once its effect was resolved");
            self.open.push(Fact::WaitEnded { lease, due });
            return;
        }
        match entry.state {
            EntryState::Leased if before.is_some_and(|before| before.attempt == entry.attempt) => {
                if before.is_some_and(|before| before.at != entry.at) {
                    stats.saw("lease extended");
                    self.open.push(Fact::Extended { lease, until });
                }
            }
            EntryState::Leased => {
                if before.is_none() {
                    self.pass_up_to(group, lane, offset, stats);
                    let known = self.here.groups.get_mut(&group).expect("checked above");
                    let next = &mut known.next[lane.partition() as usize];
                    *next = (*next).max(offset + 1);
                }
                let settings = &self.here.topics[&self.here.groups[&group].topic].settings;
                let consumer = holder.map_or(0, |holder| holder.0);
                let credit = holder.and_then(|holder| self.credits.get(&holder).copied());
                self.open.push(Fact::Granted(Granted {
                    lease,
                    spent: entry.spent,
                    until,
                    consumer,
                    credit: credit.unwrap_or(u32::MAX),
                    max_in_flight: settings.max_in_flight,
                }));
                let is_full =
                    self.here.entries.range((group, lane, 0)..(group, lane, Offset::MAX)).count();
                if is_full as u64 >= u64::from(settings.max_open) {
                    stats.saw("max_open reached");
                }
            }
            EntryState::Expired => {
                // A late nack reason changes the entry but not its state.
                if before.is_none_or(|before| before.state != EntryState::Expired) {
                    stats.saw("lease expired");
                    self.open.push(Fact::Ended { lease, how: How::Expired { due } });
                }
            }
            // An effect that finished in the meantime changes the entry but not its state.
            EntryState::Nacked | EntryState::Returned
                if before.is_some_and(|before| before.state == entry.state) => {}
            EntryState::Nacked => {
                let asked = self.asked_delay(&lease);
                self.open.push(Fact::Ended { lease, how: How::Nacked { due, asked } });
            }
            EntryState::Returned => {
                self.open.push(Fact::Ended { lease, how: How::Returned { due } });
            }
        }
    }

    /// Whether a worker may have given the delay itself.
    fn asked_delay(&self, lease: &Lease) -> bool {
        self.asked_delays.contains(lease)
    }
}
