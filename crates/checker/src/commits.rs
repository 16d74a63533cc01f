//! Checks commits: `AtomicCommit`, except for effects, which `ledger` checks, and the parts of
//! `StoredAtMostOnce`, `AckIsFinal`, `IdempotentAck` and `DurableReplies` that concern commits.
//!
//! A commit is identified by the attempt that sends it. Skipped if the history has no commits.

use crate::history::{self, How, Name, Verb};
use crate::ids::{CallId, Column, CommitId, CursorId, EntryId, FastMap, FastSet, LabelId};
use crate::invariant::Invariant::{
    self, AckIsFinal, AtomicCommit, DurableReplies, IdempotentAck, StoredAtMostOnce,
};
use crate::repeats::Repeats;
use crate::report::Findings;
use crate::timeline::{Ask, Batch, Outcome, Seen, Send, Step, Timeline};

/// Checks every commit.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    if !timeline.has_facts() {
        return;
    }
    let mut judge = Judge {
        timeline,
        findings,
        senders: FastMap::default(),
        stored: FastMap::default(),
        sent: FastSet::default(),
        done: FastMap::default(),
        decided: FastSet::default(),
        generations: timeline.places.cursors.column(None),
        repeats: Repeats::new(timeline),
    };
    for moment in &timeline.moments {
        match moment.seen {
            Seen::Invoked(call) => judge.invoked(call),
            Seen::Answered(call) => judge.answered(call),
            Seen::Committed(batch) => judge.batch(&timeline.batches[batch]),
            Seen::Delivered { .. } | Seen::Written { .. } | Seen::Left { .. } => {}
        }
    }
}

/// The attempt that a commit belongs to.
type Attempt = (EntryId, u32);

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    /// The attempt whose commit produces each body.
    senders: FastMap<u64, Attempt>,
    /// The message id of each stored body of a commit.
    stored: FastMap<u64, LabelId>,
    /// Bodies that were sent to another shard.
    sent: FastSet<u64>,
    done: FastMap<Attempt, Done<'a>>,
    decided: FastSet<CallId>,
    /// The generation of each cursor, while its topic and group exist.
    generations: Column<CursorId, Option<u64>>,
    repeats: Repeats,
}

/// A completed commit.
#[derive(Clone, Copy)]
struct Done<'a> {
    asked: &'a history::Commit,
    /// The batch.
    seq: u64,
    /// A repeat returns the same result until this time.
    until: u64,
}

