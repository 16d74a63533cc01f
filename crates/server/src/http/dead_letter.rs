//! One dead letter: by its id, or by the id of the message before it died.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use driftq_api::dlq::DeadLetter;
use driftq_api::error::details::{FailedPrecondition, NotFound};
use driftq_api::schema;
use driftq_api::words::MissingKind;
use driftq_core::command::{Explain, Explained, ExplainedMessage, TopicName, ViewTopic};
use driftq_core::{Message, MessageId, Rejection};

use super::api_error::ApiError;
use super::app::{App, topic_name};
use super::input::Input;
use super::operation::{Missing, Unmet};
use super::request::Nothing;
use super::{dlq, off_runtime, pagination};

/// Returns a dead letter.
#[utoipa::path(
    get, path = "/v1/dlq/{topic}/{id}", operation_id = "show_dead_letter", tag = "dead letters",
    params(("topic" = schema::TopicName, Path), ("id" = schema::MessageId, Path)),
    responses((status = 200, description = "the dead letter", body = DeadLetter<'static>), Missing, Unmet),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path((topic, id)): Path<(String, String)>,
    _: Input<Nothing>,
) -> Result<Response<Body>, ApiError> {
    let id: Result<MessageId, _> = id.parse();
    let id = id.map_err(|error| ApiError::invalid("id", error.to_string()))?;
    let topic = topic_name(&topic);
    app.call(ViewTopic(topic.clone())).await?;
    let room = pagination::room(&app).await?;
    let found = find(&app, &topic, id).await?;
    let bytes = found.message.as_deref().map_or(0, Message::size) as usize;
    let write = move || {
        let row = found.dead.as_deref().map(|dead| &dead.row);
        let letter = row.zip(found.message.as_deref());
        let letter = letter.and_then(|(row, message)| dlq::wire(found.id, row, message));
        off_runtime::json(&letter, 1, bytes)
    };
    pagination::answer(bytes, room, write).await
}

/// Maximum number of deaths and redrives that a search follows. Each costs a lookup.
const FOLLOWED_MAX: usize = 128;

/// Returns the dead letter with this id, or the last dead letter of the message with this id: a
/// message that died, was redriven and died again is found by its first id.
pub(super) async fn find(
    app: &App,
    topic: &TopicName,
    id: MessageId,
) -> Result<ExplainedMessage, ApiError> {
    let (mut next, mut last, mut why) = (id, None, "is not the id of a message or dead letter");
    let mut followed = 0;
    while let Some(explained) = explain(app, topic, next).await? {
        followed += 1;
        if followed > FOLLOWED_MAX {
            let message = format!(
                "{id} died and was redriven too often to find its last dead letter; find it with: driftq dlq list {}",
                topic.topic
            );
            return Err(ApiError::new(FailedPrecondition::default(), message));
        }
        let following = match &explained.dead {
            // The caller names this one, not its message.
            Some(_) if explained.id == id => None,
            Some(dead) => dead.row.redriven.as_ref().map(|redriven| redriven.new),
            None => letter_of(&explained)?,
        };
        if explained.dead.is_some() {
            last = Some(explained);
        } else {
            why = "is not a dead letter";
        }
        match following {
            Some(id) => next = id,
            None => break,
        }
    }
    last.ok_or_else(|| {
        let message = format!("{id} {why} of \"{}\"", topic.topic);
        ApiError::new(NotFound { kind: MissingKind::Message }, message)
    })
}

/// Returns a message of the topic or one of its dead letters. `None` if it is neither, or no longer
/// kept.
async fn explain(
    app: &App,
    topic: &TopicName,
    id: MessageId,
) -> Result<Option<ExplainedMessage>, ApiError> {
    let explain = Explain::Id { namespace: topic.namespace.clone(), id };
    let explained = match app.try_call(explain).await? {
        Ok(explained) => *explained,
        Err(Rejection::NotFound(_)) => return Ok(None),
        Err(rejection) => return Err(rejection.into()),
    };
    let Explained::Message(message) = explained else { return Ok(None) };
    let of = &*message.topic;
    let of = if message.dead.is_some() { of.strip_prefix("dlq.").unwrap_or(of) } else { of };
    Ok((*of == *topic.topic).then_some(message))
}

/// Returns the dead letter of a message. A message that died in several groups has several: it must
/// not be redriven for a group that the caller did not mean.
fn letter_of(message: &ExplainedMessage) -> Result<Option<MessageId>, ApiError> {
    let groups = message.groups.iter();
    let letters = groups.filter_map(|of| Some((&of.group, of.dead_letter?)));
    let letters: Vec<_> = letters.collect();
    match &letters[..] {
        [] => Ok(None),
        [(_, letter)] => Ok(Some(*letter)),
        _ => {
            let letters = letters.iter().map(|(group, id)| format!("{id} of group {group}"));
            let letters = letters.collect::<Vec<_>>().join(", ");
            let message =
                format!("{} died in several groups; use one of these ids: {letters}", message.id);
            Err(ApiError::new(FailedPrecondition::default(), message))
        }
    }
}
