//! Pointers that commits have set.

use axum::Json;
use axum::extract::State;
use driftq_api::number::Limit;
use driftq_api::pointer::{Pointer as WirePointer, PointerResponse, Pointers as WirePointers};
use driftq_api::schema;
use driftq_core::command::{ListPointers, PointerName, PointerQuery, Pointers, SetPointer};
use serde::Deserialize;
use utoipa::ToSchema;

use super::api_error::ApiError;
use super::app::{App, topic_name};
use super::convert;
use super::input::Input;
use super::operation::{Missing, Query};
use super::pagination::{from_cursor, limit, to_cursor};
use super::request::{ApiRequest, Param, field};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PointerListQuery {
    #[schema(value_type = schema::TopicName)]
    topic: String,
    #[schema(value_type = schema::PointerText)]
    dataset: String,
    #[schema(value_type = schema::PointerText)]
    version: String,
    #[schema(value_type = Option<schema::PointerText>)]
    partition_key: Option<String>,
    #[schema(default = 100)]
    limit: Option<Limit>,
    #[schema(value_type = Option<schema::PageCursor>)]
    cursor: Option<String>,
}

impl ApiRequest for PointerListQuery {
    const QUERY: &'static [Param] = &[
        field("topic"),
        field("dataset"),
        field("version"),
        field("partition_key"),
        field("limit"),
        field("cursor"),
    ];
}

/// Returns the pointer to one partition of a dataset, or lists the pointers of one version.
#[utoipa::path(
    get, path = "/v1/pointers", operation_id = "pointers", tag = "effects",
    params(Query<PointerListQuery>),
    responses((status = 200, description = "a pointer or a page of pointers", body = PointerResponse), Missing),
)]
pub(crate) async fn pointers(
    State(app): State<App>,
    input: Input<PointerListQuery>,
) -> Result<Json<PointerResponse>, ApiError> {
    let PointerListQuery { topic, dataset, version, partition_key, limit: request, cursor } =
        input.body;
    let name = topic_name(&topic);
    let (dataset, version) = (dataset.into(), version.into());
    if let Some(partition_key) = partition_key {
        if request.is_some() || cursor.is_some() {
            return Err(ApiError::invalid(
                "partition_key",
                "cannot be combined with limit or cursor",
            ));
        }
        let partition_key = partition_key.into();
        let name =
            PointerQuery { topic: name, name: PointerName { dataset, version, partition_key } };
        let pointer = app.call(name).await?;
        let one = WirePointer { topic: Some(topic), ..convert::pointer(*pointer) };
        return Ok(Json(PointerResponse::One(one)));
    }
    let after = cursor.as_deref().map(from_cursor).transpose()?.map(Into::into);
    let list = ListPointers { topic: name, dataset, version, after, limit: limit(request) as u32 };
    let Pointers { pointers, more } = *app.call(list).await?;
    let last = pointers.last().filter(|_| more);
    let next_cursor = last.map(|last| to_cursor(&last.name.partition_key));
    let pointers = pointers.into_iter().map(convert::pointer).collect();
    Ok(Json(PointerResponse::Page(WirePointers { pointers, next_cursor })))
}

/// Converts a pointer of a commit request.
pub(super) fn set(request: driftq_api::pointer::SetPointer) -> SetPointer {
    let driftq_api::pointer::SetPointer { dataset, version, partition_key, .. } = request;
    let (dataset, version, partition_key) = (dataset.into(), version.into(), partition_key.into());
    SetPointer {
        name: PointerName { dataset, version, partition_key },
        location: request.location.into(),
        checksum: request.checksum.filter(|checksum| !checksum.is_empty()).map(Into::into),
        replace: request.replace.unwrap_or(false),
    }
}