impl<'a> Judge<'_, 'a> {
    fn commit_of(&self, call: CallId) -> Option<CommitId> {
        if let Ask::Commit(commit) = self.timeline.calls[call].ask { Some(commit) } else { None }
    }

    fn attempt_of(&self, commit: CommitId) -> Attempt {
        let settle = self.timeline.commits[commit].settle;
        (settle.entry, settle.attempt)
    }

    fn invoked(&mut self, call: CallId) {
        let Some(commit) = self.commit_of(call) else { return };
        let attempt = self.attempt_of(commit);
        for send in &self.timeline.commits[commit].produce {
            self.senders.insert(send.content.body, attempt);
        }
    }

    fn answered(&mut self, id: CallId) {
        let call = &self.timeline.calls[id];
        let is_decided = call.outcome.is_done() || call.outcome.is_refused_by_the_ledger();
        if let Some(commit) = self.commit_of(id)
            && is_decided
            && !self.decided.contains(&id)
        {
            let detail = format_args!("was answered before it was committed");
            self.breaks(DurableReplies, call.answered, self.attempt_of(commit), detail);
        }
    }

    fn batch(&mut self, batch: &Batch) {
        let mut shown = ReportedCommit::default();
        for step in self.timeline.steps_of(batch) {
            self.step(step, &mut shown);
        }
        let mut committed: FastSet<Attempt> = FastSet::default();
        for step in self.timeline.steps_of(batch) {
            if let Step::Committed { call, until } = *step
                && let Some(commit) = self.commit_of(call)
            {
                committed.insert(self.attempt_of(commit));
                self.is_whole(batch.seq, commit, &shown);
                let asked = self.timeline.commits[commit].asked;
                let done = Done { asked, seq: batch.seq, until };
                let attempt = self.attempt_of(commit);
                if self.done.insert(attempt, done).is_some() {
                    self.breaks(
                        StoredAtMostOnce,
                        batch.seq,
                        attempt,
                        format_args!("was committed a second time"),
                    );
                }
            }
        }
        for body in shown.bodies {
            if let Some(attempt) = self.senders.get(&body).filter(|of| !committed.contains(of)) {
                let detail = format_args!("was not committed, but its message {body} is stored");
                self.breaks(AtomicCommit, batch.seq, *attempt, detail);
            }
        }
        for step in self.timeline.steps_of(batch) {
            if let Step::Decided { call } = *step
                && let Some(commit) = self.commit_of(call)
            {
                if !self.decided.insert(call) {
                    let detail = format_args!("was decided twice");
                    self.breaks(DurableReplies, batch.seq, self.attempt_of(commit), detail);
                }
                self.decided(batch, call, commit, committed.contains(&self.attempt_of(commit)));
            }
        }
    }

    fn step(&mut self, step: &Step<'_>, shown: &mut ReportedCommit) {
        let places = &self.timeline.places;
        self.repeats.step(self.timeline, step);
        match step {
            Step::Stored(put) => {
                let body = put.stored.message.body;
                let is_first = !put.stored.dead_letter && put.for_group.is_none();
                if is_first && self.senders.contains_key(&body) && !self.stored.contains_key(&body)
                {
                    self.stored.insert(body, put.id);
                    // A message from another shard was part of a batch there.
                    if !self.sent.contains(&body) {
                        shown.bodies.push(body);
                    }
                }
            }
            Step::Sent { content, .. } => {
                let is_first = self.sent.insert(content.body);
                shown.bodies.extend(is_first.then_some(content.body));
            }
            &Step::Ended { entry, attempt, how } => {
                shown.ended.push(((entry, attempt), how));
            }
            &Step::Opened { life, .. } => {
                let (cursor, generation) = places.lives.key(life);
                self.generations[cursor] = Some(generation);
            }
            &Step::GroupGone { reader } => {
                places.cursors_of(reader).for_each(|cursor| self.generations[cursor] = None);
            }
            &Step::TopicGone { topic } => {
                places.cursors_on(topic).for_each(|cursor| self.generations[cursor] = None);
            }
            _ => {}
        }
    }

    /// Checks that everything a commit requests is in the batch that commits it.
    fn is_whole(&mut self, seq: u64, commit: CommitId, shown: &ReportedCommit) {
        let (attempt, verb) = (self.attempt_of(commit), self.timeline.commits[commit].settle.verb);
        let places = &self.timeline.places;
        let topic = places.names.key(places.topic_of(places.cursor_of(attempt.0)));
        let is_end = |how: &How| match (verb, how) {
            (Verb::Ack, How::Acked) | (Verb::Final, How::Dead { asked: true }) => true,
            // A dead letter is never dead-lettered again.
            (Verb::Final, How::Nacked { .. }) => topic.starts_with("dlq."),
            (Verb::Nack { .. }, how) => {
                matches!(how, How::Nacked { .. } | How::Dead { asked: false })
            }
            (_, _) => false,
        };
        if !shown.ended.iter().any(|(of, how)| *of == attempt && is_end(how)) {
            self.breaks(
                AtomicCommit,
                seq,
                attempt,
                format_args!("was committed, but the delivery did not end as {verb:?}"),
            );
        }
        for send in &self.timeline.commits[commit].produce {
            let body = send.content.body;
            // The message, or the one that its key stands for, may have been stored before.
            let was_there = send.identity.is_some() && self.stored.contains_key(&body)
                || self.repeats.messages_of(send).next().is_some();
            if !shown.bodies.contains(&body) && !was_there {
                self.breaks(
                    AtomicCommit,
                    seq,
                    attempt,
                    format_args!("was committed without its message {body}"),
                );
            }
        }
    }

    /// Checks the reply to a commit that this batch decided, if its caller received one.
    fn decided(&mut self, batch: &Batch, call: CallId, commit: CommitId, is_now: bool) {
        let attempt = self.attempt_of(commit);
        let asked = self.timeline.commits[commit].asked;
        let done = self.done.get(&attempt).copied();
        let answered = self.timeline.calls[call].answered;
        match self.timeline.calls[call].outcome {
            Outcome::Committed { produced, repeated } => {
                if done.is_none_or(|done| done.asked != asked) || (!repeated && !is_now) {
                    self.breaks(
                        AckIsFinal,
                        answered,
                        attempt,
                        format_args!("was answered as done, but it is not committed"),
                    );
                    return;
                }
                let invariant = if repeated { IdempotentAck } else { AckIsFinal };
                self.check_receipts(invariant, answered, commit, produced);
            }
            // Its attempt may have been granted and committed again after the restore.
            Outcome::Refused { .. } if self.timeline.commits[commit].is_outdated => {}
            Outcome::Refused { code, .. } => {
                let Some(done) = done.filter(|done| done.asked == asked) else { return };
                // A rejection in the same batch may have been decided first.
                let is_before = done.seq < batch.seq && batch.now < done.until;
                let is_gone = code == "NOT_FOUND" && !self.is_current(attempt.0);
                if is_before && !is_gone {
                    let detail = format_args!("is committed, but a repeat was rejected: {code}");
                    self.breaks(IdempotentAck, answered, attempt, detail);
                }
            }
            Outcome::Unknown
            | Outcome::Produced { .. }
            | Outcome::Redriven { .. }
            | Outcome::Began { .. }
            | Outcome::Purged { .. }
            | Outcome::Inspected(_)
            | Outcome::Group(_)
            | Outcome::Pointer(_)
            | Outcome::Settings(_)
            | Outcome::Done => {}
        }
    }

    /// Checks that each message is stored where the reply says.
    fn check_receipts(
        &mut self,
        invariant: Invariant,
        seq: u64,
        commit: CommitId,
        produced: &[Option<Name>],
    ) {
        let labels = &self.timeline.places.labels;
        let is_so = |(send, told): (&Send<'_>, &Option<Name>)| match told {
            Some(id) => {
                let stored = self.stored.get(&send.content.body).copied();
                let mut stored = stored.into_iter().chain(self.repeats.messages_of(send));
                stored.any(|label| labels.key(label) == &**id)
            }
            None => self.sent.contains(&send.content.body),
        };
        let sends = &self.timeline.commits[commit].produce;
        if sends.len() != produced.len() || !sends.iter().zip(produced).all(is_so) {
            let detail = format_args!(
                "was answered with {produced:?}, which are not the ids of its messages"
            );
            self.breaks(invariant, seq, self.attempt_of(commit), detail);
        }
    }

    fn is_current(&self, entry: EntryId) -> bool {
        let places = &self.timeline.places;
        self.generations[places.cursor_of(entry)] == Some(places.generation_of(entry))
    }

    fn breaks(
        &mut self,
        invariant: Invariant,
        seq: u64,
        (entry, attempt): Attempt,
        detail: std::fmt::Arguments<'_>,
    ) {
        let text = self.timeline.places.entry_text(entry);
        let detail = format_args!("the commit of attempt {attempt} of {text} {detail}");
        self.findings.add(invariant, seq, detail);
    }
}

/// The facts of a batch that concern commits.
#[derive(Default)]
struct ReportedCommit {
    /// Bodies of commits that appear for the first time.
    bodies: Vec<u64>,
    ended: Vec<(Attempt, How)>,
}
