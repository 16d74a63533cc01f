//! Changes of ownership in the log: which shards this node acquired and released.
//!
//! A few changes have a line each. Many at once, as in a start, a stop or the take-over of the shards
//! of a dead node, have one line together, and a line each at level `debug`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use driftq_core::{Epoch, ShardId};
use tokio::sync::Notify;
use tokio::time::Instant;

/// More changes than this are logged as one line.
const EACH_MAX: usize = 4;
/// Changes are logged together until none has happened for this long.
const GATHER: Duration = Duration::from_millis(300);
/// Changes wait at most this long for their line.
const GATHER_MAX: Duration = Duration::from_secs(5);

/// A shard that this node serves from now on.
struct Acquired {
    shard: u32,
    epoch: Epoch,
    previous_owner: Option<String>,
    loaded_in: Duration,
}

/// A shard that this node does not serve any more.
struct Released {
    shard: u32,
    epoch: Epoch,
    reason: &'static str,
}

#[derive(Default)]
struct Changes {
    acquired: Vec<Acquired>,
    released: Vec<Released>,
    /// The nodes from which shards are being claimed, by shard.
    previous_owners: BTreeMap<u32, String>,
}

/// The changes that are not logged yet.
#[derive(Default)]
pub(crate) struct OwnershipLog {
    changes: Mutex<Changes>,
    changed: Notify,
}

impl OwnershipLog {
    fn change<T>(&self, change: impl FnOnce(&mut Changes) -> T) -> T {
        change(&mut self.changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Records that a shard is about to be claimed, and from which node.
    pub(crate) fn claiming(&self, shard: ShardId, previous_owner: Option<String>) {
        self.change(|changes| match previous_owner {
            Some(owner) => _ = changes.previous_owners.insert(shard.0, owner),
            None => _ = changes.previous_owners.remove(&shard.0),
        });
    }

    /// Records that a shard was claimed and loaded.
    pub(crate) fn acquired(&self, shard: ShardId, epoch: Epoch, loaded_in: Duration) {
        self.change(|changes| {
            let previous_owner = changes.previous_owners.remove(&shard.0);
            changes.acquired.push(Acquired { shard: shard.0, epoch, previous_owner, loaded_in });
        });
        self.changed.notify_one();
    }

    /// Records that a shard is served no more.
    pub(crate) fn released(&self, shard: ShardId, epoch: Epoch, reason: &'static str) {
        let released = Released { shard: shard.0, epoch, reason };
        self.change(|changes| changes.released.push(released));
        self.changed.notify_one();
    }

    /// Logs changes when no other has followed for a while.
    pub(crate) async fn run(&self) {
        loop {
            self.changed.notified().await;
            let began = Instant::now();
            while began.elapsed() < GATHER_MAX
                && tokio::time::timeout(GATHER, self.changed.notified()).await.is_ok()
            {}
            self.flush();
        }
    }

    /// Logs all changes.
    pub(crate) fn flush(&self) {
        let (released, acquired) = self.change(|changes| {
            (std::mem::take(&mut changes.released), std::mem::take(&mut changes.acquired))
        });
        log_released(&released);
        log_acquired(&acquired);
    }
}

/// Logs at `info` or, if the line is part of a longer list, at `debug`.
macro_rules! line {
    ($is_one_of_many:expr, $($line:tt)+) => {
        if $is_one_of_many {
            tracing::debug!($($line)+);
        } else {
            tracing::info!($($line)+);
        }
    };
}

fn log_acquired(all: &[Acquired]) {
    let is_many = all.len() > EACH_MAX;
    for Acquired { shard, epoch, previous_owner, loaded_in } in all {
        let (epoch, loaded_in) = (epoch.0, format_args!("{}ms", loaded_in.as_millis()));
        let previous_owner = previous_owner.as_deref().map(tracing::field::display);
        line!(is_many, epoch, previous_owner, %loaded_in, "shard {shard} acquired");
    }
    if is_many {
        let owners: BTreeSet<&str> =
            all.iter().filter_map(|acquired| acquired.previous_owner.as_deref()).collect();
        let owners = owners.into_iter().collect::<Vec<_>>().join(",");
        let previous_owners = Some(owners).filter(|owners| !owners.is_empty());
        let previous_owners = previous_owners.as_deref().map(tracing::field::display);
        let loaded_in = all.iter().map(|acquired| acquired.loaded_in).max().unwrap_or_default();
        let slowest = format_args!("{}ms", loaded_in.as_millis());
        let shards = Ranges(all.iter().map(|acquired| acquired.shard).collect());
        tracing::info!(%shards, previous_owners, %slowest, "{} shards acquired", all.len());
    }
}

fn log_released(all: &[Released]) {
    let is_many = all.len() > EACH_MAX;
    for Released { shard, epoch, reason } in all {
        let epoch = epoch.0;
        line!(is_many, epoch, "shard {shard} released: {reason}");
    }
    if is_many {
        let reasons: BTreeSet<&str> = all.iter().map(|released| released.reason).collect();
        let reasons = reasons.into_iter().collect::<Vec<_>>().join("; ");
        let shards = Ranges(all.iter().map(|released| released.shard).collect());
        tracing::info!(%shards, "{} shards released: {reasons}", all.len());
    }
}

/// Numbers, with neighbors as ranges: `0-3,7`.
struct Ranges(BTreeSet<u32>);

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while let Some(next) = numbers.next_if(|next| *next == last + 1) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_are_one_range() {
        let ranges = |numbers: &[u32]| Ranges(numbers.iter().copied().collect()).to_string();
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[3]), "3");
        assert_eq!(ranges(&[5, 4, 0, 1, 2, 7]), "0-2,4-5,7");
    }
}
