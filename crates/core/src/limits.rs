//! All limits, with their values and reasons.

use crate::time::Timestamp;

/// Partitions of a topic. A lane has 10 bits for them.
pub const PARTITIONS_MAX: u32 = 1024;
/// Bytes of a topic's name. The name of its dead-letter topic has the prefix `dlq.`.
pub const TOPIC_BYTES_MAX: usize = 250;
/// Bytes of the name of a dead-letter topic.
pub const DLQ_TOPIC_BYTES_MAX: usize = TOPIC_BYTES_MAX + 4;
/// Bytes of a group's name.
pub const GROUP_BYTES_MAX: usize = 128;
/// Bytes of an owner's name.
pub const OWNER_BYTES_MAX: usize = 255;
/// Bytes of a tenant's name.
pub const TENANT_BYTES_MAX: usize = 255;
/// Bytes of an idempotency key.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// Bytes of a message key.
pub const KEY_BYTES_MAX: usize = 1024;
/// Bytes of all texts of an envelope together.
pub const ENVELOPE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of one text of an envelope.
pub const ENVELOPE_TEXT_BYTES_MAX: usize = 1024;
/// Bytes of a reason. A longer reason is truncated at a character boundary.
pub const REASON_BYTES_MAX: usize = 1024;
/// Labels of a message.
pub const LABELS_MAX: usize = 16;
/// Values that a router may give a message.
pub const ROUTING_META_MAX: usize = 64;
/// Bytes of a label: name and value.
pub const LABEL_BYTES_MAX: usize = 1024;
/// Headers of a message.
pub const HEADERS_MAX: usize = 64;
/// Bytes of all headers of a message: names and values.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a value, unless configured up to [`VALUE_BYTES_CAP`].
pub const VALUE_BYTES_DEFAULT: usize = 1024 * 1024;
/// The highest limit for values that can be configured.
pub const VALUE_BYTES_CAP: usize = 16 * 1024 * 1024;

/// Bytes of the result of an effect.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Characters of a caller's own hash of a request.
pub const REQUEST_HASH_CHARS_MAX: usize = 128;
/// Characters of the nonce of a begin or of a produce request.
pub const NONCE_CHARS_MAX: usize = 64;
/// Effects begun under one message in one group.
pub const EFFECTS_MAX: u8 = 32;
/// Effects that one step of a sweep reads. One message has fewer.
pub const HELD_ROWS_MAX: usize = 256;
/// Open messages that are read to find the holders of an effect whose row does not list them.
pub const HOLDERS_READ_MAX: usize = 1_024;
/// Messages of one commit, and of a produce request that share the record of its nonce.
pub const PRODUCES_MAX: usize = 100;
/// Bytes of the messages of a produce request that share the record of its nonce. One message always
/// fits.
pub const NONCE_BYTES: usize = 1024 * 1024;
/// How long the nonce of a produce request is remembered: 15 min.
pub const NONCE_MS: u64 = 900_000;
/// Rows of the history of a block that one explain command reads.
pub const HISTORY_ROWS_MAX: usize = 16_384;
/// Bytes of an error in a history.
pub const HISTORY_ERROR_BYTES_MAX: usize = 256;
/// Pointers of one commit.
pub const POINTERS_MAX: usize = 100;
/// Bytes of each part of a pointer's name, and of its checksum.
pub const POINTER_TEXT_BYTES_MAX: usize = 255;
/// Bytes of a pointer's location.
pub const POINTER_LOCATION_BYTES_MAX: usize = 2048;
/// Pointers that one list command reads.
pub const POINTER_ROWS_MAX: usize = 1_000;
/// Messages to another shard in one window.
pub const OUTBOX_ROWS_MAX: usize = 256;
/// Bytes of the messages in one window.
pub const OUTBOX_BYTES: usize = 1024 * 1024;
/// Messages that may wait in the outbox for one shard.
pub const OUTBOX_WAITING_MAX: u64 = 10_000;
/// The `retry_after_ms` of an effect that waits for a person.
pub const PARKED_RETRY_MS: u64 = 60_000;
/// Effects without a known outcome that one list command reads.
pub const EFFECT_ROWS_MAX: usize = 256;

