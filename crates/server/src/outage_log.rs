//! Errors of the storage in the log.
//!
//! While a storage fails, every shard and every renewal of the lease fails again and again. The log
//! has this much of an outage:
//!
//! 1. The first error of each kind, when it happens. Further ones are counted, and logged at level
//!    `debug`.
//! 2. One line per minute while the outage lasts.
//! 3. One line at its end, with its duration and the number of errors that were not logged.
//!
//! An outage is over when everything that failed has succeeded since, or is not needed here any
//! more, and has not failed again for a while.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use driftq_storage::EngineError;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A storage that fails every commit can still be claimed and loaded, so a shard is served for a
/// moment before it fails again. Longer than such a moment.
const QUIET: Duration = Duration::from_secs(2);
/// Interval between two looks at an outage.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Interval between two reminders.
const REMIND_EVERY: Duration = Duration::from_secs(60);

/// A call of the storage that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StorageCall {
    /// The claim or the load of a shard.
    Load,
    Read,
    Commit,
    GiveUp,
    /// The renewal of the node's lease.
    Renew,
    /// A write of a clock record.
    ClockRecord,
}

/// What the storage was called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Caller {
    Shard(u32),
    Lease,
    Clock,
}

/// The cause of an error, for a line that says itself what is unknown.
pub(crate) fn cause(error: &EngineError) -> String {
    match error {
        EngineError::Unknown(cause) => cause.clone(),
        EngineError::Fenced => error.to_string(),
    }
}

/// The outage of a storage, if there is one.
pub(crate) struct OutageLog {
    /// The text of the end, such as `database reachable`.
    works: &'static str,
    /// Whether there is an outage. Checked after every commit, so that the lock is not needed.
    is_open: AtomicBool,
    outage: Mutex<Option<Outage>>,
    opened: Notify,
}

struct Outage {
    began: Instant,
    /// What failed and has not succeeded since.
    failing: BTreeSet<Caller>,
    /// When the last of them succeeded.
    recovered_at: Option<Instant>,
    logged: BTreeSet<StorageCall>,
    suppressed: u64,
    last: String,
    reminded_at: Instant,
}

/// The next line about an outage.
#[derive(Debug, PartialEq)]
enum Report {
    Nothing,
    Reminder { after: Duration, suppressed: u64, last: String },
    End { after: Duration, suppressed: u64 },
}

impl OutageLog {
    /// The log of a storage engine, by its name.
    pub(crate) fn new(engine: &str) -> OutageLog {
        let works = if engine == "postgres" { "database reachable" } else { "storage works" };
        let (is_open, outage) = (AtomicBool::new(false), Mutex::default());
        OutageLog { works, is_open, outage, opened: Notify::new() }
    }

    fn outage(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Logs an error, unless one of its kind has been logged in this outage.
    pub(crate) fn failed(&self, caller: Caller, call: StorageCall, message: fmt::Arguments<'_>) {
        let is_first = {
            let mut outage = self.outage();
            if outage.is_none() {
                self.is_open.store(true, Ordering::Relaxed);
                self.opened.notify_one();
            }
            outage.get_or_insert_with(Outage::new).failed(caller, call, message)
        };
        if is_first {
            tracing::warn!("{message}");
        } else {
            tracing::debug!("{message}");
        }
    }

    /// Records that the storage has answered `caller`, or that `caller` needs it no more.
    pub(crate) fn succeeded(&self, caller: Caller) {
        if self.is_open.load(Ordering::Relaxed)
            && let Some(outage) = &mut *self.outage()
        {
            outage.succeeded(caller);
        }
    }

    /// Logs reminders and ends.
    pub(crate) async fn run(&self) {
        loop {
            self.opened.notified().await;
            while self.is_open.load(Ordering::Relaxed) {
                tokio::time::sleep(LOOK_EVERY).await;
                self.report();
            }
        }
    }

    fn report(&self) {
        let report = {
            let mut outage = self.outage();
            let report = outage.as_mut().map_or(Report::Nothing, Outage::report);
            if matches!(report, Report::End { .. }) {
                *outage = None;
                self.is_open.store(false, Ordering::Relaxed);
            }
            report
        };
        match report {
            Report::Nothing => {}
            Report::Reminder { after, suppressed, last } => {
                let after = after.as_secs();
                tracing::warn!(
                    "storage still failing after {after} s ({suppressed} errors suppressed); the last one: {last}"
                );
            }
            Report::End { after, suppressed } => {
                let (works, after) = (self.works, after.as_secs_f64());
                tracing::info!("{works} again after {after:.1} s ({suppressed} errors suppressed)");
            }
        }
    }
}

impl Outage {
    fn new() -> Outage {
        let now = Instant::now();
        Outage {
            began: now,
            failing: BTreeSet::new(),
            recovered_at: None,
            logged: BTreeSet::new(),
            suppressed: 0,
            last: String::new(),
            reminded_at: now,
        }
    }

