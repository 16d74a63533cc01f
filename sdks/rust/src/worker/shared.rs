//! What the parts of a worker share.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle as RuntimeHandle;

use super::renew::Renewals;
use crate::context::Context;
use crate::fail::Fail;
use crate::http::Client;
use crate::settle::Settler;

/// How long a cancelled handler may take to end.
pub(super) const CANCEL_TIME: Duration = Duration::from_secs(2);

pub(super) type Handled = Pin<Box<dyn Future<Output = Result<(), Fail>> + Send>>;
pub(super) type Handle = dyn Fn(Context) -> Handled + Send + Sync;

/// A handler and what it handles.
pub(super) struct Handler {
    pub(super) topic: String,
    pub(super) group: String,
    pub(super) handle: Arc<Handle>,
}

/// The settings of a worker.
pub(super) struct Options {
    pub(super) concurrency: usize,
    pub(super) lease: Duration,
    pub(super) max_processing: Duration,
    pub(super) shutdown_timeout: Duration,
}

/// Why a worker ended.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The thread that renews leases did not start, or signals cannot be received.
    #[error("the worker cannot start: {0}")]
    Start(#[from] std::io::Error),
    /// Handlers ignored that they were cancelled. Their messages are delivered again when their
    /// leases end.
    #[error("handlers did not end when they were cancelled: {}", .0.join(", "))]
    Stuck(Vec<String>),
    /// A second signal ended the worker before its handlers had ended.
    #[error("stopped by a second signal")]
    Interrupted,
}

/// What the tasks of a worker share.
pub(super) struct Shared {
    /// Its connections belong to this thread.
    pub(super) client: Client,
    /// The client of the handlers.
    pub(super) handlers_client: Client,
    /// The runtime of the handlers.
    pub(super) handlers: RuntimeHandle,
    pub(super) settler: Settler,
    pub(super) renewals: Renewals,
    pub(super) owner: Arc<str>,
    pub(super) options: Options,
    /// The messages in work, for the report of those that do not end.
    pub(super) in_work: Mutex<BTreeSet<String>>,
}

impl Shared {
    pub(super) fn lock_in_work(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.in_work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
