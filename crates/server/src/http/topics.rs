//! Topics.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use driftq_api::error::details::{AlreadyExists, Existing};
use driftq_api::number::{Limit, PartitionCount};
use driftq_api::schema::{PageCursor, TopicName};
use driftq_api::topic::{
    CreateTopic as Create, CreatedTopic, DeletedTopic, PatchTopic as Patch, Topic, TopicList,
    TopicNames, Topics,
};
use driftq_api::words::{DeletedStatus, TopicStatus};
use driftq_core::command::{
    self, CreateTopic, Creation, DeleteTopic, ListTopics, PatchTopic, Recorded, TopicContents,
    ViewTopic, WouldDeleteTopic,
};
use driftq_core::{Rejection, SettingsChange};
use serde::Deserialize;
use utoipa::ToSchema;

use super::api_error::ApiError;
use super::app::{App, NAMESPACE, topic_name};
use super::input::Input;
use super::operation::{Exists, Missing, Query, QueryForm, Unmet};
use super::pagination::Pages;
use super::request::{ApiRequest, Confirm, Nothing, Param, field};
use super::request_log::{act_of, log_act};
use super::{convert, settings};

impl ApiRequest for Create {
    const IS_OF_V1: bool = true;
    const QUERY: &'static [Param] = &[field("name"), field("partitions")];

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (Some(&self.name), None)
    }
}

/// Creates a topic.
#[utoipa::path(
    post, path = "/v1/topics", operation_id = "create_topic", tag = "topics",
    params(QueryForm<Create>),
    request_body = Create,
    responses((status = 201, description = "created", body = CreatedTopic), (status = 200, description = "already existed", body = CreatedTopic), Exists),
)]
pub(crate) async fn create(
    State(app): State<App>,
    input: Input<Create>,
) -> Result<(StatusCode, Json<CreatedTopic>), ApiError> {
    let Create { name, partitions, settings } = input.body;
    let partitions = partitions.map_or(1, PartitionCount::get).max(1);
    let SettingsChange { set: settings, retry_policy, .. } =
        settings.map(settings::change).unwrap_or_default();
    let topic = topic_name(&name);
    let create = CreateTopic { name: topic, partitions, settings, retry_policy };
    let act = act_of(None, None);
    let answered = app.try_call(Recorded { act: act.clone(), call: create.clone() }).await?;
    if let Err(Rejection::TopicExists { .. }) = answered {
        return Err(already_exists(&app, &create).await?);
    }
    let (code, status) = match answered? {
        Creation::Created => {
            log_act!(act, "topic created", topic = name, partitions);
            (StatusCode::CREATED, TopicStatus::Created)
        }
        Creation::Existed => (StatusCode::OK, TopicStatus::Exists),
    };
    Ok((code, Json(CreatedTopic { status, name, partitions })))
}

/// The error for a topic that exists with another number of partitions or other settings.
async fn already_exists(app: &App, create: &CreateTopic) -> Result<ApiError, ApiError> {
    let topic = app.call(ViewTopic(create.name.clone())).await?;
    let current = convert::topic(&topic, true);
    let mut differences = Vec::new();
    if current.partitions != create.partitions {
        differences.push(format!("partitions {}, not {}", current.partitions, create.partitions));
    }
    let patch = create.settings.with_retry(create.retry_policy.as_ref(), &topic.settings);
    let requested = topic.settings.with(&patch);
    differences.extend(settings::differences(&topic.settings, &requested));
    let message = format!("the topic already exists with {}", differences.join(", "));
    let current = Box::new(Existing::Topic(current));
    Ok(ApiError::new(AlreadyExists { current }, message))
}

async fn view(app: &App, name: driftq_core::command::TopicName) -> Result<Topic, ApiError> {
    Ok(convert::topic(&*app.call(ViewTopic(name)).await?, true))
}

