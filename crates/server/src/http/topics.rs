//! Topics.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use driftq_api::schema::{PageCursor, TopicName};
use driftq_api::topic::{
    CreateTopic as Create, CreatedTopic, DeletedTopic, PatchTopic as Patch, Topic, TopicList,
    TopicNames, Topics,
};
use driftq_api::{Error, ErrorCode, INTEGER_MAX};
use driftq_core::command::{
    self, CreateTopic, Creation, DeleteTopic, ListTopics, PatchTopic, TopicContents, ViewTopic,
    WouldDeleteTopic,
};
use driftq_core::{Rejection, SettingName, SettingsChange, SettingsPatch};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::failure::Failure;
use super::input::{Ask, Confirm, Input, Nothing, Param, flag, from_json, number, text};
use super::openapi::{Exists, Missing, Query, QueryForm, Unmet};
use super::pages::Pages;
use super::{App, NAMESPACE, convert, topic_name};

impl Ask for Create {
    const QUERY: &'static [Param] =
        &[text("name", &["name"]), number("partitions", &["partitions"])];
}

/// Makes a topic.
#[utoipa::path(
    post, path = "/v1/topics", operation_id = "create_topic", tag = "topics",
    params(QueryForm<Create>),
    request_body = Create,
    responses((status = 201, description = "made", body = CreatedTopic), (status = 200, description = "was there", body = CreatedTopic), Exists),
)]
pub(crate) async fn create(
    State(app): State<App>,
    input: Input<Create>,
) -> Result<(StatusCode, Json<CreatedTopic>), Failure> {
    let Create { name, partitions, settings } = input.asked;
    let partitions = match partitions.unwrap_or(0) {
        0 => 1,
        given => u32::try_from(given)
            .map_err(|_| Failure::invalid("partitions", "1 to 1024 are possible"))?,
    };
    let settings = settings.map(|raw| patch_of(&raw)).transpose()?.unwrap_or_default();
    let topic = topic_name(&name);
    let create = CreateTopic { name: topic.clone(), partitions, settings };
    let answered = app.try_call(create).await?;
    if let Err(rejection @ Rejection::TopicExists { .. }) = answered {
        let current = view(&app, topic).await?;
        let current = serde_json::to_value(current).expect("a topic is plain");
        return Err(Failure::from(rejection).with("current", current));
    }
    let (code, status) = match answered? {
        Creation::Created => (StatusCode::CREATED, "created"),
        Creation::Existed => (StatusCode::OK, "exists"),
    };
    Ok((code, Json(CreatedTopic { status, name, partitions })))
}

fn patch_of(raw: &RawValue) -> Result<SettingsPatch, Failure> {
    let given: Given = from_json(raw.get().as_bytes()).map_err(in_settings)?;
    given.check()?;
    let patch = from_json(raw.get().as_bytes()).map_err(in_settings)?;
    within_integers(patch)
}

/// Where the core has no upper bound, the wire has one.
fn within_integers(patch: SettingsPatch) -> Result<SettingsPatch, Failure> {
    let unbounded = [
        ("max_backlog_messages", patch.max_backlog_messages),
        ("max_backlog_bytes", patch.max_backlog_bytes),
        ("retention_bytes", patch.retention_bytes),
    ];
    match unbounded.into_iter().find(|(_, value)| value.is_some_and(|value| value > INTEGER_MAX)) {
        Some((name, _)) => {
            Err(in_settings(Failure::invalid(name, "integers are below 9007199254740992")))
        }
        None => Ok(patch),
    }
}

/// The field is one of the settings.
fn in_settings(Failure(error): Failure) -> Failure {
    let Error { message, more, .. } = error;
    let field = more.get("field").and_then(|field| field.as_str().map(str::to_owned));
    let failure = Failure::new(ErrorCode::InvalidArgument, format!("settings: {message}"));
    failure.with("field", field.unwrap_or_else(|| "settings".to_owned()))
}

async fn view(app: &App, name: driftq_core::command::TopicName) -> Result<Topic, Failure> {
    Ok(convert::topic(&*app.call(ViewTopic(name)).await?, true))
}

/// One topic.
#[utoipa::path(
    get, path = "/v1/topics/{topic}", operation_id = "show_topic", tag = "topics",
    params(("topic" = TopicName, Path)),
    responses((status = 200, description = "the topic", body = Topic), Missing),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(topic): Path<String>,
    _: Input<Nothing>,
) -> Result<Json<Topic>, Failure> {
    Ok(Json(view(&app, topic_name(&topic)).await?))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    #[serde(default)]
    detail: bool,
    #[schema(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    #[schema(value_type = Option<PageCursor>)]
    cursor: Option<String>,
}

