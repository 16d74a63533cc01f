//! SIGTERM and SIGINT, received on the thread of the worker.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::shared::WorkerError;

/// The status of a process that was stopped before its handlers had ended.
pub(super) const EXIT_STATUS: i32 = 1;

/// Sets `stop` at the first signal. The second one ends the process.
pub(super) fn listen(stop: watch::Sender<bool>) -> Result<(), WorkerError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stop.send_replace(true) {
                tracing::error!("a second signal ends the process");
                std::process::exit(EXIT_STATUS);
            }
        }
    });
    Ok(())
}
