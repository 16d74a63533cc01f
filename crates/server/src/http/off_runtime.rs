//! Work on large bodies and answers, on threads of its own. A worker of the async runtime that is busy for
//! milliseconds delays every request behind it.

use std::sync::LazyLock;

use driftq_api::error::details::Internal;
use driftq_api::words::Outcome;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

use super::api_error::ApiError;

/// Work on fewer bytes than this is done at once: it takes a fraction of a millisecond.
const AT_ONCE_BYTES: usize = 256 * 1024;
/// Threads of each kind.
const THREADS: usize = 2;
/// Their priority, below that of everything else in this process.
const NICE: i32 = 10;

/// Reads bodies.
pub(super) static READERS: Workers = Workers(LazyLock::new(start));
/// Writes answers. Bodies do not delay them.
pub(super) static WRITERS: Workers = Workers(LazyLock::new(start));

/// Threads for large bodies, started with the first one.
pub(super) struct Workers(LazyLock<Runtime>);

fn start() -> Runtime {
    let mut threads = Builder::new_current_thread();
    threads.thread_name("large").max_blocking_threads(THREADS).on_thread_start(|| {
        // Linux changes the calling thread alone. If it fails, large bodies delay other requests as they did before.
        let _priority = rustix::process::nice(NICE);
    });
    threads.build().expect("the system has threads")
}

impl Workers {
    /// Does `work` on so many bytes.
    pub(super) async fn run<T: Send + 'static>(
        &'static self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        if bytes < AT_ONCE_BYTES {
            return Ok(work());
        }
        self.0.spawn_blocking(work).await.map_err(|_| {
            tracing::error!("work on a large body panicked");
            let details = Internal { outcome: Outcome::None };
            ApiError::new(details, "internal error; see the server log")
        })
    }
}

/// An answer with messages of so many bytes. It does not grow while it is written, which would copy it and take twice
/// the memory.
pub(super) fn json(answer: &impl Serialize, messages: usize, bytes: usize) -> Vec<u8> {
    let mut written = Vec::with_capacity(bytes + bytes / 16 + 1_024 * (messages + 1));
    serde_json::to_writer(&mut written, answer).expect("answers are plain");
    written
}
