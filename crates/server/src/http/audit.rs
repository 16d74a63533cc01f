//! The audit chain: how far it goes, and its records, for whoever takes it away to check it.

use axum::Json;
use axum::extract::State;
use driftq_api::audit::{Chain, Chains, Link, Records};
use driftq_core::audit::Tip;
use driftq_core::command::{ReadAudit, ViewChain};
use driftq_core::{NUMBER_MAX, ShardId};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::failure::Failure;
use super::input::{Ask, Input, Nothing, Param, number};
use super::openapi::Query;
use super::{App, NAMESPACE, internal_error};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    shard: u32,
    #[schema(minimum = 1, default = 1)]
    #[serde(default, deserialize_with = "driftq_api::optional_integer")]
    from: Option<u64>,
    #[schema(minimum = 1)]
    #[serde(default, deserialize_with = "driftq_api::optional_integer")]
    to: Option<u64>,
}

impl Ask for Asked {
    const QUERY: &'static [Param] =
        &[number("shard", &["shard"]), number("from", &["from"]), number("to", &["to"])];
}

/// How far each chain goes that has records.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "chains", tag = "audit",
    responses((status = 200, description = "the chains", body = Chains)),
)]
pub(crate) async fn chains(
    State(app): State<App>,
    _: Input<Nothing>,
) -> Result<Json<Chains>, Failure> {
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

/// Records of a chain, in order.
#[utoipa::path(
    get, path = "/v1/audit/records", operation_id = "auditRecords", tag = "audit",
    params(Query<Asked>),
    responses((status = 200, description = "a page of records", body = Records)),
)]
pub(crate) async fn records(
    State(app): State<App>,
    input: Input<Asked>,
) -> Result<Json<Records>, Failure> {
    let Asked { shard, from, to } = input.asked;
    if shard >= app.node.shards() {
        return Err(Failure::invalid("shard", "there is none of this number"));
    }
    let numbered = |field: &str, seq: Option<u64>, absent: u64| match seq.unwrap_or(absent) {
        0 => Err(Failure::invalid(field, "the first record is 1")),
        seq => Ok(seq),
    };
    let read = ReadAudit {
        shard: ShardId(shard),
        namespace: NAMESPACE.into(),
        from: numbered("from", from, 1)?,
        to: numbered("to", to, NUMBER_MAX)?,
    };
    let slice = app.call(read).await?;
    let link = |(text, tip): (String, Tip)| {
        let record = RawValue::from_string(text)
            .map_err(|_| internal_error("an audit record is not JSON"))?;
        Ok(Link { record, hash: tip.hash.to_string() })
    };
    let records = slice.records.into_iter().map(link).collect::<Result<_, Failure>>()?;
    Ok(Json(Records { records, next: slice.next }))
}
