//! The model: the state that must hold after each commit, updated by applying the facts in commit
//! order.
//!
//! 1. The counters of a cursor change only in `Model::becomes` and where it opens, closes or
//!    advances.
//! 2. After a violation the model follows the history, so one mistake is not reported twice.
//! 3. Times are those of the authority clock: the `now` of the batch.
//!
//! Each file checks one subject. This one applies the batches.

mod cause;
mod commit;
mod consumers;
mod counted;
mod cursor;
mod death;
mod final_state;
mod grant;
mod inspect;
mod letters;
mod operator;
mod progress;
mod settle;
mod state;

use std::fmt;

use crate::ids::{EntryId, FastMap};
use crate::invariant::Invariant;
use crate::report::Findings;
use crate::timeline::{Batch, Seen, Settle, Step, Timeline};

use state::{
    Connections, CursorState, EntryState, LaneState, Message, Model, Operator, Progress, State,
    Verbs, lower,
};

/// Checks everything that was committed, and the state at the end.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut model = Model::new(timeline, findings);
    let mut counted = counted::Expected::new(timeline);
    for moment in &timeline.moments {
        match moment.seen {
            Seen::Invoked(call) => {
                if let Some(settle) = timeline.settled_by(call) {
                    model.asked(settle);
                }
                model.operated(call);
            }
            Seen::Committed(batch) => {
                let batch = &timeline.batches[batch];
                model.commit(batch);
                counted.after(&mut model, batch);
            }
            Seen::Left { consumer, at } => model.left(consumer, at),
            Seen::Answered(_) | Seen::Delivered { .. } | Seen::Written { .. } => {}
        }
    }
    counted.finish(&mut model);
    model.dead_letters();
    if let Some(ended) = timeline.ended {
        model.drained(ended);
    }
}

impl<'s, 'a> Model<'s, 'a> {
    fn new(timeline: &'s Timeline<'a>, findings: &'s mut Findings) -> Self {
        let places = &timeline.places;
        Self {
            timeline,
            findings,
            shards: FastMap::default(),
            lanes: places.lanes.column(LaneState::default()),
            messages: places.positions.column(None),
            positions: places.labels.column(None),
            cursors: places.cursors.column(CursorState::default()),
            entries: places.entries.column(EntryState::default()),
            consumers: FastMap::default(),
            connections: Connections::default(),
            topics_gone: places.names.column(false),
            deaths: Vec::new(),
            death_of: places.labels.column(None),
            asked_by_owner: FastMap::default(),
            seq: 0,
            now: 0,
            at: 0,
            ended_as_dead: Vec::new(),
            died: Vec::new(),
            buried: Vec::new(),
            came_back: Vec::new(),
            operator: Operator::new(timeline),
            progress: Progress::new(timeline),
        }
    }

    fn asked(&mut self, settle: Settle<'_>) {
        let entry = settle.entry;
        self.entries[entry].asked.add(settle.verb);
        if settle.by_owner {
            let places = &self.timeline.places;
            let place = (places.cursor_of(entry), places.offset_of(entry));
            self.asked_by_owner.entry(place).or_default().add(settle.verb);
        }
    }

    /// Whether a client requested it, by token or by owner name.
    fn was_asked(&self, entry: EntryId, verb: impl Fn(Verbs) -> bool) -> bool {
        let places = &self.timeline.places;
        let place = (places.cursor_of(entry), places.offset_of(entry));
        verb(self.entries[entry].asked)
            || self.asked_by_owner.get(&place).is_some_and(|asked| verb(*asked))
    }

    fn commit(&mut self, batch: &Batch) {
        self.open(batch);
        let mut looks = self.looks_of(batch);
        looks.iter_mut().for_each(|look| self.look(look));
        for step in self.timeline.steps_of(batch) {
            if let Step::WaitEnded { entry, attempt, due } = *step {
                self.wait_ended(batch, entry, attempt, due);
            }
            self.step(batch.shard, step);
            looks.iter_mut().for_each(|look| self.look(look));
        }
        self.close();
        self.close_purges();
        looks.into_iter().for_each(|look| self.judge_look(batch, look));
        self.progress_after(batch);
    }

