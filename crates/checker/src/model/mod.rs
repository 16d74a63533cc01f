//! What must be true after each commit, kept by walking the facts in commit order.
//!
//! 1. A cursor's numbers change only in `Model::becomes` and where it opens, closes or goes on.
//! 2. After a violation the model follows the history, so that one mistake is not told twice.
//! 3. Times are those of the authority clock: the `now` of the batch.
//!
//! One file for each thing that is judged; this one has the state and the walk.

mod commit;
mod counted;
mod cursor;
mod death;
mod drained;
mod grant;
mod inspect;
mod letters;
mod operator;
mod progress;
mod settle;

use std::fmt;

use crate::history::Verb;
use crate::ids::{Column, CursorId, EntryId, FastMap, LabelId, LaneId, LifeId, NameId, PositionId};
use crate::invariant::Invariant;
use crate::report::Findings;
use crate::story::{Batch, Put, Seen, Settle, Step, Story};

use commit::ShardState;
use death::Death;
use operator::Operator;
use progress::Progress;

/// Judges everything that was committed, and how it ended.
pub(crate) fn judge(story: &Story<'_>, findings: &mut Findings) {
    let mut model = Model::new(story, findings);
    let mut counted = counted::Expected::new(story);
    for moment in &story.moments {
        match moment.seen {
            Seen::Invoked(call) => {
                if let Some(settle) = story.settled_by(call) {
                    model.asked(settle);
                }
                model.operated(call);
            }
            Seen::Committed(batch) => {
                let batch = &story.batches[batch];
                model.commit(batch);
                counted.after(&mut model, batch);
            }
            Seen::Left(consumer) => model.left(consumer),
            Seen::Answered(_) | Seen::Delivered { .. } | Seen::Written { .. } => {}
        }
    }
    counted.finish(&mut model);
    model.dead_letters();
    if let Some(ended) = story.ended {
        model.drained(ended);
    }
}

struct Model<'s, 'a> {
    story: &'s Story<'a>,
    findings: &'s mut Findings,
    shards: FastMap<u32, ShardState>,
    lanes: Column<LaneId, LaneState>,
    messages: Column<PositionId, Option<Message<'a>>>,
    positions: Column<LabelId, Option<PositionId>>,
    cursors: Column<CursorId, CursorState>,
    entries: Column<EntryId, EntryState>,
    /// Live leases of each consumer.
    consumers: FastMap<u64, u64>,
    topics_gone: Column<NameId, bool>,
    deaths: Vec<Death<'a>>,
    death_of: Column<LabelId, Option<usize>>,
    /// Settlements by owner name, which may hit another attempt or generation than their sender knew.
    asked_by_owner: FastMap<(CursorId, u64), Verbs>,
    /// The batch being walked.
    seq: u64,
    now: u64,
    /// What the batch must make good before it ends.
    ended_as_dead: Vec<EntryId>,
    died: Vec<usize>,
    buried: Vec<LabelId>,
    came_back: Vec<LabelId>,
    operator: Operator<'a>,
    progress: Progress,
}

/// A partition of a topic.
#[derive(Clone, Default)]
struct LaneState {
    /// First offset not yet stored.
    high: u64,
    /// First offset still kept.
    first: u64,
    /// It is a partition of a `dlq.` topic.
    has_dead_letters: bool,
    stored: Vec<PositionId>,
}

/// A stored message.
#[derive(Clone, Copy)]
struct Message<'a> {
    put: Put<'a>,
    /// The batch that stored it, and its time.
    seq: u64,
    at: u64,
}

/// A group's place in a partition.
#[derive(Clone, Default)]
struct CursorState {
    /// Its generation, while topic and group are there.
    life: Option<LifeId>,
    /// The greatest generation it ever had.
    generation: u64,
    /// First offset of this generation.
    start: u64,
    /// First offset never looked at.
    next: u64,
    leased: u64,
    waiting: u64,
    settled: u64,
    /// What was granted in this generation.
    granted: Vec<EntryId>,
}

/// A message in a generation of a cursor.
#[derive(Clone, Copy, Default)]
struct EntryState {
    state: State,
    /// The last attempt granted; 0 = none.
    attempt: u32,
    /// Of those, the ones given back.
    returned: u32,
    asked: Verbs,
    /// The batch that says why it is dead.
    died: Option<u64>,
    /// How often it could be granted in all when its last attempt failed.
    limit: Option<u32>,
}

impl EntryState {
    /// Attempts that count. In a history in which attempts begin anew more may have been given back.
    fn spent(&self) -> u32 {
        self.attempt.saturating_sub(self.returned)
    }
}

/// Where a message is in its life.
#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Fresh,
    Leased {
        until: u64,
        consumer: u64,
    },
    Waiting {
        due: u64,
        is_expired: bool,
    },
    Acked,
    /// `seq` is the batch.
    Dead {
        is_asked: bool,
        seq: u64,
    },
    Passed,
}

/// Takes one away. A history in which a generation comes back has nothing to take from.
fn lower(n: &mut u64) {
    *n = n.saturating_sub(1);
}

