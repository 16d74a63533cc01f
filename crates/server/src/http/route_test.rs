//! Shows what the router decides about a message, without storing the message.

use axum::Json;
use axum::extract::State;
use driftq_api::message::Produce as Request;
use driftq_api::router::RouteTest;
use driftq_api::words::RouterKind;
use driftq_core::Rejection;
use driftq_core::command::{self, TopicName, ViewTopic};
use driftq_core::placement::is_dead_letters;

use super::api_error::ApiError;
use super::app::App;
use super::input::Input;
use super::operation::Missing;
use super::produce;
use crate::message_router::to_view;

/// Shows where a message would go. Nothing is stored.
#[utoipa::path(
    post, path = "/v1/route/test", operation_id = "test_route", tag = "messages",
    request_body = Request,
    responses((status = 200, description = "what the router decides", body = RouteTest), Missing),
)]
pub(crate) async fn test(
    State(app): State<App>,
    input: Input<Request>,
) -> Result<Json<RouteTest>, ApiError> {
    let mut message = produce::message(&app, input.body, None)?;
    app.call(ViewTopic(message.topic.clone())).await?;
    let (router, decided) = match &app.router {
        None => (RouterKind::None, Ok(None)),
        Some(router) => {
            let kind = if router.is_hook() { RouterKind::Hook } else { RouterKind::Rules };
            (kind, router.decide(&[&message]).await.pop().expect("one decision for each message"))
        }
    };
    let mut error = decided.as_ref().err().map(ToString::to_string);
    message.routing = decided.ok().flatten();
    if message.routing.is_some()
        && let Some(why) = unusable(&app, &message).await?
    {
        error = Some(format!("the decision is ignored: {why}"));
    }
    if app.router.as_ref().is_some_and(|router| router.rejects()) {
        // A message of a commit would still be accepted.
        error = error.map(|why| format!("{why}; a produced message would be rejected"));
    }
    let routing = message.routing.as_deref().map(to_view);
    if error.is_some() {
        message.routing = None;
    }
    let final_topic = message.final_topic().topic.to_string();
    Ok(Json(RouteTest { router, routing, final_topic, error }))
}

/// Why the shard would ignore the decision of the router.
async fn unusable(app: &App, message: &command::Produce) -> Result<Option<String>, ApiError> {
    let target: TopicName = message.final_topic();
    if is_dead_letters(&target.topic) {
        return Ok(Some(format!("{} is a dead-letter topic", target.topic)));
    }
    let view = match app.try_call(ViewTopic(target.clone())).await? {
        Ok(view) => view,
        Err(Rejection::NotFound(_)) => {
            return Ok(Some(format!("the topic {} does not exist", target.topic)));
        }
        Err(rejection) => return Err(rejection.into()),
    };
    let chosen = message.routing.as_ref().and_then(|routing| routing.partition_override);
    let count = view.partitions.len();
    Ok(chosen.filter(|partition| *partition as usize >= count).map(|partition| {
        format!(
            "the topic {} has {count} partitions, and partition {partition} was chosen",
            target.topic
        )
    }))
}
