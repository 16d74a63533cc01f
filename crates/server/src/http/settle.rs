//! Settling one delivery or many.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use driftq_api::number::{DelayMs, Integer, LeaseMs, PartitionNumber};
use driftq_api::settle::{self as wire, Op, Settle, SettleMany, Settled, SettledMany};
use driftq_api::words::SettledStatus;
use driftq_core::command::{Call, Claim, ExpectedDelivery, Extend, Nack, NackKind};
use driftq_core::{Command, Rejection, Reply, Timestamp};

use super::api_error::ApiError;
use super::app::{App, group_name};
use super::body::Purpose;
use super::input::Input;
use super::operation::{Missing, QueryForm, Stale};
use super::request::{ApiRequest, Param, alias, field};
use super::{bulk, convert};

impl ApiRequest for Settle {
    const IS_OF_V1: bool = true;
    const PURPOSE: Purpose = Purpose::Settle;
    const QUERY: &'static [Param] = &[
        field("token"),
        field("topic"),
        field("group"),
        field("partition"),
        field("offset"),
        field("owner"),
        field("reason"),
        alias("error", "reason"),
        field("delay_ms"),
        field("dead_letter"),
        alias("final", "dead_letter"),
        field("release"),
        field("lease_ms"),
    ];

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (self.topic.as_deref(), self.group.as_deref())
    }
}

impl ApiRequest for SettleMany {
    const PURPOSE: Purpose = Purpose::Settle;
    const QUERY: &'static [Param] = &[];
}

/// Settles a delivery as done.
#[utoipa::path(
    post, path = "/v1/ack", operation_id = "ack", tag = "settling",
    params(QueryForm<Settle, wire::Ack>),
    request_body = wire::Ack,
    responses((status = 204, description = "settled"), Missing, Stale),
)]
pub(crate) async fn ack(
    State(app): State<App>,
    input: Input<Settle>,
) -> Result<StatusCode, ApiError> {
    settle(&app, Op::Ack, input.body).await.map(|_| StatusCode::NO_CONTENT)
}

/// Settles a delivery as failed, or releases it.
#[utoipa::path(
    post, path = "/v1/nack", operation_id = "nack", tag = "settling",
    params(QueryForm<Settle, wire::Nack>),
    request_body = wire::Nack,
    responses((status = 204, description = "recorded"), Missing, Stale),
)]
pub(crate) async fn nack(
    State(app): State<App>,
    input: Input<Settle>,
) -> Result<StatusCode, ApiError> {
    settle(&app, Op::Nack, input.body).await.map(|_| StatusCode::NO_CONTENT)
}

/// Extends a lease.
#[utoipa::path(
    post, path = "/v1/extend", operation_id = "extend", tag = "settling",
    params(QueryForm<Settle, wire::Extend>),
    request_body = wire::Extend,
    responses((status = 200, description = "the new expiry of the lease", body = Settled), Missing, Stale),
)]
pub(crate) async fn extend(
    State(app): State<App>,
    input: Input<Settle>,
) -> Result<Json<Settled>, ApiError> {
    settle(&app, Op::Extend, input.body).await.map(Json)
}

async fn settle(app: &App, op: Op, request: Settle) -> Result<Settled, ApiError> {
    if request.op.is_some() {
        return Err(ApiError::invalid("op", "is not allowed; the path names the operation"));
    }
    let call = call(app, op, request)?;
    settled(op, app.try_call(call).await?)
}

/// Settles many deliveries. Each one succeeds or fails on its own.
#[utoipa::path(
    post, path = "/v1/settle", operation_id = "settle", tag = "settling",
    request_body = SettleMany,
    responses((status = 200, description = "one result per item", body = SettledMany)),
)]
pub(crate) async fn many(
    State(app): State<App>,
    input: Input<SettleMany>,
) -> Result<Json<SettledMany>, ApiError> {
    let request = input.body.items;
    let mut items = Vec::with_capacity(request.len());
    for one in request {
        items.push(match one.op {
            Some(op) => call(&app, op, one).map(|call| (call, op)),
            None => Err(ApiError::invalid("op", "must be ack, nack or extend")),
        });
    }
    let results = bulk::call_each(&app, items, settled).await;
    let done = bulk::count(&results, |_| true);
    let refused = results.len() - done;
    Ok(Json(SettledMany { results, done, refused }))
}

