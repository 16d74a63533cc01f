//! Peeks at messages. One call runs many slices of the core until the page is full or enough
//! messages are scanned.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use bytes::Bytes;
use driftq_api::Time;
use driftq_api::number::{Integer, Limit, PartitionNumber};
use driftq_api::peek::{Messages, Peeked as WirePeeked, PeekedLease};
use driftq_api::schema::{self, TopicName};
use driftq_api::words;
use driftq_core::command::{Peek, PeekFilter, Peeked, PeekedMessage, ViewTopic};
use driftq_core::{Offset, Timestamp};
use serde::Deserialize;
use utoipa::ToSchema;

use super::api_error::ApiError;
use super::app::{App, topic_name};
use super::input::Input;
use super::operation::{Missing, Query};
use super::pagination::{self, BYTES_MAX, from_cursor, limit, to_cursor};
use super::request::{ApiRequest, Param, field};
use super::words::{ToCore, ToWire};
use super::{convert, off_runtime};

/// Maximum number of messages that one call scans.
const SCAN_MAX: u64 = 10_000;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeekQuery {
    partition: Option<PartitionNumber>,
    from: Option<Integer>,
    #[schema(value_type = Option<schema::GroupName>)]
    group: Option<String>,
    key: Option<String>,
    run_id: Option<String>,
    step_id: Option<String>,
    tenant_id: Option<String>,
    idempotency_key: Option<String>,
    state: Option<words::PeekState>,
    since: Option<Time>,
    until: Option<Time>,
    #[schema(default = true)]
    values: Option<bool>,
    #[schema(default = 100)]
    limit: Option<Limit>,
    #[schema(value_type = Option<schema::PageCursor>)]
    cursor: Option<String>,
}

impl ApiRequest for PeekQuery {
    const QUERY: &'static [Param] = &[
        field("partition"),
        field("from"),
        field("group"),
        field("key"),
        field("run_id"),
        field("step_id"),
        field("tenant_id"),
        field("idempotency_key"),
        field("state"),
        field("since"),
        field("until"),
        field("values"),
        field("limit"),
        field("cursor"),
    ];

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (None, self.group.as_deref())
    }
}

/// The position of a call: partition and offset.
#[derive(Clone, Copy)]
struct Place {
    partition: u32,
    from: Offset,
}

impl Place {
    fn of(cursor: &str) -> Result<Place, ApiError> {
        let place = from_cursor(cursor)?;
        let parsed = place.split_once(':').and_then(|(partition, from)| {
            Some(Place { partition: partition.parse().ok()?, from: from.parse().ok()? })
        });
        parsed.ok_or_else(|| ApiError::invalid("cursor", "is not a cursor of this list"))
    }

    /// Rejects a position that cannot be the cursor of this list.
    fn within(self, partitions: u32, request: Option<u32>) -> Result<Place, ApiError> {
        if self.partition < partitions && request.is_none_or(|request| request == self.partition) {
            Ok(self)
        } else {
            Err(ApiError::invalid("cursor", "is not a cursor of this list"))
        }
    }

    fn cursor(self) -> String {
        to_cursor(&format!("{}:{}", self.partition, self.from))
    }
}

/// Lists messages without leasing them.
#[utoipa::path(
    get, path = "/v1/topics/{topic}/messages", operation_id = "peek", tag = "messages",
    params(("topic" = TopicName, Path), Query<PeekQuery>),
    responses((status = 200, description = "a page of messages", body = Messages<'static>), Missing),
)]
pub(crate) async fn messages(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<PeekQuery>,
) -> Result<Response<Body>, ApiError> {
    let request = input.body;
    if request.from.is_some() && request.partition.is_none() {
        return Err(ApiError::invalid("from", "requires partition"));
    }
    let limit = limit(request.limit);
    let partition = request.partition.map(PartitionNumber::get);
    let name = topic_name(&topic);
    let view = app.call(ViewTopic(name.clone())).await?;
    let partitions = view.partitions.len() as u32;
    if partition.is_some_and(|partition| partition >= partitions) {
        return Err(ApiError::invalid(
            "partition",
            format!("must be less than {partitions}, the number of partitions"),
        ));
    }
    let mut place = match &request.cursor {
        Some(cursor) => Place::of(cursor)?.within(partitions, partition)?,
        None => {
            Place { partition: partition.unwrap_or(0), from: request.from.map_or(0, Integer::get) }
        }
    };
    let last = partition.unwrap_or(partitions - 1);
    let filter = filter(&request)?;
    let room = pagination::room(&app).await?;
    let (mut found, mut scanned, mut bytes) = (Vec::new(), 0, 0);
    let mut next = Some(place);
    while let Some(at) = next
        && found.len() < limit
        && scanned < SCAN_MAX
        && bytes < BYTES_MAX
    {
        place = at;
        let peek = Peek {
            topic: name.clone(),
            partition: place.partition,
            from: place.from,
            group: request.group.as_deref().map(Into::into),
            filter: filter.clone(),
            limit: (limit - found.len()) as u32,
            scan: SCAN_MAX - scanned,
        };
        let Peeked { messages, scanned: looked_at, next: on } = *app.call(peek).await?;
        scanned += looked_at;
        bytes += messages.iter().map(|peeked| peeked.message.size()).sum::<u64>();
        found.extend(messages);
        next = match on {
            Some(from) => Some(Place { from, ..place }),
            None if place.partition < last => {
                Some(Place { partition: place.partition + 1, from: 0 })
            }
            None => None,
        };
    }
    let with_values = request.values.unwrap_or(true);
    let has_group = request.group.is_some();
    let next_cursor = next.map(Place::cursor);
    let bytes = if with_values { bytes as usize } else { 0 };
    let write = move || {
        let messages =
            found.iter().map(|peeked| wire_peeked(peeked, with_values, has_group)).collect();
        off_runtime::json(&Messages { messages, scanned, next_cursor }, found.len(), bytes)
    };
    pagination::answer(bytes, room, write).await
}

fn filter(request: &PeekQuery) -> Result<PeekFilter, ApiError> {
    let given = |text: &Option<String>| text.as_deref().map(Into::into);
    if request.state.is_some() && request.group.is_none() {
        return Err(ApiError::invalid("state", "requires group"));
    }
    Ok(PeekFilter {
        key: request.key.as_deref().map(|key| Bytes::copy_from_slice(key.as_bytes())),
        run_id: given(&request.run_id),
        step_id: given(&request.step_id),
        tenant_id: given(&request.tenant_id),
        idempotency_key: given(&request.idempotency_key),
        since: request.since.map(|at| Timestamp(at.0)),
        until: request.until.map(|at| Timestamp(at.0)),
        state: request.state.map(ToCore::core),
    })
}

fn wire_peeked(peeked: &PeekedMessage, with_values: bool, has_group: bool) -> WirePeeked<'_> {
    let message = &*peeked.message;
    WirePeeked {
        id: peeked.id.to_string(),
        partition: peeked.partition,
        offset: peeked.offset,
        key: convert::key(&message.key),
        value: with_values.then(|| convert::value(&message.value)),
        produced_at: convert::time(message.produced_at),
        envelope: convert::wire_envelope(&message.envelope),
        state: peeked.state.map(ToWire::wire),
        attempts: has_group.then_some(peeked.attempts),
        last_error: has_group.then_some(&*peeked.last_error),
        next_attempt_at: peeked.next_attempt_at.map(convert::time),
        lease: peeked.lease.as_ref().map(|lease| PeekedLease {
            owner: lease.owner.to_string(),
            attempt: lease.attempt,
            expires_at: convert::time(lease.until),
        }),
    }
}
