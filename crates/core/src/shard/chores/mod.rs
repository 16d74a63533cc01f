//! Work that the shard starts by itself when it is due.

pub(super) mod dead_letter_retention;
pub(super) mod idle;
pub(super) mod lease_expiry;
pub(super) mod maintain;
pub(super) mod record_expiry;
pub(super) mod retention;
pub(super) mod sweep;
