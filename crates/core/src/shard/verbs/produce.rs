//! Stores a message.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::{Change, Decision, Lookup, Reads, UnkeyedTurn, VolatileChange};
use crate::command::{Command, Produce, Rejection, Reply, Routed};
use crate::id::{Lane, ShardId, Text, TopicId};
use crate::limits::{
    DEADLINE_MAX, ENVELOPE_BYTES_MAX, ENVELOPE_TEXT_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX,
    IDEMPOTENCY_KEY_BYTES_MAX, KEY_BYTES_MAX, LABEL_BYTES_MAX, LABELS_MAX, ROUTING_META_MAX,
    TENANT_BYTES_MAX,
};
use crate::message::{Envelope, Extension, Message, Receipt, Routing, map_bytes, tenant_of};
use crate::refusal::{Decided, Refusal};
use crate::row::Hash16;
use crate::settings::Unkeyed;
use crate::shard::context::Context;
use crate::shard::rules::dedupe::{Content, Keyed, again};
use crate::shard::rules::partition;
use crate::shard::verbs::route::RoutePin;
use crate::shard::{Shard, Topic, done};
use crate::time::Timestamp;

/// Where a message is stored.
pub(crate) enum Stored {
    /// On this shard.
    Here(Receipt),
    /// On another shard, with this command.
    Elsewhere(ShardId, Box<Produce>),
}

/// Where the messages of one decision come from.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchSource {
    /// A commit. Its messages are exempt from backlog limits: a full topic must not turn a known
    /// success into doubt.
    #[default]
    Commit,
    /// Another shard, which has accepted them already. A deadline that has passed since then is
    /// checked at delivery.
    OtherShard,
    /// A produce request. Each message is accepted or rejected as if it were sent alone.
    Request,
}

/// Where the message of a claimed key is.
enum Claimed {
    /// Stored here.
    Here(Receipt),
    /// Sent to another shard, as its pin says.
    Elsewhere(RoutePin),
}

/// The messages that one decision has stored so far.
#[derive(Default)]
pub(crate) struct ProduceBatch {
    source: BatchSource,
    /// Number and bytes of the messages per lane.
    lanes: BTreeMap<(TopicId, Lane), (u64, u64)>,
    /// The partition of unkeyed messages.
    turns: BTreeMap<TopicId, u32>,
    /// Claimed idempotency keys with the content.
    keys: BTreeMap<Hash16, (Content, Claimed)>,
    /// Number of messages per target shard.
    pub(crate) queued: BTreeMap<ShardId, u64>,
}

impl ProduceBatch {
    pub(crate) fn from(source: BatchSource) -> ProduceBatch {
        ProduceBatch { source, ..ProduceBatch::default() }
    }

    /// Whether another shard has accepted the messages already.
    pub(crate) fn arrives(&self) -> bool {
        self.source == BatchSource::OtherShard
    }

    /// Whether each message is accepted or rejected by itself.
    pub(crate) fn is_of_request(&self) -> bool {
        self.source == BatchSource::Request
    }

    pub(crate) fn queued(&self, target: ShardId) -> u64 {
        self.queued.get(&target).copied().unwrap_or(0)
    }
}

impl Shard {
    pub(crate) fn produce_reads(&self, produce: &Produce) -> Reads {
        let Some(keyed) = self.keyed(produce).ok().flatten() else { return Vec::new() };
        let mut reads = vec![keyed.lookup()];
        if self.config.shards > 1 && produce.routed.is_none() {
            reads.push(Lookup::Row(keyed.pin_key()));
        }
        reads
    }
}

impl Context<'_> {
    /// Stores a message and replies with its receipt.
    ///
    /// The order of the checks is part of the contract: a repeated key is answered from its record
    /// even if the deadline has passed or the topic is full.
    pub(crate) fn produce(&self, produce: &Produce) -> Decided {
        let mut decision = done();
        decision.reply = match self.store(produce, None, &mut decision)? {
            Stored::Here(receipt) => Reply::Produced(receipt),
            Stored::Elsewhere(_, onward) => Reply::Elsewhere(Box::new(Command::Produce(onward))),
        };
        Ok(decision)
    }
}

