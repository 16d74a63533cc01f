//! Dead letters.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::death::Death;
use crate::limits::{ITEMS_MAX, PURGE_IDS_MAX};
use crate::message::{Envelope, Value, value_shape};
use crate::number::{Integer, Limit};
use crate::schema::{MessageId, PageCursor};
use crate::strict::{optional_object, optional_texts};
use crate::words::{DeadLetterState, DeathReason, RedrivenStatus};

/// Selects dead letters. Those that match every field that is set are selected.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = DeadLetterFilter)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Filter {
    pub group: Option<String>,
    pub reason: Option<DeathReason>,
    pub tenant_id: Option<String>,
    pub run_id: Option<String>,
    pub error: Option<String>,
    pub since: Option<Time>,
    pub until: Option<Time>,
}

/// A dead letter.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct DeadLetter<'a> {
    #[schema(value_type = MessageId)]
    pub id: String,
    #[schema(value_type = String)]
    pub key: std::borrow::Cow<'a, str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = value_shape)]
    pub value: Option<Value<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
    pub dlq: Death,
    pub state: DeadLetterState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redriven: Option<RedriveInfo>,
}

/// The redrive of a dead letter.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct RedriveInfo {
    pub by: String,
    pub reason: String,
    pub at: Time,
    pub new: Place,
}

/// `GET /v1/dlq/{topic}`.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct DeadLetters<'a> {
    pub dead_letters: Vec<DeadLetter<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_error: Option<Vec<ErrorCount>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PageCursor>)]
    pub next_cursor: Option<String>,
}

/// The number of dead letters with an error.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct ErrorCount {
    pub error: String,
    pub count: u64,
}

/// `POST /v1/dlq/{topic}/redrive`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Redrive {
    #[serde(default, deserialize_with = "optional_texts::<_, ITEMS_MAX>")]
    #[schema(value_type = Option<Vec<MessageId>>, min_items = 1, max_items = 1000)]
    pub ids: Option<Vec<String>>,
    #[serde(default, deserialize_with = "optional_object")]
    pub filter: Option<Filter>,
    pub limit: Option<Limit>,
    #[serde(default)]
    pub dry_run: bool,
    #[serde(default)]
    pub force: bool,
    pub by: Option<String>,
    pub reason: Option<String>,
}

/// The result of a redrive.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RedrivenMany)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Redriven {
    pub dry_run: bool,
    pub matched: usize,
    pub redriven: usize,
    pub results: Vec<crate::message::Item<RedrivenOne>>,
}

/// The result for one dead letter.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct RedrivenOne {
    #[schema(value_type = MessageId)]
    pub id: String,
    pub status: RedrivenStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Place>,
}

/// The position of a message.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Place {
    pub partition: u32,
    pub offset: u64,
    #[schema(value_type = MessageId)]
    pub id: String,
}

/// `POST /v1/dlq/{topic}/purge`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Purge {
    #[serde(default, deserialize_with = "optional_texts::<_, PURGE_IDS_MAX>")]
    #[schema(value_type = Option<Vec<MessageId>>)]
    pub ids: Option<Vec<String>>,
    #[serde(default, deserialize_with = "optional_object")]
    pub filter: Option<Filter>,
    pub confirm: Option<Integer>,
    pub by: Option<String>,
    pub reason: Option<String>,
}

/// The result of a purge.
#[derive(Debug, Serialize, ToSchema)]
pub struct Purged {
    /// The number of dead letters that were deleted.
    pub purged: u64,
}
