//! Maximum numbers of items in the lists and maps of requests.

/// Labels of a message.
pub const LABELS_MAX: usize = 16;
/// Headers of a message.
pub const HEADERS_MAX: usize = 64;
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