impl Shard {
    /// Returns the idempotency key, which belongs to the requested topic.
    fn keyed<'a>(&self, produce: &'a Produce) -> Result<Option<Keyed<'a>>, Rejection> {
        let envelope = &produce.envelope;
        if let Some(routed) = &produce.routed {
            let key = envelope.idempotency_key.as_ref();
            return Ok(key.map(|key| Keyed::routed(routed, tenant_of(envelope), key)));
        }
        Ok(Keyed::of(self.topic_named(&produce.topic)?.row.id, envelope))
    }
}

impl Context<'_> {
    /// Stores a message, alone or as part of a `batch` of the same decision. Ignores a decision of the
    /// router that cannot be followed, because the router only advises.
    pub(crate) fn store(
        &self,
        produce: &Produce,
        mut batch: Option<&mut ProduceBatch>,
        decision: &mut Decision,
    ) -> Result<Stored, Refusal> {
        let stored = self.store_as_routed(produce, batch.as_deref_mut(), decision);
        let Err(Refusal::Rejected(Rejection::NotFound(_) | Rejection::Invalid { .. })) = stored
        else {
            return stored;
        };
        match produce.routing {
            None => stored,
            Some(_) if produce.needs_routing => {
                // The message may be invalid wherever it goes.
                let unrouted = self.store_as_routed(&produce.unrouted(), None, &mut done());
                unrouted.and_then(|_| Err(Rejection::Unrouted.into()))
            }
            Some(_) => self.store_as_routed(&produce.unrouted(), batch, decision),
        }
    }

    fn store_as_routed(
        &self,
        produce: &Produce,
        mut batch: Option<&mut ProduceBatch>,
        decision: &mut Decision,
    ) -> Result<Stored, Refusal> {
        check_syntax(produce)?;
        let keyed = self.keyed(produce)?;
        let mut pin = None;
        if let Some(keyed) = &keyed {
            let compare = self.dedupe_compare(produce);
            let decided = batch.as_ref().and_then(|batch| batch.keys.get(&keyed.hash()));
            let taken = match decided {
                Some((first, Claimed::Here(receipt))) => {
                    again(produce, compare, *first, receipt).map(Some)?
                }
                Some((first, Claimed::Elsewhere(earlier))) => {
                    first.check_repeat(produce, compare)?;
                    pin = Some((*first, earlier.clone()));
                    None
                }
                None => keyed.stored_receipt(self.now, produce, compare, self.rows)?,
            };
            if let Some(receipt) = taken {
                return Ok(Stored::Here(receipt));
            }
            if pin.is_none() {
                pin = self.pin_of(produce, keyed)?;
            }
        }
        if pin.is_none() && produce.routing.is_none() && produce.needs_routing {
            return Err(Rejection::Unrouted.into());
        }
        if pin.is_none() {
            produce.routing.as_deref().map(check_routing).transpose()?;
        }
        let others = batch.as_deref();
        let onward = self.forward(produce, keyed.as_ref(), pin, others, decision)?;
        if let Some((target, onward)) = onward {
            if let (Some(batch), Some(keyed)) = (&mut batch, &keyed) {
                let content = Content::of(produce, self.volatile.format);
                let claimed = Claimed::Elsewhere(RoutePin::of(keyed, content, &onward));
                batch.keys.insert(keyed.hash(), (content, claimed));
            }
            return Ok(Stored::Elsewhere(target, onward));
        }
        let topic = self.topic_named(&produce.final_topic())?;
        if topic.is_dlq() {
            return Err(Rejection::invalid("topic", "must not be a dead-letter topic").into());
        }
        if let Some(policy) = &produce.envelope.retry_policy {
            policy.over(&topic.settings.retry_policy).check().map_err(invalid_policy)?;
        }
        let turn = batch.as_ref().and_then(|batch| batch.turns.get(&topic.row.id));
        let turn = turn.copied().unwrap_or_else(|| topic.turn_of(self.volatile.batch));
        let (partition, turn) = choose_partition(produce, topic, turn)?;
        if !batch.as_ref().is_some_and(|batch| batch.arrives()) {
            check_deadline(self.now, produce)?;
        }
        self.check_size(produce)?;
        let lane = Lane::of(partition);
        let size = produce.size() as u64;
        let ahead = batch.as_ref().and_then(|batch| batch.lanes.get(&(topic.row.id, lane)));
        let ahead = ahead.copied().unwrap_or_default();
        if batch.as_ref().is_none_or(|batch| batch.is_of_request()) {
            self.check_room(topic, lane, size, ahead)?;
        }
        let offset = topic.lane(lane).high + ahead.0;
        let is_routed = produce.routed.is_some() || topic.row.name != produce.topic.topic;
        let receipt = Receipt {
            id: self.message_id(topic.row.id, lane, offset),
            final_topic: is_routed.then(|| topic.row.name.clone()),
            partition,
            offset,
            deduplicated: false,
        };
        if let Some(batch) = batch {
            batch.lanes.insert((topic.row.id, lane), (ahead.0 + 1, ahead.1 + size));
            batch.turns.extend(turn.map(|turn| (topic.row.id, turn)));
            let taken = |of: &Keyed<'_>| {
                let first = Content::of(produce, self.volatile.format);
                (of.hash(), (first, Claimed::Here(receipt.clone())))
            };
            batch.keys.extend(keyed.as_ref().map(taken));
        }
        if let Some(keyed) = &keyed {
            let expires = match produce.routed {
                Some(Routed { expires, .. }) => expires,
                None => self.now.after(self.topic_named(&produce.topic)?.settings.dedupe_ttl_ms),
            };
            self.store_key(keyed, expires, produce, &receipt, &mut decision.changes);
        }
        let message = Arc::new(message(self.config.restore, self.now, produce));
        decision.changes.push(Change::Message { topic: topic.row.id, lane, offset, message });
        decision.volatile.extend(turn.map(|partition| VolatileChange::Unkeyed {
            topic: topic.row.id,
            last: UnkeyedTurn { partition, batch: self.volatile.batch },
        }));
        Ok(Stored::Here(receipt))
    }

    /// Runs the checks that do not depend on the topic.
    pub(crate) fn check_produce(&self, produce: &Produce) -> Result<(), Rejection> {
        check_syntax(produce)?;
        check_deadline(self.now, produce)?;
        self.check_size(produce)
    }

    pub(crate) fn check_size(&self, produce: &Produce) -> Result<(), Rejection> {
        let envelope_texts = texts(&produce.envelope);
        let envelope_bytes = envelope_texts.iter().map(|(_, text)| text.len()).sum::<usize>();
        let sizes = [
            ("key", produce.key.len(), KEY_BYTES_MAX),
            ("value", produce.value.len(), self.config.value_bytes_max),
            ("envelope", envelope_bytes, ENVELOPE_BYTES_MAX),
        ];
        let texts = envelope_texts
            .into_iter()
            .map(|(field, text)| (field, text.len(), ENVELOPE_TEXT_BYTES_MAX));
        for (field, size, limit) in sizes.into_iter().chain(texts) {
            if size > limit {
                return Err(Rejection::TooLarge {
                    field: field.into(),
                    limit: limit as u64,
                    size: size as u64,
                });
            }
        }
        Ok(())
    }
}

