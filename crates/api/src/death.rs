//! How a message became a dead letter.

use serde::Serialize;
use utoipa::ToSchema;

use crate::Time;
use crate::schema::{GroupName, MessageId, TopicName};
use crate::words::DeathReason;

/// How and where a message was dead-lettered.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Death {
    pub origin: Origin,
    #[schema(value_type = GroupName)]
    pub group: String,
    pub reason: DeathReason,
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

/// The position of the message before it was dead-lettered.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Origin {
    #[schema(value_type = TopicName)]
    pub topic: String,
    pub partition: u32,
    pub offset: u64,
    #[schema(value_type = MessageId)]
    pub id: String,
}
