//! One message per idempotency key, tenant and topic, while the key is taken.
//!
//! The record and the message are one commit, so there is no "pending": a key is free or done.

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

/// What is stored under a taken key.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DedupeRecord {
    /// The identity in clear: a hash alone could be another's.
    topic: TopicId,
    tenant: Text,
    key: Text,
    /// Fingerprint of the content: the same key with another message is refused.
    content: [u8; 16],
    receipt: Receipt,
    expires: Timestamp,
}

/// A keyed produce: its key and the name of its record.
pub(crate) struct Keyed<'a> {
    pub(crate) topic: TopicId,
    pub(crate) tenant: &'a str,
    pub(crate) key: &'a Text,
    kind: RecordKind,
    hash: Hash16,
}

impl<'a> Keyed<'a> {
    /// The requested topic is part of the identity, by its life: a topic created again starts clean.
    pub(crate) fn of(topic: TopicId, envelope: &'a Envelope) -> Option<Keyed<'a>> {
        let key = envelope.idempotency_key.as_ref()?;
        Some(Keyed::named(topic, tenant_of(envelope), key))
    }

    pub(crate) fn named(topic: TopicId, tenant: &'a str, key: &'a Text) -> Keyed<'a> {
        let kind = RecordKind::Dedupe;
        Keyed { topic, tenant, key, kind, hash: pack::hash16(kind, &(topic, tenant, key)) }
    }

    /// The same for a topic on another shard. Whether its pin is in force is for that shard to say, by its own
    /// clock: each pin, known by its end, has a record of its own here, and that is not looked at by the clock.
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

    /// The receipt under this key, if it is taken.
    pub(crate) fn taken(
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

    /// The receipt of a key that is taken, for the message that took it.
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

    /// The record of this key, while it is taken.
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
    /// What is stored under this key, if it is taken.
    pub(crate) fn shown(
        &self,
        now: Timestamp,
        found: &ReadView<'_>,
    ) -> Result<Option<Produced>, Refusal> {
        let record = self.record(now, found)?;
        Ok(record.map(|DedupeRecord { receipt, expires, .. }| Produced { receipt, expires }))
    }
}

impl Context<'_> {
    /// Takes the key for the message of `receipt`.
    pub(crate) fn take_key(
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

/// Key, value and the envelope without its deadline, which a repeat may have moved.
pub(crate) fn content(produce: &Produce) -> [u8; 16] {
    let Produce { key, value, envelope, .. } = produce;
    let Envelope { run_id, step_id, parent_step_id, tenant_id, idempotency_key, .. } = envelope;
    let Envelope { target_topic, partition_override, retry_policy, deadline: _, .. } = envelope;
    let who = (run_id, step_id, parent_step_id, tenant_id, idempotency_key);
    pack::fingerprint(&(key, value, who, target_topic, partition_override, retry_policy))
}
