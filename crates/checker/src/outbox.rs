//! Checks messages that commits send to another shard: the parts of `NoLoss`, `NoPhantom`,
//! `MonotonicNumbers`, `DeadLetteredOnce`, `NoEarlyDeadLetter`, `FaithfulDeadLetter`,
//! `ProducerOrder` and `EventualDrain` that concern them. `content` checks that they are stored
//! once.
//!
//! Skipped if the history has no commits.

use std::collections::BTreeMap;

use crate::ids::{Column, FastMap, FastSet, LabelId, NameId};
use crate::invariant::Invariant::{
    DeadLetteredOnce, EventualDrain, FaithfulDeadLetter, MonotonicNumbers, NoEarlyDeadLetter,
    NoLoss, NoPhantom, ProducerOrder,
};
use crate::repeats::Repeats;
use crate::report::Findings;
use crate::timeline::{Ask, Batch, Commit, Letter, Put, Seen, Send, Step, Timeline};

/// Checks every route from one shard to another.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    if !timeline.has_facts() {
        return;
    }
    let mut judge = Judge {
        timeline,
        findings,
        commits: FastMap::default(),
        ways: FastMap::default(),
        numbers: FastMap::default(),
        stored: FastSet::default(),
        came_back: FastMap::default(),
        topics_gone: timeline.places.names.column(false),
        dropped: FastSet::default(),
        repeats: Repeats::new(timeline),
    };
    for moment in &timeline.moments {
        match moment.seen {
            Seen::Invoked(call) => {
                if let Ask::Commit(commit) = timeline.calls[call].ask {
                    let commit = &timeline.commits[commit];
                    let bodies = commit.produce.iter().map(|send| send.content.body);
                    judge.commits.extend(bodies.map(|body| (body, commit)));
                }
            }
            Seen::Committed(batch) => judge.batch(&timeline.batches[batch]),
            Seen::Answered(_)
            | Seen::Delivered { .. }
            | Seen::Written { .. }
            | Seen::Left { .. } => {}
        }
    }
    judge.letters();
    if let Some(ended) = timeline.ended {
        judge.drained(ended);
    }
}

/// (source shard, target shard).
type Route = (u32, u32);

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    /// The commit that produces each body.
    commits: FastMap<u64, &'s Commit<'a>>,
    ways: FastMap<Route, Way>,
    /// The route and the number of each body.
    numbers: FastMap<u64, (Route, u64)>,
    /// Bodies of commits that are stored.
    stored: FastSet<u64>,
    /// Dead letters of messages that the target shard rejected: (body, batch).
    came_back: FastMap<LabelId, (u64, u64)>,
    topics_gone: Column<NameId, bool>,
    /// Dead letters that were deleted.
    dropped: FastSet<LabelId>,
    repeats: Repeats,
}

/// The messages of one route.
#[derive(Default)]
struct Way {
    /// The next number.
    next: u64,
    /// Every number below has arrived or was rejected.
    arrived: u64,
    /// The first number above all that the target shard has stored.
    in_order: u64,
    turned_away: FastSet<u64>,
    bodies: BTreeMap<u64, Going>,
}

#[derive(Clone, Copy)]
struct Going {
    body: u64,
    /// The batch in which it was dead-lettered as undeliverable.
    came_back: Option<u64>,
    /// It was removed from the outbox.
    has_left: bool,
    /// It had arrived and was forwarded to another shard.
    is_onward: bool,
}