/// Records of one audit row.
pub const AUDIT_RECORDS_MAX: usize = 256;
/// Audit rows that one command reads.
pub const AUDIT_ROWS_MAX: usize = 256;
/// Bytes of the audit rows that one command reads. As text they are about three times as large.
pub const AUDIT_BYTES: usize = 256 * 1024;

/// Shortest lease.
pub const LEASE_MS_MIN: u64 = 250;
/// Longest lease: 12 h.
pub const LEASE_MS_MAX: u64 = 43_200_000;
/// 365 d: the longest backoff, retention and memory of keys and outcomes.
pub(crate) const YEAR_MS: u64 = 365 * 24 * 60 * 60_000;
/// Longest delay of a nack: 7 d.
pub const DELAY_MS_MAX: u64 = 604_800_000;
/// Highest `max_attempts` of a retry policy. −1 means no limit.
pub const ATTEMPTS_MAX: i32 = 1_000;
/// The latest deadline: the end of the year 9999, the last time that RFC 3339 can express.
pub const DEADLINE_MAX: Timestamp = Timestamp(253_402_300_799_999);
/// Most unsettled deliveries one stream may hold.
pub const CREDIT_MAX: u32 = 10_000;
/// Dead letters one purge may name.
pub const PURGE_MAX: usize = 256;
/// Dead letters one redrive may name.
pub const REDRIVE_MAX: usize = 1_000;

/// Messages of a page.
pub const PAGE_MESSAGES_MAX: usize = 1024;
/// Bytes of a page, unless a single message is larger.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Offsets of a block.
pub const BLOCK_OFFSETS: u64 = 128;

/// Rows a batch may touch before it is closed.
pub const BATCH_ROWS_MAX: usize = 8_192;
/// Bytes a batch may hold before it is closed.
pub const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Deliveries one batch may decide.
pub const DISPATCH_MAX: usize = 2_048;
/// Deliveries, and expired leases, of a batch that answers commands: a burst of redeliveries must not delay its commit.
pub const DISPATCH_AWAITED_MAX: usize = 512;
/// Deliveries of one group and lane before the next has its turn.
pub const DISPATCH_RUN_MAX: usize = 64;
/// Leases one batch may expire.
pub const LEASE_EXPIRY_MAX: usize = 1_024;

/// Topics of a shard, without dead-letter topics.
pub const SHARD_TOPICS_MAX: u64 = 100_000;
/// Cursors of a shard: one per group and partition, about 250 bytes each.
pub const SHARD_CURSORS_MAX: u64 = 2_000_000;
/// The `retry_after_ms` of a shard that has too many topics or cursors.
pub const CAPACITY_RETRY_MS: u64 = 60_000;
/// Open entries of a shard, about 140 MB. A group uses at most half of the remaining entries.
pub const SHARD_OPEN_MAX: u64 = 1_000_000;
/// Bytes of messages in memory for delivery, both loaded and being loaded. A node with many shards
/// or little memory uses a lower limit for each shard.
pub const READ_AHEAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The lowest read-ahead limit of a shard. One message of each kind always fits.
pub const READ_AHEAD_BYTES_MIN: usize = 1024 * 1024;
/// Bytes one read-ahead requests.
pub const READ_AHEAD_STEP_BYTES: usize = 1024 * 1024;
/// Pages one read-ahead requests. Single produces create pages of one message each, and an engine
/// may have to read every page of its result to count bytes. 1 024 pages of one message equal one
/// full page.
pub const READ_AHEAD_PAGES_MAX: usize = 1_024;
/// Bytes of the pages that one peek reads.
pub const PEEK_BYTES: usize = 1024 * 1024;
/// Pages that one peek reads. Pages of dead letters hold one message each.
pub const PEEK_PAGES_MAX: usize = 1_024;
/// Last errors that one peek reads.
pub const PEEK_ERRORS_MAX: usize = 256;
/// Dead letters that one list command reads.
pub const DEAD_ROWS_MAX: usize = 256;
/// Bytes of their messages, if requested. One message always fits.
pub const DEAD_BYTES: u64 = 1024 * 1024;
/// Retries whose message is being loaded at a time.
pub const RETRY_READS_MAX: usize = 32;
/// How long before it is due a retry loads its message.
pub const RETRY_READ_AHEAD_MS: u64 = 1_000;

