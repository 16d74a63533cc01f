//! Topics.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use driftq_api::topic::{
    CreateTopic as Create, CreatedTopic, DeletedTopic, PatchTopic as Patch, Topic, TopicNames,
    Topics,
};
use driftq_api::{Error, ErrorCode};
use driftq_core::command::{CreateTopic, PatchTopic};
use driftq_core::{Command, Rejection, Reply, SettingName, SettingsChange, SettingsPatch};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::input::{Ask, Confirm, Input, Nothing, Param, flag, from_json, number, text};
use super::pages::Pages;
use super::{App, NAMESPACE, convert, topic_name, unexpected};

impl Ask for Create {
    const QUERY: &'static [Param] =
        &[text("name", &["name"]), number("partitions", &["partitions"])];
}

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
    let create = Box::new(CreateTopic { name: topic.clone(), partitions, settings });
    let answered = app.node.call(Command::CreateTopic(create)).await?;
    if let Err(rejection @ Rejection::TopicExists { .. }) = answered {
        let current = view(&app, topic).await?;
        let current = serde_json::to_value(current).expect("a topic is plain");
        return Err(Failure::from(rejection).with("current", current));
    }
    let is_new = matches!(answered?, Reply::TopicCreated { .. });
    let (code, status) =
        if is_new { (StatusCode::CREATED, "created") } else { (StatusCode::OK, "exists") };
    Ok((code, Json(CreatedTopic { status, name, partitions })))
}

fn patch_of(raw: &RawValue) -> Result<SettingsPatch, Failure> {
    from_json(raw.get().as_bytes()).map_err(in_settings)
}

/// The field is one of the settings.
fn in_settings(Failure(error): Failure) -> Failure {
    let Error { message, more, .. } = error;
    let field = more.get("field").and_then(|field| field.as_str().map(str::to_owned));
    let failure = Failure::new(ErrorCode::InvalidArgument, format!("settings: {message}"));
    failure.with("field", field.unwrap_or_else(|| "settings".to_owned()))
}

async fn view(app: &App, name: driftq_core::command::TopicName) -> Result<Topic, Failure> {
    let Reply::Topic(view) = app.ask(Command::ViewTopic(name)).await? else {
        return Err(unexpected());
    };
    Ok(convert::topic(&view, true))
}

pub(crate) async fn show(
    State(app): State<App>,
    Path(topic): Path<String>,
    _: Input<Nothing>,
) -> Result<Json<Topic>, Failure> {
    Ok(Json(view(&app, topic_name(&topic)).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    #[serde(default)]
    detail: bool,
    limit: Option<u32>,
    cursor: Option<String>,
}

impl Ask for List {
    const QUERY: &'static [Param] =
        &[flag("detail", &["detail"]), number("limit", &["limit"]), text("cursor", &["cursor"])];
}

pub(crate) async fn list(
    State(app): State<App>,
    input: Input<List>,
) -> Result<axum::response::Response, Failure> {
    use axum::response::IntoResponse as _;
    let List { detail, limit, cursor } = input.asked;
    let list = Command::ListTopics { namespace: NAMESPACE.into() };
    let Reply::Topics(views) = app.ask(list).await? else { return Err(unexpected()) };
    if !detail {
        let topics = views.iter().map(|view| view.name.to_string()).collect();
        return Ok(Json(TopicNames { topics }).into_response());
    }
    let pages = Pages::new(limit, cursor.as_deref())?;
    let (views, next_cursor) = pages.of(views, |view| &view.name);
    let topics = views.iter().map(|view| convert::topic(view, false)).collect();
    Ok(Json(Topics { topics, next_cursor }).into_response())
}

impl Ask for Patch {
    const QUERY: &'static [Param] = &[];
}

pub(crate) async fn patch(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<Patch>,
) -> Result<Json<Topic>, Failure> {
    let settings = change_of(&input.asked.settings)?;
    let patch = Box::new(PatchTopic { name: topic_name(&topic), settings });
    let Reply::Topic(view) = app.ask(Command::PatchTopic(patch)).await? else {
        return Err(unexpected());
    };
    Ok(Json(convert::topic(&view, true)))
}

/// What is null goes back to its default; the rest is set. Where null is a value of its own, it is the
/// default too.
fn change_of(raw: &RawValue) -> Result<SettingsChange, Failure> {
    // First as they are: what is unknown, twice or of the wrong kind is refused with its name.
    let given: Given = from_json(raw.get().as_bytes()).map_err(in_settings)?;
    let mut change = SettingsChange::default();
    let mut set = Vec::new();
    for (name, value) in given.0 {
        let setting = SettingName::of(&name)
            .ok_or_else(|| in_settings(Failure::invalid(&name, "no such setting")))?;
        if value.get() == "null" {
            change.reset.push(setting);
        } else {
            set.push(format!("\"{}\":{}", setting.as_str(), value.get()));
        }
    }
    let set = format!("{{{}}}", set.join(","));
    change.set = from_json(set.as_bytes()).map_err(in_settings)?;
    Ok(change)
}

/// Settings by name, each once.
struct Given(Vec<(String, Box<RawValue>)>);

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
                let mut given: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, _>()? {
                    if given.iter().any(|(before, _)| *before == name) {
                        return Err(serde::de::Error::custom(format!("`{name}` is there twice")));
                    }
                    given.push((name, value));
                }
                Ok(Given(given))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

pub(crate) async fn delete(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<Confirm>,
) -> Result<Json<DeletedTopic>, Failure> {
    let name = topic_name(&topic);
    if input.asked.confirm.as_deref() != Some(&topic) {
        let would = app.ask(Command::WouldDeleteTopic(name)).await?;
        let Reply::WouldDeleteTopic { messages, open, groups, dead_letters } = would else {
            return Err(unexpected());
        };
        let says = format!(
            "deleting \"{topic}\" would drop {messages} messages ({open} open), {groups} groups, \
             {dead_letters} dead letters; repeat with ?confirm={topic}"
        );
        return Err(Failure::invalid("confirm", says));
    }
    let deleted = app.ask(Command::DeleteTopic(name)).await?;
    let Reply::TopicDeleted { messages, dead_letters } = deleted else { return Err(unexpected()) };
    Ok(Json(DeletedTopic { status: "deleted", messages, dead_letters }))
}
