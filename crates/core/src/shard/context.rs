//! The inputs of a decision.

use std::ops::Deref;

use crate::read_view::ReadView;
use crate::shard::Shard;
use crate::time::Timestamp;

/// The inputs of a decision: the shard's current state, the time, and the rows that the command
/// reads.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) now: Timestamp,
    pub(crate) rows: &'a ReadView<'a>,
}

impl Deref for Context<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        self.shard
    }
}