/// Fresh messages between two retries while both wait.
pub const FRESH_PER_RETRY: u8 = 4;
/// Returns in a row without a wait. Each further return waits at least the backoff.
pub const FREE_RETURNS: u8 = 3;
/// After a recovery, no lease expires sooner than this (or its own length, if that is shorter).
pub const RECOVERY_GRACE_MS: u64 = 10_000;
/// How much longer than its pin the key of a routed message is kept. The clock of the shard that
/// stores the pin may be behind, and a repeated produce may be in transit.
pub const ROUTED_KEPT_MS: u64 = 600_000;

/// Offsets one commit may trim or collect.
pub const TRIM_OFFSETS_MAX: u64 = 4_096;
/// Gaps one commit may trim.
pub const TRIM_GAPS_MAX: usize = 64;
/// Dead letters one commit may delete because of their age.
pub const DEAD_DROPPED_MAX: usize = 64;
/// How often per `group_idle_ms` the time of a group's last consumer is stored.
pub const SEEN_PER_IDLE: u64 = 8;
/// Retention marks of a lane.
pub const MARKS_MAX: usize = 16;
/// Retention marks per retention time.
pub const MARKS_PER_RETENTION: u64 = 8;
/// Shortest life of a tombstone: 24 h.
pub const TOMBSTONE_MS_MIN: u64 = 86_400_000;
/// Expired records that one commit deletes. Records that expire in the same millisecond may exceed
/// it.
pub const EXPIRE_ROWS_MAX: usize = 1_000;
/// The shortest wait between two searches for expired records, unless more are known to exist.
pub const EXPIRE_EVERY_MS: u64 = 10_000;
/// The longest wait between two searches while any record exists.
pub const EXPIRE_LOOK_MS: u64 = 600_000;
/// Unused owner names that one commit may delete.
pub const OWNERS_FORGOTTEN_MAX: usize = 64;

/// Batches for which a changed cursor, lane or mark may be stored only in heads, before it is
/// written as a row.
pub const CHECKPOINT_AFTER_BATCHES: u64 = 1_024;
/// Rows of that kind one commit may write.
pub const CHECKPOINTS_MAX: usize = 256;

/// Rows one recovery read requests.
pub const RECOVERY_READ_ROWS: usize = 256;
/// Lookups in one read.
pub const READ_LOOKUPS_MAX: usize = 256;

/// How long a consumer counts as present after its poll has ended.
pub const BETWEEN_POLLS_MS: u64 = 10_000;
/// Open messages that one view walks for the owners of leases. Groups past it count the owners that
/// were seen just now.
pub const PRESENT_WALK_MAX: usize = 100_000;
/// How long a group remembers an owner that it does not see any more.
pub const SEEN_MS: u64 = 600_000;
/// For how long a worker that has left gets nothing.
pub const WORKER_LEFT_MS: u64 = 60_000;
/// Workers that have left that a shard remembers.
pub const WORKERS_LEFT_MAX: usize = 10_000;
/// Owners that a shard remembers.
pub const SEEN_MAX: usize = 10_000;
/// Owners in the view of a group.
pub const OWNERS_SHOWN_MAX: usize = 1_000;
