//! Groups.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use driftq_api::group::{
    CreateGroup, DeletedGroup, Group, Groups, Moved, Pause as PauseRequest, Resume,
    Seek as SeekRequest, SeekEnd, SeekTo as WireSeekTo, Sought,
};
use driftq_api::number::Limit;
use driftq_api::schema::{self, PageCursor, TopicName};
use driftq_api::words::{DeletedStatus, MovedStatus};
use driftq_core::Timestamp;
use driftq_core::command::{
    self, Creation, DeleteGroup, Explain, Explained, GroupContents, GroupName, ListGroups, Pause,
    Seek, SeekTo, WouldDeleteGroup,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::api_error::{ApiError, internal_error};
use super::app::{App, group_name, topic_name};
use super::convert;
use super::input::Input;
use super::operation::{Missing, Query, QueryForm, Unmet};
use super::pagination::Pages;
use super::request::{ApiRequest, Confirm, Nothing, Param, field};
use super::request_log::{act_of, log_act};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupListQuery {
    #[schema(default = 100)]
    limit: Option<Limit>,
    #[schema(value_type = Option<PageCursor>)]
    cursor: Option<String>,
}

impl ApiRequest for GroupListQuery {
    const QUERY: &'static [Param] = &[field("limit"), field("cursor")];
}

/// Lists the groups of a topic, sorted by name.
#[utoipa::path(
    get, path = "/v1/topics/{topic}/groups", operation_id = "list_groups", tag = "groups",
    params(("topic" = TopicName, Path), Query<GroupListQuery>),
    responses((status = 200, description = "the groups", body = Groups), Missing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<GroupListQuery>,
) -> Result<Json<Groups>, ApiError> {
    let pages = Pages::new(input.body.limit, input.body.cursor.as_deref())?;
    let views = app.call(ListGroups(topic_name(&topic))).await?;
    let (views, next_cursor) = pages.of(views, |view| &view.name);
    let groups = views.iter().map(|view| convert::group(view, false)).collect();
    Ok(Json(Groups { groups, next_cursor }))
}

async fn view(app: &App, name: GroupName) -> Result<Json<Group>, ApiError> {
    match *app.call(Explain::Group(name)).await? {
        Explained::Group { view, .. } => Ok(Json(convert::group(&view, true))),
        Explained::Message(_) | Explained::Effect { .. } => {
            Err(internal_error("the explanation is not of a group"))
        }
    }
}

/// Returns a group.
#[utoipa::path(
    get, path = "/v1/topics/{topic}/groups/{group}", operation_id = "show_group", tag = "groups",
    params(("topic" = TopicName, Path), ("group" = schema::GroupName, Path)),
    responses((status = 200, description = "the group", body = Group), Missing),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path((topic, group)): Path<(String, String)>,
    _: Input<Nothing>,
) -> Result<Json<Group>, ApiError> {
    view(&app, group_name(&topic, &group)).await
}

impl ApiRequest for CreateGroup {
    const QUERY: &'static [Param] = &[field("start")];
}

/// Creates a group.
#[utoipa::path(
    put, path = "/v1/topics/{topic}/groups/{group}", operation_id = "create_group", tag = "groups",
    params(("topic" = TopicName, Path), ("group" = schema::GroupName, Path), QueryForm<CreateGroup>),
    request_body = CreateGroup,
    responses((status = 201, description = "created", body = Group), (status = 200, description = "already existed", body = Group), Missing),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Path((topic, group)): Path<(String, String)>,
    input: Input<CreateGroup>,
) -> Result<(StatusCode, Json<Group>), ApiError> {
    let name = group_name(&topic, &group);
    let create =
        command::CreateGroup { name: name.clone(), start: convert::start(input.body.start) };
    let act = act_of(None, None);
    let status = match app.act(&act, create).await? {
        Creation::Created => {
            log_act!(act, "group created", topic, group);
            StatusCode::CREATED
        }
        Creation::Existed => StatusCode::OK,
    };
    Ok((status, view(&app, name).await?))
}

/// Deletes a group. `confirm` must be its name.
#[utoipa::path(
    delete, path = "/v1/topics/{topic}/groups/{group}", operation_id = "delete_group", tag = "groups",
    params(("topic" = TopicName, Path), ("group" = schema::GroupName, Path), Query<Confirm>),
    responses((status = 200, description = "deleted", body = DeletedGroup), Missing),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Path((topic, group)): Path<(String, String)>,
    input: Input<Confirm>,
) -> Result<Json<DeletedGroup>, ApiError> {
    let Confirm { confirm, by, reason } = input.body;
    let act = act_of(by.as_deref(), reason.as_deref());
    let name = group_name(&topic, &group);
    if confirm.as_deref() != Some(&group) {
        let GroupContents { backlog, open } = app.call(WouldDeleteGroup(name)).await?;
        let message = format!(
            "deleting \"{group}\" would discard its cursors: {backlog} messages are unsettled ({open} open); \
             repeat with ?confirm={group}"
        );
        return Err(ApiError::invalid("confirm", message));
    }
    let GroupContents { backlog, open } = app.act(&act, DeleteGroup(name)).await?;
    log_act!(act, "group deleted", topic, group, backlog, open);
    Ok(Json(DeletedGroup { status: DeletedStatus::Deleted, backlog, open }))
}

