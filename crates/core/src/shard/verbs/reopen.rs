//! Repairs a cursor that lost a block of open entries.
//!
//! It is unknown which messages of the block were open. Each message that is still stored is opened
//! again, so it is delivered again rather than lost. Tokens granted before the repair are stale
//! because of their grant time.

use crate::change::{Change, Decision, Entry, EntryState, LastError, VolatileChange};
use crate::command::{Rejection, Repaired};
use crate::id::{Lane, Offset, OwnerId};
use crate::limits::BLOCK_OFFSETS;
use crate::message::Kept;
use crate::refusal::Decided;
use crate::shard::context::Context;
use crate::shard::verbs::repair::{next, reply};
use crate::shard::{Cursor, Group, Topic};
use crate::time::Timestamp;

/// The attempt of a reopened message, which is above the attempt of any older token.
const REOPENED_ATTEMPT: u32 = 1 << 16;

/// The last owner of a reopened message.
const REPAIR: &str = "shard repair";

impl Context<'_> {
    /// Repairs as much of the next damaged block as one read of pages covers.
    pub(crate) fn repair_blocks(&self, topic: &Topic, lane: Lane, dry_run: bool) -> Decided {
        let groups = topic.groups.values().map(|id| &self.groups[id]);
        if groups.clone().any(|group| group.cursor(lane).has_newer_blocks()) {
            return Err(Rejection::NewerRows.into());
        }
        let mut damaged = groups
            .flat_map(|group| group.cursor(lane).damaged.keys().map(move |block| (group, *block)));
        if dry_run {
            let reopened = damaged.map(|(group, block)| {
                let (from, to) = extent(group.cursor(lane), block);
                (group.row.name.clone(), from, to)
            });
            return Ok(reply(Repaired { reopened: reopened.collect(), ..Repaired::default() }));
        }
        let Some((group, block)) = damaged.next() else {
            let volatile = vec![VolatileChange::Repaired { topic: topic.row.id, lane }];
            return Ok(Decision { volatile, ..reply(Repaired::default()) });
        };
        self.reopen(topic, group, lane, block)
    }

    fn reopen(&self, topic: &Topic, group: &Group, lane: Lane, block: u64) -> Decided {
        let cursor = group.cursor(lane);
        let (id, damaged) = (group.row.id, &cursor.damaged[&block]);
        let (from, to) = extent(cursor, block);
        let from = from.max(damaged.repaired_to);
        let run = self.rows.pages(topic.row.id, lane, from)?;
        let end = run.end.min(to);
        let begun = self.rows.held_by_offset(cursor.start.generation, lane, from, end)?;
        let messages = run.pages.iter().flat_map(|page| (page.base..).zip(&page.messages));
        let is_unknown =
            |offset: Offset| (from..end).contains(&offset) && !cursor.open.contains(offset);
        let mut opened: Vec<Offset> = Vec::new();
        let (mut ids, mut changes) = (self.ids, Vec::new());
        let owner = self.owner_named(&REPAIR.into(), &mut ids, &mut changes);
        changes.push(Change::Ids(ids));
        for (offset, kept) in messages.filter(|(offset, _)| is_unknown(*offset)) {
            if kept.message.for_group.as_ref().is_some_and(|of| *of != group.row.name) {
                continue;
            }
            let begun = begun.get(&offset).copied().unwrap_or(0);
            let entry = reopened(self.now, topic, kept, owner, begun);
            opened.push(offset);
            changes.push(Change::Open { group: id, lane, offset, entry, holder: None });
        }
        if end == to {
            let batch = damaged.batch;
            changes.push(Change::BlockGone { group: id, lane, block, batch });
        }
        let ranges = opened.chunk_by(|one, other| one + 1 == *other);
        let reopened = ranges.map(|run| (group.row.name.clone(), run[0], run[run.len() - 1] + 1));
        let reopened = reopened.collect();
        let decision = reply(Repaired { reopened, ..next(topic.lane(lane).high) });
        let volatile = vec![VolatileChange::Reopened { group: id, lane, block, to: end }];
        Ok(Decision { changes, volatile, ..decision })
    }
}

/// The offsets of a block that were delivered.
fn extent(cursor: &Cursor, block: u64) -> (Offset, Offset) {
    let from = (block * BLOCK_OFFSETS).max(cursor.start.offset);
    (from, ((block + 1) * BLOCK_OFFSETS).min(cursor.next))
}

fn reopened(now: Timestamp, topic: &Topic, kept: &Kept, owner: OwnerId, begun: u8) -> Entry {
    let message = &kept.message;
    let policy = message.envelope.retry_policy.map(|p| p.over(&topic.settings.retry_policy));
    Entry {
        state: EntryState::Returned,
        attempt: REOPENED_ATTEMPT,
        spent: 0,
        returns: 0,
        at: now,
        lease_ms: 0,
        owner,
        size: message.size() as u32,
        produced_at: message.produced_at,
        // Fences every token that was granted before.
        first_at: now,
        policy,
        deadline: message.envelope.deadline.filter(|_| !topic.is_dlq()),
        error: LastError::None,
        begun,
        // An upper bound. A settle reads the effects and counts them.
        unfinished: begun,
    }
}
