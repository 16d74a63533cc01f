//! Messages whose final topic is on another shard.
//!
//! The shard of the requested topic stores only a *pin*: where the message went. The message and its key
//! are then one commit on the shard it went to. Whoever tries again finds the pin first, so a router that
//! answers differently each time still makes one message. A pin without a message is harmless: the next
//! try goes the same way, also with other content. Whether the key is taken is for the target to decide.

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
use crate::shard::rules::dedupe::{Keyed, content};
use crate::shard::verbs::produce::{ProduceBatch, asked_partition, check_deadline};
use crate::time::Timestamp;

/// Where the message of a key went.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RoutePin {
    /// The identity in clear: a hash alone could be another's.
    topic: TopicId,
    tenant: Text,
    key: Text,
    /// Fingerprint of the content it was made for.
    content: [u8; 16],
    target: Text,
    routing: Option<Box<Routing>>,
    expires: Timestamp,
}

impl RoutePin {
    /// Whether other content may go this way: to the topic that it names, or, if it leaves that to a router, to the one
    /// that a router chose before.
    fn has_target_of(&self, produce: &Produce) -> bool {
        let names_none = produce.routing.is_some() || produce.envelope.target_topic.is_none();
        (self.routing.is_some() && names_none) || produce.final_topic().topic == self.target
    }
}

impl Keyed<'_> {
    fn pin_hash(&self) -> Hash16 {
        pack::hash16(RecordKind::Pin, &(self.topic, self.tenant, self.key))
    }

    pub(crate) fn pin_key(&self) -> Key {
        Key::Record { kind: RecordKind::Pin, hash: self.pin_hash() }
    }

    /// Where the message of this key went, while the key is taken.
    fn pin(&self, now: Timestamp, found: &ReadView<'_>) -> Result<Option<RoutePin>, Refusal> {
        let Some(row) = found.row(self.pin_key())? else { return Ok(None) };
        let pin: RoutePin = pack::open(row)?;
        let is_this =
            pin.topic == self.topic && &*pin.tenant == self.tenant && pin.key == *self.key;
        Ok((is_this && now < pin.expires).then_some(pin))
    }
}

impl Context<'_> {
    /// Shows a taken key of a topic.
    pub(crate) fn view_taken(&self, name: &TopicName, tenant: &str, key: &Text) -> Decided {
        let topic = self.topic_named(name)?.row.id;
        let keyed = Keyed::named(topic, tenant, key);
        if self.config.shards > 1
            && let Some(RoutePin { target, expires, .. }) = keyed.pin(self.now, self.rows)?
        {
            let target = TopicName { namespace: name.namespace.clone(), topic: target };
            let target = target.shard(self.config.shards);
            let routed = Routed { source: self.config.shard, topic, expires };
            let there = RoutedKey { target, routed, tenant: tenant.into(), key: key.clone() };
            let ask = Command::ViewRouted(Box::new(there));
            return Ok(Decision::reply(Reply::Elsewhere(Box::new(ask))));
        }
        show_taken(self.now, &keyed, self.rows)
    }

    /// Shows a taken key of a topic on another shard.
    pub(crate) fn view_routed(&self, of: &RoutedKey) -> Decided {
        show_taken(self.now, &Keyed::routed(&of.routed, &of.tenant, &of.key), self.rows)
    }

    /// The message as it goes on to another shard, if it does.
    pub(crate) fn forward(
        &self,
        produce: &Produce,
        keyed: Option<&Keyed<'_>>,
        batch: Option<&ProduceBatch>,
        decision: &mut Decision,
    ) -> Result<Option<(ShardId, Box<Produce>)>, Refusal> {
        if self.config.shards <= 1 || produce.routed.is_some() {
            return Ok(None);
        }
        let requested = self.topic_named(&produce.topic)?;
        let ttl_ms = requested.settings.dedupe_ttl_ms;
        let pin = keyed.map(|keyed| keyed.pin(self.now, self.rows)).transpose()?.flatten();
        let (topic, routing, expires) = match pin {
            // In a commit a conflict is rejected here: one that only the target finds would make a dead letter.
            Some(pin)
                if pin.content != content(produce)
                    && (batch.is_some() || !pin.has_target_of(produce)) =>
            {
                return Err(Rejection::KeyConflict.into());
            }
            Some(pin) => {
                let topic = TopicName { topic: pin.target, ..produce.topic.clone() };
                (topic, pin.routing, pin.expires)
            }
            None => {
                let topic = produce.final_topic();
                if topic.shard(self.config.shards) == self.config.shard {
                    return Ok(None);
                }
                if batch.is_none() {
                    self.check_storage()?;
                }
                if !batch.is_some_and(|batch| batch.arrives) {
                    check_deadline(self.now, produce)?;
                }
                self.check_route(produce, &topic)?;
                let expires = self.now.after(ttl_ms);
                if let Some(keyed) = keyed {
                    let pin = RoutePin {
                        topic: keyed.topic,
                        tenant: keyed.tenant.into(),
                        key: keyed.key.clone(),
                        content: content(produce),
                        target: topic.topic.clone(),
                        routing: produce.routing.clone(),
                        expires,
                    };
                    let record = Record {
                        kind: RecordKind::Pin,
                        hash: keyed.pin_hash(),
                        expires,
                        bucket: expires.0,
                        body: pack::seal(&pin),
                    };
                    self.put_record(self.now, record, &mut decision.changes);
                }
                (topic, produce.routing.clone(), expires)
            }
        };
        let target = topic.shard(self.config.shards);
        let routed = Routed { source: self.config.shard, topic: requested.row.id, expires };
        let onward =
            Produce { topic, routing, routed: Some(routed), seen: None, ..produce.clone() };
        Ok(Some((target, Box::new(onward))))
    }

    /// A key is not pinned to a way that can be seen to lead nowhere.
    fn check_route(&self, produce: &Produce, target: &TopicName) -> Result<(), Rejection> {
        self.check_size(produce)?;
        if is_dead_letters(&target.topic) {
            return Err(Rejection::invalid("topic", "dead letters are not produced"));
        }
        match produce.seen {
            Some(Seen::Absent) => Err(Rejection::NotFound(Missing::Topic)),
            Some(Seen::Partitions(partitions)) => asked_partition(produce, partitions).map(drop),
            None => Ok(()),
        }
    }
}

fn show_taken(now: Timestamp, keyed: &Keyed<'_>, found: &ReadView<'_>) -> Decided {
    let taken = keyed.shown(now, found)?.ok_or(Rejection::NotFound(Missing::Effect))?;
    Ok(Decision::reply(Reply::TakenKey(Box::new(taken))))
}
