//! Receives messages, as many as there are free slots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::process;
use super::shared::{Handler, Shared};
use crate::delivery::Delivery;
use crate::error::to_text;
use crate::http::Reply;

/// How long a receive waits for a message.
const WAIT_MS: u64 = 20_000;
/// How much longer its response may take.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// The longest wait after a receive that failed.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Why a receive failed, and the wait that the server asks for.
struct Failed {
    why: String,
    after: Option<Duration>,
}

impl Failed {
    fn new(why: impl Into<String>) -> Failed {
        Failed { why: why.into(), after: None }
    }
}

pub(super) async fn run(
    shared: Arc<Shared>,
    handler: Arc<Handler>,
    mut stop: watch::Receiver<bool>,
    cancelling: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(shared.options.concurrency));
    let mut deliveries = JoinSet::new();
    let mut backoff = Duration::from_millis(50);
    while let Some(mut permits) = free(&slots, &mut stop).await {
        while deliveries.try_join_next().is_some() {}
        match receive(&shared, &handler, permits.len()).await {
            Ok(messages) => {
                backoff = Duration::from_millis(50);
                for message in messages {
                    let Some(permit) = permits.pop() else { break };
                    let (shared, handler) = (shared.clone(), handler.clone());
                    let (stop, cancelling) = (stop.clone(), cancelling.clone());
                    deliveries.spawn(async move {
                        process::run(shared, handler, message, stop, cancelling).await;
                        drop(permit);
                    });
                }
            }
            Err(Failed { why, after }) => {
                let (topic, group) = (&*handler.topic, &*handler.group);
                tracing::warn!(topic, group, why, "receiving failed; trying again");
                let wait = after.unwrap_or_else(|| backoff.mul_f64(0.5 + fastrand::f64() / 2.0));
                backoff = (backoff * 2).min(BACKOFF_MAX);
                let _stopped = tokio::time::timeout(wait, stop.wait_for(|stop| *stop)).await;
            }
        }
    }
    while deliveries.join_next().await.is_some() {}
}

/// Waits for a free slot and takes all that are free. `None` if the worker stops.
async fn free(
    slots: &Arc<Semaphore>,
    stop: &mut watch::Receiver<bool>,
) -> Option<Vec<OwnedSemaphorePermit>> {
    let first = tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => return None,
        permit = slots.clone().acquire_owned() => permit.ok()?,
    };
    let mut permits = vec![first];
    while let Ok(permit) = slots.clone().try_acquire_owned() {
        permits.push(permit);
    }
    Some(permits)
}

async fn receive(
    shared: &Shared,
    handler: &Handler,
    max: usize,
) -> Result<Vec<(Delivery, Instant)>, Failed> {
    let options = &shared.options;
    let mut body = json!({
        "topic": handler.topic, "group": handler.group, "owner": &*shared.owner, "max": max,
        "wait_ms": WAIT_MS, "lease_ms": options.lease.as_millis() as u64,
    });
    body["worker"] = json!({
        "id": &*shared.owner, "sdk": "rust", "version": env!("CARGO_PKG_VERSION"),
        "host": rustix::system::uname().nodename().to_string_lossy(), "pid": std::process::id(),
        "concurrency": options.concurrency,
    });
    let sent = shared.client.send(Method::POST, "receive", Some(&body));
    let within = Duration::from_millis(WAIT_MS) + ANSWER_TIME;
    let answered = tokio::time::timeout(within, sent).await;
    let Reply { status, mut body } = match answered {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => return Err(Failed::new(to_text(&error))),
        Err(_) => return Err(Failed::new("no answer in time")),
    };
    if status != 200 {
        let why = body["message"].as_str().unwrap_or("no message").to_owned();
        let after = body["retry_after_ms"].as_u64().map(Duration::from_millis);
        return Err(Failed { why, after });
    }
    let arrived = Instant::now();
    let Value::Array(messages) = body["messages"].take() else {
        return Err(Failed::new("the response is not that of DriftQ"));
    };
    let read = |message: Value| match serde_json::from_value(message) {
        Ok(delivery) => Some((delivery, arrived)),
        Err(error) => {
            // Its lease ends, and it is delivered again.
            tracing::error!(%error, "a delivery cannot be read");
            None
        }
    };
    Ok(messages.into_iter().filter_map(read).collect())
}