impl ApiRequest for PauseRequest {
    const QUERY: &'static [Param] = &[field("reason"), field("by"), field("until")];
}

/// Pauses a group: it gets no new leases.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/groups/{group}/pause", operation_id = "pause_group", tag = "groups",
    params(("topic" = TopicName, Path), ("group" = schema::GroupName, Path), QueryForm<PauseRequest>),
    request_body = PauseRequest,
    responses((status = 200, description = "the group", body = Group), Missing),
)]
pub(crate) async fn pause(
    State(app): State<App>,
    Path((topic, group)): Path<(String, String)>,
    input: Input<PauseRequest>,
) -> Result<Json<Group>, ApiError> {
    let PauseRequest { reason, by, until } = input.body;
    let act = act_of(by.as_deref(), reason.as_deref());
    let name = group_name(&topic, &group);
    let pause = Pause {
        name: name.clone(),
        by: act.by.clone(),
        reason: act.reason.clone(),
        until: until.map(|at| Timestamp(at.0)),
    };
    app.act(&act, pause).await?;
    log_act!(act, "group paused", topic, group);
    view(&app, name).await
}

impl ApiRequest for Resume {
    const QUERY: &'static [Param] = &[field("by"), field("reason")];
}

/// Resumes a paused group.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/groups/{group}/resume", operation_id = "resume_group", tag = "groups",
    params(("topic" = TopicName, Path), ("group" = schema::GroupName, Path), QueryForm<Resume>),
    request_body = Resume,
    responses((status = 200, description = "the group", body = Group), Missing),
)]
pub(crate) async fn resume(
    State(app): State<App>,
    Path((topic, group)): Path<(String, String)>,
    input: Input<Resume>,
) -> Result<Json<Group>, ApiError> {
    let Resume { by, reason } = input.body;
    let act = act_of(by.as_deref(), reason.as_deref());
    let name = group_name(&topic, &group);
    app.act(&act, command::Resume(name.clone())).await?;
    log_act!(act, "group resumed", topic, group);
    view(&app, name).await
}

impl ApiRequest for SeekRequest {
    const QUERY: &'static [Param] = &[field("to"), field("dry_run"), field("by"), field("reason")];
}

/// Moves the cursors of a group.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/groups/{group}/seek", operation_id = "seek_group", tag = "groups",
    params(("topic" = TopicName, Path), ("group" = schema::GroupName, Path), QueryForm<SeekRequest>),
    request_body = SeekRequest,
    responses((status = 200, description = "the moved cursors, or with dry_run those that would move", body = Sought), Missing, Unmet),
)]
pub(crate) async fn seek(
    State(app): State<App>,
    Path((topic, group)): Path<(String, String)>,
    input: Input<SeekRequest>,
) -> Result<Json<Sought>, ApiError> {
    let SeekRequest { to, dry_run, by, reason } = input.body;
    let act = act_of(by.as_deref(), reason.as_deref());
    let to = match to {
        WireSeekTo::End(SeekEnd::Earliest) => SeekTo::Earliest,
        WireSeekTo::End(SeekEnd::Latest) => SeekTo::Latest,
        WireSeekTo::Time(at) => SeekTo::Time(Timestamp(at.time.0)),
        WireSeekTo::Offset(at) => {
            SeekTo::Offset { partition: at.partition.get(), offset: at.offset.get() }
        }
    };
    let seek = Seek { name: group_name(&topic, &group), to, dry_run };
    let sought = app.act(&act, seek).await?;
    if !dry_run {
        let (redelivers, skips) = (sought.redelivers, sought.skips);
        log_act!(act, "group moved by seek", topic, group, redelivers, skips);
    }
    let moved = |&(partition, from, to): &(u32, u64, u64)| Moved { partition, from, to };
    Ok(Json(Sought {
        status: MovedStatus::Moved,
        dry_run,
        partitions: sought.moved.iter().map(moved).collect(),
        redelivers: sought.redelivers,
        skips: sought.skips,
        dropped_open: sought.dropped_open,
    }))
}
