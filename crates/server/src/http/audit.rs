//! The audit chain: its length, and its records for verification outside the server.

use axum::Json;
use axum::extract::State;
use driftq_api::audit::{Chain, Chains, Link, Records};
use driftq_api::number::RecordNumber;
use driftq_core::audit::Tip;
use driftq_core::command::{ReadAudit, ViewChain};
use driftq_core::{NUMBER_MAX, ShardId};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::api_error::{ApiError, internal_error};
use super::app::{App, NAMESPACE};
use super::input::Input;
use super::operation::Query;
use super::request::{ApiRequest, Nothing, Param, field};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditQuery {
    shard: u32,
    #[schema(default = 1)]
    from: Option<RecordNumber>,
    to: Option<RecordNumber>,
}

impl ApiRequest for AuditQuery {
    const QUERY: &'static [Param] = &[field("shard"), field("from"), field("to")];
}

/// Lists the chains that have records, each with its last record.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "chains", tag = "audit",
    responses((status = 200, description = "the chains", body = Chains)),
)]
pub(crate) async fn chains(
    State(app): State<App>,
    _: Input<Nothing>,
) -> Result<Json<Chains>, ApiError> {
    let mut chains = Vec::new();
    for shard in 0..app.node.shards() {
        let view = ViewChain { shard: ShardId(shard), namespace: NAMESPACE.into() };
        let Tip { seq, hash } = app.call(view).await?;
        let namespace = NAMESPACE.to_owned();
        chains.push(Chain { namespace, shard, seq, hash: hash.to_string() });
    }
    chains.retain(|chain| chain.seq > 0);
    Ok(Json(Chains { chains }))
}

/// Lists the records of a chain, in order.
#[utoipa::path(
    get, path = "/v1/audit/records", operation_id = "auditRecords", tag = "audit",
    params(Query<AuditQuery>),
    responses((status = 200, description = "a page of records", body = Records)),
)]
pub(crate) async fn records(
    State(app): State<App>,
    input: Input<AuditQuery>,
) -> Result<Json<Records>, ApiError> {
    let AuditQuery { shard, from, to } = input.body;
    if shard >= app.node.shards() {
        return Err(ApiError::invalid("shard", "does not exist"));
    }
    let read = ReadAudit {
        shard: ShardId(shard),
        namespace: NAMESPACE.into(),
        from: from.map_or(1, RecordNumber::get),
        to: to.map_or(NUMBER_MAX, RecordNumber::get),
    };
    let slice = app.call(read).await?;
    let link = |(text, tip): (String, Tip)| {
        let record = RawValue::from_string(text)
            .map_err(|_| internal_error("an audit record is not JSON"))?;
        Ok(Link { record, hash: tip.hash.to_string() })
    };
    let records = slice.records.into_iter().map(link).collect::<Result<_, ApiError>>()?;
    Ok(Json(Records { records, next: slice.next }))
}
