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
use super::{Worker, middleware, receive};
use crate::settle::Settler;

/// How long the server may take to answer that the worker has left.
const LEAVE_TIME: Duration = Duration::from_secs(5);

/// A running worker. If it is dropped, its thread ends.
pub(super) struct Engine {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<Result<(), WorkerError>>,
}

impl Engine {
    /// Starts the thread. Handlers run on the current runtime.
    pub(super) fn start(worker: Worker) -> std::io::Result<Engine> {
        let handlers = Handle::current();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopping) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        let run = move || {
            // Without a receiver, the worker was dropped.
            let _dropped = end.send(runtime.block_on(run(worker, handlers, stopping)));
        };
        thread::Builder::new().name("driftq-worker".to_owned()).spawn(run)?;
        Ok(Engine { stop, ended })
    }

    /// Stops, and waits until the thread has ended.
    pub(super) async fn stop(self) -> Result<(), WorkerError> {
        self.stop.send_replace(true);
        self.ended.await.unwrap_or(Err(WorkerError::Interrupted))
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
    if is_stopping.wait_for(|stop| *stop).await.is_err() {
        // The worker was dropped.
        return Err(WorkerError::Interrupted);
    }
    let end = async {
        let left = json!({ "worker": &*shared.owner });
        // Without an answer, polls that still wait may get messages, which are then given back.
        let _left = timeout(LEAVE_TIME, shared.client.post("leave", &left)).await;
        let mut all_ended = async || while receivers.join_next().await.is_some() {};
        if timeout(shutdown_timeout, all_ended()).await.is_ok() {
            return Ok(());
        }
        cancelling.send_replace(true);
        // Those that end are given back within the same time again.
        let _ended = timeout(CANCEL_TIME * 2, all_ended()).await;
        let stuck: Vec<String> = shared.lock_in_work().iter().cloned().collect();
        if stuck.is_empty() { Ok(()) } else { Err(WorkerError::Stuck(stuck)) }
    };
    tokio::select! {
        ended = end => ended,
        // Only the end of the sender is awaited: it says `stop` once.
        () = async { while is_stopping.changed().await.is_ok() {} } => Err(WorkerError::Interrupted),
    }
}

/// A name that no other worker has: host, process and four random digits.
fn owner() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("{host}-{}-{:04x}", std::process::id(), fastrand::u16(..))
}