    fn step(&mut self, shard: u32, step: &Step<'a>) {
        match *step {
            Step::Stored(put) => self.stored(put),
            Step::Opened { life, offset } => {
                let (cursor, _) = self.timeline.places.lives.key(life);
                let reader = self.timeline.places.cursors.key(cursor).0;
                self.is_of_shard(reader, shard);
                // A seek does not count as a use of the group.
                if self.cursors[cursor].life.is_none() {
                    self.group_begins(reader);
                }
                self.opened(life, offset);
                self.progressed(cursor);
            }
            Step::Set { topic, settings } => self.set(topic, settings),
            Step::Paused { reader, until } => self.paused(reader, until),
            Step::Resumed { reader } => self.resumed(reader),
            Step::Joined(joined) => self.joined(joined),
            Step::WorkerLeft { worker, until } => self.worker_left(worker, until),
            Step::Dropped { id } => self.dropped(id),
            Step::Lost { lane, offset } => self.lost(lane, offset),
            Step::GroupGone { reader } => {
                self.group_deleted(reader);
                self.forget_consumers(reader);
                self.timeline.places.cursors_of(reader).for_each(|cursor| self.closed(cursor));
            }
            Step::TopicGone { topic } => {
                self.topics_gone[topic] = true;
                for cursor in self.timeline.places.cursors_on(topic) {
                    self.closed(cursor);
                    self.forget_consumers(self.timeline.places.cursors.key(cursor).0);
                }
            }
            Step::Granted { entry, granted } => self.granted(entry, granted),
            Step::Passed { entry } => self.passed(entry),
            Step::Extended { entry, attempt, until } => self.extended(entry, attempt, until),
            Step::Ended { entry, attempt, how } => self.ended(entry, attempt, how),
            Step::Died { entry, attempt, reason, id } => self.died(entry, attempt, reason, id),
            Step::Trimmed { lane, first } => self.trimmed(lane, first),
            // Needs the other steps of its batch.
            Step::WaitEnded { .. } => {}
            // Checked by other modules.
            Step::Pointed { .. }
            | Step::Deduplicated { .. }
            | Step::Pinned { .. }
            | Step::Redriven { .. }
            | Step::Recorded { .. }
            | Step::Decided { .. }
            | Step::Acted { .. }
            | Step::Committed { .. }
            | Step::Sent { .. }
            | Step::Arrived { .. }
            | Step::TurnedAway { .. }
            | Step::Left { .. } => {}
            // It is a dead letter, but no message of this topic was dead-lettered.
            Step::CameBack { id } => self.came_back.push(id),
        }
    }

    /// The only place where the counters of a cursor change with the state of a message.
    fn becomes(&mut self, entry: EntryId, state: State) {
        let cursor = &mut self.cursors[self.timeline.places.cursor_of(entry)];
        match self.entries[entry].state {
            State::Fresh => {}
            State::Leased { consumer, .. } => {
                lower(&mut cursor.leased);
                self.consumers.entry(consumer).and_modify(lower);
            }
            State::Waiting { .. } => lower(&mut cursor.waiting),
            State::Acked | State::Dead { .. } | State::Passed => lower(&mut cursor.settled),
        }
        match state {
            State::Fresh => {}
            State::Leased { consumer, .. } => {
                cursor.leased += 1;
                *self.consumers.entry(consumer).or_insert(0) += 1;
            }
            State::Waiting { .. } => cursor.waiting += 1,
            State::Acked | State::Dead { .. } | State::Passed => cursor.settled += 1,
        }
        self.entries[entry].state = state;
    }

    /// Returns the message of an entry, if it is stored.
    fn message_of(&self, entry: EntryId) -> Option<Message<'a>> {
        self.messages[self.timeline.places.position_of(entry)]
    }

    /// Records a violation of this batch that concerns an entry.
    fn breaks(&mut self, invariant: Invariant, entry: EntryId, detail: fmt::Arguments<'_>) {
        let text = self.timeline.places.entry_text(entry);
        self.findings.add(invariant, self.seq, format_args!("{text} {detail}"));
    }
}
