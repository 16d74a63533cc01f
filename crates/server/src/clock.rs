//! The clock of this process: the core's [`JumpGuard`], the boot clock it needs, and its stored
//! records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use driftq_core::command::{Act, StorageAct};
use driftq_core::{ClockOrigin, ClockRecord, HeldJump, JumpGuard, StoredClock, Timestamp};
use driftq_storage::{Engine, EngineError, wall_clock};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::outage_log::{Caller, OutageLog, StorageCall, cause};

/// Interval between two samples of the clock.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The interval in a new storage, until the first sample is stored.
const FIRST_LOOK_EVERY: Duration = Duration::from_millis(50);

/// A clock that keeps counting while the machine is suspended. Otherwise it follows tokio's clock,
/// which tests may pause.
#[derive(Debug, Clone, Copy)]
struct BootClock {
    began: Instant,
    /// The boot clock at `began`.
    began_ms: u64,
    /// For how long the machine had been suspended at `began`.
    suspended_ms: u64,
}

impl BootClock {
    fn start() -> BootClock {
        let suspended_ms = suspended_ms();
        BootClock { began: Instant::now(), began_ms: ms(BOOT_CLOCK), suspended_ms }
    }

    fn now_ms(&self) -> u64 {
        let ran = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let suspended = suspended_ms().saturating_sub(self.suspended_ms);
        // The two clocks are read one after the other. A small difference is the time between the
        // reads, not a suspend.
        let suspended = if suspended < 1_000 { 0 } else { suspended };
        self.began_ms.saturating_add(ran).saturating_add(suspended)
    }
}

#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

fn ms(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or_default() * 1_000 + nanos.unwrap_or_default() / 1_000_000
}

fn suspended_ms() -> u64 {
    let running = ms(ClockId::Monotonic);
    ms(BOOT_CLOCK).saturating_sub(running)
}

/// The boot id of this machine. If the system does not provide one, it is empty, and stored times
/// are not compared.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// The clock of this process.
#[derive(Clone)]
pub(crate) struct NodeClock {
    boot: BootClock,
    /// How far a test has advanced this clock.
    advanced_ms: Arc<AtomicU64>,
    guard: Arc<Mutex<JumpGuard>>,
    engine: Arc<dyn Engine>,
}

impl NodeClock {
    /// Checks the clock against the records of an earlier process. Also returns those records.
    pub(crate) async fn start(
        engine: Arc<dyn Engine>,
        metrics: &Metrics,
    ) -> (NodeClock, StoredClock) {
        let mut stored = StoredClock::default();
        for name in ClockRecord::NAMES {
            match engine.meta(name).await {
                Ok(text) => stored.read(name, &text.unwrap_or_default()),
                Err(error) => {
                    tracing::warn!(name, why = %error, "cannot read a clock record")
                }
            }
        }
        let boot = BootClock::start();
        let guard = JumpGuard::new(&boot_id(), boot.now_ms(), &stored);
        if guard.origin() == ClockOrigin::Unchecked {
            metrics.unchecked_clock();
            let last = stored.boot.as_ref().map(|boot| boot.now.to_string());
            tracing::info!(
                last,
                "clock accepted without a check: the machine was rebooted, or the data moved to another machine"
            );
        }
        let (guard, advanced_ms) = (Arc::new(Mutex::new(guard)), Arc::default());
        (NodeClock { boot, advanced_ms, guard, engine }, stored)
    }

    fn guard(&self) -> MutexGuard<'_, JumpGuard> {
        self.guard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The boot clock.
    pub(crate) fn boot_ms(&self) -> u64 {
        self.boot.now_ms() + self.advanced_ms()
    }

    fn advanced_ms(&self) -> u64 {
        self.advanced_ms.load(Ordering::Relaxed)
    }

    /// Advances both clocks for a test. To the server, that time has passed: it is no jump.
    pub(crate) fn advance(&self, ms: u64) {
        // Under the lock, so that no sample has one clock from before and the other from after.
        let mut guard = self.guard();
        self.advanced_ms.fetch_add(ms, Ordering::Relaxed);
        guard.sample(wall_clock().after(self.advanced_ms()), self.boot_ms());
    }

    /// Records that the authority clock reads `authority`. Returns the time to believe.
    pub(crate) fn sample(&self, authority: Timestamp) -> Timestamp {
        // The boot clock is read under the lock, so that samples are in order.
        let mut guard = self.guard();
        guard.sample(authority.after(self.advanced_ms()), self.boot_ms())
    }

