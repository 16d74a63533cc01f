//! Dead letters: list, redrive, purge. One call runs many slices of the core.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use driftq_api::Time;
use driftq_api::dlq::{
    DeadLetter as WireLetter, DeadLetters as WireLetters, ErrorCount, Filter, Place,
    Purge as PurgeRequest, Purged, Redrive as RedriveRequest, RedriveInfo, Redriven, RedrivenOne,
};
use driftq_api::error::details::FailedPrecondition;
use driftq_api::message::Item;
use driftq_api::number::{Integer, Limit};
use driftq_api::schema;
use driftq_api::words::{DeadLetterState, DeadLetterStates, DeathReason, RedrivenStatus};
use driftq_core::change::DeadRow;
use driftq_core::command::{
    Act, DeadFilter, DeadLetter, DeadLetters, DeadState, ListDead, Missing as MissingPart, Purge,
    Recorded, Redrive, RedrivenAs, TopicName, ViewTopic, WouldPurge,
};
use driftq_core::limits::{PURGE_MAX, REDRIVE_MAX};
use driftq_core::{Message, MessageId, Rejection, Timestamp};
use serde::Deserialize;
use utoipa::ToSchema;

use super::api_error::ApiError;
use super::app::{App, topic_name};
use super::input::Input;
use super::operation::{Missing, Query, Unmet};
use super::pagination::{self, BYTES_MAX, from_cursor, limit, to_cursor};
use super::request::{ApiRequest, Param, field};
use super::request_log::{act_of, log_act};
use super::words::ToCore;
use super::{bulk, convert, dead_letter, off_runtime};

/// Maximum number of rows that one call scans.
const SCAN_MAX: u64 = 10_000;
/// Maximum number of rows that a summary or a purge scans.
const COUNT_MAX: u64 = 100_000;
/// Number of dead letters that are redriven at a time. Each one is loaded completely and may be
/// large.
const REDRIVEN_TOGETHER: usize = 32;
/// Maximum number of errors in a summary.
const ERRORS_MAX: usize = 10;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLetterQuery {
    group: Option<String>,
    reason: Option<DeathReason>,
    tenant_id: Option<String>,
    run_id: Option<String>,
    error: Option<String>,
    since: Option<Time>,
    until: Option<Time>,
    #[schema(default = "dead")]
    state: Option<DeadLetterStates>,
    #[schema(default = false)]
    summary: Option<bool>,
    #[schema(default = 100)]
    limit: Option<Limit>,
    #[schema(value_type = Option<schema::PageCursor>)]
    cursor: Option<String>,
}

impl ApiRequest for DeadLetterQuery {
    const QUERY: &'static [Param] = &[
        field("group"),
        field("reason"),
        field("tenant_id"),
        field("run_id"),
        field("error"),
        field("since"),
        field("until"),
        field("state"),
        field("summary"),
        field("limit"),
        field("cursor"),
    ];

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (None, self.group.as_deref())
    }
}

impl ApiRequest for RedriveRequest {
    const QUERY: &'static [Param] = &[];
}

impl ApiRequest for PurgeRequest {
    const QUERY: &'static [Param] = &[];
}

fn filter(filter: Filter, state: DeadState) -> DeadFilter {
    DeadFilter {
        group: filter.group.map(Into::into),
        tenant_id: filter.tenant_id.map(Into::into),
        run_id: filter.run_id.map(Into::into),
        error: filter.error.map(Into::into),
        reason: filter.reason.map(ToCore::core),
        since: filter.since.map(|at| Timestamp(at.0)),
        until: filter.until.map(|at| Timestamp(at.0)),
        state,
    }
}

/// Iterates over the dead letters of a topic, newest first.
struct Walk<'a> {
    app: &'a App,
    topic: TopicName,
    filter: DeadFilter,
    with_messages: bool,
    /// Where the walk continues; `None` at the end.
    below: Option<Option<u64>>,
    scanned: u64,
}

