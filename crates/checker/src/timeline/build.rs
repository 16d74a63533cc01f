//! Builds a timeline from events.

use std::collections::BTreeSet;

use crate::history::{Commit, DeadLetter, Event, Op, Produce, Reply, Start, What};
use crate::ids::{CallId, Column, CommitId, FastMap};
use crate::report::Counts;

use super::facts;
use super::{
    Ask, Batch, Call, Counted, Letter, Moment, Outcome, Places, Seen, Send, Settle, Timeline,
};

/// Reads the events in the order of `seq`. They may be unsorted.
pub(super) fn build(events: &[Event]) -> Timeline<'_> {
    let mut teller = Builder::new(events.len());
    if events.is_sorted_by_key(|event| event.seq) {
        events.iter().for_each(|event| teller.event(event));
    } else {
        let mut sorted: Vec<&Event> = events.iter().collect();
        sorted.sort_by_key(|event| event.seq);
        sorted.into_iter().for_each(|event| teller.event(event));
    }
    teller.finish()
}

struct Builder<'a> {
    timeline: Timeline<'a>,
    call_ids: FastMap<u64, CallId>,
}

impl<'a> Builder<'a> {
    fn new(n_events: usize) -> Self {
        let timeline = Timeline {
            moments: Vec::with_capacity(n_events),
            calls: Column::new(),
            commits: Column::new(),
            batches: Vec::new(),
            steps: Vec::new(),
            counted: Vec::new(),
            dead_letters: Vec::new(),
            open_max: None,
            corrupted: Vec::new(),
            older_nodes: BTreeSet::new(),
            healed: None,
            ended: None,
            places: Places::new(),
            counts: Counts::default(),
        };
        Self { timeline, call_ids: FastMap::default() }
    }

