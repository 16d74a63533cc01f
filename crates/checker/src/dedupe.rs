//! Checks idempotency keys: `Dedupe`, `RecordExpiry`, `TenantIsolation`, and of `StoredAtMostOnce`
//! that a key stores its message once.
//!
//! With commits, the window of a key is known exactly, on the authority clock. Without commits the
//! window is unknown, so storing a key again is never a violation. But a reply with "deduplicated"
//! must name a message that was, or may have been, stored with that key.
//!
//! In a topic that finds repeats by the key alone, no produce conflicts with another.
//!
//! A key whose message goes to another shard is pinned, until a time on the clock of the shard that
//! pins it. Shards have their own clocks, so for the other shard the pin counts, not the time.

use crate::ids::{Column, FastMap, IdentityId, LabelId, NameId};
use crate::invariant::Invariant::{Dedupe, RecordExpiry, StoredAtMostOnce, TenantIsolation};
use crate::report::Findings;
use crate::timeline::{Ask, Batch, Outcome, Put, Send, Step, Timeline};

/// The target shard of a pin keeps the record of its message for this much longer than the pin
/// lasts. The authority clock may jump that far.
const ROUTED_KEPT_MS: u64 = 600_000;

/// Checks every key.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut judge = Judge {
        timeline,
        findings,
        holders: timeline.places.identities.column(None),
        pins: timeline.places.identities.column(None),
        pinned: FastMap::default(),
        messages: timeline.places.labels.column(None),
        may_have_stored: timeline.places.identities.column(false),
        dedupes_by_key: timeline.places.names.column(None),
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
                    Step::Set { topic, settings } => {
                        let always = &mut judge.dedupes_by_key[*topic];
                        *always = Some(settings.dedupe_by_key && always.unwrap_or(true));
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
    /// The end of the latest pin of each key, while its message goes to another shard.
    pins: Column<IdentityId, Option<u64>>,
    /// Every pin, by key and end, with the body that was stored for it.
    pinned: FastMap<(IdentityId, u64), Option<u64>>,
    /// The tenant and the key of each message.
    messages: Column<LabelId, Option<Owned>>,
    /// Keys with a produce whose outcome is unknown.
    may_have_stored: Column<IdentityId, bool>,
    /// Whether a topic has found repeats by the key alone ever since its settings are known.
    dedupes_by_key: Column<NameId, Option<bool>>,
}

/// The message that holds a key.
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
        let detail = format_args!(
            "message {name} was stored with key {key}, which another message holds until {until}"
        );
        self.findings.add(Dedupe, seq, detail);
        if is_same {
            let detail = format_args!("the message with key {key} was stored twice");
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
                    let detail = format_args!(
                        "a produce was deduplicated to {name} at {now}, but key {key} expired at {until}"
                    );
                    self.findings.add(RecordExpiry, batch.seq, detail);
                }
            }
            // The message of a pin. Its expiry is not on the clock of this shard.
            _ if self.pins[identity].is_some()
                && self.messages[id].is_some_and(|owned| owned.identity == Some(identity)) => {}
            _ if self.messages[id].is_some_and(|owned| owned.tenant != tenant) => {
                let detail = format_args!(
                    "a produce with key {key} was deduplicated to {name}, which belongs to another tenant"
                );
                self.findings.add(TenantIsolation, batch.seq, detail);
            }
            _ => {
                let detail = format_args!(
                    "a produce with key {key} was deduplicated to {name}, which does not have that key"
                );
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
            let detail =
                format_args!("key {key} was pinned until {until}, which is not after {now}");
            self.findings.add(RecordExpiry, batch.seq, detail);
        } else if let Some(former) = former.max(holder).filter(|former| now < *former) {
            let detail =
                format_args!("key {key} was pinned at {now} although it is in use until {former}");
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
            match (call.ask, call.outcome) {
                (Ask::Produce(send), Outcome::Produced { id, deduplicated, .. })
                    if send.identity.is_some() || deduplicated && send.nonce.is_none() =>
                {
                    self.answer(call.answered, send, id, deduplicated);
                }
                (Ask::Produce(send), Outcome::Refused { code: "CONFLICT", .. }) => {
                    self.conflict(call.answered, send);
                }
                _ => {}
            }
        }
    }

    fn conflict(&mut self, seq: u64, send: Send<'_>) {
        let Some(identity) = send.identity else { return };
        // The topic of a pin has its own settings.
        let goes_elsewhere = send.target.is_some() || self.pins[identity].is_some();
        if self.dedupes_by_key[send.topic] == Some(true) && !goes_elsewhere {
            let key = self.timeline.places.identity_text(identity);
            let detail = format_args!(
                "a produce with key {key} was rejected as a conflict, but its topic compares keys only"
            );
            self.findings.add(Dedupe, seq, detail);
        }
    }

    fn answer(&mut self, seq: u64, send: Send<'_>, id: LabelId, deduplicated: bool) {
        let name = self.timeline.places.labels.key(id);
        let Some(owned) = self.messages[id] else {
            // `content` checks that a produced message is stored.
            let is_possible = send.identity.is_some_and(|key| self.may_have_stored[key]);
            if deduplicated && !is_possible {
                let detail = format_args!(
                    "a produce was deduplicated to {name}, but its key never stored a message"
                );
                self.findings.add(Dedupe, seq, detail);
            }
            return;
        };
        if owned.tenant != send.tenant {
            let detail =
                format_args!("a produce was answered with {name}, which belongs to another tenant");
            self.findings.add(TenantIsolation, seq, detail);
        } else if owned.identity != send.identity || send.identity.is_none() {
            let detail =
                format_args!("a produce was answered with {name}, which does not have its key");
            self.findings.add(Dedupe, seq, detail);
        }
    }
}
