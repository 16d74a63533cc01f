//! Explains the state of a message, a group or an effect.

use axum::Json;
use axum::extract::State;
use driftq_api::clock::HeldClock;
use driftq_api::explain::{
    EffectInBrief, Event as WireEvent, Explained, ExplainedEffect, Group as WireGroup, History,
    InGroup as WireInGroup, Lease, Message as WireMessage,
};
use driftq_api::number::{Integer, PartitionNumber};
use driftq_api::schema;
use driftq_core::command::{self, EffectView, Explain, ExplainedMessage, InGroup};
use driftq_core::{LeaseToken, MessageId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::api_error::ApiError;
use super::app::{App, NAMESPACE, group_name, topic_name};
use super::input::Input;
use super::operation::{Missing, Query};
use super::request::{ApiRequest, Param, field};
use super::words::ToWire;
use super::{clock, convert, dlq, effect_view, effects};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainQuery {
    #[schema(value_type = Option<schema::MessageId>)]
    id: Option<String>,
    #[schema(value_type = Option<schema::LeaseToken>)]
    token: Option<String>,
    #[schema(value_type = Option<schema::TopicName>)]
    topic: Option<String>,
    partition: Option<PartitionNumber>,
    offset: Option<Integer>,
    #[schema(value_type = Option<schema::GroupName>)]
    group: Option<String>,
    #[schema(value_type = Option<schema::ScopeName>)]
    scope: Option<String>,
    #[schema(value_type = Option<schema::EffectKey>)]
    key: Option<String>,
    #[schema(value_type = Option<schema::Tenant>)]
    tenant_id: Option<String>,
}

impl ApiRequest for ExplainQuery {
    const QUERY: &'static [Param] = &[
        field("id"),
        field("token"),
        field("topic"),
        field("partition"),
        field("offset"),
        field("group"),
        field("scope"),
        field("key"),
        field("tenant_id"),
    ];

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (self.topic.as_deref(), self.group.as_deref())
    }
}

/// Explains where a message, a group or an effect is, and why.
#[utoipa::path(
    get, path = "/v1/explain", operation_id = "explain", tag = "messages",
    params(Query<ExplainQuery>),
    responses((status = 200, description = "a message, a group or an effect", body = Explained), Missing),
)]
pub(crate) async fn explain(
    State(app): State<App>,
    input: Input<ExplainQuery>,
) -> Result<Json<Explained>, ApiError> {
    let explained = app.call(target(&app, input.body)?).await?;
    let clock = clock::held(&app);
    Ok(Json(match &*explained {
        command::Explained::Message(message) => {
            Explained::Message(Box::new(wire_message(message, clock)))
        }
        command::Explained::Group { summary, view } => Explained::Group(WireGroup {
            what: "group",
            topic: view.topic.to_string(),
            group: view.name.to_string(),
            summary: summary.to_string(),
            partitions: convert::cursors(view),
            consumers: convert::consumers(view),
            clock,
        }),
        command::Explained::Effect { summary, view } => {
            Explained::Effect(Box::new(ExplainedEffect {
                what: "effect",
                summary: summary.to_string(),
                effect: effect_view::effect(view, true),
                clock,
            }))
        }
    }))
}

/// Requires exactly one of the ways to name a message, a group or an effect.
fn target(app: &App, request: ExplainQuery) -> Result<Explain, ApiError> {
    let ExplainQuery { id, token, topic, partition, offset, group, scope, key, tenant_id } =
        request;
    let is_effect = scope.is_some() || key.is_some() || tenant_id.is_some();
    if let (Some(scope), Some(key)) = (&scope, &key) {
        let is_alone = id.is_none() && token.is_none() && topic.is_none() && group.is_none();
        if is_alone && partition.is_none() && offset.is_none() {
            let query = effects::query(tenant_id.as_deref(), scope, key.clone())?;
            return Ok(Explain::Effect(query));
        }
    }
    let by_id = |id| Explain::Id { namespace: NAMESPACE.into(), id };
    match (id, token, topic, partition, offset, group) {
        _ if is_effect => Err(one_of_them()),
        (Some(id), None, None, None, None, None) => {
            let id: Result<MessageId, _> = id.parse();
            Ok(by_id(id.map_err(|error| ApiError::invalid("id", error.to_string()))?))
        }
        (None, Some(token), None, None, None, None) => {
            let token: LeaseToken = app.token("token", &token)?;
            let (restore, shard, topic) = (token.restore, token.shard, token.topic);
            Ok(by_id(MessageId { restore, shard, topic, lane: token.lane, offset: token.offset }))
        }
        (None, None, Some(topic), Some(partition), Some(offset), None) => {
            let (partition, offset) = (partition.get(), offset.get());
            Ok(Explain::Message { topic: topic_name(&topic), partition, offset })
        }
        (None, None, Some(topic), None, None, Some(group)) => {
            Ok(Explain::Group(group_name(&topic, &group)))
        }
        _ => Err(one_of_them()),
    }
}

fn one_of_them() -> ApiError {
    let message = "send id; or token; or topic, partition, offset; or topic, group; or scope, key[, tenant_id]";
    ApiError::invalid("", message)
}

fn wire_message(explained: &ExplainedMessage, clock: Option<HeldClock>) -> WireMessage {
    let message = explained.message.as_deref();
    let text = |text: &Option<driftq_core::Text>| text.as_deref().map(str::to_owned);
    WireMessage {
        what: "message",
        id: explained.id.to_string(),
        topic: explained.topic.to_string(),
        partition: explained.partition,
        offset: explained.offset,
        produced_at: message.map(|message| convert::time(message.produced_at)),
        run_id: message.and_then(|message| text(&message.envelope.run_id)),
        idempotency_key: message.and_then(|message| text(&message.envelope.idempotency_key)),
        summary: explained.dead.as_ref().map(|dead| dead.summary.to_string()),
        dlq: message.and_then(convert::death),
        redriven: explained.dead.as_ref().and_then(|dead| dlq::redrive_info(&dead.row)),
        groups: explained.groups.iter().map(in_group).collect(),
        history: match &explained.history {
            Some(events) => History::Kept(events.iter().map(event).collect()),
            None => History::NotKept("not kept"),
        },
        clock,
    }
}

fn event(event: &command::Event) -> WireEvent {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    WireEvent {
        at: convert::time(event.at),
        group: event.group.to_string(),
        event: event.kind.wire(),
        attempt: event.attempt,
        owner: some(&event.owner),
        error: some(&event.error),
    }
}

fn brief(effect: &EffectView) -> EffectInBrief {
    EffectInBrief {
        scope: effect.row.name.scope.to_string(),
        key: effect.row.name.key.to_string(),
        state: effect.state.wire(),
        fence: effect.row.fence,
    }
}

fn in_group(in_group: &InGroup) -> WireInGroup {
    WireInGroup {
        group: in_group.group.to_string(),
        state: in_group.state.wire(),
        summary: in_group.summary.to_string(),
        attempts: in_group.attempts,
        max_attempts: in_group.max_attempts,
        last_error: in_group.last_error.to_string(),
        last_owner: Some(in_group.last_owner.to_string()).filter(|owner| !owner.is_empty()),
        next_attempt_at: in_group.next_attempt_at.map(convert::time),
        lease: in_group.leased_until.map(|at| Lease { expires_at: convert::time(at) }),
        blocked: in_group.blocked.map(ToWire::wire),
        dead_letter: in_group.dead_letter.map(|id| id.to_string()),
        effects: in_group.effects.iter().map(brief).collect(),
    }
}