    /// Returns whether the error is the first of its kind.
    fn failed(&mut self, caller: Caller, call: StorageCall, message: fmt::Arguments<'_>) -> bool {
        self.failing.insert(caller);
        self.recovered_at = None;
        self.last = message.to_string();
        let is_first = self.logged.insert(call);
        self.suppressed += u64::from(!is_first);
        is_first
    }

    fn succeeded(&mut self, caller: Caller) {
        self.failing.remove(&caller);
        if self.failing.is_empty() {
            self.recovered_at.get_or_insert_with(Instant::now);
        }
    }

    fn report(&mut self) -> Report {
        let suppressed = self.suppressed;
        if let Some(at) = self.recovered_at.filter(|at| at.elapsed() >= QUIET) {
            return Report::End { after: at - self.began, suppressed };
        }
        if self.reminded_at.elapsed() < REMIND_EVERY {
            return Report::Nothing;
        }
        self.reminded_at = Instant::now();
        Report::Reminder { after: self.began.elapsed(), suppressed, last: self.last.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_error_of_each_kind_is_logged_and_the_others_are_counted() {
        let mut outage = Outage::new();
        let mut fail = |caller, call| outage.failed(caller, call, format_args!("no answer"));
        assert!(fail(Caller::Shard(0), StorageCall::Commit));
        assert!(!fail(Caller::Shard(1), StorageCall::Commit));
        assert!(fail(Caller::Shard(0), StorageCall::Load));
        assert!(fail(Caller::Lease, StorageCall::Renew));
        assert!(!fail(Caller::Lease, StorageCall::Renew));
        pass(60).await;
        let (after, last) = (Duration::from_secs(60), "no answer".to_owned());
        assert_eq!(outage.report(), Report::Reminder { after, suppressed: 2, last });
        assert_eq!(outage.report(), Report::Nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_ends_when_all_that_failed_has_succeeded_and_stays_so() {
        let mut outage = Outage::new();
        let fail = |outage: &mut Outage, caller| {
            outage.failed(caller, StorageCall::Commit, format_args!("no answer"))
        };
        fail(&mut outage, Caller::Shard(0));
        fail(&mut outage, Caller::Shard(1));
        pass(20).await;
        outage.succeeded(Caller::Shard(0));
        pass(3).await;
        assert_eq!(outage.report(), Report::Nothing, "shard 1 still fails");
        outage.succeeded(Caller::Shard(1));
        pass(1).await;
        fail(&mut outage, Caller::Shard(1));
        pass(3).await;
        assert_eq!(outage.report(), Report::Nothing, "shard 1 fails again");
        outage.succeeded(Caller::Shard(1));
        pass(1).await;
        assert_eq!(outage.report(), Report::Nothing, "shard 1 may fail again");
        pass(1).await;
        let after = Duration::from_secs(27);
        assert_eq!(outage.report(), Report::End { after, suppressed: 2 });
    }
}
