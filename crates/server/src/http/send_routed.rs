//! Sends the messages of a produce request to their shards, as the router decides.

use driftq_core::command::{Call, Produce};
use driftq_core::{CallError, CommandResult, Rejection, Reply, Text};

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
    let mut waiting: Vec<usize> = (0..messages.len()).collect();
    if router.is_hook() {
        messages.iter_mut().for_each(|message| message.needs_routing = true);
        let answers = send(app, nonce, messages.clone()).await;
        waiting.retain(|at| matches!(answers[*at], Ok(Err(Rejection::Unrouted))));
        if waiting.is_empty() {
            return answers;
        }
    }
    router.route(&mut messages, &waiting).await;
    let routes: Vec<_> = messages.iter().map(|message| message.routing.clone()).collect();
    let answers = send(app, nonce, messages).await;
    for (routing, answer) in routes.iter().zip(&answers) {
        if let (Some(routing), Ok(Ok(Reply::Produced(receipt)))) = (routing, answer) {
            router.stored(routing, receipt);
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
