//! Records that expire: which buckets are in use, and dropping those that are over.

use crate::bucket::{LEVELS, number, width_ms};
use crate::change::{Change, Record};
use crate::id::Text;
use crate::limits::EXPIRE_BUCKETS_MAX;
use crate::row::MarkKind;
use crate::shard::Shard;
use crate::time::Timestamp;

/// Marks of a level: the next bucket to drop, and, this much further, the last one in use.
const LAST_IN_USE: u64 = 64;

impl Shard {
    fn expiry_mark(&self, id: u64) -> u64 {
        self.marks.get(&(MarkKind::Expiry, id)).copied().unwrap_or(0)
    }

    /// Stores a record, and remembers that its bucket is in use.
    pub(super) fn put_record(&self, now: Timestamp, record: Record, changes: &mut Vec<Change>) {
        self.use_bucket(now, record.bucket, changes);
        changes.push(Change::Record(record));
    }

    /// Remembers that a bucket is in use.
    pub(super) fn use_bucket(&self, now: Timestamp, bucket: u64, changes: &mut Vec<Change>) {
        let (level, index) = (bucket >> 32, bucket & u64::from(u32::MAX));
        let (next, last) = (self.expiry_mark(level), self.expiry_mark(level + LAST_IN_USE));
        let mut mark = |id, value| changes.push(Change::Mark { kind: MarkKind::Expiry, id, value });
        if next > last || next == 0 {
            mark(level, now.0.div_ceil(width_ms(level)));
        }
        if index > last {
            mark(level + LAST_IN_USE, index);
        }
    }

    fn due_bucket(&self, level: u64) -> Option<(u64, Timestamp)> {
        let (next, last) = (self.expiry_mark(level), self.expiry_mark(level + LAST_IN_USE));
        (next != 0 && next <= last).then(|| (next, Timestamp(next * width_ms(level))))
    }

    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        (0..LEVELS).filter_map(|level| self.due_bucket(level)).map(|(_, at)| at).min()
    }

    /// Drops buckets that are over.
    pub(super) fn expire(&self, now: Timestamp, changes: &mut Vec<Change>) {
        for level in 0..LEVELS {
            let Some((next, at)) = self.due_bucket(level) else {
                continue;
            };
            if at > now {
                continue;
            }
            let last = self.expiry_mark(level + LAST_IN_USE);
            let over = (now.0 / width_ms(level)).min(last);
            let end = (over + 1).min(next + EXPIRE_BUCKETS_MAX);
            changes
                .extend((next..end).map(|index| Change::Expire { bucket: number(level, index) }));
            changes.push(Change::Mark { kind: MarkKind::Expiry, id: level, value: end });
        }
    }
}

/// Keeps the first `bytes_max` bytes, to a whole character.
pub(super) fn cut(text: &Text, bytes_max: usize) -> Text {
    if text.len() <= bytes_max {
        return text.clone();
    }
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..end].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_character() {
        assert_eq!(&*cut(&"aßb".into(), 2), "a");
        assert_eq!(&*cut(&"aßb".into(), 3), "aß");
        assert_eq!(&*cut(&"aßb".into(), 4), "aßb");
    }
}
