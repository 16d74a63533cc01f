//! Messages in pages and in the outbox.
//!
//! 1. Version 1 has the fields of the first release, in order. A message without an [`Extension`] is
//!    written as version 1, so its bytes never change.
//! 2. Version 2 is the same, followed by the extensions. An extension is a map from tag to value. A
//!    reader keeps the tags that it does not know, so a field that may be ignored needs no version 3.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::command::{Outgoing, Routed, Sender};
use crate::id::{MessageId, Text};
use crate::message::{Death, Envelope, Extension, Message, Routing, Trace};
use crate::pack::{Damaged, UNKNOWN_VERSION, V1, V2, content, seal_as, unseal};
use crate::retry::RetryRequest;
use crate::row::Row;
use crate::time::Timestamp;

const LABELS: u32 = 1;
const HEADERS: u32 = 2;

/// An extension as stored: the values by tag.
type Tags = BTreeMap<u32, Bytes>;

/// Packs the messages of a page. `bytes_before` is the lane's byte total before the first.
pub(super) fn seal_messages(bytes_before: u64, messages: &[&Message]) -> Bytes {
    let extensions: BTreeMap<usize, Tags> = messages
        .iter()
        .enumerate()
        .filter_map(|(at, message)| Some((at, tags(message.envelope.extension.as_deref()?))))
        .collect();
    if extensions.is_empty() {
        return seal_as(V1, &(bytes_before, messages));
    }
    let plain: Vec<Message> = messages
        .iter()
        .map(|message| Message {
            envelope: without_extension(&message.envelope),
            ..(*message).clone()
        })
        .collect();
    seal_as(V2, &(bytes_before, plain, extensions))
}

/// Unpacks the messages of a page, and the lane's byte total before the first.
pub(super) fn open_messages(body: &[u8]) -> Result<(u64, Vec<Message>), &'static str> {
    let (bytes_before, messages, mut extensions) = match unseal(body)? {
        (V1, packed) => {
            let (bytes_before, messages) = content(packed)?;
            (bytes_before, messages, BTreeMap::new())
        }
        (V2, packed) => content::<(u64, Vec<MessageV1>, BTreeMap<usize, Tags>)>(packed)?,
        _ => return Err(UNKNOWN_VERSION),
    };
    let with_extension = |(at, message): (usize, MessageV1)| {
        let extension = extensions.remove(&at).map(extension).transpose()?;
        Ok(message.with(extension))
    };
    let messages = messages.into_iter().enumerate().map(with_extension);
    let messages = messages.collect::<Result<_, &'static str>>()?;
    if !extensions.is_empty() {
        return Err("it has an extension without a message");
    }
    Ok((bytes_before, messages))
}

/// Packs a message of the outbox.
pub(super) fn seal_outgoing(outgoing: &Outgoing) -> Bytes {
    let Some(extension) = outgoing.envelope.extension.as_deref() else {
        return seal_as(V1, outgoing);
    };
    let plain = Outgoing { envelope: without_extension(&outgoing.envelope), ..outgoing.clone() };
    seal_as(V2, &(plain, tags(extension)))
}

/// Unpacks a message of the outbox.
pub(crate) fn open_outgoing(row: &Row) -> Result<Outgoing, Damaged> {
    let open = |body| match unseal(body)? {
        (V1, packed) => Ok(content::<OutgoingV1>(packed)?.with(None)),
        (V2, packed) => {
            let (outgoing, tags): (OutgoingV1, Tags) = content(packed)?;
            Ok(outgoing.with(Some(extension(tags)?)))
        }
        _ => Err(UNKNOWN_VERSION),
    };
    open(&row.body).map_err(|why| Damaged::of(&row.key, why))
}

fn without_extension(envelope: &Envelope) -> Envelope {
    Envelope { extension: None, ..envelope.clone() }
}

fn tags(extension: &Extension) -> Tags {
    let Extension { labels, headers, unknown } = extension;
    let mut tags = unknown.clone();
    for (tag, map) in [(LABELS, labels), (HEADERS, headers)] {
        if !map.is_empty() {
            let value = postcard::to_stdvec(map).expect("plain values can be packed");
            tags.insert(tag, value.into());
        }
    }
    tags
}

fn extension(mut tags: Tags) -> Result<Box<Extension>, &'static str> {
    let labels = value(tags.remove(&LABELS))?;
    let headers = value(tags.remove(&HEADERS))?;
    Ok(Box::new(Extension { labels, headers, unknown: tags }))
}

fn value<T: DeserializeOwned + Default>(stored: Option<Bytes>) -> Result<T, &'static str> {
    stored.map_or_else(|| Ok(T::default()), |stored| content(&stored))
}

/// [`Envelope`] in version 1.
#[derive(Deserialize)]
struct EnvelopeV1 {
    run_id: Option<Text>,
    step_id: Option<Text>,
    parent_step_id: Option<Text>,
    tenant_id: Option<Text>,
    idempotency_key: Option<Text>,
    target_topic: Option<Text>,
    partition_override: Option<u32>,
    deadline: Option<Timestamp>,
    retry_policy: Option<RetryRequest>,
}

impl EnvelopeV1 {
    fn with(self, extension: Option<Box<Extension>>) -> Envelope {
        let EnvelopeV1 { run_id, step_id, parent_step_id, tenant_id, idempotency_key, .. } = self;
        Envelope {
            run_id,
            step_id,
            parent_step_id,
            tenant_id,
            idempotency_key,
            target_topic: self.target_topic,
            partition_override: self.partition_override,
            deadline: self.deadline,
            retry_policy: self.retry_policy,
            extension,
        }
    }
}

/// [`Message`] in version 1.
#[derive(Deserialize)]
struct MessageV1 {
    restore: u32,
    produced_at: Timestamp,
    key: Bytes,
    value: Bytes,
    envelope: EnvelopeV1,
    routing: Option<Box<Routing>>,
    trace: Option<Box<Trace>>,
    origin: Option<MessageId>,
    redriven: u32,
    for_group: Option<Text>,
    death: Option<Box<Death>>,
}

impl MessageV1 {
    fn with(self, extension: Option<Box<Extension>>) -> Message {
        let MessageV1 { restore, produced_at, key, value, envelope, routing, trace, .. } = self;
        Message {
            restore,
            produced_at,
            key,
            value,
            envelope: envelope.with(extension),
            routing,
            trace,
            origin: self.origin,
            redriven: self.redriven,
            for_group: self.for_group,
            death: self.death,
        }
    }
}

/// [`Outgoing`] in version 1.
#[derive(Deserialize)]
struct OutgoingV1 {
    namespace: Text,
    topic: Text,
    key: Bytes,
    value: Bytes,
    envelope: EnvelopeV1,
    routing: Option<Box<Routing>>,
    trace: Option<Box<Trace>>,
    sender: Sender,
    routed: Option<Routed>,
}

impl OutgoingV1 {
    fn with(self, extension: Option<Box<Extension>>) -> Outgoing {
        let OutgoingV1 { namespace, topic, key, value, envelope, routing, trace, .. } = self;
        let envelope = envelope.with(extension);
        let OutgoingV1 { sender, routed, .. } = self;
        Outgoing { namespace, topic, key, value, envelope, routing, trace, sender, routed }
    }
}
