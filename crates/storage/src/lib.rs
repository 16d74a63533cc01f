//! Where the rows of a shard live.
//!
//! An [`Engine`] stores rows and knows no meaning. Every engine passes [`conformance`].
//!
//! # What every engine promises
//!
//! 1. A claim ends every earlier ownership: when it returns, each commit under an earlier one has
//!    happened, and `load` sees it, or never will.
//! 2. A commit happens wholly or not at all, and only as the successor of the last one under the
//!    ownership that stands: batch N is refused unless the last is N − 1.
//! 3. What was answered as done survives whatever the engine says it survives.
//! 4. There are three answers: done, fenced, and unknown. Unknown may have happened or not.

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

/// An answer that may take a while.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// The right to commit to a shard, until somebody else claims it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// Of which shard.
    pub shard: ShardId,
    /// Its number: grows with every claim.
    pub epoch: Epoch,
}

/// Not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The ownership is over, or the batch is not the successor of the last. Nothing happened.
    #[error("the ownership of the shard is over")]
    Fenced,
    /// Whether it happened is not known. The caller drops its copy of the shard, claims and loads.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

/// Durable storage for shards.
pub trait Engine: Send + Sync {
    /// Takes the shard over from whoever owns it, and says what time the authority has.
    fn claim(&self, shard: ShardId) -> Answer<'_, (Ownership, Timestamp)>;

    /// Hands over the rows that are kept in memory: topics, groups, lanes, cursors, marks, owners,
    /// garbage, and the heads from the newest one's `clean` on. In any order.
    fn load<'a>(
        &'a self,
        ownership: Ownership,
        each: &'a mut (dyn FnMut(Row) + Send),
    ) -> Answer<'a, ()>;

    /// Answers questions, in their order. Each answer is from some moment between call and return.
    fn read(&self, ownership: Ownership, reads: Vec<Read>) -> Answer<'_, Vec<Vec<Row>>>;

    /// Makes `writes` durable as batch `batch`, puts before ranges, and says what time the authority
    /// has.
    fn commit(
        &self,
        ownership: Ownership,
        batch: BatchNo,
        writes: Vec<Write>,
    ) -> Answer<'_, Timestamp>;

    /// Bytes that can still be written, where that is known to have an end.
    fn room(&self) -> Answer<'_, Option<u64>> {
        Box::pin(async { Ok(None) })
    }

    /// What the last [`put_meta`](Engine::put_meta) stored under this name, if the engine outlives the process.
    fn meta(&self, _name: &'static str) -> Answer<'_, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    /// Stores a text that belongs to no shard. Any node may; the last one counts.
    fn put_meta(&self, _name: &'static str, _text: String) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// The wall clock: the authority on time where there is one node.
pub fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)).min(Timestamp::MAX)
}
