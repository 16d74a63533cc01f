//! The router hook, and the test of a route.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::message::{Envelope, Value};
use crate::schema::TopicName;
use crate::words::RouterKind;

/// The request to a router hook.
#[derive(Debug, Serialize)]
pub struct RouterRequest<'a> {
    /// The messages of one produce request or commit, in its order.
    pub messages: Vec<RouterMessage<'a>>,
}

/// A message that the router decides about.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of a produce request")]
pub struct RouterMessage<'a> {
    /// The requested topic.
    pub topic: &'a str,
    pub key: std::borrow::Cow<'a, str>,
    #[serde(flatten)]
    pub value: Value<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
}

/// The response of a router hook.
#[derive(Debug, Deserialize)]
pub struct RouterResponse {
    /// A [`RoutingDecision`] or null for each message. Each is read by itself.
    pub decisions: Vec<Box<RawValue>>,
}

/// What a router decides about a message. Unknown fields of a hook are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoutingDecision {
    /// Delivered with the message.
    #[serde(default, deserialize_with = "null_as_default")]
    pub label: String,
    /// The topic that stores the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_topic: Option<String>,
    /// The partition that stores the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_override: Option<u32>,
    /// Other values, delivered with the message.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(deserialize_with = "null_as_default")]
    pub meta: BTreeMap<String, String>,
}

/// Services in many languages send null for what they leave out.
fn null_as_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// The response to `POST /v1/route/test`.
#[derive(Debug, Serialize, ToSchema)]
pub struct RouteTest {
    /// Which router the server has.
    pub router: RouterKind,
    /// What it decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingDecision>,
    /// The topic that would store the message.
    #[schema(value_type = TopicName)]
    pub final_topic: String,
    /// Why the router made no decision, or why it could not be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