impl<'a> Walk<'a> {
    /// Starts at the newest dead letter, without loading messages.
    fn new(app: &'a App, topic: &TopicName, filter: DeadFilter) -> Walk<'a> {
        let below = Some(None);
        Walk { app, topic: topic.clone(), filter, with_messages: false, below, scanned: 0 }
    }

    /// Returns up to `limit` dead letters. Stops after `scan` rows, or when the messages fill a
    /// page.
    async fn take(&mut self, limit: usize, scan: u64) -> Result<Vec<DeadLetter>, ApiError> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        while let Some(below) = self.below
            && found.len() < limit
            && self.scanned < scan
            && bytes < BYTES_MAX
        {
            let list = ListDead {
                topic: self.topic.clone(),
                below,
                filter: self.filter.clone(),
                limit: (limit - found.len()).min(SCAN_MAX as usize) as u32,
                values: self.with_messages,
            };
            let DeadLetters { letters, scanned, next } = *self.app.call(list).await?;
            self.scanned += scanned;
            let messages = letters.iter().filter_map(|letter| letter.message.as_ref());
            bytes += messages.map(|message| message.size()).sum::<u64>();
            found.extend(letters);
            self.below = next.map(Some);
        }
        Ok(found)
    }
}

/// Lists the dead letters of a topic, newest first.
#[utoipa::path(
    get, path = "/v1/dlq/{topic}", operation_id = "list_dead_letters", tag = "dead letters",
    params(("topic" = schema::TopicName, Path), Query<DeadLetterQuery>),
    responses((status = 200, description = "a page of dead letters", body = WireLetters<'static>), Missing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<DeadLetterQuery>,
) -> Result<Response<Body>, ApiError> {
    let request = input.body;
    let state = request.state.map_or(DeadState::Dead, ToCore::core);
    let limit = limit(request.limit);
    let below = match &request.cursor {
        Some(cursor) => {
            let seq = from_cursor(cursor)?.parse().ok();
            Some(seq.ok_or_else(|| ApiError::invalid("cursor", "is not a cursor of this list"))?)
        }
        None => None,
    };
    let (group, reason, tenant_id) = (request.group, request.reason, request.tenant_id);
    let (run_id, error, since, until) =
        (request.run_id, request.error, request.since, request.until);
    let given = Filter { group, reason, tenant_id, run_id, error, since, until };
    let filter = filter(given, state);
    let topic = topic_name(&topic);
    let mut walk =
        Walk { with_messages: true, below: Some(below), ..Walk::new(&app, &topic, filter.clone()) };
    let room = pagination::room(&app).await?;
    let letters = walk.take(limit, SCAN_MAX).await?;
    let next_cursor = walk.below.flatten().map(|seq| to_cursor(&seq.to_string()));
    let (total, by_error) = match request.summary {
        Some(true) => {
            let (total, by_error) = summary(&app, topic, filter).await?;
            (Some(total), Some(by_error))
        }
        Some(false) | None => (None, None),
    };
    let messages = letters.iter().filter_map(|letter| letter.message.as_deref());
    let bytes = messages.map(|message| message.size()).sum::<u64>() as usize;
    let write = move || {
        let dead_letters = letters.iter().filter_map(wire_letter).collect();
        let page = WireLetters { dead_letters, total, by_error, next_cursor };
        off_runtime::json(&page, letters.len(), bytes)
    };
    pagination::answer(bytes, room, write).await
}

/// Returns `None` for a dead letter that was purged meanwhile.
fn wire_letter(letter: &DeadLetter) -> Option<WireLetter<'_>> {
    wire(letter.id, &letter.row, letter.message.as_deref()?)
}

/// Returns `None` for a message that is no dead letter.
pub(super) fn wire<'a>(
    id: MessageId,
    row: &DeadRow,
    message: &'a Message,
) -> Option<WireLetter<'a>> {
    Some(WireLetter {
        id: id.to_string(),
        key: convert::key(&message.key),
        value: Some(convert::value(&message.value)),
        envelope: convert::wire_envelope(&message.envelope),
        dlq: convert::death(message)?,
        state: match row.redriven {
            Some(_) => DeadLetterState::Redriven,
            None => DeadLetterState::Dead,
        },
        redriven: redrive_info(row),
    })
}

