//! Maximum numbers of items in the lists of requests.

/// Items of a batch request.
pub const ITEMS_MAX: usize = 1_000;
/// Dead letters that one purge names.
pub const PURGE_IDS_MAX: usize = 100_000;
/// Effects that one commit finishes.
pub const COMMIT_EFFECTS_MAX: usize = 32;
/// Messages that one commit produces.
pub const COMMIT_MESSAGES_MAX: usize = 100;
/// Pointers that one commit sets.
pub const COMMIT_POINTERS_MAX: usize = 100;
