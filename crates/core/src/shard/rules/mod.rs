//! Rules that several verbs follow.

pub(super) mod backlog;
pub(super) mod backoff;
pub(super) mod capacity;
pub(super) mod claim_check;
pub(super) mod dead_letter;
pub(super) mod dedupe;
pub(super) mod history;
pub(super) mod offset_for_time;
pub(super) mod partition;
pub(super) mod quarantine;
pub(super) mod tombstone;
