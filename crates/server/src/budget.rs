//! The memory budget that requests, messages and consumers share.
//!
//! 1. Each pool has a fixed share of the budget, so that one kind of request cannot use up the
//!    memory of another.
//! 2. A request draws from its pool before it uses memory. If the pool is exhausted, the request
//!    waits for a bounded time and is then rejected.
//! 3. Settles, extends and finishes have a pool of their own, which no other request uses.
//! 4. Deliveries have no pool, since a delivery that cannot get memory costs its message an attempt
//!    or a commit. Instead, a consumer that joins gets a credit that shrinks with the number of
//!    consumers.
//!
//! Topics, groups and open messages have limits of their own and are not part of the budget. The
//! engine is not part of it either.

mod machine;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driftq_core::limits::{CREDIT_MAX, READ_AHEAD_BYTES_MAX, READ_AHEAD_BYTES_MIN};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

pub use machine::default_bytes;

/// The minimum budget that a server works with.
pub const BUDGET_BYTES_MIN: u64 = 256 << 20;

/// Bodies and answers up to this size are small. They have their own pool, so that a few large ones
/// do not delay them.
pub(crate) const SMALL_BYTES: usize = 16 * 1024;
/// Approximate memory per delivery, in addition to its message.
const DELIVERY_BYTES: u64 = 1_024;
/// Approximate memory per consumer without deliveries: its task, its connection, its entry in the
/// shard.
const CONSUMER_BYTES: u64 = 32 * 1_024;
/// The consumers' share is divided by sixteen times the number of consumers. The credits of up to
/// 1600 consumers then add up to less than half of the share, in whatever order consumers join and
/// leave. The other half is for answers, since a message and the answer that contains it are in
/// memory at the same time.
const CONSUMER_PARTS: u64 = 16;
/// Semaphores count in units of this size.
const UNIT_BYTES: usize = 1_024;

/// The memory budget of a server.
pub struct Budget {
    bytes: u64,
    /// Request bodies over [`SMALL_BYTES`], each with its parsed form.
    pub(crate) large_bodies: Pool,
    /// Request bodies up to [`SMALL_BYTES`].
    pub(crate) small_bodies: Pool,
    /// Bodies of settles, extends and finishes up to [`SMALL_BYTES`].
    pub(crate) settles: Pool,
    /// Bodies of settles, extends and finishes over [`SMALL_BYTES`].
    pub(crate) large_settles: Pool,
    /// Lists, from when they are loaded until the client has received them.
    pub(crate) lists: Pool,
    /// Commands from when they are sent to a shard until they are answered.
    pub(crate) calls: Arc<Pool>,
    /// Messages larger than their consumer's credit, until the client has received them.
    large_deliveries: Pool,
    consumers: AtomicUsize,
}

impl Budget {
    /// Divides `bytes` into pools.
    pub fn new(bytes: u64) -> Arc<Budget> {
        const BODIES_MAX: u64 = 128 << 20;
        const SETTLES_MAX: u64 = 64 << 20;
        Arc::new(Budget {
            bytes,
            large_bodies: Pool::new((bytes / 8).min(BODIES_MAX)),
            small_bodies: Pool::new((bytes / 16).min(BODIES_MAX)),
            settles: Pool::new((bytes / 16).min(SETTLES_MAX)),
            large_settles: Pool::new((bytes / 16).min(SETTLES_MAX)),
            lists: Pool::new((bytes / 8).min(BODIES_MAX)),
            calls: Arc::new(Pool::new((bytes / 16).min(BODIES_MAX))),
            large_deliveries: Pool::new(bytes / 16),
            consumers: AtomicUsize::new(0),
        })
    }

    /// Returns how many bytes of messages each of `shards` shards may read ahead. One node may
    /// serve all shards.
    pub(crate) fn read_ahead_bytes(&self, shards: u32) -> usize {
        let share = self.bytes / 8 / u64::from(shards.max(1));
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        share.clamp(READ_AHEAD_BYTES_MIN, READ_AHEAD_BYTES_MAX)
    }

    fn consumers_bytes(&self) -> u64 {
        self.bytes / 8
    }

