//! Rules that several verbs follow.

pub(super) mod backlog;
pub(super) mod backoff;
pub(super) mod beside;
pub(super) mod bury;
pub(super) mod capacity;
pub(super) mod dedupe;
pub(super) mod history;
pub(super) mod partition;
pub(super) mod quarantine;
pub(super) mod since;
pub(super) mod tombstone;
