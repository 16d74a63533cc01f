//! Dead letters stay only so long, where their topic says so.
//!
//! They die in the order of their numbers, so the oldest are found by one look at the lowest: a step
//! drops those of them that are over and says when to look again.

use std::collections::BTreeMap;

use crate::change::{Chore, DeadRow, Decision, Lookup, Reads, VolatileChange};
use crate::id::{Lane, TopicId};
use crate::limits::MARKS_PER_RETENTION;
use crate::pack;
use crate::refusal::Decided;
use crate::shard::context::Context;
use crate::shard::{Shard, Topic, done};

impl Shard {
    /// The topic, its dead letters and how long they stay.
    fn kept_for(&self, source: TopicId) -> Option<(&Topic, &Topic, u64)> {
        let source = self.topics.get(&source)?;
        Some((source, self.topics.get(&source.dlq?)?, source.settings.dlq_retention_ms?))
    }

    pub(crate) fn expire_dead_letters_reads(&self, source: TopicId) -> Reads {
        let oldest = |dlq: &Topic| Lookup::Oldest { topic: dlq.row.id };
        self.kept_for(source).map(|(_, dlq, _)| oldest(dlq)).into_iter().collect()
    }
}

impl Context<'_> {
    /// One bounded step. Whoever has such a dead letter open is treated as by a purge.
    pub(crate) fn expire_dead_letters(&self, id: TopicId) -> Decided {
        let again = |at| VolatileChange::Chore(Chore::ExpireDeadLetters { source: id }, at);
        let Some((source, dlq, kept_ms)) = self.kept_for(id) else {
            return Ok(Decision { volatile: vec![again(None)], ..done() });
        };
        let slice = self.rows.oldest_dead(dlq.row.id)?;
        let rows = slice.rows.into_iter().map(pack::dead_row).collect::<Result<Vec<_>, _>>()?;
        let over = rows.iter().take_while(|row| row.at.after(kept_ms) <= self.now).count();
        let (over, kept) = rows.split_at(over);
        let next = match kept.first() {
            // Not for every single one: an eighth of their time later is soon enough.
            Some(row) => {
                Some(row.at.after(kept_ms).max(self.now.after(kept_ms / MARKS_PER_RETENTION)))
            }
            None => slice.next.map(|_| self.now),
        };
        let mut decision = Decision { volatile: vec![again(next)], ..done() };
        self.delete_dead_letters(source, dlq, over, &mut decision.changes)?;
        let last_of_lanes: BTreeMap<Lane, &DeadRow> =
            over.iter().map(|row| (row.lane, row)).collect();
        for row in last_of_lanes.into_values() {
            self.begin_after(dlq, row, &mut decision.changes);
        }
        Ok(decision)
    }
}