    fn finish(mut self) -> Timeline<'a> {
        for call in self.timeline.calls.iter() {
            let counts = &mut self.timeline.counts;
            match call.outcome {
                Outcome::Unknown => counts.unknown += 1,
                Outcome::Refused { .. } => counts.refused += 1,
                Outcome::Produced { .. }
                | Outcome::Redriven { .. }
                | Outcome::Began { .. }
                | Outcome::Committed { .. }
                | Outcome::Purged { .. }
                | Outcome::Inspected(_)
                | Outcome::Group(_)
                | Outcome::Pointer(_)
                | Outcome::Settings(_)
                | Outcome::Done => counts.done += 1,
            }
        }
        self.timeline
    }

    fn event(&mut self, event: &'a Event) {
        self.timeline.counts.events += 1;
        let seq = event.seq;
        match &event.what {
            What::Invoked { call, op } => self.invoked(event, *call, op),
            What::Done { call, reply } => self.answered(event, *call, Answer::Done(reply)),
            What::Refused { call, code, state } => {
                let refused = Outcome::Refused { code, state: state.as_deref() };
                self.answered(event, *call, Answer::Known(refused));
            }
            What::Unknown { call } => {
                self.answered(event, *call, Answer::Known(Outcome::Unknown));
            }
            What::Delivered(delivery) => {
                self.timeline.counts.delivered += 1;
                let entry = self.timeline.places.leased(&delivery.lease);
                let at = self.timeline.places.position_of(entry);
                let id = self.timeline.places.label_at(at, &delivery.id);
                self.moment(event, Seen::Delivered { entry, id, delivery });
            }
            What::Committed { shard, epoch, batch, now, facts } => {
                let from = self.timeline.steps.len();
                for fact in facts {
                    facts::build(&mut self.timeline, &self.call_ids, fact);
                }
                self.moment(event, Seen::Committed(self.timeline.batches.len()));
                self.timeline.batches.push(Batch {
                    seq,
                    at: event.at,
                    shard: *shard,
                    epoch: *epoch,
                    number: *batch,
                    now: *now,
                    steps: from..self.timeline.steps.len(),
                });
                self.timeline.counts.batches += 1;
            }
            What::Counted { batch, counters } => {
                let cursor = self.timeline.places.cursor(
                    &counters.topic,
                    &counters.group,
                    counters.partition,
                );
                self.timeline.counted.push(Counted { seq, cursor, batch: *batch, counters });
            }
            What::DeadLetter(letter) => self.dead_letter(seq, letter),
            What::Limits { open_max } => self.timeline.open_max = Some(*open_max),
            What::Written { lease } => {
                let (entry, attempt) = (self.timeline.places.leased(lease), lease.attempt);
                self.moment(event, Seen::Written { entry, attempt });
            }
            What::Left { consumer } => {
                self.moment(event, Seen::Left { consumer: *consumer, at: event.at })
            }
            // Other checks read the event itself.
            What::OlderNodes { shard, epoch } => {
                self.timeline.older_nodes.insert((*shard, *epoch));
            }
            What::Corrupted { topic, partition, from, to, .. } => {
                let lane = self.timeline.places.lane(topic, *partition);
                self.timeline.corrupted.push((seq, lane, *from..*to));
            }
            What::Damaged { .. }
            | What::Leaked { .. }
            | What::Restored { .. }
            | What::Clock { .. }
            | What::Claimed { .. }
            | What::Renewed { .. }
            | What::Stopped { .. }
            | What::Decided { .. } => {}
            What::Fault { .. } => self.timeline.counts.faults += 1,
            What::Healed => self.timeline.healed = Some(seq),
            What::Ended => self.timeline.ended = Some(seq),
        }
    }

    fn moment(&mut self, event: &Event, seen: Seen<'a>) {
        self.timeline.moments.push(Moment { seq: event.seq, process: event.process, seen });
    }

    fn invoked(&mut self, event: &'a Event, call: u64, op: &'a Op) {
        let ask = self.ask(op);
        let invoked = event.seq;
        let outcome = Outcome::Unknown;
        let id = self.timeline.calls.push(Call { invoked, answered: u64::MAX, ask, outcome });
        self.call_ids.insert(call, id);
        self.moment(event, Seen::Invoked(id));
    }

    fn ask(&mut self, op: &'a Op) -> Ask<'a> {
        let places = &mut self.timeline.places;
        match op {
            Op::Produce(produce) => Ask::Produce(self.send(produce)),
            Op::Settle { lease, verb, by_owner } => Ask::Settle(Settle {
                entry: places.leased(lease),
                attempt: lease.attempt,
                verb,
                by_owner: *by_owner,
            }),
            Op::CreateGroup { topic, group, latest } => {
                let start = if *latest { Start::Latest } else { Start::Earliest };
                Ask::CreateGroup(places.reader(topic, group), start)
            }
            Op::CreateGroupAt { topic, group, since } => {
                Ask::CreateGroup(places.reader(topic, group), Start::Time(*since))
            }
            Op::SeekAll { topic, group, to } => Ask::SeekAll(places.reader(topic, group), *to),
            Op::Patch { topic } => Ask::Settings(places.names.id(topic)),
            Op::Purge { ids, dry_run, .. } => {
                for id in ids {
                    places.labels.id(id);
                }
                Ask::Purge { ids, dry_run: *dry_run }
            }
            Op::Inspect { topic, partition } => Ask::Inspect(places.lane(topic, *partition)),
            Op::ExplainGroup { .. } => Ask::ExplainGroup,
            Op::ReadPointer { topic, name } => {
                Ask::ReadPointer { topic: places.names.id(topic), name }
            }
            Op::Outdated => Ask::Outdated,
            Op::DeleteGroup { topic, group } => Ask::DeleteGroup(places.reader(topic, group)),
            Op::DeleteTopic { topic } => Ask::DeleteTopic(places.names.id(topic)),
            Op::Seek { topic, group, partition, .. } => {
                Ask::Seek(places.cursor(topic, group, *partition))
            }
            Op::Redrive { id, .. } => Ask::Redrive(places.labels.id(id)),
            Op::Begin(begin) => Ask::Begin { effect: places.effect(&begin.effect), begin },
            Op::Finish { right, status, outcome } => {
                let effect = places.effect(&right.effect);
                Ask::Finish { effect, right, status: *status, outcome }
            }
            Op::ExtendEffect { right } => {
                Ask::ExtendEffect { effect: places.effect(&right.effect), right }
            }
            Op::Resolve { effect, fence, status, outcome } => {
                let effect = places.effect(effect);
                Ask::Resolve { effect, fence: *fence, status: *status, outcome }
            }
            Op::Commit(commit) => Ask::Commit(self.commit(commit, false)),
            Op::OutdatedCommit(commit) => Ask::Commit(self.commit(commit, true)),
            Op::Pause { .. } | Op::Look => Ask::Other,
        }
    }

    fn commit(&mut self, asked: &'a Commit, is_outdated: bool) -> CommitId {
        let produce = asked.produce.iter().map(|produce| self.send(produce)).collect();
        let places = &mut self.timeline.places;
        let settle = Settle {
            entry: places.leased(&asked.lease),
            attempt: asked.lease.attempt,
            verb: &asked.verb,
            by_owner: false,
        };
        let finishes = asked.finishes.iter();
        let finishes = finishes.map(|finish| (places.effect(&finish.right.effect), finish));
        let finishes = finishes.collect();
        self.timeline.commits.push(super::Commit { settle, finishes, produce, asked, is_outdated })
    }

    fn send(&mut self, produce: &'a Produce) -> Send<'a> {
        let places = &mut self.timeline.places;
        let topic = places.names.id(&produce.topic);
        let tenant = places.names.id(&produce.message.tenant);
        let key = produce.idem.as_deref().map(|key| places.names.id(key));
        let identity = key.map(|key| places.identities.id((topic, tenant, key)));
        let target = produce.target.as_deref().map(|target| places.names.id(target));
        let nonce = produce.nonce.as_deref().map(|nonce| places.names.id(nonce));
        let (content, size) = (&produce.message, produce.size);
        Send { topic, content, tenant, identity, key, nonce, target, size }
    }

    fn answered(&mut self, event: &Event, call: u64, answer: Answer<'a>) {
        let Some(&id) = self.call_ids.get(&call) else {
            return;
        };
        let outcome = match answer {
            Answer::Known(outcome) => outcome,
            Answer::Done(reply) => self.reply(id, reply),
        };
        let call = &mut self.timeline.calls[id];
        call.answered = event.seq;
        call.outcome = outcome;
        self.moment(event, Seen::Answered(id));
    }

    fn reply(&mut self, call: CallId, reply: &'a Reply) -> Outcome<'a> {
        let places = &mut self.timeline.places;
        match reply {
            Reply::Produced { id, topic, partition, offset, deduplicated } => {
                let Ask::Produce(send) = self.timeline.calls[call].ask else {
                    return Outcome::Done;
                };
                let topic = topic.as_deref().map_or(send.topic, |topic| places.names.id(topic));
                let lane = places.lanes.id((topic, *partition));
                let at = places.positions.id(lane, *offset);
                Outcome::Produced { id: places.label_at(at, id), at, deduplicated: *deduplicated }
            }
            Reply::Redriven { new, already } => {
                Outcome::Redriven { new: places.labels.id(new), already: *already }
            }
            Reply::Began { decision, right, outcome } => {
                let effect = places.effect(&right.effect);
                Outcome::Began { decision: *decision, effect, right, outcome }
            }
            Reply::Committed { produced, repeated } => {
                Outcome::Committed { produced, repeated: *repeated }
            }
            Reply::Purged { count } => Outcome::Purged { count: *count },
            Reply::Inspected(shown) => {
                for shown in shown {
                    places.labels.id(&shown.id);
                    places.names.id(&shown.group);
                }
                Outcome::Inspected(shown)
            }
            Reply::Group(shown) => {
                for of in shown {
                    places.cursor(&of.topic, &of.group, of.partition);
                }
                Outcome::Group(shown)
            }
            Reply::Pointer { location } => Outcome::Pointer(location),
            Reply::Topic { settings } => Outcome::Settings(settings),
            Reply::Settled | Reply::Ok => Outcome::Done,
        }
    }

    fn dead_letter(&mut self, seq: u64, letter: &'a DeadLetter) {
        let places = &mut self.timeline.places;
        let told = Letter {
            seq,
            id: places.labels.id(&letter.id),
            at: places.position(&letter.topic, letter.partition, letter.offset),
            cursor: places.cursor(&letter.topic, &letter.group, letter.partition),
            origin: places.labels.id(&letter.origin),
            key: letter.idem.as_deref().map(|key| places.names.id(key)),
            redriven: letter.redriven.as_deref().map(|new| places.labels.id(new)),
            letter,
        };
        self.timeline.dead_letters.push(told);
    }
}

enum Answer<'a> {
    Done(&'a Reply),
    Known(Outcome<'a>),
}
