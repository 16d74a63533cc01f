//! Storage engines for the rows of shards.
//!
//! An [`Engine`] stores rows and does not interpret them. Every engine passes [`conformance`].
//!
//! # Guarantees of every engine
//!
//! 1. A claim ends every earlier ownership. When it returns, each commit under an earlier ownership
//!    either is visible to `load` or will never happen.
//! 2. A commit is atomic. It succeeds only under the current ownership and only as the successor of
//!    the last batch: batch N is rejected unless the last batch is N − 1.
//! 3. A commit that returned success survives the failures that the engine documents.
//! 4. A call has one of three outcomes: done, fenced or unknown. After unknown, the commit may or
//!    may not have happened.

pub mod conformance;
mod identity;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod layout;
mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
mod recover;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};

use driftq_core::row::{Read, Row, Write};
use driftq_core::{BatchNo, Epoch, ShardId, Timestamp};

pub use identity::Identity;
pub use memory::Memory;
pub use recover::{RecoverError, read_back, recover};

/// The future result of an engine call.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// The stored record of an administrative act that no shard committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAct {
    /// Later acts have greater numbers. Numbers of attempts that failed are missing.
    pub number: u64,
    /// Its text.
    pub record: String,
}

/// The right to commit to a shard, until the next claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// The owned shard.
    pub shard: ShardId,
    /// The number of the ownership. Every claim increases it.
    pub epoch: Epoch,
}

/// Why an engine call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The ownership has ended, or the batch is not the successor of the last. Nothing was stored.
    #[error("the shard was claimed by another owner")]
    Fenced,
    /// The outcome is unknown. The caller must drop its copy of the shard, claim it and load it
    /// again.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

/// Durable storage for shards.
pub trait Engine: Send + Sync {
    /// Claims the shard from its current owner, if any. Also returns the time of the authority
    /// clock.
    fn claim(&self, shard: ShardId) -> Answer<'_, (Ownership, Timestamp)>;

    /// Passes the rows that a shard keeps in memory to `each`, in any order: topics, groups, lanes,
    /// cursors, marks, owners, garbage, and the heads from `clean` of the newest head on.
    fn load<'a>(
        &'a self,
        ownership: Ownership,
        each: &'a mut (dyn FnMut(Row) + Send),
    ) -> Answer<'a, ()>;

    /// Returns the rows of each read, in the order of `reads`. Each result is a snapshot taken
    /// between the call and its return.
    fn read(&self, ownership: Ownership, reads: Vec<Read>) -> Answer<'_, Vec<Vec<Row>>>;

    /// Makes `writes` durable as batch `batch`. Puts are applied before ranges. Returns the time of
    /// the authority clock.
    fn commit(
        &self,
        ownership: Ownership,
        batch: BatchNo,
        writes: Vec<Write>,
    ) -> Answer<'_, Timestamp>;

    /// Returns the number of bytes that can still be written, or `None` if no limit is known.
    fn room(&self) -> Answer<'_, Option<u64>> {
        Box::pin(async { Ok(None) })
    }

    /// Returns the text stored by the last [`put_meta`](Engine::put_meta) under this name. Engines
    /// that do not outlive the process return `None`.
    fn meta(&self, _name: &'static str) -> Answer<'_, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    /// Stores a text that belongs to no shard. Any node may store it; the last write wins. If that
    /// is an administrative act, stores its record in the same commit.
    fn put_meta(&self, _name: &'static str, _text: String, _act: Option<String>) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Returns the records of acts that no shard committed, newest first: at most `limit` of those
    /// with a number less than `below`.
    fn acts(&self, _below: u64, _limit: u32) -> Answer<'_, Vec<StoredAct>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Returns the wall-clock time, which is the authority clock of engines with one node.
pub fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)).min(Timestamp::MAX)
}
