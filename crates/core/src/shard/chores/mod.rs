//! What the shard does by itself when its time comes.

pub(super) mod drop;
pub(super) mod expiry;
pub(super) mod idle;
pub(super) mod lapse;
pub(super) mod maintain;
pub(super) mod retention;
pub(super) mod sweep;