    /// Counts a consumer. Returns `None` if there are too many.
    pub(crate) fn consumer(self: &Arc<Self>) -> Option<Arc<ConsumerShare>> {
        let most = self.consumers_bytes() / CONSUMER_BYTES;
        let count = self.consumers.fetch_add(1, Ordering::Relaxed) as u64 + 1;
        let bytes = self.consumers_bytes() / (CONSUMER_PARTS * count);
        let share = ConsumerShare { budget: self.clone(), bytes, large: Mutex::default() };
        // If the share is dropped here, the count goes down again.
        (count <= most).then(|| Arc::new(share))
    }
}

/// A consumer's share of the budget. The consumer is counted until both holders are dropped: its
/// session, and the body of the answer, which may still be queued in the HTTP layer after the
/// session has ended.
pub(crate) struct ConsumerShare {
    budget: Arc<Budget>,
    bytes: u64,
    large: Mutex<Option<Charge>>,
}

impl ConsumerShare {
    /// The most bytes of unsettled deliveries that the consumer may hold.
    pub(crate) fn credit_bytes(&self, wanted: u64) -> u64 {
        wanted.min(self.bytes)
    }

    /// The most unsettled deliveries that the consumer may hold, at least one.
    pub(crate) fn credit(&self, wanted: u32) -> u32 {
        let most = u32::try_from(self.bytes / DELIVERY_BYTES).unwrap_or(u32::MAX);
        // A credit beyond the valid range is passed on unchanged, so that the core rejects it.
        if wanted > CREDIT_MAX { wanted } else { wanted.min(most.max(1)) }
    }

    /// Draws memory for a message that is larger than the whole share. Such a message is always
    /// delivered alone. Returns false if the pool is exhausted.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        if bytes as u64 <= self.bytes {
            return true;
        }
        let charge = self.budget.large_deliveries.try_take(bytes);
        let fits = charge.is_some();
        if fits {
            *self.large.lock().unwrap_or_else(PoisonError::into_inner) = charge;
        }
        fits
    }

    /// Releases the charge of a large message after the client has received it.
    pub(crate) fn release_large(&self) {
        self.large.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for ConsumerShare {
    fn drop(&mut self) {
        self.budget.consumers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A share of the budget.
pub(crate) struct Pool {
    units: Arc<Semaphore>,
    size: u32,
    waiting: AtomicUsize,
}

/// Memory drawn from a pool. Dropping it returns the memory.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    permit: Option<OwnedSemaphorePermit>,
}

impl Charge {
    /// Releases the part of the charge above `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if let Some(permit) = &mut self.permit {
            let beyond = permit.num_permits().saturating_sub(bytes.div_ceil(UNIT_BYTES));
            drop(permit.split(beyond));
        }
    }
}

