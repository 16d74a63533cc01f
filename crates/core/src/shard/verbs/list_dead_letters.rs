//! Lists the dead letters of a topic, newest first, one slice per command.

use crate::change::{DeadRow, Decision, Lookup, Reads};
use crate::command::{DeadFilter, DeadLetter, DeadLetters, DeadState, ListDead, Reply};
use crate::id::cut;
use crate::id::{NUMBER_MAX, Text, TopicId};
use crate::limits::DEAD_BYTES;
use crate::pack;
use crate::refusal::{Decided, Refusal};
use crate::shard::Shard;
use crate::shard::context::Context;
use crate::shard::rules::dead_letter::LISTED_ERROR_BYTES;

fn below(list: &ListDead) -> u64 {
    list.below.unwrap_or(NUMBER_MAX).min(NUMBER_MAX)
}

impl Shard {
    pub(crate) fn list_dead_reads(&self, list: &ListDead) -> Reads {
        let dlq = self.topic_named(&list.topic).ok().and_then(|source| source.dlq);
        dlq.map(|topic| Lookup::Newest { topic, below: below(list) }).into_iter().collect()
    }
}

impl Context<'_> {
    pub(crate) fn list_dead(&self, list: &ListDead) -> Decided {
        let source = self.topic_named(&list.topic)?;
        let mut dead = DeadLetters { letters: Vec::new(), scanned: 0, next: None };
        let Some(dlq) = source.dlq else {
            return Ok(Decision::reply(Reply::DeadLetters(Box::new(dead))));
        };
        let slice = self.rows.newest_dead(dlq, below(list))?;
        dead.next = slice.next;
        let mut needs: Reads = Vec::new();
        let (mut shown, mut bytes) = (0, 0);
        for row in slice.rows {
            let row = pack::dead_row(row)?;
            let is_full = shown >= list.limit.max(1) || list.values && bytes >= DEAD_BYTES;
            if is_full {
                dead.next = Some(row.seq + 1);
                break;
            }
            dead.scanned += 1;
            if !fits(&list.filter, &row) {
                continue;
            }
            (shown, bytes) = (shown + 1, bytes + row.size);
            match self.letter(dlq, row, list.values) {
                Ok(letter) => dead.letters.push(letter),
                Err(Refusal::Needs(more)) => needs.extend(more),
                Err(refusal) => return Err(refusal),
            }
        }
        if needs.is_empty() {
            Ok(Decision::reply(Reply::DeadLetters(Box::new(dead))))
        } else {
            Err(needs.into())
        }
    }

    fn letter(&self, dlq: TopicId, row: DeadRow, values: bool) -> Result<DeadLetter, Refusal> {
        let message = if values { Some(self.message_at(dlq, row.lane, row.offset)?) } else { None };
        let id = self.message_id(dlq, row.lane, row.offset).under(row.restore);
        Ok(DeadLetter { id, row, message })
    }
}

fn fits(filter: &DeadFilter, row: &DeadRow) -> bool {
    let same = |wanted: &Option<Text>, is: Option<&Text>| {
        wanted.as_ref().is_none_or(|wanted| is == Some(wanted))
    };
    let begins = |error: &Text| row.error.starts_with(&*cut(error, LISTED_ERROR_BYTES));
    let in_state = match filter.state {
        DeadState::Dead => row.redriven.is_none(),
        DeadState::Redriven => row.redriven.is_some(),
        DeadState::All => true,
    };
    in_state
        && same(&filter.group, Some(&row.group))
        && same(&filter.tenant_id, Some(&row.tenant))
        && same(&filter.run_id, row.run_id.as_ref())
        && filter.error.as_ref().is_none_or(begins)
        && filter.reason.is_none_or(|reason| reason == row.reason)
        && filter.since.is_none_or(|since| row.at >= since)
        && filter.until.is_none_or(|until| row.at < until)
}
