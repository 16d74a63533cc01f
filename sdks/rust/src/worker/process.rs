//! Runs the handler of one message, and settles the message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

use super::renew::InWork;
use super::shared::{CANCEL_TIME, Handler, Shared};
use crate::commit::finish_each;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::error::Error;
use crate::fail::{Fail, Kind};

/// The longest delay of a nack: 7 days.
const DELAY_MS_MAX: u64 = 604_800_000;
/// The server keeps this much of a reason.
const REASON_BYTES_MAX: usize = 1_024;

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
    let Delivery { id, topic, group, lease, .. } = &delivery;
    // Two attempts of one message can be in work here, after the lease of the first was lost.
    let name = format!("{id} of {topic}/{group}, attempt {}", lease.attempt);
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
    let context = Context::new(client, owner, delivery, is_lost.clone(), cancelling.clone());
    let of_handler = context.clone();
    let work = shared.handlers.spawn(async move { (handler.handle)(of_handler).await });
    let mut work = AbortOnDrop(work);
    let ended = tokio::select! {
        ended = &mut work.0 => Ended::Handled(ended),
        Ok(why) = is_lost.wait_for(Option::is_some) => {
            Ended::Lost(why.clone().unwrap_or_default())
        }
        _ = cancelling.wait_for(|cancel| *cancel) => Ended::Cancelled,
    };
    match ended {
        Ended::Handled(result) => finish(&shared, &context, &token, result).await,
        Ended::Lost(why) => {
            tracing::warn!(message = name, why, "lease lost; the result is dropped");
            work.0.abort();
            let _ended = (&mut work.0).await;
            record_pending(&shared, &context).await;
        }
        Ended::Cancelled => {
            work.0.abort();
            match timeout(CANCEL_TIME, &mut work.0).await {
                Err(_) => {
                    // It may still act, so its message is not released.
                    shared.renewals.end(&token);
                    return;
                }
                Ok(Err(ended)) if ended.is_cancelled() => {
                    record_pending(&shared, &context).await;
                    let release = json!({ "op": "nack", "release": true });
                    settle(&shared, &token, release).await;
                }
                // It ended by itself, so its result counts.
                Ok(result) => finish(&shared, &context, &token, result).await,
            }
        }
    }
    shared.renewals.end(&token);
    shared.lock_in_work().remove(&name);
}

/// A handler. It is cancelled if the worker is dropped.
struct AbortOnDrop(JoinHandle<Result<(), Fail>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Records the outcomes that waited for a commit.
async fn record_pending(shared: &Shared, context: &Context) {
    if let Err(error) = finish_each(&shared.client, context.take_outcomes()).await {
        tracing::warn!(%error, "an outcome was not recorded");
    }
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
    record_pending(shared, context).await;
    let Some(Fail(kind)) = fail else {
        match try_settle(shared, token, json!({ "op": "ack" })).await {
            // An effect of the message is in doubt.
            Err(Error::Refused(refusal)) if refusal.code == "FAILED_PRECONDITION" => {
                settle(shared, token, json!({ "op": "nack", "reason": refusal.message })).await;
            }
            Err(error) => tracing::warn!(%error, "a message was not acked"),
            Ok(()) => {}
        }
        return;
    };
    let nack = match kind {
        Kind::Retry { reason, after: None }
        | Kind::Declined { reason, .. }
        | Kind::Rejected { reason } => json!({ "op": "nack", "reason": reason }),
        Kind::Retry { reason, after: Some(after) } => {
            json!({ "op": "nack", "reason": reason, "delay_ms": delay_ms(after) })
        }
        Kind::Reject { reason } => json!({ "op": "nack", "reason": reason, "dead_letter": true }),
        Kind::Release { after } => {
            json!({ "op": "nack", "release": true, "delay_ms": after.map(delay_ms) })
        }
        // Its message is delivered to another worker.
        Kind::Lost => return,
    };
    settle(shared, token, nack).await;
}

/// The delay of a nack, at most the longest that the server accepts.
fn delay_ms(after: Duration) -> u64 {
    u64::try_from(after.as_millis()).unwrap_or(u64::MAX).min(DELAY_MS_MAX)
}

async fn settle(shared: &Shared, token: &str, item: Value) {
    if let Err(error) = try_settle(shared, token, item).await {
        tracing::warn!(%error, "a message was not settled");
    }
}

async fn try_settle(shared: &Shared, token: &str, mut item: Value) -> Result<(), Error> {
    item["token"] = token.into();
    if let Some(Value::String(reason)) = item.get_mut("reason") {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    }
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
