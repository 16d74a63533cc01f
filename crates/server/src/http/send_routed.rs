//! Sends the messages of a produce request to their shards, as the router decides.

use driftq_core::command::{Call, Produce};
use driftq_core::{CallError, CommandResult, Rejection, Text};

use super::app::App;

type Answers = Vec<Result<CommandResult, CallError>>;

/// Stores the messages of a request. A hook is called only for messages that no earlier try has
/// stored, so a repeat neither calls it nor depends on it.
pub(super) async fn send_routed(
    app: &App,
    nonce: Option<&Text>,
    mut messages: Vec<Produce>,
) -> Answers {
    let Some(router) = &app.router else { return send(app, nonce, messages).await };
    let mut first = None;
    let mut waiting: Vec<usize> = (0..messages.len()).collect();
    if router.is_hook() {
        messages.iter_mut().for_each(|message| message.needs_routing = true);
        let answers = send(app, nonce, messages.clone()).await;
        waiting.retain(|at| matches!(answers[*at], Ok(Err(Rejection::Unrouted))));
        if waiting.is_empty() {
            return answers;
        }
        first = Some(answers);
    }
    router.route(&mut messages, &waiting).await;
    let decided: Vec<_> = waiting
        .iter()
        .map(|at| (*at, messages[*at].topic.topic.clone(), messages[*at].routing.clone()))
        .collect();
    let second = send(app, nonce, messages).await;
    for (at, topic, routing) in decided {
        if let Some(routing) = routing {
            router.sent(&topic, &routing, &second[at]);
        }
    }
    // A message that did not wait keeps its first answer. The second one would call it a repeat.
    let Some(mut answers) = first else { return second };
    for (at, answer) in second.into_iter().enumerate() {
        if waiting.binary_search(&at).is_ok() {
            answers[at] = answer;
        }
    }
    answers
}

async fn send(app: &App, nonce: Option<&Text>, messages: Vec<Produce>) -> Answers {
    match nonce {
        Some(nonce) => app.node.produce_with_nonce(nonce, messages).await,
        None => app.node.call_all(messages.into_iter().map(Call::into_command).collect()).await,
    }
}
