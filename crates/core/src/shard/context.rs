//! What a command is decided from.

use std::ops::Deref;

use crate::read_view::ReadView;
use crate::shard::Shard;
use crate::time::Timestamp;

/// What a command is decided from: the shard as it is, the time, and the rows that the command looks up.
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
