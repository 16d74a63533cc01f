//! Stores messages of a produce request that may be sent again.
//!
//! The answer to a produce can be lost, and a message without an idempotency key would then be
//! stored twice. With a nonce, one record holds the receipts of the messages, stored in the same
//! commit. A repeat gets these receipts. A message that was rejected is decided again, because it
//! may fit now. A message with an idempotency key has a record of its own, which lasts longer.
//!
//! A message that goes to another shard is *pinned* in the record, so a router that answers
//! differently each time still creates one message.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::change::{Lookup, Reads, Record};
use crate::command::{Command, Produce, ProduceWithNonce, Rejection, Reply, Routed, TopicName};
use crate::id::{ShardId, Text};
use crate::limits::{NONCE_BYTES, NONCE_CHARS_MAX, NONCE_MS, PRODUCES_MAX};
use crate::message::{Receipt, Routing};
use crate::pack;
use crate::refusal::{Decided, Refusal};
use crate::row::{Hash16, Key, RecordKind};
use crate::shard::context::Context;
use crate::shard::verbs::produce::{BatchSource, ProduceBatch, Stored};
use crate::shard::{Shard, done};
use crate::time::Timestamp;

/// The record of a part of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NonceRecord {
    /// The full identity, because two identities may share a hash.
    namespace: Text,
    nonce: Text,
    first: u32,
    content: [u8; 16],
    /// One for each message. `None` if it was not stored here, or is deduplicated by its own key.
    receipts: Vec<Option<Receipt>>,
    expires: Timestamp,
}

/// Where a message of a request went. Version 2 of the row has them.
#[derive(Debug, Serialize, Deserialize)]
struct NoncePin {
    target: Text,
    routing: Option<Box<Routing>>,
}

/// The pins of a part, by the index of the message in it.
type NoncePins = BTreeMap<usize, NoncePin>;

impl ProduceWithNonce {
    /// Divides a request by shards, and into parts that one decision can store. Each message comes
    /// with its place.
    pub fn parts(
        nonce: &Text,
        messages: Vec<(u32, Produce)>,
        shards: u32,
    ) -> Vec<ProduceWithNonce> {
        let content = fingerprint_of(messages.iter().map(|(_, produce)| produce));
        let mut parts: Vec<ProduceWithNonce> = Vec::new();
        // The last part of each shard, and the bytes in it.
        let mut open: BTreeMap<ShardId, (usize, usize)> = BTreeMap::new();
        for (place, produce) in messages {
            let (shard, size) = (produce.topic.shard(shards), produce.size());
            let room = open.get_mut(&shard).filter(|(part, bytes)| {
                parts[*part].messages.len() < PRODUCES_MAX && *bytes + size <= NONCE_BYTES
            });
            let part = if let Some((part, bytes)) = room {
                *bytes += size;
                *part
            } else {
                open.insert(shard, (parts.len(), size));
                let (places, messages) = (Vec::new(), Vec::new());
                parts.push(ProduceWithNonce { nonce: nonce.clone(), places, content, messages });
                parts.len() - 1
            };
            parts[part].places.push(place);
            parts[part].messages.push(produce);
        }
        parts
    }

    fn namespace(&self) -> &Text {
        // A part without messages is rejected.
        &self.messages[0].topic.namespace
    }

    fn hash(&self) -> Hash16 {
        pack::hash16(RecordKind::Nonce, &(self.namespace(), &self.nonce, self.places[0]))
    }

    fn record_key(&self) -> Key {
        Key::Record { kind: RecordKind::Nonce, hash: self.hash() }
    }

    fn check(&self) -> Result<(), Rejection> {
        if !(1..=NONCE_CHARS_MAX).contains(&self.nonce.chars().count()) {
            return Err(Rejection::invalid("nonce", "must be 1 to 64 characters"));
        }
        let count = self.messages.len();
        if !(1..=PRODUCES_MAX).contains(&count) || self.places.len() != count {
            return Err(Rejection::invalid("messages", "must be 1 to 100 messages"));
        }
        Ok(())
    }
}

/// What a repeat of a request must have in common with the first.
fn fingerprint_of<'a>(messages: impl Iterator<Item = &'a Produce>) -> [u8; 16] {
    let content = |produce: &'a Produce| {
        let Produce { topic, key, value, envelope, .. } = produce;
        (topic, key, value, envelope)
    };
    pack::fingerprint(&messages.map(content).collect::<Vec<_>>())
}