pub(crate) fn check_deadline(now: Timestamp, produce: &Produce) -> Result<(), Rejection> {
    if produce.envelope.deadline.is_some_and(|deadline| deadline <= now) {
        Err(Rejection::DeadlinePassed)
    } else {
        Ok(())
    }
}

pub(crate) fn message(restore: u32, now: Timestamp, produce: &Produce) -> Message {
    Message {
        restore,
        produced_at: now,
        key: produce.key.clone(),
        value: produce.value.clone(),
        envelope: produce.envelope.clone(),
        routing: produce.routing.clone(),
        trace: produce.trace.clone(),
        origin: None,
        redriven: 0,
        for_group: None,
        death: None,
    }
}

fn texts(envelope: &Envelope) -> Vec<(&'static str, &str)> {
    [
        ("envelope.run_id", &envelope.run_id),
        ("envelope.step_id", &envelope.step_id),
        ("envelope.parent_step_id", &envelope.parent_step_id),
        ("envelope.tenant_id", &envelope.tenant_id),
        ("envelope.idempotency_key", &envelope.idempotency_key),
        ("envelope.target_topic", &envelope.target_topic),
    ]
    .into_iter()
    .filter_map(|(field, text)| Some((field, &**text.as_ref()?)))
    .collect()
}

fn check_routing(routing: &Routing) -> Result<(), Rejection> {
    let Routing { label, target_topic: _, partition_override: _, meta } = routing;
    if label.len() > ENVELOPE_TEXT_BYTES_MAX
        || meta.len() > ROUTING_META_MAX
        || map_bytes(meta) > ENVELOPE_BYTES_MAX
    {
        return Err(Rejection::invalid("routing", "is larger than a message may have"));
    }
    Ok(())
}

