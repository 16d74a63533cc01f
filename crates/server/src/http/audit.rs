//! The audit chains: their length, and their records for verification outside the server.

use axum::Json;
use axum::extract::State;
use driftq_api::audit::{ActLink, Acts, Chain, Chains, Link, Records};
use driftq_api::error::details::Unavailable;
use driftq_api::number::{Limit, RecordNumber};
use driftq_api::schema::PageCursor;
use driftq_api::words::Outcome;
use driftq_core::audit::{Tip, chain_of_acts};
use driftq_core::command::{Call as _, ReadAudit, ViewChain};
use driftq_core::{NUMBER_MAX, ShardId};
use driftq_storage::StoredAct;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::api_error::{ApiError, RETRY_AFTER_MS, internal_error};
use super::app::{App, NAMESPACE, typed};
use super::input::Input;
use super::operation::Query;
use super::pagination::{from_cursor, limit, to_cursor};
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
    let link =
        |(text, tip): (String, Tip)| Ok(Link { record: raw(text)?, hash: tip.hash.to_string() });
    let records = slice.records.into_iter().map(link).collect::<Result<_, ApiError>>()?;
    Ok(Json(Records { records, next: slice.next }))
}

fn raw(text: String) -> Result<Box<RawValue>, ApiError> {
    RawValue::from_string(text).map_err(|_| internal_error("an audit record is not JSON"))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActsQuery {
    #[schema(default = 100)]
    limit: Option<Limit>,
    #[schema(value_type = Option<PageCursor>)]
    cursor: Option<String>,
}

impl ApiRequest for ActsQuery {
    const QUERY: &'static [Param] = &[field("limit"), field("cursor")];
}

/// An act with what its place in the list depends on.
struct Act {
    at_ms: u64,
    seq: u64,
    /// Its shard and its hash. `None` if no shard committed it.
    link: Option<(u32, String)>,
    text: String,
}

/// The end of a page in each list of acts: the next page has the acts with lesser numbers.
struct Places {
    shards: Vec<u64>,
    storage: u64,
}

/// Lists administrative acts, newest first.
#[utoipa::path(
    get, path = "/v1/audit/admin", operation_id = "list_acts", tag = "audit",
    params(Query<ActsQuery>),
    responses((status = 200, description = "a page of acts", body = Acts)),
)]
pub(crate) async fn acts(
    State(app): State<App>,
    input: Input<ActsQuery>,
) -> Result<Json<Acts>, ApiError> {
    let limit = limit(input.body.limit);
    let mut below = match input.body.cursor.as_deref() {
        Some(cursor) => Places::parse(cursor, app.node.shards())?,
        None => Places::ends(&app).await?,
    };
    let mut acts = read_below(&app, &below.shards, limit as u64).await?;
    acts.extend(read_stored(&app, below.storage, limit as u32).await?);
    // Each list is in order, so a page takes the newest of each.
    acts.sort_by_key(|act| std::cmp::Reverse((act.at_ms, act.seq)));
    acts.truncate(limit);
    for Act { seq, link, .. } in &acts {
        let place = match link {
            Some((shard, _)) => &mut below.shards[*shard as usize],
            None => &mut below.storage,
        };
        *place = (*place).min(*seq);
    }
    let link = |Act { link, text, .. }| {
        let (shard, hash) = link.unzip();
        Ok(ActLink { shard, record: raw(text)?, hash })
    };
    let acts = acts.into_iter().map(link).collect::<Result<_, ApiError>>()?;
    Ok(Json(Acts { acts, next_cursor: below.cursor() }))
}

impl Places {
    fn parse(cursor: &str, shards: u32) -> Result<Places, ApiError> {
        let places: Option<Vec<u64>> =
            from_cursor(cursor)?.split(',').map(|place| place.parse().ok()).collect();
        let split = places.and_then(|mut places| Some((places.pop()?, places)));
        match split {
            Some((storage, all)) if all.len() == shards as usize => {
                Ok(Places { shards: all, storage })
            }
            Some(_) | None => Err(ApiError::invalid("cursor", "is not a cursor of this list")),
        }
    }

    /// The places after the last act of each list.
    async fn ends(app: &App) -> Result<Places, ApiError> {
        let view = |shard| {
            let namespace = chain_of_acts(NAMESPACE);
            ViewChain { shard: ShardId(shard), namespace }.into_command()
        };
        let answers = app.node.call_all((0..app.node.shards()).map(view).collect()).await;
        let end = |answer| Ok(typed::<ViewChain>(answer)??.seq + 1);
        let shards = answers.into_iter().map(end).collect::<Result<_, ApiError>>()?;
        let newest = read_stored(app, NUMBER_MAX, 1).await?;
        let storage = newest.first().map_or(0, |act| act.seq) + 1;
        Ok(Places { shards, storage })
    }

    /// The cursor of the next page, if there may be one.
    fn cursor(self) -> Option<String> {
        let Places { mut shards, storage } = self;
        shards.push(storage);
        let places: Vec<String> = shards.iter().map(u64::to_string).collect();
        shards.iter().any(|place| *place > 1).then(|| to_cursor(&places.join(",")))
    }
}

/// Reads up to `limit` acts that no shard committed.
async fn read_stored(app: &App, below: u64, limit: u32) -> Result<Vec<Act>, ApiError> {
    let stored = app.storage.acts(below, limit).await.map_err(|error| {
        let details = Unavailable { outcome: Outcome::None, retry_after_ms: RETRY_AFTER_MS };
        ApiError::new(details, format!("the storage did not answer: {error}"))
    })?;
    let act = |StoredAct { number, record }| {
        Ok(Act { at_ms: at_ms(&record)?, seq: number, link: None, text: record })
    };
    stored.into_iter().map(act).collect()
}

/// Reads up to `limit` acts of each shard, the last ones below its place.
async fn read_below(app: &App, below: &[u64], limit: u64) -> Result<Vec<Act>, ApiError> {
    let mut wanted: Vec<ReadAudit> = Vec::new();
    for (shard, below) in (0..).map(ShardId).zip(below).filter(|(_, below)| **below > 1) {
        let (from, to) = (below.saturating_sub(limit).max(1), below - 1);
        wanted.push(ReadAudit { shard, namespace: chain_of_acts(NAMESPACE), from, to });
    }
    let mut acts = Vec::new();
    while !wanted.is_empty() {
        let calls = wanted.iter().map(|read| read.clone().into_command()).collect();
        let answers = app.node.call_all(calls).await;
        let mut rest = Vec::new();
        for (read, answer) in wanted.into_iter().zip(answers) {
            let slice = typed::<ReadAudit>(answer)??;
            for (text, tip) in slice.records {
                let at_ms = at_ms(&text)?;
                let link = Some((read.shard.0, tip.hash.to_string()));
                acts.push(Act { at_ms, seq: tip.seq, link, text });
            }
            rest.extend(slice.next.map(|from| ReadAudit { from, ..read }));
        }
        wanted = rest;
    }
    Ok(acts)
}

fn at_ms(text: &str) -> Result<u64, ApiError> {
    #[derive(Deserialize)]
    struct At {
        at_ms: u64,
    }
    let at: Result<At, _> = serde_json::from_str(text);
    at.map(|at| at.at_ms).map_err(|_| internal_error("an audit record has no time"))
}
