//! Chores nobody asks for: retention, idle groups, garbage, names nobody has. Each bounded a commit.

use crate::change::{Change, Chore, Decision, Garbage, Note, POINTER_PARTS, Sweep};
use crate::command::Command;
use crate::id::{Lane, Offset};
use crate::limits::{OWNERS_FORGOTTEN_MAX, TRIM_OFFSETS_MAX};
use crate::shard::{Shard, done};
use crate::time::Timestamp;

/// Lanes and groups that one commit looks at.
const CHORES_MAX: usize = 8;
/// A chore that takes reads is planned anew when it is decided; should it never be, after this.
const ROWS_PATIENCE_MS: u64 = 30_000;
/// Pieces of garbage one commit works on.
const GARBAGE_MAX: usize = 4;

impl Shard {
    /// What is due of all that.
    pub(crate) fn maintain(&self, now: Timestamp) -> Decision {
        let mut decision = done();
        let changes = &mut decision.changes;
        let due = self.live.chores_due.iter().take_while(|(at, ..)| *at <= now).take(CHORES_MAX);
        let mut notes: Vec<Note> = Vec::new();
        for &(_, chore) in due {
            let (done, note) = match chore {
                Chore::Retain { topic, lane } => self.retain(now, topic, lane),
                Chore::Idle(group) => self.look_for_readers(now, group),
                // They take reads: [`Shard::commands`] sees to it.
                Chore::DropDead { .. } | Chore::Send { .. } | Chore::Expire => continue,
            };
            changes.extend(done);
            notes.push(note);
        }
        for (id, garbage) in self.garbage.iter().take(GARBAGE_MAX) {
            sweep(*id, garbage, self.ids, changes);
        }
        let unused = self.owners.unused.iter().take(OWNERS_FORGOTTEN_MAX);
        changes.extend(unused.map(|owner| Change::OwnerGone(*owner)));
        decision.notes = notes;
        decision
    }

    /// Chores that take reads, as commands to the shard itself. Each is planned anew when it is decided.
    pub(crate) fn commands(&mut self, now: Timestamp) -> Vec<Command> {
        let due = self.live.chores_due.iter().take_while(|(at, _)| *at <= now);
        let due = due.filter_map(|(_, chore)| match *chore {
            Chore::DropDead { source } => Some((*chore, Command::DropDead { source })),
            Chore::Send { target } => Some((*chore, Command::Send { target })),
            Chore::Expire => Some((*chore, Command::Expire)),
            Chore::Retain { .. } | Chore::Idle(_) => None,
        });
        let due: Vec<(Chore, Command)> = due.take(CHORES_MAX).collect();
        for (chore, _) in &due {
            // Planned later, not forgotten: nobody plans it a second time while it waits for its rows.
            self.set_chore(*chore, Some(now.after(ROWS_PATIENCE_MS)));
        }
        due.into_iter().map(|(_, command)| command).collect()
    }

    /// Whether [`Shard::maintain`] has anything to do at `now`.
    pub(crate) fn has_chores(&self, now: Timestamp) -> bool {
        !self.garbage.is_empty()
            || !self.owners.unused.is_empty()
            || self.live.chores_due.first().is_some_and(|(at, ..)| *at <= now)
    }
}

/// One bounded step through what is gone. Dead letters have numbers below `ids`.
fn sweep(id: u64, garbage: &Garbage, ids: u64, changes: &mut Vec<Change>) {
    let step = |lanes: &[(Lane, Offset, Offset)]| {
        let (lane, from, to) = *lanes.first()?;
        let end = to.min(from + TRIM_OFFSETS_MAX);
        let mut left = lanes.to_vec();
        match end < to {
            true => left[0].1 = end,
            false => drop(left.remove(0)),
        }
        Some((lane, from, end, end == to, left))
    };
    match garbage {
        Garbage::Topic { topic, lanes } => {
            let topic = *topic;
            let Some((lane, from, to, is_last, lanes)) = step(lanes) else {
                let garbage = Box::new(Garbage::Named { topic, done: 0 });
                changes.push(Change::Garbage { id, garbage });
                return;
            };
            changes.push(Change::Sweep(Sweep::Pages { topic, lane, from, to }));
            if is_last {
                changes.push(Change::Sweep(Sweep::Lane { topic, lane }));
            }
            let garbage = Box::new(Garbage::Topic { topic, lanes });
            changes.push(Change::Garbage { id, garbage });
        }
        Garbage::Cursor { generation, lanes } => {
            let generation = *generation;
            let Some((lane, from, to, is_last, lanes)) = step(lanes) else {
                changes.push(Change::GarbageGone(id));
                return;
            };
            changes.push(Change::Sweep(Sweep::Blocks { generation, lane, from, to }));
            if is_last {
                changes.push(Change::Sweep(Sweep::Cursor { generation, lane }));
            }
            let garbage = Box::new(Garbage::Cursor { generation, lanes });
            changes.push(Change::Garbage { id, garbage });
        }
        Garbage::Named { topic, done } => {
            let (topic, done) = (*topic, *done);
            let from = done * TRIM_OFFSETS_MAX;
            let of = u8::try_from(done).ok().filter(|of| *of < POINTER_PARTS);
            if from >= ids && of.is_none() {
                changes.push(Change::GarbageGone(id));
                return;
            }
            if from < ids {
                let to = from + TRIM_OFFSETS_MAX;
                changes.push(Change::Sweep(Sweep::Dead { topic, from, to }));
            }
            changes.extend(of.map(|of| Change::Sweep(Sweep::Pointers { topic, of })));
            let garbage = Box::new(Garbage::Named { topic, done: done + 1 });
            changes.push(Change::Garbage { id, garbage });
        }
    }
}
