//! RejectionLog, counted and told once a minute: one line each would let a broken client fill the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use driftq_api::ErrorCode;

/// Between two lines of the log.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// RejectionLog since they were last told, by what they say.
#[derive(Default)]
pub struct RejectionLog([AtomicU64; ErrorCode::ALL.len()]);

impl RejectionLog {
    pub(crate) fn count(&self, code: ErrorCode) {
        let known = ErrorCode::ALL.iter().zip(&self.0).find(|(known, _)| **known == code);
        if let Some((_, count)) = known {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells them, and begins anew.
    fn told(&self) -> String {
        let counts = ErrorCode::ALL.iter().zip(&self.0);
        let counts = counts.map(|(code, count)| (code, count.swap(0, Ordering::Relaxed)));
        let words = counts.filter(|(_, count)| *count > 0).map(|(code, count)| {
            let word = serde_json::to_value(code).expect("a word");
            format!("{} {count}", word.as_str().unwrap_or_default())
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Tells them once a minute, if there were any.
    pub async fn tell(self: Arc<Self>) {
        loop {
            tokio::time::sleep(TELL_EVERY).await;
            let refused = self.told();
            if !refused.is_empty() {
                tracing::info!(refused, "refused in the last minute");
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
        assert_eq!(refusals.told(), "INVALID_ARGUMENT 1, STALE_LEASE 2");
        assert_eq!(refusals.told(), "");
    }
}
