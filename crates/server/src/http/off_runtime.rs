//! Runs work on large bodies and answers on separate threads. A worker of the async runtime that is
//! busy for milliseconds delays every request behind it.

use std::sync::LazyLock;

use driftq_api::error::details::Internal;
use driftq_api::words::Outcome;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

use super::api_error::ApiError;
use super::request_log::see_log;

/// Work on fewer bytes runs directly, because it takes a fraction of a millisecond.
const AT_ONCE_BYTES: usize = 256 * 1024;
/// Number of threads per pool.
const THREADS: usize = 2;
/// The priority of the threads, below all others of this process.
const NICE: i32 = 10;

/// Parses bodies.
pub(super) static READERS: Workers = Workers(LazyLock::new(start));
/// Writes answers. Separate from `READERS`, so that bodies do not delay answers.
pub(super) static WRITERS: Workers = Workers(LazyLock::new(start));

/// A thread pool for large bodies, started on first use.
pub(super) struct Workers(LazyLock<Runtime>);

fn start() -> Runtime {
    let mut threads = Builder::new_current_thread();
    threads.thread_name("large").max_blocking_threads(THREADS).on_thread_start(|| {
        // Linux changes only the calling thread. If this fails, large bodies may delay other
        // requests.
        let _priority = rustix::process::nice(NICE);
    });
    threads.build().expect("a runtime without I/O always builds")
}

impl Workers {
    /// Runs `work`, which processes `bytes` bytes.
    pub(super) async fn run<T: Send + 'static>(
        &'static self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        if bytes < AT_ONCE_BYTES {
            return Ok(work());
        }
        self.0.spawn_blocking(work).await.map_err(|_| {
            let details = Internal { outcome: Outcome::None };
            let message = format!("internal error: work on a large body panicked; {}", see_log());
            ApiError::new(details, message)
        })
    }
}

/// Serializes an answer with messages of `bytes` bytes. The buffer is allocated large enough at
/// once, because growing would copy it and need twice the memory.
pub(super) fn json(answer: &impl Serialize, messages: usize, bytes: usize) -> Vec<u8> {
    let mut written = Vec::with_capacity(bytes + bytes / 16 + 1_024 * (messages + 1));
    serde_json::to_writer(&mut written, answer).expect("answers serialize");
    written
}
