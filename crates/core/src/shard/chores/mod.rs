//! What the shard does by itself when its time comes.

pub(super) mod dead_letter_retention;
pub(super) mod idle;
pub(super) mod lease_expiry;
pub(super) mod maintain;
pub(super) mod record_expiry;
pub(super) mod retention;
pub(super) mod sweep;
