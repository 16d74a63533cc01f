//! Tombstones: how a delivery ended, for late acks and nacks.
//!
//! Only a prompt ack of attempt 1 leaves no tombstone, so that the common case costs no record.

use serde::{Deserialize, Serialize};

use crate::change::{Change, Entry, Record};
use crate::id::{Generation, GroupId, Lane, Offset};
use crate::pack;
use crate::read_view::ReadView;
use crate::refusal::Refusal;
use crate::row::{Key, RecordKind};
use crate::settings::Settings;
use crate::shard::context::Context;
use crate::shard::state::open_delivery::OpenDelivery;
use crate::shard::{Group, Shard};
use crate::time::Timestamp;

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ended {
    Acked,
    /// Dead-lettered with number `seq`. `asked`: by a final nack.
    Dead {
        asked: bool,
        seq: u64,
    },
}

/// The stored result of a message in a group.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    group: GroupId,
    generation: Generation,
    lane: Lane,
    offset: Offset,
    /// The last attempt.
    pub(crate) attempt: u32,
    /// How it ended.
    pub(crate) ended: Ended,
    expires: Timestamp,
}

pub(crate) fn key(group: &Group, lane: Lane, offset: Offset) -> Key {
    let generation = group.cursor(lane).start.generation;
    let hash = pack::hash16(RecordKind::Tombstone, &(group.row.id, generation, lane, offset));
    Key::Record { kind: RecordKind::Tombstone, hash }
}

/// Returns the tombstone of a message that is no longer open, while it is in force.
pub(crate) fn find(
    now: Timestamp,
    group: &Group,
    lane: Lane,
    offset: Offset,
    found: &ReadView<'_>,
) -> Result<Option<Tombstone>, Refusal> {
    let Some(row) = found.row(key(group, lane, offset))? else {
        return Ok(None);
    };
    let tombstone: Tombstone = pack::open(row)?;
    let generation = group.cursor(lane).start.generation;
    let same = (tombstone.group, tombstone.generation, tombstone.lane, tombstone.offset)
        == (group.row.id, generation, lane, offset);
    Ok((same && now < tombstone.expires).then_some(tombstone))
}

/// Whether an ack of this entry needs no tombstone. For a late call, no tombstone means "acked at
/// once".
fn is_plain(now: Timestamp, entry: &Entry, settings: &Settings) -> bool {
    entry.attempt == 1 && now.since(entry.first_at) <= settings.tombstone_ms() / 2
}

impl Context<'_> {
    /// Stores that the delivery is settled, so that a late ack succeeds for the last attempt only.
    pub(crate) fn remember_ack(&self, held: &OpenDelivery<'_>, changes: &mut Vec<Change>) {
        let OpenDelivery { topic, group, lane, offset, entry } = *held;
        let settings = &topic.settings;
        if !is_plain(self.now, entry, settings) {
            let ended = Ended::Acked;
            self.put_tombstone(
                self.now,
                settings,
                group,
                lane,
                offset,
                entry.attempt,
                ended,
                changes,
            );
        }
    }
}

impl Shard {
    #[expect(clippy::too_many_arguments, reason = "a tombstone has all of these fields")]
    pub(crate) fn put_tombstone(
        &self,
        now: Timestamp,
        settings: &Settings,
        group: &Group,
        lane: Lane,
        offset: Offset,
        attempt: u32,
        ended: Ended,
        changes: &mut Vec<Change>,
    ) {
        let ttl_ms = settings.tombstone_ms();
        let expires = now.after(ttl_ms);
        let generation = group.cursor(lane).start.generation;
        let tombstone =
            Tombstone { group: group.row.id, generation, lane, offset, attempt, ended, expires };
        let Key::Record { kind, hash } = key(group, lane, offset) else {
            unreachable!("a tombstone is a record")
        };
        let record =
            Record { kind, hash, expires, bucket: expires.0, body: pack::seal(&tombstone) };
        self.put_record(now, record, changes);
    }
}