    /// Raises the believed time to that of the last batch of a loaded shard.
    pub(crate) fn floor(&self, stored: Timestamp) {
        let mut guard = self.guard();
        guard.floor(stored, self.boot_ms());
    }

    /// The believed time. Before the first sample, the time of the machine.
    pub(crate) fn now(&self) -> Timestamp {
        let guard = self.guard();
        guard.expected(self.boot_ms()).unwrap_or_else(wall_clock)
    }

    /// The forward jump that is held back.
    pub(crate) fn held(&self) -> Option<HeldJump> {
        self.guard().held()
    }

    /// How far the authority clock is behind the believed time.
    pub(crate) fn behind_ms(&self) -> u64 {
        self.guard().behind_ms(self.boot_ms())
    }

    /// Accepts the held jump, here and on all other nodes, and records who accepted it. Returns
    /// `None` if no jump is held.
    pub(crate) async fn confirm(&self, act: &Act) -> Result<Option<HeldJump>, EngineError> {
        let (held, record) = {
            let guard = self.guard();
            (guard.held(), guard.to_confirm())
        };
        let (Some(held), Some(record)) = (held, record) else { return Ok(None) };
        // Stored first: other nodes and the next process read the confirmation from storage.
        let done = StorageAct::ConfirmClock { ahead_ms: held.ahead_ms };
        let act = done.record(self.now(), act);
        self.engine.put_meta(record.name(), record.text(), Some(act)).await?;
        if let ClockRecord::Confirmed(at) = record {
            let mut guard = self.guard();
            guard.confirmed(at, self.boot_ms());
        }
        Ok(Some(held))
    }
}

/// Samples the clock, reports its jumps, and stores its records.
pub(crate) struct ClockWatch {
    pub(crate) clock: NodeClock,
    pub(crate) stored: StoredClock,
    /// Whether other nodes may confirm a jump. If so, the authority clock is sampled with every
    /// renewal.
    pub(crate) is_shared: bool,
    pub(crate) reported: Option<HeldJump>,
    pub(crate) outages: Arc<OutageLog>,
}

impl ClockWatch {
    pub(crate) async fn run(mut self) {
        loop {
            self.look().await;
            // Until a time is stored, a starting node has nothing to compare with. Without a boot
            // id, no time is ever stored.
            let is_stored = self.stored.boot.is_some() || boot_id().is_empty();
            tokio::time::sleep(if is_stored { LOOK_EVERY } else { FIRST_LOOK_EVERY }).await;
        }
    }

    async fn look(&mut self) {
        if !self.is_shared {
            self.clock.sample(wall_clock());
        }
        if self.is_shared && self.clock.held().is_some() {
            self.learn().await;
        }
        self.report();
        while let Some(record) = self.to_store() {
            if let Err(error) = self.clock.engine.put_meta(record.name(), record.text(), None).await
            {
                let message = format_args!("cannot store {}: {}", record.name(), cause(&error));
                self.outages.failed(Caller::Clock, StorageCall::ClockRecord, message);
                return;
            }
            self.outages.succeeded(Caller::Clock);
            self.stored.put(record);
        }
    }

    fn to_store(&self) -> Option<ClockRecord> {
        let guard = self.clock.guard();
        guard.to_store(&self.stored, self.clock.boot_ms())
    }

    /// Reads whether another node has confirmed the jump.
    async fn learn(&mut self) {
        let name = ClockRecord::Confirmed(Timestamp(0)).name();
        if let Ok(Some(text)) = self.clock.engine.meta(name).await {
            self.stored.read(name, &text);
        }
        if let Some(confirmed) = self.stored.confirmed {
            let mut guard = self.clock.guard();
            guard.confirmed(confirmed, self.clock.boot_ms());
        }
    }

    /// Logs one line when a jump is first seen and one when it ends.
    fn report(&mut self) {
        let held = self.clock.held();
        match (self.reported, held) {
            (None, Some(HeldJump { ahead_ms, .. })) => tracing::error!(
                ahead_s = ahead_ms / 1_000,
                "clock jumped forward and the jump is held back; correct the clock, or run `driftq clock confirm`"
            ),
            (Some(_), None) => tracing::info!("clock jump ended; following the clock again"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        self.reported = held;
    }
}