/// A settle of any kind. The reply to an extend is the new expiry of the lease.
enum SettleCall {
    Ack(Claim),
    Nack(Nack),
    Extend(Extend),
}

impl Call for SettleCall {
    type Reply = Option<Timestamp>;

    fn into_command(self) -> Command {
        match self {
            SettleCall::Ack(claim) => Command::Ack(claim),
            SettleCall::Nack(nack) => Command::Nack(nack),
            SettleCall::Extend(extend) => Command::Extend(extend),
        }
    }

    fn reply(reply: Reply) -> Option<Option<Timestamp>> {
        if let Reply::Extended { until } = reply {
            return Some(Some(until));
        }
        matches!(reply, Reply::Done).then_some(None)
    }
}

fn call(app: &App, op: Op, request: Settle) -> Result<SettleCall, ApiError> {
    let claim = claim(app, &request)?;
    let Settle { reason, delay_ms, dead_letter, release, lease_ms, .. } = request;
    let is_nack =
        reason.is_some() || delay_ms.is_some() || dead_letter.is_some() || release.is_some();
    if op != Op::Nack && is_nack {
        return Err(ApiError::invalid(
            "",
            "reason, delay_ms, dead_letter and release are only allowed with nack",
        ));
    }
    if op != Op::Extend && lease_ms.is_some() {
        return Err(ApiError::invalid("lease_ms", "is only allowed with extend"));
    }
    Ok(match op {
        Op::Ack => SettleCall::Ack(claim),
        Op::Extend => SettleCall::Extend(Extend { claim, lease_ms: lease_ms.map(LeaseMs::get) }),
        Op::Nack => {
            let kind = match (dead_letter.unwrap_or(false), release.unwrap_or(false)) {
                (true, true) => {
                    return Err(ApiError::invalid(
                        "dead_letter",
                        "cannot be combined with release",
                    ));
                }
                (true, false) if delay_ms.is_some() => {
                    return Err(ApiError::invalid("delay_ms", "is not allowed with dead_letter"));
                }
                (true, false) => NackKind::Final,
                (false, true) => NackKind::Release,
                (false, false) => NackKind::Failed,
            };
            let reason = reason.filter(|reason| !reason.is_empty()).map(Into::into);
            SettleCall::Nack(Nack { claim, reason, delay_ms: delay_ms.map(DelayMs::get), kind })
        }
    })
}

/// The delivery that the request names.
fn claim(app: &App, request: &Settle) -> Result<Claim, ApiError> {
    let Settle { token, topic, group, partition, offset, owner, .. } = request;
    if let Some(text) = token {
        let token = app.token("token", text)?;
        let is_alone = topic.is_none()
            && group.is_none()
            && partition.is_none()
            && offset.is_none()
            && owner.is_none();
        let text = |said: &Option<String>| said.as_deref().map(Into::into);
        let expected = || ExpectedDelivery {
            topic: text(topic),
            group: text(group),
            partition: partition.map(PartitionNumber::get),
            offset: offset.map(Integer::get),
            owner: text(owner),
        };
        return Ok(Claim::Token(token, (!is_alone).then(|| Box::new(expected()))));
    }
    let (Some(topic), Some(group), Some(partition), Some(offset), Some(owner)) =
        (topic, group, partition, offset, owner)
    else {
        let message = "send token, or all of topic, group, partition, offset, owner";
        return Err(ApiError::invalid("token", message));
    };
    app.metrics.settled_by_owner();
    Ok(Claim::Owner {
        name: group_name(topic, group),
        partition: partition.get(),
        offset: offset.get(),
        owner: owner.as_str().into(),
    })
}

fn settled(op: Op, reply: Result<Option<Timestamp>, Rejection>) -> Result<Settled, ApiError> {
    let status = match op {
        Op::Ack => SettledStatus::Acked,
        Op::Nack => SettledStatus::Nacked,
        Op::Extend => SettledStatus::Extended,
    };
    Ok(Settled { status, expires_at: reply?.map(convert::time) })
}
