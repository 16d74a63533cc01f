//! An attack from this machine that behaves as if it came from other machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::sleep;

/// Attacking clients on a low-priority thread, which runs when the server and other clients leave a
/// core idle. Real attackers have machines of their own, so only their cost to the server counts.
pub(crate) struct Attack {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Attack {
    /// Starts the thread. `begin` spawns the clients.
    pub(crate) fn start(begin: impl FnOnce() + Send + 'static) -> anyhow::Result<Attack> {
        let is_over = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ends = is_over.clone();
        let thread = std::thread::spawn(move || {
            // Affects this thread only.
            rustix::process::nice(19).expect("lowering the priority needs no privilege");
            runtime.block_on(async {
                begin();
                while !ends.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(20)).await;
                }
            });
        });
        Ok(Attack { is_over, thread })
    }

    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the attack panicked")
    }
}