impl Shard {
    pub(crate) fn produce_with_nonce_reads(&self, part: &ProduceWithNonce) -> Reads {
        if part.check().is_err() {
            return Vec::new();
        }
        let mut reads = vec![Lookup::Row(part.record_key())];
        reads.extend(part.messages.iter().flat_map(|produce| self.produce_reads(produce)));
        reads.sort_unstable();
        reads.dedup();
        reads
    }
}

impl Context<'_> {
    pub(crate) fn produce_with_nonce(&self, part: &ProduceWithNonce) -> Decided {
        part.check()?;
        let (mut receipts, mut pins) = self.recorded(part)?;
        let (mut results, mut is_new) = (Vec::with_capacity(part.messages.len()), false);
        let mut batch = ProduceBatch::from(BatchSource::Request);
        let mut decision = done();
        let messages = part.places.iter().zip(&part.messages);
        for (index, ((place, produce), receipt)) in messages.zip(&mut receipts).enumerate() {
            if let Some(receipt) = receipt {
                let receipt = Receipt { deduplicated: true, ..receipt.clone() };
                results.push(Ok(Reply::Produced(receipt)));
                continue;
            }
            let stored = match pins.get(&index) {
                Some(pin) => self.follow(produce, pin),
                None => self.store(produce, Some(&mut batch), &mut decision),
            };
            results.push(match stored {
                Ok(Stored::Here(stored)) => {
                    if produce.envelope.idempotency_key.is_none() {
                        is_new = true;
                        *receipt = Some(stored.clone());
                    }
                    Ok(Reply::Produced(stored))
                }
                Ok(Stored::Elsewhere(_, onward)) => {
                    if produce.envelope.idempotency_key.is_none() {
                        pins.entry(index).or_insert_with(|| {
                            is_new = true;
                            let target = onward.topic.topic.clone();
                            NoncePin { target, routing: onward.routing.clone() }
                        });
                    }
                    Ok(Reply::Elsewhere(Box::new(part.onward(*place, onward))))
                }
                Err(Refusal::Rejected(rejection)) => Err(rejection),
                Err(refusal) => return Err(refusal),
            });
        }
        if is_new {
            let expires = self.now.after(NONCE_MS);
            let record = NonceRecord {
                namespace: part.namespace().clone(),
                nonce: part.nonce.clone(),
                first: part.places[0],
                content: part.content,
                receipts,
                expires,
            };
            let body =
                if pins.is_empty() { pack::seal(&record) } else { pack::seal_with(&record, &pins) };
            let (kind, hash) = (RecordKind::Nonce, part.hash());
            let record = Record { kind, hash, expires, bucket: expires.0, body };
            self.put_record(self.now, record, &mut decision.changes);
        }
        decision.reply = Reply::Each(results);
        Ok(decision)
    }

    /// Sends a message to the topic that an earlier request with the nonce was routed to.
    fn follow(&self, produce: &Produce, pin: &NoncePin) -> Result<Stored, Refusal> {
        let requested = self.topic_named(&produce.topic)?;
        let topic = TopicName { topic: pin.target.clone(), ..produce.topic.clone() };
        let expires = self.now.after(requested.settings.dedupe_ttl_ms);
        let routed = Routed { source: self.config.shard, topic: requested.row.id, expires };
        let (target, onward) = self.onward(produce, topic, pin.routing.clone(), routed);
        Ok(Stored::Elsewhere(target, onward))
    }

    /// Returns what an earlier request with this nonce has recorded. Rejects another request.
    fn recorded(
        &self,
        part: &ProduceWithNonce,
    ) -> Result<(Vec<Option<Receipt>>, NoncePins), Refusal> {
        let row = self.rows.row(part.record_key())?;
        let record = row.map(pack::open_with::<NonceRecord, NoncePins>).transpose()?;
        let record = record.filter(|(record, _)| {
            (&record.namespace, &record.nonce, record.first)
                == (part.namespace(), &part.nonce, part.places[0])
                && self.now < record.expires
        });
        match record {
            None => Ok((vec![None; part.messages.len()], NoncePins::new())),
            Some((record, pins)) if record.content == part.content => {
                Ok((record.receipts, pins.unwrap_or_default()))
            }
            Some(_) => Err(Rejection::NonceConflict.into()),
        }
    }
}

impl ProduceWithNonce {
    /// The command for the shard that stores a message of this part.
    fn onward(&self, place: u32, onward: Box<Produce>) -> Command {
        if onward.envelope.idempotency_key.is_some() {
            return Command::Produce(onward);
        }
        // Each such message is a part of its own, however many there are.
        let (nonce, content) = (self.nonce.clone(), self.content);
        let messages = vec![*onward];
        Command::ProduceWithNonce(Box::new(ProduceWithNonce {
            nonce,
            places: vec![place],
            content,
            messages,
        }))
    }
}
