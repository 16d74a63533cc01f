//! A batch that is being decided, and when it is full.

use crate::change::Change;
use crate::id::BatchNo;
use crate::limits::{BATCH_BYTES_MAX, BATCH_ROWS_MAX, DISPATCH_AWAITED_MAX, DISPATCH_MAX};
use crate::time::Timestamp;

use super::{Batch, PipelineConfig};

/// Bytes counted for a row besides its body.
const SMALL_ROW_BYTES: usize = 64;

/// A batch that is being decided.
pub(super) struct OpenBatch {
    pub(super) batch: Batch,
    pub(super) commands: usize,
    /// Whether a client waits for its replies. A join does not count, because it waits for
    /// deliveries.
    pub(super) is_awaited: bool,
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl OpenBatch {
    /// Creates an empty batch. `changes` is the expected number of changes: that of the previous
    /// batch.
    pub(super) fn new(no: BatchNo, now: Timestamp, changes: usize) -> OpenBatch {
        let batch = Batch {
            no,
            now,
            changes: Vec::with_capacity(changes),
            replies: Vec::new(),
            actions: Vec::new(),
            activity: Vec::new(),
        };
        OpenBatch { batch, commands: 0, is_awaited: false, rows: 0, bytes: 0 }
    }

    /// Whether the batch is full. The limits are checked before each command, not after it, so that
    /// a command larger than a batch can be decided.
    pub(super) fn is_full(&self, config: &PipelineConfig) -> bool {
        self.commands >= config.commands_max
            || self.rows >= BATCH_ROWS_MAX
            || self.bytes >= BATCH_BYTES_MAX
    }

    /// Returns the limit for its deliveries and for its lease expiries.
    pub(super) fn dispatch_max(&self) -> usize {
        if self.is_awaited { DISPATCH_AWAITED_MAX } else { DISPATCH_MAX }
    }

    pub(super) fn weigh(&mut self, change: &Change) {
        self.rows += 1;
        self.bytes += match change {
            Change::Message { message, .. } => message.content_bytes() as usize + SMALL_ROW_BYTES,
            Change::Record(record) => record.body.len() + SMALL_ROW_BYTES,
            Change::Outbox { message, .. } => {
                let beside = message.envelope.extension_bytes() + SMALL_ROW_BYTES;
                message.key.len() + message.value.len() + beside
            }
            Change::Effect(effect) => effect.outcome.size() + SMALL_ROW_BYTES,
            _ => SMALL_ROW_BYTES,
        };
    }
}
