//! The buckets that records are dropped with.
//!
//! Whether a record is over is decided by its `expires` alone. Buckets only say which rows can be
//! deleted together: level `l` takes records that live up to 8·8^l minutes, in steps of 8^l minutes, so
//! that a row stays at most its own life longer than it must, usually an eighth, and few buckets live.

use crate::time::Timestamp;

const MINUTE_MS: u64 = 60_000;
/// Level 7 takes what lives up to 31 years.
pub(crate) const LEVELS: u64 = 8;

pub(crate) fn width_ms(level: u64) -> u64 {
    MINUTE_MS * 8_u64.pow(level as u32)
}

fn level(ttl_ms: u64) -> u64 {
    (0..LEVELS - 1).find(|level| ttl_ms <= 8 * width_ms(*level)).unwrap_or(LEVELS - 1)
}

pub(crate) fn number(level: u64, index: u64) -> u64 {
    (level << 32) | index
}

/// The bucket of a record that lives `ttl_ms` and ends at `expires`.
pub(crate) fn bucket(expires: Timestamp, ttl_ms: u64) -> u64 {
    let level = level(ttl_ms);
    number(level, expires.0.div_ceil(width_ms(level)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_dropped_only_after_everything_in_it_is_over() {
        for ttl_ms in [1, MINUTE_MS, 8 * MINUTE_MS, 8 * MINUTE_MS + 1, 604_800_000, 31_536_000_000]
        {
            let expires = Timestamp(1_800_000_000_000 + ttl_ms);
            let bucket = bucket(expires, ttl_ms);
            let dropped_at = (bucket & u64::from(u32::MAX)) * width_ms(bucket >> 32);
            assert!(dropped_at >= expires.0, "ttl {ttl_ms}");
            assert!(dropped_at - expires.0 <= ttl_ms.max(MINUTE_MS), "ttl {ttl_ms}");
        }
    }
}
