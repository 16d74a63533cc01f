//! How often a message is retried, and after which waits.

use serde::{Deserialize, Serialize};

use crate::limits::{ATTEMPTS_MAX, YEAR_MS};

/// How often, and after which waits, a message is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Maximum number of deliveries; −1 means no limit.
    pub max_attempts: i32,
    /// The wait after the first failure.
    pub backoff_ms: u64,
    /// The longest wait.
    pub max_backoff_ms: u64,
}

impl RetryPolicy {
    /// Whether `spent` deliveries have reached `max_attempts`.
    pub fn is_exhausted_by(&self, spent: u32) -> bool {
        self.max_attempts >= 0 && i64::from(spent) >= i64::from(self.max_attempts)
    }

    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let attempts_fit =
            self.max_attempts == -1 || (1..=ATTEMPTS_MAX).contains(&self.max_attempts);
        if !attempts_fit {
            return Err("max_attempts must be between 1 and 1000, or -1");
        }
        if self.backoff_ms > self.max_backoff_ms {
            return Err("backoff_ms must not exceed max_backoff_ms");
        }
        if self.max_backoff_ms > YEAR_MS {
            return Err("max_backoff_ms must not exceed a year");
        }
        Ok(())
    }
}

/// A retry policy as a request sent it. Missing fields default to the topic's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryRequest {
    /// Maximum number of deliveries; −1 means no limit, 0 that the field is missing.
    pub max_attempts: i32,
    /// The wait after the first failure.
    pub backoff_ms: Option<u64>,
    /// The longest wait.
    pub max_backoff_ms: Option<u64>,
}

impl RetryRequest {
    /// Checks the fields that do not depend on the topic.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        self.over(&RetryPolicy { max_attempts: 1, backoff_ms: 0, max_backoff_ms: 0 }).check()
    }

    /// Returns the given fields, by name.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, i64)> {
        let number = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let fields = [
            (
                "retry_policy.max_attempts",
                (self.max_attempts != 0).then(|| self.max_attempts.into()),
            ),
            ("retry_policy.backoff_ms", self.backoff_ms.map(number)),
            ("retry_policy.max_backoff_ms", self.max_backoff_ms.map(number)),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// Returns this policy, with the topic's values for missing fields.
    pub fn over(&self, topic: &RetryPolicy) -> RetryPolicy {
        let backoff_ms = self.backoff_ms.unwrap_or(topic.backoff_ms);
        let max_attempts =
            if self.max_attempts == 0 { topic.max_attempts } else { self.max_attempts };
        RetryPolicy {
            max_attempts,
            backoff_ms,
            max_backoff_ms: self.max_backoff_ms.unwrap_or(topic.max_backoff_ms.max(backoff_ms)),
        }
    }
}