/// Which settlements were asked for.
#[derive(Clone, Copy, Default)]
struct Verbs {
    ack: bool,
    nack: bool,
    last: bool,
}

impl Verbs {
    fn add(&mut self, verb: &Verb) {
        match verb {
            Verb::Ack => self.ack = true,
            Verb::Nack { .. } => self.nack = true,
            Verb::Final => self.last = true,
            Verb::Release { .. } | Verb::Extend { .. } => {}
        }
    }
}

impl<'s, 'a> Model<'s, 'a> {
    fn new(story: &'s Story<'a>, findings: &'s mut Findings) -> Self {
        let places = &story.places;
        Self {
            story,
            findings,
            shards: FastMap::default(),
            lanes: places.lanes.column(LaneState::default()),
            messages: places.positions.column(None),
            positions: places.labels.column(None),
            cursors: places.cursors.column(CursorState::default()),
            entries: places.entries.column(EntryState::default()),
            consumers: FastMap::default(),
            topics_gone: places.names.column(false),
            deaths: Vec::new(),
            death_of: places.labels.column(None),
            asked_by_owner: FastMap::default(),
            seq: 0,
            now: 0,
            ended_as_dead: Vec::new(),
            died: Vec::new(),
            buried: Vec::new(),
            came_back: Vec::new(),
            operator: Operator::new(story),
            progress: Progress::new(story),
        }
    }

    fn asked(&mut self, settle: Settle<'_>) {
        let entry = settle.entry;
        self.entries[entry].asked.add(settle.verb);
        if settle.by_owner {
            let places = &self.story.places;
            let place = (places.cursor_of(entry), places.offset_of(entry));
            self.asked_by_owner.entry(place).or_default().add(settle.verb);
        }
    }

    /// A client asked for it, by whatever form.
    fn was_asked(&self, entry: EntryId, verb: impl Fn(Verbs) -> bool) -> bool {
        let places = &self.story.places;
        let place = (places.cursor_of(entry), places.offset_of(entry));
        verb(self.entries[entry].asked)
            || self.asked_by_owner.get(&place).is_some_and(|asked| verb(*asked))
    }

    fn commit(&mut self, batch: &Batch) {
        self.open(batch);
        let mut looks = self.looks_of(batch);
        looks.iter_mut().for_each(|look| self.look(look));
        for step in self.story.steps_of(batch) {
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
                let (cursor, _) = self.story.places.lives.key(life);
                let reader = self.story.places.cursors.key(cursor).0;
                self.is_of_shard(reader, shard);
                self.group_begins(reader);
                self.opened(life, offset);
                self.progressed(cursor);
            }
            Step::Set { topic, settings } => self.set(topic, settings),
            Step::Paused { reader, until } => self.paused(reader, until),
            Step::Resumed { reader } => self.resumed(reader),
            Step::Joined { consumer, reader } => self.joined(consumer, reader),
            Step::Dropped { id } => self.dropped(id),
            Step::Lost { lane, offset } => self.lost(lane, offset),
            Step::GroupGone { reader } => {
                self.group_gone(reader);
                self.story.places.cursors_of(reader).for_each(|cursor| self.closed(cursor));
            }
            Step::TopicGone { topic } => {
                self.topics_gone[topic] = true;
                self.story.places.cursors_on(topic).for_each(|cursor| self.closed(cursor));
            }
            Step::Granted { entry, granted } => self.granted(entry, granted),
            Step::Passed { entry } => self.passed(entry),
            Step::Extended { entry, attempt, until } => self.extended(entry, attempt, until),
            Step::Ended { entry, attempt, how } => self.ended(entry, attempt, how),
            Step::Died { entry, attempt, reason, id } => self.died(entry, attempt, reason, id),
            Step::Trimmed { lane, first } => self.trimmed(lane, first),
            // Other judges look at these.
            Step::Pointed { .. }
            | Step::Deduplicated { .. }
            | Step::Pinned { .. }
            | Step::Redriven { .. }
            | Step::Recorded { .. }
            | Step::Decided { .. }
            | Step::Committed { .. }
            | Step::Sent { .. }
            | Step::Arrived { .. }
            | Step::TurnedAway { .. }
            | Step::Left { .. } => {}
            // It is a dead letter, and nothing died.
            Step::CameBack { id } => self.came_back.push(id),
        }
    }

    /// The only place where what a cursor counts changes with the life of a message.
    fn becomes(&mut self, entry: EntryId, state: State) {
        let cursor = &mut self.cursors[self.story.places.cursor_of(entry)];
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

    /// The message of an entry, if it is stored.
    fn message_of(&self, entry: EntryId) -> Option<Message<'a>> {
        self.messages[self.story.places.position_of(entry)]
    }

    /// Puts a violation of this batch on record, said of an entry.
    fn breaks(&mut self, invariant: Invariant, entry: EntryId, says: fmt::Arguments<'_>) {
        let text = self.story.places.entry_text(entry);
        self.findings.add(invariant, self.seq, format_args!("{text} {says}"));
    }
}
