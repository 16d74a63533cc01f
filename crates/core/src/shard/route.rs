//! Messages whose final topic is on another shard.
//!
//! The shard of the requested topic stores only a *pin*: where the message went. The message and its key
//! are then one commit on the shard it went to. Whoever tries again finds the pin first, so a router that
//! answers differently each time still makes one message. A pin without a message is harmless: the next
//! try goes the same way.

use serde::{Deserialize, Serialize};

use crate::bucket::bucket;
use crate::change::{Decision, Record};
use crate::command::{
    Command, Missing, Produce, Rejection, Reply, Routed, RoutedKey, Seen, TopicName,
};
use crate::id::{ShardId, Text, TopicId};
use crate::message::{Receipt, Routing};
use crate::pack;
use crate::pipeline::found::Found;
use crate::placement::{is_dead_letters, shard_of_topic};
use crate::row::{Key, RecordKind};
use crate::shard::dedupe::{Keyed, content};
use crate::shard::produce::{Beside, asked_partition, check_deadline};
use crate::shard::{Decided, Refusal, Shard};
use crate::time::Timestamp;

/// What became of a message.
pub(super) enum Stored {
    /// It is here.
    Here(Receipt),
    /// It is to be stored there, as this.
    Elsewhere(ShardId, Box<Produce>),
}

/// Where the message of a key went.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Pin {
    /// The identity in clear: a hash alone could be another's.
    topic: TopicId,
    tenant: Text,
    key: Text,
    /// Fingerprint of the content: the same key with another message is refused.
    content: [u8; 16],
    target: Text,
    routing: Option<Box<Routing>>,
    expires: Timestamp,
}

impl Keyed<'_> {
    pub(super) fn pin_key(&self) -> Key {
        let hash = pack::hash16(RecordKind::Pin, &(self.topic, self.tenant, self.key));
        Key::Record { kind: RecordKind::Pin, hash }
    }

    /// Where the message of this key went, while the key is taken.
    fn pin(&self, now: Timestamp, found: &Found<'_>) -> Result<Option<Pin>, Refusal> {
        let Some(row) = found.row(self.pin_key())? else { return Ok(None) };
        let pin: Pin = pack::try_open(row)?;
        let is_this =
            pin.topic == self.topic && &*pin.tenant == self.tenant && pin.key == *self.key;
        Ok((is_this && now < pin.expires).then_some(pin))
    }
}

impl Shard {
    /// Shows a taken key of a topic.
    pub(super) fn view_taken(
        &self,
        now: Timestamp,
        name: &TopicName,
        tenant: &str,
        key: &Text,
        found: &Found<'_>,
    ) -> Decided {
        let topic = self.topic_named(name)?.row.id;
        let keyed = Keyed::named(topic, tenant, key);
        if self.config.shards > 1
            && let Some(Pin { target, expires, .. }) = keyed.pin(now, found)?
        {
            let target = shard_of_topic(&name.namespace, &target, self.config.shards);
            let routed = Routed { source: self.config.shard, topic, expires };
            let there = RoutedKey { target, routed, tenant: tenant.into(), key: key.clone() };
            let ask = Command::ViewRouted(Box::new(there));
            return Ok(Decision::reply(Reply::Elsewhere(Box::new(ask))));
        }
        show_taken(now, &keyed, found)
    }

    /// Shows a taken key of a topic on another shard.
    pub(super) fn view_routed(&self, now: Timestamp, of: &RoutedKey, found: &Found<'_>) -> Decided {
        show_taken(now, &Keyed::routed(&of.routed, &of.tenant, &of.key), found)
    }

    /// The message as it goes on to another shard, if it does.
    pub(super) fn goes_on(
        &self,
        now: Timestamp,
        produce: &Produce,
        keyed: Option<&Keyed<'_>>,
        beside: Option<&Beside>,
        found: &Found<'_>,
        decision: &mut Decision,
    ) -> Result<Option<(ShardId, Box<Produce>)>, Refusal> {
        if self.config.shards <= 1 || produce.routed.is_some() {
            return Ok(None);
        }
        let requested = self.topic_named(&produce.topic)?;
        let ttl_ms = requested.settings.dedupe_ttl_ms;
        let pin = keyed.map(|keyed| keyed.pin(now, found)).transpose()?.flatten();
        let mut onward = produce.clone();
        onward.seen = None;
        let mut expires = now.after(ttl_ms);
        if let Some(pin) = pin {
            if pin.content != content(produce) {
                return Err(Rejection::KeyConflict.into());
            }
            onward.topic.topic = pin.target;
            onward.routing = pin.routing;
            expires = pin.expires;
        } else {
            onward.topic = produce.final_topic();
            if self.is_here(&onward) {
                return Ok(None);
            }
            if beside.is_none() {
                self.check_storage()?;
            }
            if !beside.is_some_and(|beside| beside.arrives) {
                check_deadline(now, produce)?;
            }
            self.check_way(produce, &onward)?;
            if let Some(keyed) = keyed {
                let pin = Pin {
                    topic: keyed.topic,
                    tenant: keyed.tenant.into(),
                    key: keyed.key.clone(),
                    content: content(produce),
                    target: onward.topic.topic.clone(),
                    routing: produce.routing.clone(),
                    expires,
                };
                let Key::Record { kind, hash } = keyed.pin_key() else {
                    unreachable!("a pin is a record")
                };
                let (body, bucket) = (pack::seal(&pin), bucket(expires, ttl_ms));
                self.put_record(
                    now,
                    Record { kind, hash, expires, bucket, body },
                    &mut decision.changes,
                );
            }
        }
        let (source, topic) = (self.config.shard, requested.row.id);
        onward.routed = Some(Routed { source, topic, expires });
        let target =
            shard_of_topic(&onward.topic.namespace, &onward.topic.topic, self.config.shards);
        Ok(Some((target, Box::new(onward))))
    }

    fn is_here(&self, produce: &Produce) -> bool {
        let topic = &produce.topic;
        shard_of_topic(&topic.namespace, &topic.topic, self.config.shards) == self.config.shard
    }

    /// A key is not pinned to a way that can be seen to lead nowhere.
    fn check_way(&self, produce: &Produce, onward: &Produce) -> Result<(), Rejection> {
        self.check_size(produce)?;
        if is_dead_letters(&onward.topic.topic) {
            return Err(Rejection::invalid("topic", "dead letters are not produced"));
        }
        match produce.seen {
            Some(Seen::Absent) => Err(Rejection::NotFound(Missing::Topic)),
            Some(Seen::Partitions(partitions)) => asked_partition(produce, partitions).map(drop),
            None => Ok(()),
        }
    }
}

fn show_taken(now: Timestamp, keyed: &Keyed<'_>, found: &Found<'_>) -> Decided {
    let taken = keyed.shown(now, found)?.ok_or(Rejection::NotFound(Missing::Effect))?;
    Ok(Decision::reply(Reply::TakenKey(Box::new(taken))))
}
