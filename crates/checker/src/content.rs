//! Checks stored and delivered messages against what was sent: `NoPhantom`, `SameContent`,
//! `OnePosition`, `RejectedIsAbsent`, `StoredAtMostOnce` and `MessageSize`, and of `NoLoss` that an
//! accepted produce is stored.
//!
//! The first event that shows a position defines its content. In a history with commits, that is
//! the commit. Every later event must agree with it. Only the first one is traced back to a
//! produce.

use crate::history::Content;
use crate::ids::{CallId, Column, FastMap, LabelId, PositionId};
use crate::invariant::Invariant::{
    MessageSize, NoLoss, NoPhantom, OnePosition, RejectedIsAbsent, SameContent, StoredAtMostOnce,
};
use crate::repeats::Repeats;
use crate::report::Findings;
use crate::timeline::{Ask, Letter, Outcome, Put, Seen, Send, Step, Timeline};

/// The largest message: 16 MiB of value and a kibibyte of key.
const SIZE_MAX: u64 = (16 << 20) + 1024;

/// Checks every position and every body.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut judge = Judge {
        timeline,
        findings,
        bodies: FastMap::default(),
        shown: timeline.places.positions.column(None),
        places: timeline.places.labels.column(None),
        n_redrives: 0,
        repeats: Repeats::new(timeline),
    };
    for moment in &timeline.moments {
        match moment.seen {
            Seen::Invoked(call) => judge.invoked(call),
            Seen::Answered(call) => judge.answered(moment.seq, call),
            Seen::Delivered { entry, id, delivery } => {
                let at = timeline.places.position_of(entry);
                judge.delivered(moment.seq, at, id, &delivery.message);
            }
            Seen::Committed(batch) => {
                for step in timeline.steps_of(&timeline.batches[batch]) {
                    judge.repeats.step(timeline, step);
                    if let Step::Stored(put) = step {
                        judge.stored(moment.seq, put);
                    }
                }
            }
            Seen::Written { .. } | Seen::Left { .. } => {}
        }
    }
    for letter in &timeline.dead_letters {
        judge.dead_letter(letter);
    }
}

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    bodies: FastMap<u64, Body<'a>>,
    shown: Column<PositionId, Option<ReportedMessage<'a>>>,
    places: Column<LabelId, Option<PositionId>>,
    n_redrives: u32,
    repeats: Repeats,
}

/// One logical message.
struct Body<'a> {
    send: Send<'a>,
    /// How often it was sent without being rejected.
    n_sent: u32,
    /// How often it is stored, in any topic, not counting dead letters and redriven copies.
    n_copies: u32,
}

/// The first observation of a position.
#[derive(Clone, Copy)]
struct ReportedMessage<'a> {
    id: LabelId,
    content: &'a Content,
}

