//! Explanations of the state of a message, a group or an effect.

use serde::Serialize;
use utoipa::ToSchema;

use crate::Time;
use crate::clock::HeldClock;
use crate::death::Death;
use crate::dlq::RedriveInfo;
use crate::effect::Effect;
use crate::group::{Consumer, Cursor};
use crate::schema::{
    EffectKey, GroupName, MessageId, NotKept, ScopeName, TopicName, WhatEffect, WhatGroup,
    WhatMessage,
};
use crate::words::{Blocked, EffectState, EventKind, ExplainState};

/// `GET /v1/explain`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Explained {
    /// The explanation of a message.
    Message(Box<Message>),
    /// The explanation of a group.
    Group(Group),
    /// The explanation of an effect.
    Effect(Box<ExplainedEffect>),
}

/// An effect, and what happens next.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct ExplainedEffect {
    #[schema(value_type = WhatEffect)]
    pub what: &'static str,
    pub summary: String,
    pub effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<HeldClock>,
}

/// An effect of a delivery.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct EffectInBrief {
    #[schema(value_type = ScopeName)]
    pub scope: String,
    #[schema(value_type = EffectKey)]
    pub key: String,
    pub state: EffectState,
    pub fence: u64,
}

/// A message, in every group of its topic.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedMessage)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Message {
    #[schema(value_type = WhatMessage)]
    pub what: &'static str,
    #[schema(value_type = MessageId)]
    pub id: String,
    #[schema(value_type = TopicName)]
    pub topic: String,
    pub partition: u32,
    pub offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub produced_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dlq: Option<Death>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redriven: Option<RedriveInfo>,
    pub groups: Vec<InGroup>,
    pub history: History,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<HeldClock>,
}

/// The events of a message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum History {
    /// The topic does not keep a history.
    #[schema(value_type = NotKept)]
    NotKept(&'static str),
    /// The events, oldest first.
    Kept(Vec<Event>),
}

/// An event of a message.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Event {
    pub at: Time,
    #[schema(value_type = GroupName)]
    pub group: String,
    pub event: EventKind,
    pub attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A message in one group.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedInGroup)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct InGroup {
    #[schema(value_type = GroupName)]
    pub group: String,
    pub state: ExplainState,
    pub summary: String,
    pub attempts: u32,
    pub max_attempts: i32,
    pub last_error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MessageId>)]
    pub dead_letter: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectInBrief>,
}

/// A lease that is held.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedLease)]
pub struct Lease {
    /// When it ends.
    pub expires_at: Time,
}

/// A group.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedGroup)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Group {
    #[schema(value_type = WhatGroup)]
    pub what: &'static str,
    #[schema(value_type = TopicName)]
    pub topic: String,
    #[schema(value_type = GroupName)]
    pub group: String,
    pub summary: String,
    pub partitions: Vec<Cursor>,
    pub consumers: Vec<Consumer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<HeldClock>,
}
