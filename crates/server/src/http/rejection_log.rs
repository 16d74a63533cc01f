//! Counts rejections and logs them once a minute. One line per rejection would let a broken client
//! fill the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use driftq_api::ErrorCode;

/// Interval between two log lines.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The number of rejections by error code, since they were last logged.
#[derive(Default)]
pub struct RejectionLog([AtomicU64; ErrorCode::ALL.len()]);

impl RejectionLog {
    pub(crate) fn count(&self, code: ErrorCode) {
        let known = ErrorCode::ALL.iter().zip(&self.0).find(|(known, _)| **known == code);
        if let Some((_, count)) = known {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the counts as text, and resets them.
    fn take_summary(&self) -> String {
        let counts = ErrorCode::ALL.iter().zip(&self.0);
        let counts = counts.map(|(code, count)| (code, count.swap(0, Ordering::Relaxed)));
        let words = counts.filter(|(_, count)| *count > 0).map(|(code, count)| {
            let word = serde_json::to_value(code).expect("codes serialize");
            format!("{} {count}", word.as_str().unwrap_or_default())
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Logs the counts once a minute, if there are any.
    pub async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(TELL_EVERY).await;
            let refused = self.take_summary();
            if !refused.is_empty() {
                tracing::info!(refused, "requests rejected in the last minute");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_once() {
        let refusals = RejectionLog::default();
        refusals.count(ErrorCode::StaleLease);
        refusals.count(ErrorCode::InvalidArgument);
        refusals.count(ErrorCode::StaleLease);
        assert_eq!(refusals.take_summary(), "INVALID_ARGUMENT 1, STALE_LEASE 2");
        assert_eq!(refusals.take_summary(), "");
    }
}
