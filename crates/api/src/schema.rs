//! Schemas of texts for the OpenAPI document. These types are never instantiated: the fields are
//! plain strings, and these types describe their format.

use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{KnownFormat, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::limits::{HEADERS_MAX, LABELS_MAX};

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

macro_rules! schemas {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let schema: Object = $schema.build();
                schema.into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

/// Any JSON.
#[derive(Debug)]
pub enum AnyJson {}

impl PartialSchema for AnyJson {
    fn schema() -> RefOr<Schema> {
        let any: Object = ObjectBuilder::new().schema_type(SchemaType::AnyValue).build();
        any.into()
    }
}

impl ToSchema for AnyJson {}

fn words(words: &[&str]) -> ObjectBuilder {
    text().enum_values(Some(words.iter().copied()))
}

schemas! {
    /// The name of a topic or dead-letter topic.
    TopicName = text()
        .max_length(Some(254))
        .pattern(Some("^[A-Za-z0-9][A-Za-z0-9._-]{0,253}$"));
    /// The name of a new topic.
    NewTopicName = text()
        .max_length(Some(250))
        .pattern(Some(r"^(?!dlq\.|sys\.)[A-Za-z0-9][A-Za-z0-9._-]{0,249}$"))
        .description(Some("Names that start with `dlq.` or `sys.` are reserved."));
    /// The name of a group.
    GroupName = text()
        .max_length(Some(128))
        .pattern(Some("^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"));
    /// The name that a consumer gives itself.
    Owner = text()
        .min_length(Some(1))
        .max_length(Some(255))
        .pattern(Some(r"^[^\u0000-\u001f\u007f-\u009f]+$"))
        .description(Some("At most 255 bytes of UTF-8, without control characters."));
    /// Our user's customer.
    Tenant = text().max_length(Some(255)).description(Some("At most 255 bytes of UTF-8."));
    /// Identifies a message for deduplication.
    IdempotencyKey = text()
        .max_length(Some(255))
        .pattern(Some(r"^[^\u0000-\u001f\u007f-\u009f]*$"))
        .description(Some("At most 255 bytes of UTF-8, without control characters. An empty key counts as absent."));
    /// A text of an envelope.
    EnvelopeText = text().max_length(Some(1024)).description(Some("At most 1 KiB of UTF-8."));
    /// Labels of a message.
    Labels = ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(text().max_length(Some(1024))))
        .max_properties(Some(LABELS_MAX))
        .description(Some("Each at most 1 KiB of UTF-8, name and value together."));
    /// Headers of a message.
    Headers = ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(text().max_length(Some(16384))))
        .max_properties(Some(HEADERS_MAX))
        .description(Some("At most 16 KiB of UTF-8, all names and values together."));
    /// The key of a message.
    MessageKey = text().max_length(Some(1024)).description(Some("At most 1 KiB of UTF-8."));
    /// Base64 in the standard alphabet, padded.
    Base64 = text()
        .min_length(Some(4))
        .max_length(Some(1_398_104))
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Byte)))
        .pattern(Some("^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"));
    /// Identifies a message. Opaque.
    MessageId = text().max_length(Some(64)).pattern(Some("^m_[a-z2-7]+$"));
    /// Proof of a lease. Opaque.
    LeaseToken = text().max_length(Some(512)).pattern(Some("^lt_[A-Za-z0-9_-]+$"));
    /// The right to finish an effect. Opaque.
    EffectToken = text().max_length(Some(512)).pattern(Some("^et_[A-Za-z0-9_-]+$"));
    /// Where the key of an effect is unique.
    ScopeName = text()
        .max_length(Some(400))
        .pattern(Some("^(op/[A-Za-z0-9/][A-Za-z0-9._/-]{0,127}|effect/[A-Za-z0-9][A-Za-z0-9._-]{0,253}/[A-Za-z0-9][A-Za-z0-9._-]{0,127}|produce/[A-Za-z0-9][A-Za-z0-9._-]{0,253})$"))
        .description(Some("`op/<name>`, `effect/<topic>/<group>` or `produce/<topic>`."));
    /// Names an effect within its scope.
    EffectKey = text()
        .min_length(Some(1))
        .max_length(Some(255))
        .pattern(Some(r"^[^\u0000-\u001f\u007f-\u009f]+$"))
        .description(Some("At most 255 bytes of UTF-8, without control characters."));
    /// A caller's own hash of its request.
    RequestHash = text().min_length(Some(1)).max_length(Some(128));
    /// Identifies the caller of a begin if it repeats the begin.
    Nonce = text().min_length(Some(1)).max_length(Some(64));
    /// The key by which the provider deduplicates.
    DownstreamKey = text().max_length(Some(43)).pattern(Some("^dq_[a-z2-7]{40}$"));
    /// A part of the name of a pointer.
    PointerText = text()
        .min_length(Some(1))
        .max_length(Some(255))
        .pattern(Some(r"^[^\u0000-\u001f\u007f-\u009f]+$"))
        .description(Some("At most 255 bytes of UTF-8, without control characters."));
    /// A BLAKE3 hash, in hex.
    ChainHash = text().pattern(Some("^[0-9a-f]{64}$"));
    /// A process that serves shards. Opaque.
    NodeId = text().max_length(Some(18)).pattern(Some("^n_[0-9a-f]{16}$"));
    /// Where the next page starts. Opaque.
    PageCursor = text().pattern(Some("^[A-Za-z0-9_-]+$"));

    /// A message is explained.
    WhatMessage = words(&["message"]);
    /// A group is explained.
    WhatGroup = words(&["group"]);
    /// An effect is explained.
    WhatEffect = words(&["effect"]);
    /// The topic keeps no history of messages.
    NotKept = words(&["not kept"]);
    /// The storage engine.
    EngineName = words(&["memory", "sqlite", "postgres"]);
    /// A decision that the ledger accepted.
    Accepted = words(&["begin", "finish", "resolve"]);
}
