//! Runs the handler of one message, and settles the message.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::timeout;

use super::renew::InWork;
use super::shared::{CANCEL_TIME, Handler, Shared};
use crate::commit::finish_each;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::error::Error;
use crate::fail::{Fail, Kind};

/// How the work on a message ended.
enum Ended {
    Handled(Result<Result<(), Fail>, JoinError>),
    Lost(String),
    Cancelled,
}

pub(super) async fn run(
    shared: Arc<Shared>,
    handler: Arc<Handler>,
    (delivery, arrived): (Delivery, Instant),
    stop: watch::Receiver<bool>,
    mut cancelling: watch::Receiver<bool>,
) {
    let token = delivery.lease.token.clone();
    if *stop.borrow() {
        // It was on its way while the worker left.
        settle(&shared, &token, json!({ "op": "nack", "release": true })).await;
        return;
    }
    let name = format!("{} of {}/{}", delivery.id, delivery.topic, delivery.group);
    shared.lock_in_work().insert(name.clone());
    let (lost, mut is_lost) = watch::channel(None);
    shared.renewals.begin(InWork {
        token: token.clone(),
        lease: shared.options.lease,
        arrived,
        max_processing: shared.options.max_processing,
        lost,
    });
    // What the handler produces continues the trace of its message.
    let client = shared.handlers_client.continuing(delivery.trace.clone());
    let owner = shared.owner.clone();
    let context = Context::new(client, owner, delivery, is_lost.clone());
    let of_handler = context.clone();
    let mut work = shared.handlers.spawn(async move { (handler.handle)(of_handler).await });
    let ended = tokio::select! {
        ended = &mut work => Ended::Handled(ended),
        Ok(why) = is_lost.wait_for(Option::is_some) => {
            Ended::Lost(why.clone().unwrap_or_default())
        }
        _ = cancelling.wait_for(|cancel| *cancel) => Ended::Cancelled,
    };
    match ended {
        Ended::Handled(result) => finish(&shared, &context, &token, result).await,
        Ended::Lost(why) => {
            tracing::warn!(message = name, why, "lease lost; the result is dropped");
            work.abort();
            let _ended = work.await;
        }
        Ended::Cancelled => {
            work.abort();
            if timeout(CANCEL_TIME, work).await.is_err() {
                // It may still act, so its message is not released.
                shared.renewals.end(&token);
                return;
            }
            let release = json!({ "op": "nack", "release": true });
            settle(&shared, &token, release).await;
        }
    }
    shared.renewals.end(&token);
    shared.lock_in_work().remove(&name);
}

/// Settles a message by the result of its handler.
async fn finish(
    shared: &Shared,
    context: &Context,
    token: &str,
    result: Result<Result<(), Fail>, JoinError>,
) {
    let fail = match result {
        Ok(Ok(())) => None,
        Ok(Err(fail)) => Some(fail),
        Err(ended) => Some(Fail::retry(format!("panic: {}", panic_text(ended)))),
    };
    if context.is_committed() {
        if let Some(fail) = fail {
            tracing::warn!(?fail, "the handler failed after its commit");
        }
        return;
    }
    if let Err(error) = finish_each(context, context.take_pending()).await {
        tracing::warn!(%error, "an outcome was not recorded");
    }
    let Some(Fail(kind)) = fail else {
        if let Err(Error::Refused(refusal)) =
            try_settle(shared, token, json!({ "op": "ack" })).await
        {
            // For example, an effect of the message is in doubt.
            settle(shared, token, json!({ "op": "nack", "reason": refusal.to_string() })).await;
        }
        return;
    };
    let nack = match kind {
        Kind::Retry { reason, after: None }
        | Kind::Declined { reason, .. }
        | Kind::Rejected { reason } => json!({ "op": "nack", "reason": reason }),
        Kind::Retry { reason, after: Some(after) } => {
            json!({ "op": "nack", "reason": reason, "delay_ms": after.as_millis() as u64 })
        }
        Kind::Reject { reason } => json!({ "op": "nack", "reason": reason, "dead_letter": true }),
        Kind::Release { after } => {
            let delay_ms = after.map(|after| after.as_millis() as u64);
            json!({ "op": "nack", "release": true, "delay_ms": delay_ms })
        }
        // Its message is delivered to another worker.
        Kind::Lost => return,
    };
    settle(shared, token, nack).await;
}

async fn settle(shared: &Shared, token: &str, item: Value) {
    if let Err(error) = try_settle(shared, token, item).await {
        tracing::warn!(%error, "a message was not settled");
    }
}

async fn try_settle(shared: &Shared, token: &str, mut item: Value) -> Result<(), Error> {
    item["token"] = token.into();
    match shared.settler.settle(item).await {
        // Its result does not count, and another worker has it.
        Err(Error::LeaseLost(why)) => {
            tracing::debug!(why, "lease lost before the message was settled");
            Ok(())
        }
        settled => settled,
    }
}

fn panic_text(ended: JoinError) -> String {
    match ended.try_into_panic() {
        Ok(panic) => match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => match panic.downcast::<&'static str>() {
                Ok(text) => (*text).to_owned(),
                Err(_) => "no text".to_owned(),
            },
        },
        Err(_) => "the runtime is ending".to_owned(),
    }
}
