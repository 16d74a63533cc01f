//! Reading messages without leasing them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::Time;
use crate::message::{Envelope, Value, value_shape};
use crate::schema::{MessageId, PageCursor};
use crate::words::PeekState;

/// `GET /v1/topics/{topic}/messages`.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Messages<'a> {
    pub messages: Vec<Peeked<'a>>,
    pub scanned: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PageCursor>)]
    pub next_cursor: Option<String>,
}

/// A message, read without a lease.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Peeked<'a> {
    #[schema(value_type = MessageId)]
    pub id: String,
    pub partition: u32,
    pub offset: u64,
    #[schema(value_type = String)]
    pub key: std::borrow::Cow<'a, str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = value_shape)]
    pub value: Option<Value<'a>>,
    pub produced_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PeekState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<PeekedLease>,
}

/// The lease of a message that is leased.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct PeekedLease {
    pub owner: String,
    pub attempt: u32,
    pub expires_at: Time,
}
