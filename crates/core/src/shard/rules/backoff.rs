//! Retry backoff: how long a failed message waits before its next delivery.

use crate::id::MessageId;
use crate::jitter::jitter_ms;
use crate::retry::RetryPolicy;

/// Returns the longest wait after `spent` counted deliveries. It doubles with each, up to the
/// policy's maximum.
fn cap_ms(policy: &RetryPolicy, spent: u32) -> u64 {
    let doublings = spent.saturating_sub(1).min(63);
    policy.backoff_ms.saturating_mul(1 << doublings).min(policy.max_backoff_ms)
}

/// Returns the wait, with jitter. The same inputs give the same wait.
pub(crate) fn backoff_ms(policy: &RetryPolicy, id: MessageId, spent: u32) -> u64 {
    let seed = id.offset
        ^ id.topic.0.rotate_left(20)
        ^ u64::from(id.lane.0).rotate_left(40)
        ^ u64::from(spent).rotate_left(52);
    jitter_ms(cap_ms(policy, spent), seed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::{Lane, ShardId, TopicId};

    fn id(offset: u64) -> MessageId {
        MessageId { restore: 0, shard: ShardId(0), topic: TopicId(1), lane: Lane(0), offset }
    }

    proptest! {
        #[test]
        fn a_wait_lies_between_a_tenth_of_its_cap_and_its_cap(
            base in 0..1_000_000_u64, more in 0..1_000_000_000_u64, spent in 1..2_000_u32, offset: u64,
        ) {
            let policy = RetryPolicy { max_attempts: -1, backoff_ms: base, max_backoff_ms: base + more };
            let cap = cap_ms(&policy, spent);
            let wait = backoff_ms(&policy, id(offset), spent);
            prop_assert!(cap / 10 <= wait && wait <= cap);
            prop_assert!(cap <= policy.max_backoff_ms);
            prop_assert_eq!(wait, backoff_ms(&policy, id(offset), spent));
        }
    }

    #[test]
    fn messages_that_failed_together_come_back_apart() {
        let policy = RetryPolicy { max_attempts: 5, backoff_ms: 1_000, max_backoff_ms: 60_000 };
        let waits: std::collections::BTreeSet<u64> =
            (0..100).map(|offset| backoff_ms(&policy, id(offset), 1)).collect();
        assert!(waits.len() > 80, "{} different waits of 100", waits.len());
    }
}
