//! Records that are over go, in the order of their ends and a bounded number a commit, however many end together.
//!
//! A step looks at the next few and deletes those that are over. It begins where the last one ended: an engine may
//! still have to walk over what was deleted before that.

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
        debug_assert!(record.bucket > now.0, "what is over is not stored");
        changes.push(Change::Record(record));
    }

    /// There is a record of this bucket.
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
    /// One bounded step.
    pub(crate) fn expire_records(&self) -> Decided {
        let from = self.expired_to();
        let buckets = self.rows.ending(from)?;
        let (over, left) =
            buckets.split_at(buckets.partition_point(|bucket| *bucket <= self.now.0));
        let is_full = over.len() >= EXPIRE_ROWS_MAX;
        // One whose commit was under way was not seen.
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
                // There may be more of the last one.
                [first, .., last] if is_full => *last.max(&(first + 1)),
                _ => self.now.0 + 1,
            };
            decision.changes.push(Change::Expire { from, to });
            decision.changes.push(Change::Mark { kind: MarkKind::Expiry, id: 0, value: to });
        }
        Ok(decision)
    }
}

/// When to look for expired records again, if there is one of this bucket: not for every single one, and there may be
/// others before it that nobody saw.
fn look_at(now: Timestamp, bucket: u64) -> Timestamp {
    Timestamp(bucket).max(now.after(EXPIRE_EVERY_MS)).min(now.after(EXPIRE_LOOK_MS))
}
