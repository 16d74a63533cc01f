//! Deletes expired records in the order of their expiry. The number per commit is bounded, even if
//! many expire at the same time.
//!
//! A step reads the next records and deletes those that have expired. It starts where the last one
//! ended, because an engine may still have to skip over rows that were deleted before that.

use crate::change::{Change, Chore, Decision, Lookup, Reads, Record, VolatileChange};
use crate::limits::{EXPIRE_EVERY_MS, EXPIRE_LOOK_MS, EXPIRE_ROWS_MAX};
use crate::refusal::Decided;
use crate::row::MarkKind;
use crate::shard::context::Context;
use crate::shard::{Shard, done};
use crate::time::Timestamp;

impl Shard {
    /// Stores a record.
    pub(crate) fn put_record(&self, now: Timestamp, record: Record, changes: &mut Vec<Change>) {
        debug_assert!(record.bucket > now.0, "an expired record is not stored");
        changes.push(Change::Record(record));
    }

    /// Schedules the deletion of a record in this bucket.
    pub(crate) fn plan_expiry(&mut self, bucket: u64) {
        self.volatile.last_bucket = self.volatile.last_bucket.max(bucket);
        if !self.volatile.chores.contains_key(&Chore::ExpireRecords) {
            self.set_chore(Chore::ExpireRecords, Some(look_at(self.now, bucket)));
        }
    }

    fn expired_to(&self) -> u64 {
        self.marks.get(&(MarkKind::Expiry, 0)).copied().unwrap_or(0)
    }

    pub(crate) fn expire_records_reads(&self) -> Reads {
        vec![Lookup::Ending { from: self.expired_to() }]
    }
}

impl Context<'_> {
    /// Decides one bounded step.
    pub(crate) fn expire_records(&self) -> Decided {
        let from = self.expired_to();
        let buckets = self.rows.ending(from)?;
        let (over, left) =
            buckets.split_at(buckets.partition_point(|bucket| *bucket <= self.now.0));
        let is_full = over.len() >= EXPIRE_ROWS_MAX;
        // A record whose commit is in flight was not read.
        let unseen = self.volatile.last_bucket;
        let next =
            match left.first().copied().or(Some(unseen).filter(|bucket| *bucket > self.now.0)) {
                _ if is_full => Some(self.now),
                next => next.map(|bucket| look_at(self.now, bucket)),
            };
        let mut decision = Decision {
            volatile: vec![VolatileChange::Chore(Chore::ExpireRecords, next)],
            ..done()
        };
        if !over.is_empty() || (from.max(1)..=self.now.0).contains(&unseen) {
            let to = match over {
                // The last bucket may have more records.
                [first, .., last] if is_full => *last.max(&(first + 1)),
                _ => self.now.0 + 1,
            };
            decision.changes.push(Change::Expire { from, to });
            decision.changes.push(Change::Mark { kind: MarkKind::Expiry, id: 0, value: to });
        }
        Ok(decision)
    }
}

/// Returns when to look for expired records again, if there is one in this bucket. Not for every
/// single record, and not too late: records that were not read may expire before it.
fn look_at(now: Timestamp, bucket: u64) -> Timestamp {
    Timestamp(bucket).max(now.after(EXPIRE_EVERY_MS)).min(now.after(EXPIRE_LOOK_MS))
}