fn check_syntax(produce: &Produce) -> Result<(), Rejection> {
    if produce.value.is_empty() {
        return Err(Rejection::invalid("value", "must not be empty"));
    }
    let envelope = &produce.envelope;
    if let Some(extension) = &envelope.extension {
        check_extension(extension)?;
    }
    if let Some(key) = &envelope.idempotency_key
        && (key.is_empty()
            || key.len() > IDEMPOTENCY_KEY_BYTES_MAX
            || key.chars().any(char::is_control))
    {
        return Err(Rejection::invalid(
            "envelope.idempotency_key",
            "must be 1 to 255 bytes without control characters",
        ));
    }
    if envelope.tenant_id.as_ref().is_some_and(|tenant| tenant.len() > TENANT_BYTES_MAX) {
        return Err(Rejection::invalid("envelope.tenant_id", "must be at most 255 bytes"));
    }
    if envelope.deadline.is_some_and(|deadline| deadline > DEADLINE_MAX) {
        return Err(Rejection::invalid("envelope.deadline", "must not be after the year 9999"));
    }
    envelope.retry_policy.map_or(Ok(()), |policy| policy.check()).map_err(invalid_policy)
}

fn invalid_policy(why: &str) -> Rejection {
    Rejection::invalid("envelope.retry_policy", why)
}

/// Returns the requested partition, if any. Rejects a partition that does not exist.
pub(crate) fn requested_partition(
    produce: &Produce,
    partitions: u32,
) -> Result<Option<u32>, Rejection> {
    let routed = produce.routing.as_ref().and_then(|routing| routing.partition_override);
    let asked = routed.or(produce.envelope.partition_override);
    if asked.is_none_or(|partition| partition < partitions) {
        Ok(asked)
    } else {
        Err(Rejection::invalid(
            "envelope.partition_override",
            format!("must be below {partitions}, the number of partitions"),
        ))
    }
}

/// Returns the partition, and the turn if the message took it.
fn choose_partition(
    produce: &Produce,
    topic: &Topic,
    turn: u32,
) -> Result<(u32, Option<u32>), Rejection> {
    let partitions = topic.row.partitions;
    if let Some(partition) = requested_partition(produce, partitions)? {
        return Ok((partition, None));
    }
    if !produce.key.is_empty() {
        return Ok((partition::of_key(&produce.key, partitions), None));
    }
    match topic.settings.unkeyed {
        Unkeyed::First => Ok((0, None)),
        Unkeyed::Spread if partitions == 1 => Ok((0, None)),
        Unkeyed::Spread => Ok((turn, Some(turn))),
    }
}

fn check_extension(extension: &Extension) -> Result<(), Rejection> {
    let Extension { labels, headers, unknown: _ } = extension;
    for (field, map) in [("envelope.labels", labels), ("envelope.headers", headers)] {
        let is_name = |name: &Text| !name.is_empty() && !name.chars().any(char::is_control);
        if !map.keys().all(is_name) {
            let why = "a name must have at least 1 byte and no control characters";
            return Err(Rejection::invalid(field, why));
        }
    }
    let counts = [
        ("envelope.labels", labels.len(), LABELS_MAX),
        ("envelope.headers", headers.len(), HEADERS_MAX),
    ];
    if let Some((field, count, most)) = counts.into_iter().find(|(_, count, most)| count > most) {
        let why = format!("at most {most} are allowed (got {count})");
        return Err(Rejection::invalid(field, why));
    }
    let largest = labels.iter().map(|(name, value)| name.len() + value.len()).max();
    let sizes = [
        ("envelope.labels", largest.unwrap_or(0), LABEL_BYTES_MAX),
        ("envelope.headers", map_bytes(headers), HEADER_BYTES_MAX),
    ];
    match sizes.into_iter().find(|(_, size, limit)| size > limit) {
        Some((field, size, limit)) => {
            Err(Rejection::TooLarge { field: field.into(), limit: limit as u64, size: size as u64 })
        }
        None => Ok(()),
    }
}
