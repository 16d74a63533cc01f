//! Why a copy of a shard was dropped, and what its task reports then.

use std::time::Duration;

use driftq_core::{Damaged, Epoch};
use driftq_storage::EngineError;
use tokio::time::Instant;

use super::shard_task::ShardTask;
use super::status::Status;
use crate::outage_log::{Caller, StorageCall, cause};

/// Interval between two log lines about the same failure of a shard.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// Why a copy of the shard was dropped.
pub(super) enum EndReason {
    Ended,
    Dropped,
    Engine(StorageCall, EngineError),
    Damaged(Damaged),
    Panicked,
}

impl EndReason {
    /// Says in a series why it has a gap.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            EndReason::Ended => "shard given up",
            EndReason::Dropped => "shard dropped",
            EndReason::Engine(_, EngineError::Fenced) => "shard claimed by another node",
            EndReason::Engine(_, EngineError::Unknown(_)) => "storage failed",
            EndReason::Damaged(_) => "stored rows are damaged",
            EndReason::Panicked => "internal error",
        }
    }
}

impl ShardTask {
    /// Logs why a shard is not served any more, if another node may serve it.
    pub(super) fn report_released(&self, epoch: Epoch, over: &EndReason) {
        let Some(membership) = &self.membership else { return };
        let reason = match over {
            EndReason::Ended => "given up",
            EndReason::Dropped if membership.is_renewed() => "another node has claimed it",
            EndReason::Dropped => "this node did not renew its lease",
            EndReason::Engine(_, EngineError::Fenced) => "another node has claimed it",
            EndReason::Engine(_, EngineError::Unknown(_))
            | EndReason::Damaged(_)
            | EndReason::Panicked => return,
        };
        self.telemetry.ownership.released(self.config.shard, epoch, reason);
    }

    /// Updates the status of the shard and logs why it is not served any more. The callers of
    /// `unanswered` calls do not learn the outcome.
    pub(super) fn report_end(&mut self, over: &EndReason, unanswered: usize) {
        let shard = self.config.shard;
        let outages = &self.telemetry.outages;
        let elsewhere = || {
            outages.succeeded(Caller::Shard(shard.0));
            self.status.send_replace(Status::Elsewhere);
        };
        let why = match over {
            EndReason::Ended | EndReason::Dropped => return elsewhere(),
            // Another node has claimed the shard and serves it.
            EndReason::Engine(_, EngineError::Fenced) if self.membership.is_some() => {
                return elsewhere();
            }
            EndReason::Engine(call, error) => {
                let what = match call {
                    StorageCall::Commit => "commit failed, reloading",
                    StorageCall::Read => "read failed, reloading",
                    StorageCall::Load
                    | StorageCall::GiveUp
                    | StorageCall::Renew
                    | StorageCall::ClockRecord => "cannot load",
                };
                let lost = format!(" (outcome unknown for {unanswered} requests)");
                let lost = if unanswered == 0 { "" } else { &lost };
                let cause = cause(error);
                let message = format_args!("{what} shard {shard}: {cause}{lost}");
                outages.failed(Caller::Shard(shard.0), *call, message);
                error.to_string()
            }
            EndReason::Damaged(damaged) => {
                let why = damaged.to_string();
                self.log_failure(&why);
                why
            }
            EndReason::Panicked => {
                let why = "internal error; see the panic logged before this line".to_owned();
                self.log_failure(&why);
                why
            }
        };
        self.telemetry.metrics.lost();
        self.status.send_replace(match &self.membership {
            Some(_) => Status::Lost(format!("shard {} is not served: {why}", self.config.shard)),
            None => Status::Failed(why),
        });
    }

    /// Logs a failure that an outage of the storage does not explain, once a minute while it
    /// repeats.
    fn log_failure(&mut self, why: &str) {
        let last = self.last_failure.as_ref();
        if last.is_some_and(|(last, at)| last == why && at.elapsed() < REPEAT_AFTER) {
            tracing::debug!("shard {} lost again: {why}", self.config.shard);
            return;
        }
        tracing::error!("shard {} lost, claiming it again: {why}", self.config.shard);
        self.last_failure = Some((why.to_owned(), Instant::now()));
    }
}
