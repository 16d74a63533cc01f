//! Deduplication: one message per idempotency key, tenant and topic while the key is in use.
//!
//! Record and message are stored in one commit, so there is no pending state: a key is free or in
//! use.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::change::{Change, Lookup, Record};
use crate::command::{ContentField, Produce, Produced, Rejection, Routed};
use crate::format::Format;
use crate::id::{Text, TopicId};
use crate::limits::ROUTED_KEPT_MS;
use crate::message::{Envelope, Receipt, tenant_of};
use crate::pack;
use crate::read_view::ReadView;
use crate::refusal::Refusal;
use crate::row::{Hash16, Key, RecordKind};
use crate::settings::DedupeCompare;
use crate::shard::context::Context;
use crate::time::Timestamp;

/// The record of a key in use.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DedupeRecord {
    /// The identity in plain text, because hashes can collide.
    topic: TopicId,
    tenant: Text,
    key: Text,
    /// Fingerprint of the content. [`Content`] says of what.
    content: [u8; 16],
    receipt: Receipt,
    expires: Timestamp,
}

/// The idempotency key of a produce, and the hash of its record.
pub(crate) struct Keyed<'a> {
    pub(crate) topic: TopicId,
    pub(crate) tenant: &'a str,
    pub(crate) key: &'a Text,
    kind: RecordKind,
    hash: Hash16,
}

impl<'a> Keyed<'a> {
    /// Returns the key of a produce, if it has one. The topic id is part of the identity, so a
    /// topic that is deleted and created again starts without used keys.
    pub(crate) fn of(topic: TopicId, envelope: &'a Envelope) -> Option<Keyed<'a>> {
        let key = envelope.idempotency_key.as_ref()?;
        Some(Keyed::named(topic, tenant_of(envelope), key))
    }

    pub(crate) fn named(topic: TopicId, tenant: &'a str, key: &'a Text) -> Keyed<'a> {
        let kind = RecordKind::Dedupe;
        Keyed { topic, tenant, key, kind, hash: pack::hash16(kind, &(topic, tenant, key)) }
    }

    /// Returns the key of a message whose requested topic is on another shard. That shard decides
    /// by its own clock whether the pin is in force. Here each pin has its own record, identified
    /// by the pin's expiry, and the record is valid regardless of this shard's clock.
    pub(crate) fn routed(of: &Routed, tenant: &'a str, key: &'a Text) -> Keyed<'a> {
        let Routed { source, topic, expires } = *of;
        let kind = RecordKind::Routed;
        let hash = pack::hash16(kind, &(source, topic, tenant, key, expires));
        Keyed { topic, tenant, key, kind, hash }
    }

    fn record_key(&self) -> Key {
        Key::Record { kind: self.kind, hash: self.hash }
    }

    pub(crate) fn lookup(&self) -> Lookup {
        Lookup::Row(self.record_key())
    }

    /// Returns the stored receipt if the key is in use. Rejects different content.
    pub(crate) fn stored_receipt(
        &self,
        now: Timestamp,
        produce: &Produce,
        compare: DedupeCompare,
        found: &ReadView<'_>,
    ) -> Result<Option<Receipt>, Refusal> {
        let Some((first, record)) = self.record(now, found)? else {
            return Ok(None);
        };
        Ok(Some(again(produce, compare, first, &record.receipt)?))
    }

    pub(crate) fn hash(&self) -> Hash16 {
        self.hash
    }

    /// Returns the record of this key while it is in force.
    fn record(
        &self,
        now: Timestamp,
        found: &ReadView<'_>,
    ) -> Result<Option<(Content, DedupeRecord)>, Refusal> {
        let Some(row) = found.row(self.record_key())? else {
            return Ok(None);
        };
        let (record, fields): (DedupeRecord, _) = pack::open_with(row)?;
        let same_identity =
            record.topic == self.topic && &*record.tenant == self.tenant && record.key == *self.key;
        let is_in_force = self.kind == RecordKind::Routed || now < record.expires;
        let content = Content::stored(record.content, fields);
        Ok((same_identity && is_in_force).then_some((content, record)))
    }
}

impl Keyed<'_> {
    /// Returns the receipt and expiry stored under this key, if it is in use.
    pub(crate) fn stored_result(
        &self,
        now: Timestamp,
        found: &ReadView<'_>,
    ) -> Result<Option<Produced>, Refusal> {
        let record = self.record(now, found)?;
        Ok(record.map(|(_, DedupeRecord { receipt, expires, .. })| Produced { receipt, expires }))
    }
}

