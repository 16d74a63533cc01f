//! Dead letters.

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::message::{Envelope, Value};

/// How a dead letter came to be.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Death {
    pub origin: Origin,
    pub group: String,
    pub reason: &'static str,
    pub attempts: u32,
    pub last_error: String,
    pub last_owner: String,
    pub produced_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_delivered_at: Option<Time>,
    pub dead_at: Time,
    pub tenant_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Where it was when it died.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Origin {
    pub topic: String,
    pub partition: u32,
    pub offset: u64,
    pub id: String,
}

/// Which dead letters are meant.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Filter {
    pub group: Option<String>,
    pub reason: Option<String>,
    pub tenant_id: Option<String>,
    pub run_id: Option<String>,
    pub error: Option<String>,
    pub since: Option<Time>,
    pub until: Option<Time>,
}

/// A dead letter.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct DeadLetter<'a> {
    pub id: String,
    pub key: std::borrow::Cow<'a, str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
    pub dlq: Death,
    pub state: &'static str,
}

/// `GET /v1/dlq/{topic}`.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct DeadLetters<'a> {
    pub dead_letters: Vec<DeadLetter<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_error: Option<Vec<ErrorCount>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// How many died of an error.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct ErrorCount {
    pub error: String,
    pub count: u64,
}

/// `POST /v1/dlq/{topic}/redrive`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Redrive {
    pub ids: Option<Vec<String>>,
    pub filter: Option<Filter>,
    pub limit: Option<u32>,
    pub dry_run: bool,
    pub force: bool,
    pub by: Option<String>,
    pub reason: Option<String>,
}

/// The answer to a redrive.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Redriven {
    pub dry_run: bool,
    pub matched: usize,
    pub redriven: usize,
    pub results: Vec<crate::message::Item<RedrivenOne>>,
}

/// What became of one.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct RedrivenOne {
    pub id: String,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Place>,
}

/// Where a message is.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Place {
    pub partition: u32,
    pub offset: u64,
    pub id: String,
}

/// `POST /v1/dlq/{topic}/purge`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Purge {
    pub ids: Option<Vec<String>>,
    pub filter: Option<Filter>,
    pub confirm: Option<u64>,
    pub by: Option<String>,
    pub reason: Option<String>,
}

/// The answer to a purge.
#[derive(Debug, Serialize)]
pub struct Purged {
    /// How many are gone.
    pub purged: u64,
}
