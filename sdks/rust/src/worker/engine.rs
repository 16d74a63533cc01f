//! The thread of a worker: it receives, renews and settles.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::renew::Renewals;
use super::shared::{CANCEL_TIME, Shared, WorkerError};
use super::{Worker, middleware, receive, signals};
use crate::retry::Call;
use crate::settle::Settler;

/// How long the server may take to answer that the worker has left.
const LEAVE_TIME: Duration = Duration::from_secs(5);

/// A running worker. If it is dropped, its thread ends and its handlers are cancelled.
pub(super) struct Engine {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<Result<(), WorkerError>>,
}

impl Engine {
    /// Starts the thread. Handlers run on the current runtime. `has_signals` stops the worker at
    /// SIGTERM and SIGINT.
    pub(super) fn start(worker: Worker, has_signals: bool) -> std::io::Result<Engine> {
        let handlers = Handle::current();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopping) = watch::channel(false);
        let (mut end, ended) = oneshot::channel();
        let stop_of_signals = stop.clone();
        let run = async move {
            if has_signals {
                signals::listen(stop_of_signals)?;
            }
            run(worker, handlers, stopping).await
        };
        let run = move || {
            let result = runtime.block_on(async {
                tokio::select! {
                    result = run => result,
                    // The worker was dropped.
                    () = end.closed() => Err(WorkerError::Interrupted),
                }
            });
            if let (true, Err(error @ WorkerError::Stuck(_))) = (has_signals, &result) {
                // The runtime of the handlers can be blocked, so an error would end nothing.
                tracing::error!(%error, "the worker ends the process");
                std::process::exit(signals::EXIT_STATUS);
            }
            let _dropped = end.send(result);
        };
        thread::Builder::new().name("driftq-worker".to_owned()).spawn(run)?;
        Ok(Engine { stop, ended })
    }

    /// Stops, and waits until the thread has ended.
    pub(super) async fn stop(self) -> Result<(), WorkerError> {
        self.stop.send_replace(true);
        self.ended().await
    }

    /// Waits until the thread has ended.
    pub(super) async fn ended(self) -> Result<(), WorkerError> {
        let Engine { stop: _stop, ended } = self;
        ended.await.unwrap_or(Err(WorkerError::Interrupted))
    }
}

async fn run(
    worker: Worker,
    handlers: Handle,
    mut is_stopping: watch::Receiver<bool>,
) -> Result<(), WorkerError> {
    let Worker { client: handlers_client, handlers: all, middleware, options } = worker;
    let middleware: Arc<[_]> = middleware.into();
    let shutdown_timeout = options.shutdown_timeout;
    let client = handlers_client.separate();
    let shared = Arc::new(Shared {
        settler: Settler::start(client.clone()),
        renewals: Renewals::start(client.clone()),
        owner: owner().into(),
        client,
        handlers_client,
        handlers,
        options,
        in_work: Mutex::default(),
    });
    let (cancelling, is_cancelling) = watch::channel(false);
    let mut receivers = JoinSet::new();
    for mut handler in all {
        handler.handle = middleware::wrap(&middleware, handler.handle);
        let (shared, stop) = (shared.clone(), is_stopping.clone());
        receivers.spawn(receive::run(shared, Arc::new(handler), stop, is_cancelling.clone()));
    }
    // The sender lives as long as this thread is waited for.
    let _is_told = is_stopping.wait_for(|stop| *stop).await.is_ok();
    let left = json!({ "worker": &*shared.owner });
    let leave = Call { path: "leave", body: Some(&left), is_repeatable: true, timeout: LEAVE_TIME };
    if let Err(error) = leave.send(&shared.client).await {
        // Polls that still wait may get messages, which are then given back.
        tracing::warn!(%error, "the worker could not leave");
    }
    let mut all_ended = async || while receivers.join_next().await.is_some() {};
    if timeout(shutdown_timeout, all_ended()).await.is_ok() {
        return Ok(());
    }
    cancelling.send_replace(true);
    // Those that end are given back within the same time again.
    let _ended = timeout(CANCEL_TIME * 2, all_ended()).await;
    let stuck: Vec<String> = shared.lock_in_work().iter().cloned().collect();
    if stuck.is_empty() { Ok(()) } else { Err(WorkerError::Stuck(stuck)) }
}

/// A name that no other worker has: host, process and four random digits.
fn owner() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("{host}-{}-{:04x}", std::process::id(), fastrand::u16(..))
}