impl Ask for List {
    const QUERY: &'static [Param] =
        &[flag("detail", &["detail"]), number("limit", &["limit"]), text("cursor", &["cursor"])];
}

/// All topics, sorted by name.
#[utoipa::path(
    get, path = "/v1/topics", operation_id = "list_topics", tag = "topics",
    params(Query<List>),
    responses((status = 200, description = "names, or topics where `detail` is asked for", body = TopicList)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    input: Input<List>,
) -> Result<Json<TopicList>, Failure> {
    let List { detail, limit, cursor } = input.asked;
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

impl Ask for Patch {
    const QUERY: &'static [Param] = &[];
}

/// Changes settings.
#[utoipa::path(
    patch, path = "/v1/topics/{topic}", operation_id = "patch_topic", tag = "topics",
    params(("topic" = TopicName, Path)),
    request_body = Patch,
    responses((status = 200, description = "the topic as it is now", body = Topic), Missing, Unmet),
)]
pub(crate) async fn patch(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<Patch>,
) -> Result<Json<Topic>, Failure> {
    let settings = change_of(&input.asked.settings)?;
    let view = app.call(PatchTopic { name: topic_name(&topic), settings }).await?;
    Ok(Json(convert::topic(&view, true)))
}

/// What is null goes back to its default; the rest is set. Where null is a value of its own, it is the
/// default too.
fn change_of(raw: &RawValue) -> Result<SettingsChange, Failure> {
    // First as they are: what is unknown, twice or of the wrong kind is refused with its name.
    let given: Given = from_json(raw.get().as_bytes()).map_err(in_settings)?;
    given.check()?;
    let mut change = SettingsChange::default();
    let mut set = Vec::new();
    for (setting, value) in given.0 {
        if value.get() == "null" {
            change.reset.push(setting);
        } else {
            set.push(format!("\"{}\":{}", setting.as_str(), value.get()));
        }
    }
    let set = format!("{{{}}}", set.join(","));
    change.set = within_integers(from_json(set.as_bytes()).map_err(in_settings)?)?;
    Ok(change)
}

/// Settings by name, each once.
struct Given(Vec<(SettingName, Box<RawValue>)>);

impl Given {
    /// No setting is a list, though derived code would take one for an object.
    fn check(&self) -> Result<(), Failure> {
        match self.0.iter().find(|(_, value)| value.get().starts_with('[')) {
            Some((name, _)) => {
                Err(in_settings(Failure::invalid(name.as_str(), "a list, but no setting is one")))
            }
            None => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Given;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("settings by name")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Given, A::Error> {
                let mut given: Vec<(SettingName, Box<RawValue>)> = Vec::new();
                while let Some(Name(setting)) = map.next_key()? {
                    if given.iter().any(|(before, _)| *before == setting) {
                        let name = setting.as_str();
                        return Err(A::Error::custom(format!("`{name}` is there twice")));
                    }
                    given.push((setting, map.next_value()?));
                }
                Ok(Given(given))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// What is no name is refused at once: a million of them must not be kept and compared.
struct Name(SettingName);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || D::Error::custom(format!("no such setting: `{name}`"));
        SettingName::of(&name).map(Name).ok_or_else(unknown)
    }
}

/// Deletes a topic; `confirm` is its name.
#[utoipa::path(
    delete, path = "/v1/topics/{topic}", operation_id = "delete_topic", tag = "topics",
    params(("topic" = TopicName, Path), Query<Confirm>),
    responses((status = 200, description = "gone", body = DeletedTopic), Missing, Unmet),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<Confirm>,
) -> Result<Json<DeletedTopic>, Failure> {
    let name = topic_name(&topic);
    if input.asked.confirm.as_deref() != Some(&topic) {
        let TopicContents { messages, open, groups, dead_letters } =
            app.call(WouldDeleteTopic(name)).await?;
        let says = format!(
            "deleting \"{topic}\" would drop {messages} messages ({open} open), {groups} groups, \
             {dead_letters} dead letters; repeat with ?confirm={topic}"
        );
        return Err(Failure::invalid("confirm", says));
    }
    let command::DeletedTopic { messages, dead_letters } = app.call(DeleteTopic(name)).await?;
    Ok(Json(DeletedTopic { status: "deleted", messages, dead_letters }))
}