pub(super) fn redrive_info(row: &DeadRow) -> Option<RedriveInfo> {
    row.redriven.as_ref().map(|redriven| RedriveInfo {
        by: redriven.by.to_string(),
        reason: redriven.reason.to_string(),
        at: Time(redriven.at.0),
        new: place(redriven.new),
    })
}

/// Counts the dead letters, in total and by error.
async fn summary(
    app: &App,
    topic: TopicName,
    filter: DeadFilter,
) -> Result<(u64, Vec<ErrorCount>), ApiError> {
    let mut walk = Walk::new(app, &topic, filter);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut total = 0;
    loop {
        let letters = walk.take(1_000, COUNT_MAX).await?;
        if letters.is_empty() {
            break;
        }
        total += letters.len() as u64;
        for letter in letters {
            *counts.entry(letter.row.error.to_string()).or_default() += 1;
        }
    }
    let mut counts: Vec<ErrorCount> =
        counts.into_iter().map(|(error, count)| ErrorCount { error, count }).collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.count));
    counts.truncate(ERRORS_MAX);
    Ok((total, counts))
}

/// Parses the ids, each with its own error.
fn ids(texts: &[String]) -> Vec<Result<MessageId, ApiError>> {
    let id = |text: &String| {
        text.parse::<MessageId>().map_err(|error| ApiError::invalid("ids", error.to_string()))
    };
    texts.iter().map(id).collect()
}

/// Redrives dead letters to the group in which they failed.
#[utoipa::path(
    post, path = "/v1/dlq/{topic}/redrive", operation_id = "redrive", tag = "dead letters",
    params(("topic" = schema::TopicName, Path)),
    request_body = RedriveRequest,
    responses((status = 200, description = "one result per dead letter", body = Redriven), Missing),
)]
pub(crate) async fn redrive(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<RedriveRequest>,
) -> Result<Json<Redriven>, ApiError> {
    let RedriveRequest { ids: given, filter: by_filter, limit, dry_run, force, by, reason } =
        input.body;
    let topic = topic_name(&topic);
    let named = match (given, by_filter) {
        (Some(given), None) if limit.is_none() => ids(&given),
        (Some(_), None) => return Err(ApiError::invalid("limit", "is only allowed with filter")),
        (None, Some(by_filter)) => {
            let limit = limit.map_or(REDRIVE_MAX, |limit| limit.get() as usize);
            let filter = filter(by_filter, DeadState::Dead);
            let mut walk = Walk::new(&app, &topic, filter);
            // Redriven in the order in which they died.
            let letters = walk.take(limit, COUNT_MAX).await?.into_iter().rev();
            letters.map(|letter| Ok(letter.id)).collect()
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(ApiError::invalid("ids", "send either ids or filter"));
        }
    };
    let matched = named.len();
    if dry_run {
        app.call(ViewTopic(topic)).await?;
        let would = |id: MessageId| RedrivenOne {
            id: id.to_string(),
            status: RedrivenStatus::Would,
            new: None,
        };
        let results = named.into_iter().map(|id| bulk::to_item(id.map(would))).collect();
        return Ok(Json(Redriven { dry_run, matched, redriven: 0, results }));
    }
    let act = act_of(by.as_deref(), reason.as_deref());
    let results = redrive_each(&app, &topic, &act, force, named).await;
    let redriven = bulk::count(&results, |one| one.status == RedrivenStatus::Redriven);
    if redriven > 0 {
        log_act!(act, "dead letters redriven", topic = &*topic.topic, matched, redriven);
    }
    Ok(Json(Redriven { dry_run, matched, redriven, results }))
}

