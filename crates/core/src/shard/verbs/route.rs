//! Messages whose final topic is on another shard.
//!
//! The shard of the requested topic stores only a *pin*: the target of the message. The target
//! shard then stores the message and its key in one commit. A retry reads the pin first, so a
//! router that answers differently each time still creates one message. A pin without a message is
//! harmless: the next retry goes to the same target, even with other content. The target decides
//! whether the key is claimed.

use serde::{Deserialize, Serialize};

use crate::change::{Decision, Record};
use crate::command::{
    Command, Missing, Produce, Rejection, Reply, Routed, RoutedKey, Seen, TopicName,
};
use crate::id::{ShardId, Text, TopicId};
use crate::message::Routing;
use crate::pack;
use crate::placement::is_dead_letters;
use crate::read_view::ReadView;
use crate::refusal::{Decided, Refusal};
use crate::row::{Hash16, Key, RecordKind};
use crate::shard::context::Context;
use crate::shard::rules::dedupe::{Content, Keyed};
use crate::shard::verbs::produce::{ProduceBatch, check_deadline, requested_partition};
use crate::time::Timestamp;

/// The target of the message with a key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RoutePin {
    /// The full identity, because two identities may share a hash.
    topic: TopicId,
    tenant: Text,
    key: Text,
    /// Fingerprint of the content that the pin was created for.
    content: [u8; 16],
    target: Text,
    routing: Option<Box<Routing>>,
    expires: Timestamp,
}

impl RoutePin {
    /// The pin of a message that is sent onward.
    pub(crate) fn of(keyed: &Keyed<'_>, content: Content, onward: &Produce) -> RoutePin {
        RoutePin {
            topic: keyed.topic,
            tenant: keyed.tenant.into(),
            key: keyed.key.clone(),
            content: content.fingerprint(),
            target: onward.topic.topic.clone(),
            routing: onward.routing.clone(),
            expires: onward.routed.map_or(Timestamp(0), |routed| routed.expires),
        }
    }

    /// Whether the pin may be used for other content. A router chose the pinned topic, whatever the
    /// content names, or else the content names it.
    fn has_target_of(&self, produce: &Produce) -> bool {
        let named = produce.envelope.target_topic.as_ref();
        self.routing.is_some()
            || named == Some(&self.target)
            || produce.final_topic().topic == self.target
    }
}

impl Keyed<'_> {
    fn pin_hash(&self) -> Hash16 {
        pack::hash16(RecordKind::Pin, &(self.topic, self.tenant, self.key))
    }

    pub(crate) fn pin_key(&self) -> Key {
        Key::Record { kind: RecordKind::Pin, hash: self.pin_hash() }
    }

    /// Returns the pin of this key, unless it has expired.
    fn pin(
        &self,
        now: Timestamp,
        found: &ReadView<'_>,
    ) -> Result<Option<(Content, RoutePin)>, Refusal> {
        let Some(row) = found.row(self.pin_key())? else { return Ok(None) };
        let (pin, fields): (RoutePin, _) = pack::open_with(row)?;
        let is_this =
            pin.topic == self.topic && &*pin.tenant == self.tenant && pin.key == *self.key;
        let content = Content::stored(pin.content, fields);
        Ok((is_this && now < pin.expires).then_some((content, pin)))
    }
}