/// Returns a topic.
#[utoipa::path(
    get, path = "/v1/topics/{topic}", operation_id = "show_topic", tag = "topics",
    params(("topic" = TopicName, Path)),
    responses((status = 200, description = "the topic", body = Topic), Missing),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(topic): Path<String>,
    _: Input<Nothing>,
) -> Result<Json<Topic>, ApiError> {
    Ok(Json(view(&app, topic_name(&topic)).await?))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicListQuery {
    #[serde(default)]
    detail: bool,
    #[schema(default = 100)]
    limit: Option<Limit>,
    #[schema(value_type = Option<PageCursor>)]
    cursor: Option<String>,
}

impl ApiRequest for TopicListQuery {
    const IS_OF_V1: bool = true;
    const QUERY: &'static [Param] = &[field("detail"), field("limit"), field("cursor")];
}

/// Lists all topics, sorted by name.
#[utoipa::path(
    get, path = "/v1/topics", operation_id = "list_topics", tag = "topics",
    params(Query<TopicListQuery>),
    responses((status = 200, description = "names, or topics if `detail` is set", body = TopicList)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    input: Input<TopicListQuery>,
) -> Result<Json<TopicList>, ApiError> {
    let TopicListQuery { detail, limit, cursor } = input.body;
    let pages = Pages::new(limit, cursor.as_deref())?;
    let views = app.call(ListTopics { namespace: NAMESPACE.into() }).await?;
    if !detail {
        let topics = views.iter().map(|view| view.name.to_string()).collect();
        return Ok(Json(TopicList::Names(TopicNames { topics })));
    }
    let (views, next_cursor) = pages.of(views, |view| &view.name);
    let topics = views.iter().map(|view| convert::topic(view, false)).collect();
    Ok(Json(TopicList::Topics(Topics { topics, next_cursor })))
}

impl ApiRequest for Patch {
    const QUERY: &'static [Param] = &[];
}

/// Changes the settings of a topic.
#[utoipa::path(
    patch, path = "/v1/topics/{topic}", operation_id = "patch_topic", tag = "topics",
    params(("topic" = TopicName, Path)),
    request_body = Patch,
    responses((status = 200, description = "the changed topic", body = Topic), Missing, Unmet),
)]
pub(crate) async fn patch(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<Patch>,
) -> Result<Json<Topic>, ApiError> {
    let Patch { settings, by, reason } = input.body;
    let act = act_of(by.as_deref(), reason.as_deref());
    let settings = settings::change(settings);
    let view = app.act(&act, PatchTopic { name: topic_name(&topic), settings }).await?;
    let changed = convert::topic(&view, true);
    let changed_settings = &changed.changed_settings;
    log_act!(act, "topic settings changed", topic, ?changed_settings);
    Ok(Json(changed))
}

/// Deletes a topic. `confirm` must be its name.
#[utoipa::path(
    delete, path = "/v1/topics/{topic}", operation_id = "delete_topic", tag = "topics",
    params(("topic" = TopicName, Path), Query<Confirm>),
    responses((status = 200, description = "deleted", body = DeletedTopic), Missing, Unmet),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<Confirm>,
) -> Result<Json<DeletedTopic>, ApiError> {
    let Confirm { confirm, by, reason } = input.body;
    let act = act_of(by.as_deref(), reason.as_deref());
    let name = topic_name(&topic);
    if confirm.as_deref() != Some(&topic) {
        let TopicContents { messages, open, groups, dead_letters } =
            app.call(WouldDeleteTopic(name)).await?;
        let message = format!(
            "deleting \"{topic}\" would drop {messages} messages ({open} open), {groups} groups, \
             {dead_letters} dead letters; repeat with ?confirm={topic}"
        );
        return Err(ApiError::invalid("confirm", message));
    }
    let command::DeletedTopic { messages, dead_letters } = app.act(&act, DeleteTopic(name)).await?;
    log_act!(act, "topic deleted", topic, messages, dead_letters);
    Ok(Json(DeletedTopic { status: DeletedStatus::Deleted, messages, dead_letters }))
}