impl<'a> Judge<'_, 'a> {
    fn invoked(&mut self, call: CallId) {
        let call = &self.timeline.calls[call];
        let n_sent = u32::from(!call.outcome.is_refused());
        match call.ask {
            Ask::Produce(send) => {
                let body = Body { send, n_sent: 0, n_copies: 0 };
                self.bodies.entry(send.content.body).or_insert(body).n_sent += n_sent;
            }
            Ask::Redrive(_) => self.n_redrives += n_sent,
            Ask::Commit(commit) => {
                for send in &self.timeline.commits[commit].produce {
                    let body = Body { send: *send, n_sent: 0, n_copies: 0 };
                    let body = self.bodies.entry(send.content.body).or_insert(body);
                    // A commit takes effect once, no matter how often it is sent.
                    body.n_sent = body.n_sent.max(n_sent);
                }
            }
            Ask::Settle(_)
            | Ask::CreateGroup(..)
            | Ask::SeekAll(..)
            | Ask::Purge { .. }
            | Ask::Inspect(_)
            | Ask::ExplainGroup
            | Ask::ReadPointer { .. }
            | Ask::Settings(_)
            | Ask::Outdated
            | Ask::DeleteGroup(_)
            | Ask::DeleteTopic(_)
            | Ask::Seek(_)
            | Ask::Begin { .. }
            | Ask::Finish { .. }
            | Ask::ExtendEffect { .. }
            | Ask::Resolve { .. }
            | Ask::Other => {}
        }
    }

    fn answered(&mut self, seq: u64, call: CallId) {
        let call = &self.timeline.calls[call];
        let (Ask::Produce(send), Outcome::Produced { id, at, deduplicated }) =
            (call.ask, call.outcome)
        else {
            return;
        };
        if self.timeline.has_facts() && self.shown[at].is_none() {
            if !deduplicated {
                let text = self.timeline.places.position_text(at);
                self.findings.add(
                    NoLoss,
                    seq,
                    format_args!("{text} was accepted but is not stored"),
                );
            }
            return;
        }
        if send.size > SIZE_MAX && !self.timeline.has_facts() {
            let size = send.size;
            self.findings.add(
                MessageSize,
                seq,
                format_args!("a message of {size} bytes was accepted; the limit is {SIZE_MAX}"),
            );
        }
        let topic = self.timeline.places.topic_at(at);
        let content = match self.shown[at] {
            Some(first) if deduplicated && self.repeats.may_differ(&send, topic) => first.content,
            _ => send.content,
        };
        if self.observed(seq, at, id, content) {
            self.copied(seq, at, content);
        }
    }

    fn delivered(&mut self, seq: u64, at: PositionId, id: LabelId, content: &'a Content) {
        if self.timeline.has_facts() && self.shown[at].is_none() {
            let text = self.timeline.places.position_text(at);
            self.findings.add(
                NoPhantom,
                seq,
                format_args!("{text} was delivered but is not stored"),
            );
            return;
        }
        if self.observed(seq, at, id, content) && self.traced(seq, at, content) {
            self.copied(seq, at, content);
        }
    }

    fn stored(&mut self, seq: u64, put: &Put<'a>) {
        let stored = put.stored;
        let is_first = self.observed(seq, put.at, put.id, &stored.message);
        let text = self.timeline.places.position_text(put.at);
        if stored.size > SIZE_MAX {
            let size = stored.size;
            self.findings.add(
                MessageSize,
                seq,
                format_args!("{text} is stored with {size} bytes; the limit is {SIZE_MAX}"),
            );
        }
        if !is_first || !self.traced(seq, put.at, &stored.message) {
            return;
        }
        let sent = self.bodies[&stored.message.body].send.size;
        if stored.size != sent {
            let size = stored.size;
            self.findings.add(
                MessageSize,
                seq,
                format_args!("{text} is stored with {size} bytes but was sent with {sent}"),
            );
        }
        if !stored.dead_letter && stored.for_group.is_none() {
            self.copied(seq, put.at, &stored.message);
        }
    }

    fn dead_letter(&mut self, letter: &Letter<'a>) {
        let content = &letter.letter.message;
        if letter.is_undeliverable() {
            self.traced(letter.seq, letter.at, content);
            return;
        }
        if self.observed(letter.seq, letter.at, letter.origin, content) {
            self.traced(letter.seq, letter.at, content);
        }
    }

    /// Compares with the first observation. Returns true if this is the first one.
    fn observed(&mut self, seq: u64, at: PositionId, id: LabelId, content: &'a Content) -> bool {
        let labels = &self.timeline.places.labels;
        let text = self.timeline.places.position_text(at);
        let is_first = self.shown[at].is_none();
        let first = *self.shown[at].get_or_insert(ReportedMessage { id, content });
        let place = *self.places[id].get_or_insert(at);
        if first.id != id {
            let (a, b) = (labels.key(first.id), labels.key(id));
            self.findings.add(
                OnePosition,
                seq,
                format_args!("{text} has message id {b}, but earlier it had {a}"),
            );
        } else if place != at {
            let (id, was) = (labels.key(id), self.timeline.places.position_text(place));
            self.findings.add(
                OnePosition,
                seq,
                format_args!("message {id} is at {text}, but earlier it was at {was}"),
            );
        } else if first.content != content {
            let was = first.content;
            self.findings.add(
                SameContent,
                seq,
                format_args!("{text} has content {content:?}, but earlier it had {was:?}"),
            );
        }
        is_first
    }

    /// Finds the produce that sent a body. Returns false if there is none.
    fn traced(&mut self, seq: u64, at: PositionId, content: &Content) -> bool {
        let text = self.timeline.places.position_text(at);
        let Some(body) = self.bodies.get(&content.body) else {
            self.findings.add(
                NoPhantom,
                seq,
                format_args!("{text} has content {content:?}, which was never produced"),
            );
            return false;
        };
        if body.n_sent == 0 {
            self.findings.add(
                RejectedIsAbsent,
                seq,
                format_args!("{text} has content {content:?}, whose produce was rejected"),
            );
            return false;
        }
        if body.send.content != content {
            let sent = body.send.content;
            self.findings.add(
                SameContent,
                seq,
                format_args!("{text} has content {content:?}, but it was sent as {sent:?}"),
            );
        }
        true
    }

    /// Counts a copy of a body. In a history without commits, a copy may be a redriven one.
    fn copied(&mut self, seq: u64, at: PositionId, content: &Content) {
        let Some(body) = self.bodies.get_mut(&content.body) else {
            return;
        };
        let topic = self.timeline.places.topic_at(at);
        if self.timeline.places.names.key(topic).starts_with("dlq.") {
            return;
        }
        body.n_copies += 1;
        let redriven_max = if self.timeline.has_facts() { 0 } else { self.n_redrives };
        if body.n_copies > body.n_sent.saturating_add(redriven_max) {
            let (n_copies, n_sent) = (body.n_copies, body.n_sent);
            let text = self.timeline.places.position_text(at);
            self.findings.add(
                StoredAtMostOnce,
                seq,
                format_args!("{text} is copy {n_copies} of a message sent {n_sent} times"),
            );
        }
    }
}
