//! Deduplication: one message per idempotency key, tenant and topic while the key is in use.
//!
//! Record and message are stored in one commit, so there is no pending state: a key is free or in
//! use.

use serde::{Deserialize, Serialize};

use crate::change::{Change, Lookup, Record};
use crate::command::{Produce, Produced, Rejection, Routed};
use crate::id::{Text, TopicId};
use crate::limits::ROUTED_KEPT_MS;
use crate::message::{Envelope, Receipt, tenant_of};
use crate::pack;
use crate::read_view::ReadView;
use crate::refusal::Refusal;
use crate::row::{Hash16, Key, RecordKind};
use crate::shard::context::Context;
use crate::time::Timestamp;

/// The record of a key in use.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DedupeRecord {
    /// The identity in plain text, because hashes can collide.
    topic: TopicId,
    tenant: Text,
    key: Text,
    /// Fingerprint of the content. The same key with different content is rejected.
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
        found: &ReadView<'_>,
    ) -> Result<Option<Receipt>, Refusal> {
        let Some(record) = self.record(now, found)? else {
            return Ok(None);
        };
        Ok(Some(self.again(produce, &record.content, &record.receipt)?))
    }

    /// Returns the stored receipt to a retry with the same content. Rejects different content.
    pub(crate) fn again(
        &self,
        produce: &Produce,
        taken_by: &[u8; 16],
        receipt: &Receipt,
    ) -> Result<Receipt, Rejection> {
        if *taken_by == content(produce) {
            Ok(Receipt { deduplicated: true, ..receipt.clone() })
        } else {
            Err(Rejection::KeyConflict)
        }
    }

    pub(crate) fn hash(&self) -> Hash16 {
        self.hash
    }

    /// Returns the record of this key while it is in force.
    fn record(
        &self,
        now: Timestamp,
        found: &ReadView<'_>,
    ) -> Result<Option<DedupeRecord>, Refusal> {
        let Some(row) = found.row(self.record_key())? else {
            return Ok(None);
        };
        let record: DedupeRecord = pack::open(row)?;
        let same_identity =
            record.topic == self.topic && &*record.tenant == self.tenant && record.key == *self.key;
        let is_in_force = self.kind == RecordKind::Routed || now < record.expires;
        Ok((same_identity && is_in_force).then_some(record))
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
        Ok(record.map(|DedupeRecord { receipt, expires, .. }| Produced { receipt, expires }))
    }
}

impl Context<'_> {
    /// Stores the key's record for the message of `receipt`.
    pub(crate) fn store_key(
        &self,
        keyed: &Keyed<'_>,
        expires: Timestamp,
        produce: &Produce,
        receipt: &Receipt,
        changes: &mut Vec<Change>,
    ) {
        let record = DedupeRecord {
            topic: keyed.topic,
            tenant: keyed.tenant.into(),
            key: keyed.key.clone(),
            content: content(produce),
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
            body: pack::seal(&record),
        };
        self.put_record(self.now, record, changes);
    }
}

/// Returns the fingerprint of key, value and envelope. Deadline, labels and headers are left out,
/// because a retry may change them.
pub(crate) fn content(produce: &Produce) -> [u8; 16] {
    let Produce { key, value, envelope, .. } = produce;
    let Envelope { run_id, step_id, parent_step_id, tenant_id, idempotency_key, .. } = envelope;
    let Envelope { target_topic, partition_override, retry_policy, deadline: _, .. } = envelope;
    let who = (run_id, step_id, parent_step_id, tenant_id, idempotency_key);
    pack::fingerprint(&(key, value, who, target_topic, partition_override, retry_policy))
}
