//! Deletes dead letters after `dlq_retention_ms`, if the topic sets it.
//!
//! Dead letters are numbered in the order in which they died, so the oldest have the lowest
//! numbers. A step reads the lowest, deletes those that have expired, and schedules the next step.

use std::collections::BTreeMap;

use crate::change::{Chore, DeadRow, Decision, Lookup, Reads, VolatileChange};
use crate::id::{Lane, TopicId};
use crate::limits::MARKS_PER_RETENTION;
use crate::pack;
use crate::refusal::Decided;
use crate::shard::context::Context;
use crate::shard::{Shard, Topic, done};

impl Shard {
    /// Returns the topic, its dead-letter topic and the retention time.
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
    /// Decides one bounded step. Open deliveries of an expired dead letter end as in a purge.
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
            // Not one step per dead letter: steps are at least an eighth of the retention time
            // apart.
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