impl Pool {
    fn new(bytes: u64) -> Pool {
        let units = usize::try_from(bytes).unwrap_or(usize::MAX) / UNIT_BYTES;
        let size = u32::try_from(units.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let units = Arc::new(Semaphore::new(size as usize));
        Pool { units, size, waiting: AtomicUsize::new(0) }
    }

    /// A request larger than the pool takes the whole pool.
    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.size)
    }

    /// Draws immediately, or returns `None`.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Charge> {
        let permit = self.units.clone().try_acquire_many_owned(self.units(bytes));
        permit.ok().map(|permit| Charge { permit: Some(permit) })
    }

    /// Draws in first-come order. Returns `None` if the pool is exhausted for longer than `wait`.
    pub(crate) async fn take(&self, bytes: usize, wait: Duration) -> Option<Charge> {
        if let Some(charge) = self.try_take(bytes) {
            return Some(charge);
        }
        let _waiting = Waiting::new(&self.waiting);
        let permit = timeout(wait, self.units.clone().acquire_many_owned(self.units(bytes))).await;
        permit.ok()?.ok().map(|permit| Charge { permit: Some(permit) })
    }

    /// Whether a caller waits for this pool.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Counts a waiting caller until it is served or disconnects.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn new(waiting: &AtomicUsize) -> Waiting<'_> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn pools_are_smaller_than_the_budget_together() {
        for bytes in [BUDGET_BYTES_MIN, 512 << 20, 64 << 30] {
            let budget = Budget::new(bytes);
            let pools = [
                &budget.large_bodies,
                &budget.small_bodies,
                &budget.settles,
                &budget.large_settles,
                &budget.lists,
                &budget.calls,
                &budget.large_deliveries,
            ];
            let pools: u64 = pools.iter().map(|pool| u64::from(pool.size) * 1_024).sum();
            let all = pools + budget.consumers_bytes() + budget.read_ahead_bytes(1) as u64;
            assert!(all < bytes, "{all} of {bytes}");
        }
    }

    #[test]
    fn shards_share_what_is_read_ahead() {
        let budget = Budget::new(512 << 20);
        assert_eq!(budget.read_ahead_bytes(1), 64 * MIB, "the maximum of one shard");
        assert_eq!(budget.read_ahead_bytes(32), 2 * MIB);
        assert_eq!(budget.read_ahead_bytes(1_024), MIB, "the minimum of one shard");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_waits_for_room_and_not_for_ever() {
        let budget = Budget::new(512 << 20);
        let pool = &budget.large_bodies;
        let all = pool.try_take(usize::MAX).expect("a larger request takes the whole pool");
        assert!(pool.try_take(1).is_none());
        assert!(pool.take(1, Duration::from_secs(1)).await.is_none());
        assert!(!pool.has_waiters(), "the wait has ended");
        let waits = pool.take(1, Duration::from_secs(1));
        let goes = async {
            tokio::task::yield_now().await;
            assert!(pool.has_waiters());
            drop(all);
        };
        assert!(tokio::join!(waits, goes).0.is_some());
    }

    #[test]
    fn a_charge_that_shrinks_gives_back_the_rest() {
        let budget = Budget::new(512 << 20);
        let pool = &budget.lists;
        let mut all = pool.try_take(usize::MAX).expect("the pool is unused");
        all.shrink(MIB);
        assert!(pool.try_take(63 * MIB + 1).is_none());
        let rest = pool.try_take(63 * MIB).expect("the rest was returned");
        all.shrink(2 * MIB);
        drop((all, rest));
        assert!(pool.try_take(64 * MIB).is_some(), "no unit is returned twice or lost");
    }

    #[test]
    fn what_consumers_get_stays_within_their_share() {
        let budget = Budget::new(512 << 20);
        let most = budget.consumers_bytes();
        let mut consumers = Vec::new();
        for number in 0..1_600_u64 {
            consumers.push(budget.consumer().expect("not too many"));
            // Some leave, those with the largest share first. The next consumer gets at most as
            // much.
            if number % 3 == 0 {
                consumers.remove(0);
            }
        }
        let all: u64 = consumers.iter().map(|share| share.credit_bytes(u64::MAX)).sum();
        assert!(all <= most / 2, "{all} of {most}");
        assert_eq!(consumers[1_000].credit(1_000), consumers[1_000].bytes as u32 / 1_024);
        drop(consumers);
        assert_eq!(budget.consumer().expect("all have left").credit_bytes(8 << 20), 4 << 20);
    }

    #[test]
    fn consumers_beyond_the_limit_are_rejected_until_one_leaves() {
        let budget = Budget::new(256 << 20);
        let consumers: Vec<_> = std::iter::from_fn(|| budget.consumer()).collect();
        assert_eq!(consumers.len(), 1_024);
        assert!(budget.consumer().is_none());
        drop(consumers);
        assert!(budget.consumer().is_some());
    }

    #[test]
    fn large_messages_of_all_consumers_have_one_bound() {
        let budget = Budget::new(512 << 20);
        let consumers: Vec<_> = (0..500).filter_map(|_| budget.consumer()).collect();
        let last: Vec<_> = consumers.iter().skip(100).collect();
        let fit = last.iter().filter(|share| share.fits(MIB)).count();
        assert_eq!(fit, 32, "a sixteenth of the budget");
        assert!(last[0].fits(1_000), "small ones always fit");
        last[0].release_large();
        assert!(last[399].fits(MIB));
    }
}