/// Redrives dead letters, a few at a time. An id that is not that of a dead letter is taken for the
/// id of a message before it died.
async fn redrive_each(
    app: &App,
    topic: &TopicName,
    act: &Act,
    force: bool,
    named: Vec<Result<MessageId, ApiError>>,
) -> Vec<Item<RedrivenOne>> {
    let call = |id: MessageId| {
        let (topic, by, reason) = (topic.clone(), act.by.clone(), act.reason.clone());
        let call = Redrive { topic, id, force, by, reason };
        (Recorded { act: act.clone(), call }, id)
    };
    let (count, mut results) = (named.len(), Vec::with_capacity(named.len()));
    let mut named = named.into_iter().map(|id| id.map(call));
    while results.len() < count {
        let items = named.by_ref().take(REDRIVEN_TOGETHER).collect();
        for item in bulk::call_each(app, items, |id, result| Ok((id, result))).await {
            results.push(match item {
                Item::Done((id, Err(Rejection::NotFound(MissingPart::Message)))) => {
                    let result = async {
                        let (call, id) = call(dead_letter::find(app, topic, id).await?.id);
                        redriven(id, app.try_call(call).await?)
                    };
                    logged_item(app, result.await)
                }
                Item::Done((id, result)) => logged_item(app, redriven(id, result)),
                Item::Error(error) => Item::Error(error),
            });
        }
    }
    results
}

/// Renders a result, and counts and logs an error.
fn logged_item(app: &App, result: Result<RedrivenOne, ApiError>) -> Item<RedrivenOne> {
    if let Err(error) = &result {
        app.refused(error);
    }
    bulk::to_item(result)
}

fn redriven(
    id: MessageId,
    redriven: Result<RedrivenAs, Rejection>,
) -> Result<RedrivenOne, ApiError> {
    let RedrivenAs { new, already } = redriven?;
    let status = if already { RedrivenStatus::Already } else { RedrivenStatus::Redriven };
    Ok(RedrivenOne { id: id.to_string(), status, new: Some(place(new)) })
}

fn place(id: MessageId) -> Place {
    Place { partition: id.lane.partition(), offset: id.offset, id: id.to_string() }
}

/// Deletes dead letters permanently. `confirm` must be their number.
#[utoipa::path(
    post, path = "/v1/dlq/{topic}/purge", operation_id = "purge", tag = "dead letters",
    params(("topic" = schema::TopicName, Path)),
    request_body = PurgeRequest,
    responses((status = 200, description = "deleted", body = Purged), Missing, Unmet),
)]
pub(crate) async fn purge(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<PurgeRequest>,
) -> Result<Json<Purged>, ApiError> {
    let PurgeRequest { ids: given, filter: by_filter, confirm, by, reason } = input.body;
    let topic = topic_name(&topic);
    let meant: Vec<MessageId> = match (given, by_filter) {
        (Some(given), None) => ids(&given).into_iter().collect::<Result<_, _>>()?,
        (None, Some(by_filter)) => {
            if by_filter.until.is_none() {
                let message =
                    "is required with filter, so that the number of matches does not grow";
                return Err(ApiError::invalid("until", message));
            }
            let filter = filter(by_filter, DeadState::Dead);
            let mut walk = Walk::new(&app, &topic, filter);
            let letters = walk.take(COUNT_MAX as usize, COUNT_MAX).await?;
            letters.into_iter().map(|letter| letter.id).collect()
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(ApiError::invalid("ids", "send either ids or filter"));
        }
    };
    let act = act_of(by.as_deref(), reason.as_deref());
    let purge = |chunk: &[MessageId]| Purge {
        topic: topic.clone(),
        ids: chunk.to_vec(),
        by: act.by.clone(),
        reason: act.reason.clone(),
    };
    // Some ids may name no dead letter.
    let mut matched = 0;
    for chunk in meant.chunks(PURGE_MAX) {
        matched += app.call(WouldPurge(purge(chunk))).await?;
    }
    if confirm.map(Integer::get) != Some(matched) {
        let message = format!(
            "{matched} dead letters would be deleted permanently; repeat with confirm set to {matched}"
        );
        let matched = Some(matched);
        let details = FailedPrecondition { matched, ..FailedPrecondition::default() };
        return Err(ApiError::new(details, message));
    }
    let mut purged = 0;
    for chunk in meant.chunks(PURGE_MAX) {
        purged += app.act(&act, purge(chunk)).await?;
    }
    if purged > 0 {
        log_act!(act, "dead letters purged", topic = &*topic.topic, purged);
    }
    Ok(Json(Purged { purged }))
}
