//! Jittered waits, so that messages or claims that failed together are not retried together.

/// Returns a wait with full jitter, but at least a tenth of the longest wait, so that it is never
/// zero. The same inputs give the same wait.
pub(crate) fn jitter_ms(longest_ms: u64, seed: u64) -> u64 {
    let least = longest_ms / 10;
    least + scatter(seed) % (longest_ms - least + 1)
}

/// Returns a deterministic pseudo-random number (splitmix64).
fn scatter(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