impl Context<'_> {
    /// What a repeat is compared by: as the requested topic sets it, to which the key belongs. A
    /// message from another shard requests its target.
    pub(crate) fn dedupe_compare(&self, produce: &Produce) -> DedupeCompare {
        let topic = self.topic_named(&produce.topic);
        topic.map_or(DedupeCompare::Content, |topic| topic.settings.dedupe_compare)
    }

    /// Stores the key's record for the message of `receipt`.
    pub(crate) fn store_key(
        &self,
        keyed: &Keyed<'_>,
        expires: Timestamp,
        produce: &Produce,
        receipt: &Receipt,
        changes: &mut Vec<Change>,
    ) {
        let content = Content::of(produce, self.volatile.format);
        let record = DedupeRecord {
            topic: keyed.topic,
            tenant: keyed.tenant.into(),
            key: keyed.key.clone(),
            content: content.fingerprint(),
            receipt: receipt.clone(),
            expires,
        };
        let kept_until = if keyed.kind == RecordKind::Routed {
            expires.max(self.now).after(ROUTED_KEPT_MS)
        } else {
            expires
        };
        let record = Record {
            kind: keyed.kind,
            hash: keyed.hash,
            expires,
            bucket: kept_until.0,
            body: content.seal(&record),
        };
        self.put_record(self.now, record, changes);
    }
}

/// Returns the stored receipt to a repeat. Rejects another message.
pub(crate) fn again(
    produce: &Produce,
    compare: DedupeCompare,
    first: Content,
    receipt: &Receipt,
) -> Result<Receipt, Rejection> {
    first.check_repeat(produce, compare)?;
    Ok(Receipt { deduplicated: true, ..receipt.clone() })
}

/// A short hash of each [`ContentField`].
type FieldHashes = [[u8; 2]; ContentField::ALL.len()];

/// What a repeated produce must have in common with the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Everything but deadline, labels and headers. Version 1 of a row has it.
    Full([u8; 16]),
    /// What a receiver gets, and where. Version 2 of a row has it, with a hash of each field, so
    /// that a conflict names the field that differs.
    Sent([u8; 16], FieldHashes),
}

impl Content {
    pub(crate) fn of(produce: &Produce, format: Format) -> Content {
        match format {
            Format::V1 => Content::Full(content(produce)),
            _ => Content::Sent(sent(produce), field_hashes(produce)),
        }
    }

    /// The content in a row. Version 1 has no hashes of fields.
    pub(crate) fn stored(fingerprint: [u8; 16], fields: Option<FieldHashes>) -> Content {
        match fields {
            Some(fields) => Content::Sent(fingerprint, fields),
            None => Content::Full(fingerprint),
        }
    }

    /// Packs a row that holds the fingerprint of this content.
    pub(crate) fn seal<T: Serialize>(self, row: &T) -> Bytes {
        match self {
            Content::Full(_) => pack::seal(row),
            Content::Sent(_, fields) => pack::seal_with(row, &fields),
        }
    }

    pub(crate) fn fingerprint(self) -> [u8; 16] {
        match self {
            Content::Full(fingerprint) | Content::Sent(fingerprint, _) => fingerprint,
        }
    }

    /// Rejects a produce with the same key that is not a repeat.
    pub(crate) fn check_repeat(
        self,
        produce: &Produce,
        compare: DedupeCompare,
    ) -> Result<(), Rejection> {
        match (compare, self) {
            (DedupeCompare::Key, _) => Ok(()),
            (DedupeCompare::Content, Content::Full(first)) if first == content(produce) => Ok(()),
            (DedupeCompare::Content, Content::Full(_)) => Err(Rejection::KeyConflict),
            (DedupeCompare::Content, Content::Sent(first, _)) if first == sent(produce) => Ok(()),
            (DedupeCompare::Content, Content::Sent(_, fields)) => Err(conflict(fields, produce)),
        }
    }
}

fn conflict(first: FieldHashes, produce: &Produce) -> Rejection {
    let hashes = first.into_iter().zip(field_hashes(produce));
    let field = ContentField::ALL.into_iter().zip(hashes).find(|(_, (a, b))| a != b);
    field.map_or(Rejection::KeyConflict, |(field, _)| Rejection::KeyConflictIn { field })
}

fn field_hashes(produce: &Produce) -> FieldHashes {
    let Produce { key, value, envelope, .. } = produce;
    ContentField::ALL.map(|field| match field {
        ContentField::Key => pack::short_hash(key),
        ContentField::Value => pack::short_hash(value),
        ContentField::TargetTopic => pack::short_hash(&envelope.target_topic),
        ContentField::PartitionOverride => pack::short_hash(&envelope.partition_override),
    })
}

fn sent(produce: &Produce) -> [u8; 16] {
    let Produce { key, value, envelope, .. } = produce;
    let Envelope { target_topic, partition_override, .. } = envelope;
    pack::fingerprint(&(key, value, target_topic, partition_override))
}

/// Returns the fingerprint of key, value and envelope. Deadline, labels and headers are left out.
pub(crate) fn content(produce: &Produce) -> [u8; 16] {
    let Produce { key, value, envelope, .. } = produce;
    let Envelope { run_id, step_id, parent_step_id, tenant_id, idempotency_key, .. } = envelope;
    let Envelope { target_topic, partition_override, retry_policy, deadline: _, .. } = envelope;
    let who = (run_id, step_id, parent_step_id, tenant_id, idempotency_key);
    pack::fingerprint(&(key, value, who, target_topic, partition_override, retry_policy))
}
