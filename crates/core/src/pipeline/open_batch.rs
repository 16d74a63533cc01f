//! A batch that is being decided, and when it is full.

use crate::change::Change;
use crate::id::BatchNo;
use crate::limits::{BATCH_BYTES_MAX, BATCH_ROWS_MAX, DISPATCH_AWAITED_MAX, DISPATCH_MAX};
use crate::time::Timestamp;

use super::{Batch, PipelineConfig};

/// What a row counts beside its body.
const SMALL_ROW_BYTES: usize = 64;

/// A batch that is being decided.
pub(super) struct OpenBatch {
    pub(super) batch: Batch,
    pub(super) commands: usize,
    /// It answers a client. A join does not count: what it waits for are deliveries.
    pub(super) is_awaited: bool,
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl OpenBatch {
    /// `changes` is how many the batch before had: a good guess.
    pub(super) fn new(no: BatchNo, now: Timestamp, changes: usize) -> OpenBatch {
        let batch = Batch {
            no,
            now,
            changes: Vec::with_capacity(changes),
            replies: Vec::new(),
            actions: Vec::new(),
        };
        OpenBatch { batch, commands: 0, is_awaited: false, rows: 0, bytes: 0 }
    }

    /// A command larger than a batch is a batch of its own: the bounds are looked at before, not after.
    pub(super) fn is_full(&self, config: &PipelineConfig) -> bool {
        self.commands >= config.commands_max
            || self.rows >= BATCH_ROWS_MAX
            || self.bytes >= BATCH_BYTES_MAX
    }

    /// Deliveries that it may decide, and leases that may expire in it.
    pub(super) fn dispatch_max(&self) -> usize {
        if self.is_awaited { DISPATCH_AWAITED_MAX } else { DISPATCH_MAX }
    }

    pub(super) fn weigh(&mut self, change: &Change) {
        self.rows += 1;
        self.bytes += match change {
            Change::Message { message, .. } => message.content_bytes() as usize + SMALL_ROW_BYTES,
            Change::Record(record) => record.body.len() + SMALL_ROW_BYTES,
            Change::Outbox { message, .. } => {
                message.key.len() + message.value.len() + SMALL_ROW_BYTES
            }
            Change::Effect(effect) => effect.outcome.size() + SMALL_ROW_BYTES,
            _ => SMALL_ROW_BYTES,
        };
    }
}
