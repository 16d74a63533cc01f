//! Idempotency keys: I42, I43, I45, and of I6 that a key stores its message once.
//!
//! Where commits are seen, the window of a key is exact, on the authority clock. Where they are not,
//! the window is unknown, so that storing a key anew is never wrong; but an answer that says
//! "deduplicated" must name a message that came, or may have come, from that key.

use crate::ids::{Column, IdentityId, LabelId, NameId};
use crate::invariant::Invariant::{I6, I42, I43, I45};
use crate::report::Findings;
use crate::story::{Ask, Batch, Outcome, Put, Send, Step, Story};

/// Judges every key.
pub(crate) fn judge(story: &Story<'_>, findings: &mut Findings) {
    let mut judge = Judge {
        story,
        findings,
        holders: story.places.identities.column(None),
        messages: story.places.labels.column(None),
        may_have_stored: story.places.identities.column(false),
    };
    if story.has_facts() {
        for batch in &story.batches {
            for step in story.steps_of(batch) {
                if let Step::Stored(put) = step {
                    judge.stored(batch, put);
                } else if let Step::Deduplicated { identity, id } = *step {
                    judge.deduplicated(batch, identity, id);
                }
            }
        }
    } else {
        judge.learn_from_answers();
    }
    judge.answers();
}

struct Judge<'s, 'a> {
    story: &'s Story<'a>,
    findings: &'s mut Findings,
    holders: Column<IdentityId, Option<Holder>>,
    /// Whose each message is, and under which key it was stored.
    messages: Column<LabelId, Option<Owned>>,
    /// Keys of which a produce has an unknown end.
    may_have_stored: Column<IdentityId, bool>,
}

/// The message that has a key.
#[derive(Clone, Copy)]
struct Holder {
    id: LabelId,
    body: u64,
    until: u64,
}

#[derive(Clone, Copy)]
struct Owned {
    tenant: NameId,
    identity: Option<IdentityId>,
}

impl Judge<'_, '_> {
    fn stored(&mut self, batch: &Batch, put: &Put<'_>) {
        let identity = put.identity.map(|(identity, _)| identity);
        self.messages[put.id] = Some(Owned { tenant: put.tenant, identity });
        let Some((identity, until)) = put.identity else {
            return;
        };
        let body = put.stored.message.body;
        let holder = Holder { id: put.id, body, until };
        let Some(former) = self.holders[identity].replace(holder) else {
            return;
        };
        if batch.now < former.until {
            let key = self.story.places.identity_text(identity);
            let name = |id| self.story.places.labels.key(id);
            let (now, was, until) = (batch.now, name(former.id), former.until);
            let says = format_args!(
                "{} takes key {key} at {now}, which {was} has until {until}",
                name(put.id)
            );
            self.findings.add(I42, batch.seq, says);
            if former.body == body {
                self.findings.add(
                    I6,
                    batch.seq,
                    format_args!("key {key} stored its message twice"),
                );
            }
        }
    }

    fn deduplicated(&mut self, batch: &Batch, identity: IdentityId, id: LabelId) {
        let (_, tenant, _) = self.story.places.identities.key(identity);
        let key = self.story.places.identity_text(identity);
        let name = self.story.places.labels.key(id);
        let now = batch.now;
        match self.holders[identity] {
            Some(holder) if holder.id == id => {
                if now >= holder.until {
                    let until = holder.until;
                    let says = format_args!("{name} had key {key} until {until}, it is {now}");
                    self.findings.add(I43, batch.seq, says);
                }
            }
            _ if self.messages[id].is_some_and(|owned| owned.tenant != tenant) => {
                let says = format_args!("{name} is of another tenant and not under key {key}");
                self.findings.add(I45, batch.seq, says);
            }
            _ => {
                let says = format_args!("{name} does not have key {key}");
                self.findings.add(I42, batch.seq, says);
            }
        }
    }

    fn learn_from_answers(&mut self) {
        for call in self.story.calls.iter() {
            let Ask::Produce(send) = call.ask else {
                continue;
            };
            if let Outcome::Produced { id, deduplicated: false, .. } = call.outcome {
                self.messages[id] = Some(Owned { tenant: send.tenant, identity: send.identity });
            }
            if let (Some(identity), Outcome::Unknown) = (send.identity, call.outcome) {
                self.may_have_stored[identity] = true;
            }
        }
    }

    fn answers(&mut self) {
        for call in self.story.calls.iter() {
            if let (Ask::Produce(send), Outcome::Produced { id, deduplicated, .. }) =
                (call.ask, call.outcome)
                && (send.identity.is_some() || deduplicated)
            {
                self.answer(call.answered, send, id, deduplicated);
            }
        }
    }

    fn answer(&mut self, seq: u64, send: Send<'_>, id: LabelId, deduplicated: bool) {
        let name = self.story.places.labels.key(id);
        let Some(owned) = self.messages[id] else {
            // That a produced message is not stored at all is for `content` to say.
            let is_possible = send.identity.is_some_and(|key| self.may_have_stored[key]);
            if deduplicated && !is_possible {
                let says = format_args!("{name} is the answer to a key that stored nothing");
                self.findings.add(I42, seq, says);
            }
            return;
        };
        if owned.tenant != send.tenant {
            let says = format_args!("{name}, the answer to a produce, is of another tenant");
            self.findings.add(I45, seq, says);
        } else if owned.identity != send.identity || send.identity.is_none() {
            let says = format_args!("{name}, the answer to a produce, is not under its key");
            self.findings.add(I42, seq, says);
        }
    }
}