impl<'a> Judge<'_, 'a> {
    fn batch(&mut self, batch: &Batch) {
        let Batch { seq, shard, .. } = *batch;
        let steps = self.timeline.steps_of(batch);
        // Facts whose order inside a batch does not matter come first.
        for step in steps {
            self.repeats.step(self.timeline, step);
            match step {
                Step::Stored(put) => {
                    self.stored(seq, shard, put);
                }
                &Step::TurnedAway { from, number } => {
                    self.ways.entry((from, shard)).or_default().turned_away.insert(number);
                }
                &Step::TopicGone { topic } => {
                    self.topics_gone[topic] = true;
                }
                &Step::Dropped { id } => {
                    self.dropped.insert(id);
                }
                _ => {}
            }
        }
        for step in steps {
            if let Step::CameBack { id } = *step {
                self.came_back(batch, id);
            }
        }
        for step in steps {
            if let Step::Sent { to, number, content } = *step {
                self.sent(seq, (shard, to), number, content.body);
            }
        }
        for step in steps {
            match *step {
                Step::Arrived { from, through } => {
                    self.arrived(seq, (from, shard), through);
                }
                Step::Left { to, number } => {
                    self.left(seq, (shard, to), number);
                }
                _ => {}
            }
        }
    }

    fn sent(&mut self, seq: u64, route: Route, number: u64, body: u64) {
        let (from, to) = route;
        let way = self.ways.entry(route).or_default();
        if number != way.next {
            let detail = format_args!(
                "message {number} from shard {from} to shard {to} was sent, but the next number is {}",
                way.next
            );
            self.findings.add(MonotonicNumbers, seq, detail);
        }
        way.next = number.saturating_add(1);
        let is_onward = self.numbers.insert(body, (route, number)).is_some();
        way.bodies.insert(number, Going { body, came_back: None, has_left: false, is_onward });
        if !self.commits.contains_key(&body) {
            let detail = format_args!(
                "message {number} from shard {from} to shard {to} belongs to no commit"
            );
            self.findings.add(NoPhantom, seq, detail);
        }
    }

    /// Checks that a message is stored after the messages that were sent before it.
    fn stored(&mut self, seq: u64, shard: u32, put: &Put<'a>) {
        let body = put.stored.message.body;
        let is_new = !put.stored.dead_letter && put.for_group.is_none();
        if !is_new || !self.commits.contains_key(&body) || !self.stored.insert(body) {
            return;
        }
        let Some(&((from, to), number)) = self.numbers.get(&body) else { return };
        if to != shard {
            return;
        }
        let way = self.ways.entry((from, to)).or_default();
        if number < way.in_order {
            let detail = format_args!(
                "message {number} from shard {from} was stored in shard {to} after message {}",
                way.in_order - 1
            );
            self.findings.add(ProducerOrder, seq, detail);
        }
        way.in_order = way.in_order.max(number.saturating_add(1));
    }

    fn arrived(&mut self, seq: u64, route: Route, through: u64) {
        let (from, to) = route;
        let way = self.ways.entry(route).or_default();
        if through < way.arrived || through > way.next {
            let detail = format_args!(
                "shard {to} reports messages below {through} from shard {from} as arrived; the number must be between {} and {}",
                way.arrived, way.next
            );
            self.findings.add(
                if through < way.arrived { MonotonicNumbers } else { NoPhantom },
                seq,
                detail,
            );
            return;
        }
        for (number, going) in way.bodies.range(way.arrived..through) {
            let is_onward = self.numbers.get(&going.body).is_some_and(|(on, _)| on.0 == to);
            let is_here = self.stored.contains(&going.body)
                || is_onward
                || is_repeat(&self.commits, &self.repeats, going.body);
            if !is_here && !way.turned_away.contains(number) {
                let detail = format_args!(
                    "message {number} from shard {from} to shard {to} was reported as arrived but is not stored there"
                );
                self.findings.add(NoLoss, seq, detail);
            }
        }
        way.arrived = through;
    }

    fn came_back(&mut self, batch: &Batch, id: LabelId) {
        let name = self.timeline.places.labels.key(id);
        let seq = batch.seq;
        let stored = self.timeline.steps_of(batch).iter().find_map(|step| {
            if let Step::Stored(put) = step { Some(put) } else { None }
                .filter(|put| put.id == id && put.stored.dead_letter)
        });
        let Some(put) = stored else {
            let detail = format_args!(
                "{name} was reported as undeliverable but is not stored as a dead letter"
            );
            self.findings.add(DeadLetteredOnce, seq, detail);
            return;
        };
        let body = put.stored.message.body;
        self.came_back.insert(id, (body, seq));
        let Some(&(route, number)) = self.numbers.get(&body) else {
            let detail = format_args!(
                "dead letter {name} is undeliverable, but its message was never sent to another shard"
            );
            self.findings.add(DeadLetteredOnce, seq, detail);
            return;
        };
        let way = self.ways.entry(route).or_default();
        if !way.turned_away.contains(&number) {
            let detail = format_args!(
                "dead letter {name} is undeliverable, but shard {} did not reject its message",
                route.1
            );
            self.findings.add(NoEarlyDeadLetter, seq, detail);
        }
        let Some(going) = way.bodies.get_mut(&number) else { return };
        if going.came_back.replace(seq).is_some() || self.stored.contains(&body) {
            let detail = format_args!(
                "dead letter {name} is undeliverable, but its message is stored or was already dead-lettered"
            );
            self.findings.add(DeadLetteredOnce, seq, detail);
        }
    }

    /// Checks the removal of a message from the outbox: it has arrived, or is dead-lettered in this
    /// batch.
    fn left(&mut self, seq: u64, route: Route, number: u64) {
        let (from, to) = route;
        let way = self.ways.entry(route).or_default();
        let going = way.bodies.get_mut(&number).filter(|going| !going.has_left);
        let Some(going) = going else {
            let detail = format_args!(
                "message {number} from shard {from} to shard {to} was removed from the outbox but is not in it"
            );
            self.findings.add(NoPhantom, seq, detail);
            return;
        };
        going.has_left = true;
        if !way.turned_away.contains(&number) {
            if way.arrived <= number {
                let detail = format_args!(
                    "message {number} from shard {from} was removed from the outbox before shard {to} stored it"
                );
                self.findings.add(NoLoss, seq, detail);
            }
            return;
        }
        let going = *going;
        // If the topic of the sender was deleted, there is no place for the dead letter.
        let sender = self.sender(&going);
        let has_sender = sender.is_some_and(|topic| !self.topics_gone[topic]);
        if going.came_back != Some(seq) && has_sender {
            let detail = format_args!(
                "message {number} from shard {from} to shard {to} was rejected and removed without a dead letter"
            );
            self.findings.add(DeadLetteredOnce, seq, detail);
        }
    }

    /// The topic whose dead letters receive the message if it is undeliverable.
    fn sender(&self, going: &Going) -> Option<NameId> {
        let commit = self.commits.get(&going.body)?;
        let places = &self.timeline.places;
        if going.is_onward {
            Some(send_of(commit, going.body)?.topic)
        } else {
            Some(places.topic_of(places.cursor_of(commit.settle.entry)))
        }
    }

    /// The last transfer of a message.
    fn last_way(&self, body: u64) -> Option<Going> {
        let (route, number) = self.numbers.get(&body)?;
        self.ways.get(route)?.bodies.get(number).copied()
    }

    /// Checks dead letters as read at the end.
    fn letters(&mut self) {
        let mut read: FastSet<LabelId> = FastSet::default();
        for letter in self.timeline.dead_letters.iter().filter(|letter| letter.is_undeliverable()) {
            let name = self.timeline.places.labels.key(letter.id);
            if !read.insert(letter.id) {
                self.findings.add(
                    DeadLetteredOnce,
                    letter.seq,
                    format_args!("dead letter {name} exists twice"),
                );
                continue;
            }
            match self.came_back.get(&letter.id) {
                Some((body, _)) => self.faithful(letter, *body),
                None => {
                    let detail = format_args!(
                        "dead letter {name} is undeliverable, but no message was rejected"
                    );
                    self.findings.add(DeadLetteredOnce, letter.seq, detail);
                }
            }
        }
        let Some(ended) = self.timeline.ended else { return };
        for (id, (body, _)) in &self.came_back {
            let sender = self.last_way(*body).and_then(|going| self.sender(&going));
            let is_gone = sender.is_some_and(|topic| self.topics_gone[topic]);
            if !read.contains(id) && !is_gone && !self.dropped.contains(id) {
                let name = self.timeline.places.labels.key(*id);
                self.findings.add(
                    DeadLetteredOnce,
                    ended,
                    format_args!(
                        "dead letter {name} of an undeliverable message does not exist at the end"
                    ),
                );
            }
        }
    }

    /// Checks that the dead letter names the commit that sent the message.
    fn faithful(&mut self, told: &Letter<'_>, body: u64) {
        let Some(commit) = self.commits.get(&body) else { return };
        let places = &self.timeline.places;
        let (entry, letter) = (commit.settle.entry, told.letter);
        let is_onward = self.last_way(body).is_some_and(|going| going.is_onward);
        let send = send_of(commit, body);
        let is_from_there = if is_onward {
            send.is_some_and(|send| places.names.key(send.topic) == &*letter.topic)
        } else {
            let (lane, offset) = places.positions.key(places.position_of(entry));
            let (topic, partition) = places.lanes.key(lane);
            // A message sent by the reader of a dead letter returns to the topic of that dead
            // letter.
            let topic = places.names.key(topic);
            let topic = topic.strip_prefix("dlq.").unwrap_or(topic);
            (&*letter.topic, letter.partition, letter.offset) == (topic, partition, offset)
        };
        let group = places.names.key(places.group_of(places.cursor_of(entry)));
        let is_of_its_group = *letter.group == *group || letter.group.is_empty();
        let is_so = is_from_there
            && is_of_its_group
            && letter.attempts == 0
            && send.is_some_and(|send| *send.content == letter.message && send.key == told.key);
        if !is_so {
            let (name, text) = (places.labels.key(told.id), places.entry_text(entry));
            let detail = format_args!(
                "dead letter {name} belongs to the commit of {text}, but it contains {letter:?}"
            );
            self.findings.add(FaithfulDeadLetter, told.seq, detail);
        }
    }

    fn drained(&mut self, ended: u64) {
        for ((from, to), way) in &self.ways {
            let waiting = way.bodies.values().filter(|going| !going.has_left).count();
            if waiting > 0 {
                let detail = format_args!(
                    "{waiting} messages from shard {from} to shard {to} are still in the outbox"
                );
                self.findings.add(EventualDrain, ended, detail);
            }
        }
    }
}

fn send_of<'a>(commit: &Commit<'a>, body: u64) -> Option<Send<'a>> {
    commit.produce.iter().find(|send| send.content.body == body).copied()
}

/// Whether the key of a body stands for another message.
fn is_repeat(commits: &FastMap<u64, &Commit<'_>>, repeats: &Repeats, body: u64) -> bool {
    let sends = commits.get(&body).into_iter().flat_map(|commit| &commit.produce);
    sends
        .filter(|send| send.content.body == body)
        .any(|send| repeats.messages_of(send).next().is_some())
}
