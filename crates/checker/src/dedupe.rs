//! Idempotency keys: I42, I43, I45, and of I6 that a key stores its message once.
//!
//! Where commits are seen, the window of a key is exact, on the authority clock. Where they are not,
//! the window is unknown, so that storing a key anew is never wrong; but an answer that says
//! "deduplicated" must name a message that came, or may have come, from that key.
//!
//! A key whose message goes to another shard is pinned, until a time of the clock of the shard that pins it.
//! Shards have clocks of their own, so that for the other one the pin counts, and not the time.

use crate::ids::{Column, FastMap, IdentityId, LabelId, NameId};
use crate::invariant::Invariant::{Dedupe, RecordExpiry, StoredAtMostOnce, TenantIsolation};
use crate::report::Findings;
use crate::timeline::{Ask, Batch, Outcome, Put, Send, Step, Timeline};

/// The shard that a pin leads to knows its message for so much longer than the pin lasts. The authority clock may jump
/// that far.
const ROUTED_KEPT_MS: u64 = 600_000;

/// Judges every key.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut judge = Judge {
        timeline,
        findings,
        holders: timeline.places.identities.column(None),
        pins: timeline.places.identities.column(None),
        pinned: FastMap::default(),
        messages: timeline.places.labels.column(None),
        may_have_stored: timeline.places.identities.column(false),
    };
    if timeline.has_facts() {
        for batch in &timeline.batches {
            for step in timeline.steps_of(batch) {
                match step {
                    Step::Stored(put) => {
                        judge.stored(batch, put);
                    }
                    &Step::Deduplicated { identity, id } => {
                        judge.deduplicated(batch, identity, id);
                    }
                    &Step::Pinned { identity, until } => {
                        judge.pinned(batch, identity, until);
                    }
                    _ => {}
                }
            }
        }
    } else {
        judge.learn_from_answers();
    }
    judge.answers();
}

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    holders: Column<IdentityId, Option<Holder>>,
    /// Until when the message of each key goes to another shard, as was last said.
    pins: Column<IdentityId, Option<u64>>,
    /// Every pin there was, by its end, with the body that was stored for it.
    pinned: FastMap<(IdentityId, u64), Option<u64>>,
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
        if let Some(former) = self.pinned.get_mut(&(identity, until)) {
            let is_remembered = batch.now < until.saturating_add(ROUTED_KEPT_MS);
            if let Some(former) = former.replace(body).filter(|_| is_remembered) {
                self.taken_twice(batch.seq, put.id, identity, former == body, until);
            }
            return;
        }
        let holder = Holder { id: put.id, body, until };
        let former = self.holders[identity].replace(holder);
        if let Some(former) = former.filter(|former| batch.now < former.until) {
            self.taken_twice(batch.seq, put.id, identity, former.body == body, former.until);
        } else if let Some(until) = self.pins[identity].filter(|until| batch.now < *until) {
            self.taken_twice(batch.seq, put.id, identity, false, until);
        }
    }

    fn taken_twice(
        &mut self,
        seq: u64,
        id: LabelId,
        identity: IdentityId,
        is_same: bool,
        until: u64,
    ) {
        let key = self.timeline.places.identity_text(identity);
        let name = self.timeline.places.labels.key(id);
        let detail =
            format_args!("{name} takes key {key}, which another message has until {until}");
        self.findings.add(Dedupe, seq, detail);
        if is_same {
            let detail = format_args!("key {key} stored its message twice");
            self.findings.add(StoredAtMostOnce, seq, detail);
        }
    }

    fn deduplicated(&mut self, batch: &Batch, identity: IdentityId, id: LabelId) {
        let (_, tenant, _) = self.timeline.places.identities.key(identity);
        let key = self.timeline.places.identity_text(identity);
        let name = self.timeline.places.labels.key(id);
        let now = batch.now;
        match self.holders[identity] {
            Some(holder) if holder.id == id => {
                if now >= holder.until {
                    let until = holder.until;
                    let detail = format_args!("{name} had key {key} until {until}, it is {now}");
                    self.findings.add(RecordExpiry, batch.seq, detail);
                }
            }
            // The message of a pin, of which the clock here says nothing.
            _ if self.pins[identity].is_some()
                && self.messages[id].is_some_and(|owned| owned.identity == Some(identity)) => {}
            _ if self.messages[id].is_some_and(|owned| owned.tenant != tenant) => {
                let detail = format_args!("{name} is of another tenant and not under key {key}");
                self.findings.add(TenantIsolation, batch.seq, detail);
            }
            _ => {
                let detail = format_args!("{name} does not have key {key}");
                self.findings.add(Dedupe, batch.seq, detail);
            }
        }
    }

    fn pinned(&mut self, batch: &Batch, identity: IdentityId, until: u64) {
        let now = batch.now;
        self.pinned.entry((identity, until)).or_default();
        let former = self.pins[identity].replace(until).filter(|former| *former != until);
        let holder = self.holders[identity].map(|holder| holder.until);
        let key = self.timeline.places.identity_text(identity);
        if until <= now {
            let detail = format_args!("key {key} is pinned until {until}, and it is {now}");
            self.findings.add(RecordExpiry, batch.seq, detail);
        } else if let Some(former) = former.max(holder).filter(|former| now < *former) {
            let detail = format_args!("key {key} is pinned at {now}, and was taken until {former}");
            self.findings.add(Dedupe, batch.seq, detail);
        }
    }

    fn learn_from_answers(&mut self) {
        for call in self.timeline.calls.iter() {
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
        for call in self.timeline.calls.iter() {
            if let (Ask::Produce(send), Outcome::Produced { id, deduplicated, .. }) =
                (call.ask, call.outcome)
                && (send.identity.is_some() || deduplicated)
            {
                self.answer(call.answered, send, id, deduplicated);
            }
        }
    }

    fn answer(&mut self, seq: u64, send: Send<'_>, id: LabelId, deduplicated: bool) {
        let name = self.timeline.places.labels.key(id);
        let Some(owned) = self.messages[id] else {
            // That a produced message is not stored at all is for `content` to say.
            let is_possible = send.identity.is_some_and(|key| self.may_have_stored[key]);
            if deduplicated && !is_possible {
                let detail = format_args!("{name} is the answer to a key that stored nothing");
                self.findings.add(Dedupe, seq, detail);
            }
            return;
        };
        if owned.tenant != send.tenant {
            let detail = format_args!("{name}, the answer to a produce, is of another tenant");
            self.findings.add(TenantIsolation, seq, detail);
        } else if owned.identity != send.identity || send.identity.is_none() {
            let detail = format_args!("{name}, the answer to a produce, is not under its key");
            self.findings.add(Dedupe, seq, detail);
        }
    }
}