impl Context<'_> {
    /// Shows a claimed idempotency key of a topic.
    pub(crate) fn view_claimed_key(&self, name: &TopicName, tenant: &str, key: &Text) -> Decided {
        let topic = self.topic_named(name)?.row.id;
        let keyed = Keyed::named(topic, tenant, key);
        if self.config.shards > 1
            && let Some((_, RoutePin { target, expires, .. })) = keyed.pin(self.now, self.rows)?
        {
            let target = TopicName { namespace: name.namespace.clone(), topic: target };
            let target = target.shard(self.config.shards);
            let routed = Routed { source: self.config.shard, topic, expires };
            let there = RoutedKey { target, routed, tenant: tenant.into(), key: key.clone() };
            let ask = Command::ViewRouted(Box::new(there));
            return Ok(Decision::reply(Reply::Elsewhere(Box::new(ask))));
        }
        show_claimed_key(self.now, &keyed, self.rows)
    }

    /// Shows a claimed idempotency key of a topic on another shard.
    pub(crate) fn view_routed(&self, of: &RoutedKey) -> Decided {
        show_claimed_key(self.now, &Keyed::routed(&of.routed, &of.tenant, &of.key), self.rows)
    }

    /// Returns the pin of the key, if an earlier try of the message went to another shard.
    pub(crate) fn pin_of(
        &self,
        produce: &Produce,
        keyed: &Keyed<'_>,
    ) -> Result<Option<(Content, RoutePin)>, Refusal> {
        if self.config.shards <= 1 || produce.routed.is_some() {
            return Ok(None);
        }
        keyed.pin(self.now, self.rows)
    }

    /// Returns the command for the target shard, if the message belongs to another shard.
    pub(crate) fn forward(
        &self,
        produce: &Produce,
        keyed: Option<&Keyed<'_>>,
        pin: Option<(Content, RoutePin)>,
        batch: Option<&ProduceBatch>,
        decision: &mut Decision,
    ) -> Result<Option<(ShardId, Box<Produce>)>, Refusal> {
        if self.config.shards <= 1 || produce.routed.is_some() {
            return Ok(None);
        }
        let requested = self.topic_named(&produce.topic)?;
        let ttl_ms = requested.settings.dedupe_ttl_ms;
        let is_decided_together = batch.is_some_and(|batch| !batch.is_of_request());
        let (topic, routing, expires) = match pin {
            Some((content, pin)) => {
                // In a commit a conflict is rejected here. If only the target rejected it, the
                // message would become a dead letter.
                if is_decided_together || !pin.has_target_of(produce) {
                    content.check_repeat(produce, self.dedupe_compare(produce))?;
                }
                let topic = TopicName { topic: pin.target, ..produce.topic.clone() };
                (topic, pin.routing, pin.expires)
            }
            None => {
                let topic = produce.final_topic();
                if topic.shard(self.config.shards) == self.config.shard {
                    return Ok(None);
                }
                if !is_decided_together {
                    self.check_storage()?;
                }
                if !batch.is_some_and(ProduceBatch::arrives) {
                    check_deadline(self.now, produce)?;
                }
                self.check_route(produce, &topic)?;
                let expires = self.now.after(ttl_ms);
                if let Some(keyed) = keyed {
                    let content = Content::of(produce, self.volatile.format);
                    let pin = RoutePin {
                        topic: keyed.topic,
                        tenant: keyed.tenant.into(),
                        key: keyed.key.clone(),
                        content: content.fingerprint(),
                        target: topic.topic.clone(),
                        routing: produce.routing.clone(),
                        expires,
                    };
                    let record = Record {
                        kind: RecordKind::Pin,
                        hash: keyed.pin_hash(),
                        expires,
                        bucket: expires.0,
                        body: content.seal(&pin),
                    };
                    self.put_record(self.now, record, &mut decision.changes);
                }
                (topic, produce.routing.clone(), expires)
            }
        };
        let routed = Routed { source: self.config.shard, topic: requested.row.id, expires };
        Ok(Some(self.onward(produce, topic, routing, routed)))
    }

    /// Returns the command for the shard of `topic`, to which the message was routed.
    pub(crate) fn onward(
        &self,
        produce: &Produce,
        topic: TopicName,
        routing: Option<Box<Routing>>,
        routed: Routed,
    ) -> (ShardId, Box<Produce>) {
        let target = topic.shard(self.config.shards);
        let onward =
            Produce { topic, routing, routed: Some(routed), seen: None, ..produce.clone() };
        // The decision has been followed.
        (target, Box::new(Produce { needs_routing: false, ..onward }))
    }

    /// Rejects a target that is known to reject the message, so that no key is pinned to it.
    fn check_route(&self, produce: &Produce, target: &TopicName) -> Result<(), Rejection> {
        self.check_size(produce)?;
        if is_dead_letters(&target.topic) {
            return Err(Rejection::invalid("topic", "must not be a dead-letter topic"));
        }
        match produce.seen {
            Some(Seen::Absent) => Err(Rejection::NotFound(Missing::Topic)),
            Some(Seen::Partitions(partitions)) => {
                requested_partition(produce, partitions).map(drop)
            }
            None => Ok(()),
        }
    }
}

fn show_claimed_key(now: Timestamp, keyed: &Keyed<'_>, found: &ReadView<'_>) -> Decided {
    let taken = keyed.stored_result(now, found)?.ok_or(Rejection::NotFound(Missing::Effect))?;
    Ok(Decision::reply(Reply::TakenKey(Box::new(taken))))
}
