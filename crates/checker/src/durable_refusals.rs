//! Checks `DurableReplies` for rejections: everything that a rejection depends on is committed.
//!
//! A rejection is a reply like any other. If it reports "a later attempt has the lease" or "another
//! message has this key" before that is durable, a worker discards its result, or a producer gives
//! up, because of something that may never happen.

use crate::history::How;
use crate::ids::{CallId, Column, EntryId, IdentityId, NameId};
use crate::invariant::Invariant::{DurableReplies, RejectedIsAbsent};
use crate::report::Findings;
use crate::timeline::{Ask, Outcome, Seen, Send, Step, Timeline};

/// Checks rejections. Skipped if the history has no commits.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    if !timeline.has_facts() {
        return;
    }
    let mut judge = Judge {
        timeline,
        findings,
        entries: timeline.places.entries.column(Committed::default()),
        keys: timeline.places.identities.column(false),
        stored: timeline.places.identities.column(false),
        senders: timeline.places.identities.column(Vec::new()),
    };
    for moment in &timeline.moments {
        match moment.seen {
            Seen::Committed(batch) => {
                for step in timeline.steps_of(&timeline.batches[batch]) {
                    judge.step(step);
                }
            }
            Seen::Answered(call) => {
                if let Outcome::Refused { code, state } = timeline.calls[call].outcome {
                    judge.refused(moment.seq, call, code, state);
                }
            }
            Seen::Invoked(call) => judge.invoked(call),
            Seen::Delivered { .. } | Seen::Written { .. } | Seen::Left { .. } => {}
        }
    }
}

/// The committed state of an entry.
#[derive(Clone, Copy, Default)]
struct Committed {
    highest: u32,
    is_waiting: bool,
    is_acked: bool,
    is_dead: bool,
}

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    entries: Column<EntryId, Committed>,
    /// Keys that a message has or had, or that are pinned to another shard.
    keys: Column<IdentityId, bool>,
    /// Keys that a message has or had.
    stored: Column<IdentityId, bool>,
    /// The calls that sent a message under each key, with its body and the topic that it names.
    senders: Column<IdentityId, Vec<(CallId, u64, Option<NameId>)>>,
}

impl Judge<'_, '_> {
    fn invoked(&mut self, call: CallId) {
        let commit = if let Ask::Commit(commit) = self.timeline.calls[call].ask {
            &self.timeline.commits[commit].produce[..]
        } else {
            &[]
        };
        let send =
            if let Ask::Produce(send) = self.timeline.calls[call].ask { Some(send) } else { None };
        for send in commit.iter().copied().chain(send) {
            if let Some(identity) = send.identity {
                self.senders[identity].push((call, send.content.body, send.target));
            }
        }
    }

    /// Whether every other message that was sent under the key was rejected before `call` was sent.
    /// A message that named another topic is a rival even if it was rejected, because the key stays
    /// with the topic it was first sent to.
    fn has_no_rival(&self, call: CallId, identity: IdentityId, send: Send<'_>) -> bool {
        let asked = self.timeline.calls[call].invoked;
        let body = send.content.body;
        let mut rivals = self.senders[identity].iter().filter(|(_, other, _)| *other != body);
        rivals.all(|(rival, _, target)| {
            let rival = &self.timeline.calls[*rival];
            let is_rejected =
                matches!(rival.outcome, Outcome::Refused { code, .. } if code != "UNAVAILABLE");
            is_rejected && rival.answered < asked && *target == send.target
        })
    }

    fn step(&mut self, step: &Step<'_>) {
        match step {
            &Step::Granted { entry, granted } => {
                let known = &mut self.entries[entry];
                known.highest = known.highest.max(granted.lease.attempt);
            }
            &Step::Ended { entry, how, .. } => {
                let known = &mut self.entries[entry];
                match how {
                    // A late ack of a deleted dead letter is answered as settled.
                    How::Acked | How::Purged => known.is_acked = true,
                    How::Dead { .. } => known.is_dead = true,
                    How::Nacked { .. } | How::Expired { .. } | How::Returned { .. } => {
                        known.is_waiting = true;
                    }
                }
            }
            &Step::Died { entry, .. } => {
                self.entries[entry].is_dead = true;
            }
            Step::Stored(put) => {
                if let Some((identity, _)) = put.identity {
                    self.keys[identity] = true;
                    self.stored[identity] = true;
                }
            }
            &Step::Pinned { identity, .. } => self.keys[identity] = true,
            _ => {}
        }
    }

    fn refused(&mut self, seq: u64, call: CallId, code: &str, state: Option<&str>) {
        if let Ask::Produce(send) = self.timeline.calls[call].ask
            && code == "CONFLICT"
            && send.identity.is_some_and(|identity| !self.keys[identity])
        {
            let detail = format_args!(
                "a produce was rejected because its key is in use, but no message with that key is stored"
            );
            self.findings.add(DurableReplies, seq, detail);
        }
        if let Ask::Produce(send) = self.timeline.calls[call].ask
            && code == "CONFLICT"
            && let Some(identity) = send.identity
            && self.keys[identity]
            && !self.stored[identity]
            && self.has_no_rival(call, identity, send)
        {
            let key = self.timeline.places.identity_text(identity);
            let detail = format_args!(
                "a produce with key {key} was rejected with CONFLICT, but every other message with that key was rejected"
            );
            self.findings.add(RejectedIsAbsent, seq, detail);
        }
        let Some(settle) = self.timeline.settled_by(call) else { return };
        if settle.by_owner {
            return;
        }
        let known = self.entries[settle.entry];
        let is_so = match state {
            Some("leased") => known.highest > settle.attempt,
            Some("waiting") => known.is_waiting,
            Some("settled") => known.is_acked,
            Some("dead") => known.is_dead,
            Some(_) | None => true,
        };
        if code == "STALE_LEASE" && !is_so {
            let text = self.timeline.places.entry_text(settle.entry);
            let state = state.unwrap_or_default();
            let detail = format_args!(
                "attempt {} of {text} was rejected as stale with state {state}, which is not committed",
                settle.attempt
            );
            self.findings.add(DurableReplies, seq, detail);
        }
    }
}
