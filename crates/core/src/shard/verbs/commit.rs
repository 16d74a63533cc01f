//! One atomic commit: the end of a delivery, the outcomes of its effects and the produced messages
//! are one decision, so there is no moment in which one of them has happened and another has not.
//!
//! A commit is recorded under its attempt. Repeating it returns the same reply; other content is
//! rejected. An attempt that still holds its message has not committed, so the record is read only
//! after the lease has ended.

use serde::{Deserialize, Serialize};

use crate::change::{Decision, Entry, Lookup, Reads, Record};
use crate::command::{
    Claim, Commit, CommitReceipt, Ending, Finish, Nack, NackKind, Part, Produce, Rejection, Reply,
    Sender, Stale,
};
use crate::effect::{EffectRow, Outcome};
use crate::id::{Generation, GroupId, Lane, Offset};
use crate::limits::{DELAY_MS_MAX, EFFECTS_MAX, PRODUCES_MAX};
use crate::message::{Extension, Message};
use crate::pack::{self, effect_hash};
use crate::refusal::{Decided, Refusal};
use crate::row::{Hash16, Key, RecordKind};
use crate::shard::Shard;
use crate::shard::context::Context;
use crate::shard::ledger::{self, OpenEffects};
use crate::shard::rules::dedupe::content;
use crate::shard::state::open_delivery::OpenDelivery;
use crate::shard::verbs::pointer::{check_pointers, pointer_reads};
use crate::shard::verbs::produce::ProduceBatch;
use crate::shard::verbs::produce::Stored;
use crate::shard::verbs::settle::{DeliveryState, stale_lease};
use crate::time::Timestamp;
use crate::token::LeaseToken;

/// The attempt that committed.
type Attempt = (GroupId, Generation, Lane, Offset, u32);

/// The record of a commit.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommitRecord {
    /// The full identity, because two identities may share a hash.
    attempt: Attempt,
    content: [u8; 16],
    produced: Vec<CommitReceipt>,
    expires: Timestamp,
}

fn attempt(token: &LeaseToken) -> Attempt {
    (token.group, token.generation, token.lane, token.offset, token.attempt)
}

/// Offsets are reused after a restore, so the restore generation is part of the hash.
fn record_hash(token: &LeaseToken) -> Hash16 {
    match token.restore {
        0 => pack::hash16(RecordKind::Commit, &attempt(token)),
        restore => pack::hash16(RecordKind::Commit, &(attempt(token), restore)),
    }
}

fn record_key(token: &LeaseToken) -> Key {
    Key::Record { kind: RecordKind::Commit, hash: record_hash(token) }
}

impl Shard {
    /// Requests as many rows as possible at once, because each round of reads takes as long as a
    /// commit.
    pub(crate) fn commit_reads(&self, commit: &Commit) -> Reads {
        if check(commit).is_err() {
            return Vec::new();
        }
        let Commit { token, effects, produce, .. } = commit;
        let LeaseToken { topic, lane, offset, generation, group, .. } = *token;
        let entry = self.groups.get(&group).and_then(|group| {
            group.cursors.get(lane.index()).and_then(|cursor| cursor.open.get(offset))
        });
        let Some(open) = entry else {
            // Probably a repeat. It reads only the record, because other rows of the first commit
            // may be damaged since then.
            return vec![Lookup::Row(record_key(token))];
        };
        let mut reads: Reads = Vec::new();
        if open.entry.begun > 0 {
            reads.push(Lookup::Held { generation, lane, offset });
            reads.extend(effects.iter().map(|finish| ledger::record_lookup(finish.token.hash)));
        }
        let needs_message = has_message(commit);
        if needs_message && self.volatile.cache.get(topic, lane, offset).is_none() {
            reads.push(Lookup::Message { topic, lane, offset });
        }
        reads.extend(pointer_reads(topic, commit));
        reads.extend(produce.iter().flat_map(|produce| self.produce_reads(produce)));
        reads.sort_unstable();
        reads.dedup();
        reads
    }
}

impl Context<'_> {
    pub(crate) fn commit(&self, commit: &Commit) -> Decided {
        check(commit)?;
        let claim = Claim::Token(commit.token.clone(), None);
        let (held, is_late) = match self.standing(&claim) {
            Ok(DeliveryState::Leased(held)) => (held, false),
            Ok(DeliveryState::Expired(held)) => (held, true),
            Ok(ended) => {
                let otherwise = ended.leased(&claim).err();
                let otherwise = otherwise.expect("leased deliveries are handled above");
                return self.repeat_commit(commit, otherwise);
            }
            Err(Refusal::Rejected(stale @ Rejection::StaleLease { .. })) => {
                return self.repeat_commit(commit, stale);
            }
            Err(refusal) => return Err(refusal),
        };
        if held.topic.is_dlq() && commit.ending != Ending::Ack {
            // A nacked dead letter is delivered again, so its messages would be produced again.
            check_steps(commit, "with ack, because a nacked dead letter is delivered again")?;
        }
        if is_late && commit.ending != Ending::Ack {
            // The retry is scheduled already. Only an ack can still settle the message before the
            // retry starts.
            return Err(stale_lease(Stale::Waiting, &claim).into());
        }
        let mut effects = self.effects_of_delivery(&held)?;
        let concluded = conclude(self.now, commit, &mut effects, self.config.restore)?;
        let message = if has_message(commit) {
            Some(self.message_at(held.topic.row.id, held.lane, held.offset)?)
        } else {
            None
        };
        let mut decision = self.produced(commit, &held, message.as_deref())?;
        if let Some(message) = &message {
            self.point(commit, &held, message, &mut decision.changes)?;
        }
        for row in concluded {
            self.audit_finish(&row, &mut decision.changes);
            // An ack stores all effects anyway, with their expiry.
            if commit.ending != Ending::Ack {
                self.put_effect(row, &mut decision.changes);
            }
        }
        if let (Some(result), Some(message)) = (&commit.result, &message) {
            let own = self.message_result(&held, message, result, &mut effects)?;
            own.into_iter().for_each(|own| self.put_message_result(own, &mut decision.changes));
        }
        let unfinished = effects.rows.iter().filter(|row| !row.state.is_known()).count();
        let entry = Entry { unfinished: unfinished as u8, ..*held.entry };
        let held = OpenDelivery { entry: &entry, ..held };
        let nack = match &commit.ending {
            Ending::Ack => None,
            Ending::Nack { reason, delay_ms } => {
                Some((reason.clone(), *delay_ms, NackKind::Failed))
            }
            Ending::Final(reason) => Some((reason.clone(), None, NackKind::Final)),
        };
        match nack {
            None => self.ack_held(&held, effects, &mut decision.changes)?,
            Some((reason, delay_ms, kind)) => {
                let nack = Nack { claim, reason, delay_ms, kind };
                let failed = self.fail(&held, &nack, Some(effects))?;
                decision.changes.extend(failed.changes);
            }
        }
        let Reply::Committed { produced, .. } = &decision.reply else {
            unreachable!("`produced` replies `Committed`")
        };
        let record = self.commit_record(commit, &held, produced.clone());
        self.put_record(self.now, record, &mut decision.changes);
        Ok(decision)
    }

    /// Decides a commit whose attempt holds no lease: a repeat gets the recorded reply, anything
    /// else is rejected.
    fn repeat_commit(&self, commit: &Commit, otherwise: Rejection) -> Decided {
        let row = self.rows.row(record_key(&commit.token))?;
        let record = row.map(pack::open::<CommitRecord>).transpose()?;
        let is_this = |record: &CommitRecord| {
            record.attempt == attempt(&commit.token) && self.now < record.expires
        };
        match record.filter(is_this) {
            None => Err(otherwise.into()),
            Some(record) if record.content == fingerprint(commit) => {
                let produced = record.produced;
                Ok(Decision::reply(Reply::Committed { produced, repeated: true }))
            }
            Some(_) => Err(Rejection::CommitConflict.into()),
        }
    }

    fn commit_record(
        &self,
        commit: &Commit,
        held: &OpenDelivery<'_>,
        produced: Vec<CommitReceipt>,
    ) -> Record {
        let ttl_ms = held.topic.settings.dedupe_ttl_ms;
        let expires = self.now.after(ttl_ms);
        let attempt = attempt(&commit.token);
        let body = CommitRecord { attempt, content: fingerprint(commit), produced, expires };
        Record {
            kind: RecordKind::Commit,
            hash: record_hash(&commit.token),
            expires,
            bucket: expires.0,
            body: pack::seal(&body),
        }
    }

    /// Produces the messages of a commit, which follow `message`. Without `message` there are none.
    /// The reads of all messages are requested together.
    fn produced(
        &self,
        commit: &Commit,
        held: &OpenDelivery<'_>,
        message: Option<&Message>,
    ) -> Decided {
        let Some(message) = message else {
            let reply = Reply::Committed { produced: Vec::new(), repeated: false };
            return Ok(Decision::reply(reply));
        };
        let mut decision = Decision::reply(Reply::Done);
        let mut batch = ProduceBatch::default();
        let sender = Sender {
            topic: held.topic.row.id,
            group: Some(held.group.row.id),
            lane: held.lane,
            message: self.id_of(held, message),
        };
        let (mut produced, mut needs): (Vec<CommitReceipt>, Reads) = (Vec::new(), Vec::new());
        for (index, asked) in commit.produce.iter().enumerate() {
            let refused = |refusal: Refusal| refusal.in_part(Part::Produce, index);
            let mut produce = with_origin(asked, message);
            if produce.routing.as_ref().is_some_and(|routing| routing.moves())
                && self.elsewhere(&produce).is_err()
            {
                produce = produce.unrouted();
            }
            let stored = match self.elsewhere(&produce) {
                Err(why) => return Err(refused(why.into())),
                Ok(Some(target)) => Ok(Stored::Elsewhere(target, Box::new(produce))),
                Ok(None) => self.store(&produce, Some(&mut batch), &mut decision),
            };
            let receipt = match stored {
                Ok(Stored::Here(receipt)) => Some(receipt),
                Ok(Stored::Elsewhere(target, onward)) => {
                    let room = self.check_outbox(target, &batch);
                    room.map_err(|why| refused(why.into()))?;
                    let changes = &mut decision.changes;
                    self.queue(target, &onward, sender.clone(), &mut batch, changes);
                    None
                }
                Err(Refusal::Needs(more)) => {
                    needs.extend(more);
                    continue;
                }
                Err(refusal) => return Err(refused(refusal)),
            };
            produced.push(CommitReceipt { topic: asked.topic.topic.clone(), receipt });
        }
        if !needs.is_empty() {
            return Err(needs.into());
        }
        decision.reply = Reply::Committed { produced, repeated: false };
        Ok(decision)
    }
}

/// Whether the commit needs the content of its message.
fn has_message(commit: &Commit) -> bool {
    !commit.produce.is_empty() || !commit.pointers.is_empty() || commit.result.is_some()
}

/// Finishes the effects of a commit. Returns the changed rows.
fn conclude(
    now: Timestamp,
    commit: &Commit,
    effects: &mut OpenEffects,
    restore: u32,
) -> Result<Vec<EffectRow>, Refusal> {
    let mut concluded = Vec::new();
    for (index, finish) in commit.effects.iter().enumerate() {
        let refused = |why: Rejection| Refusal::from(why).in_part(Part::Effects, index);
        ledger::check_finish(finish).map_err(refused)?;
        let Finish { token, .. } = finish;
        let is_meant = |row: &&mut EffectRow| {
            effect_hash(&row.name) == token.hash && ledger::is_of(token, row)
        };
        // An effect that was begun here may since have been begun under another message of the same
        // key.
        let row = effects.rows.iter_mut().chain(&mut effects.others).find(is_meant);
        let row = row.ok_or_else(|| {
            refused(Rejection::invalid("token", "the effect was not begun under this delivery"))
        })?;
        if let Some(ended) = ledger::conclude(now, row, finish, restore).map_err(refused)? {
            *row = ended.clone();
            concluded.push(ended);
        }
    }
    Ok(concluded)
}

/// Copies `run_id` and `tenant_id` of the message, unless the produced message sets them.
fn with_origin(produce: &Produce, message: &Message) -> Produce {
    let mut produce = produce.clone();
    let (envelope, before) = (&mut produce.envelope, &message.envelope);
    envelope.run_id = envelope.run_id.take().or_else(|| before.run_id.clone());
    envelope.tenant_id = envelope.tenant_id.take().or_else(|| before.tenant_id.clone());
    produce
}

/// Hash of everything that distinguishes two commits of one attempt.
fn fingerprint(commit: &Commit) -> [u8; 16] {
    let Commit { token: _, ending, effects, produce, pointers, result } = commit;
    let effects: Vec<_> = effects
        .iter()
        .map(|Finish { token, status, outcome: Outcome { code, result, error } }| {
            (token.hash, token.born, token.fence, status, code, result, error)
        })
        .collect();
    let produce: Vec<_> = produce
        .iter()
        .map(|produce| (&produce.topic.topic, content(produce), produce.envelope.deadline))
        .collect();
    let extension = |(at, produce): (u32, &Produce)| {
        let Extension { labels, headers, unknown: _ } = produce.envelope.extension.as_deref()?;
        Some((at, labels.clone(), headers.clone()))
    };
    let extensions: Vec<_> = (0..).zip(&commit.produce).filter_map(extension).collect();
    if extensions.is_empty() {
        return pack::fingerprint(&(ending, effects, produce, pointers, result));
    }
    pack::fingerprint(&(ending, effects, produce, pointers, result, extensions))
}

/// Rejects produced messages and pointers, because the message will be delivered again.
fn check_steps(commit: &Commit, with: &str) -> Result<(), Rejection> {
    if !commit.produce.is_empty() {
        return Err(Rejection::invalid("produce", format!("is allowed only {with}")));
    }
    if !commit.pointers.is_empty() {
        return Err(Rejection::invalid("pointers", format!("are allowed only {with}")));
    }
    Ok(())
}

fn check(commit: &Commit) -> Result<(), Rejection> {
    let Commit { ending, effects, produce, pointers, result, .. } = commit;
    let is_over = match ending {
        Ending::Ack | Ending::Final(_) => true,
        Ending::Nack { delay_ms, .. } if delay_ms.is_some_and(|delay| delay > DELAY_MS_MAX) => {
            return Err(Rejection::invalid("delay_ms", "must be at most 604800000"));
        }
        Ending::Nack { .. } => false,
    };
    if !is_over {
        check_steps(commit, "with ack, or with a nack that has dead_letter")?;
    }
    if result.is_some() && *ending != Ending::Ack {
        return Err(Rejection::invalid("result", "is allowed only with ack"));
    }
    if effects.len() > usize::from(EFFECTS_MAX) {
        return Err(Rejection::invalid("effects", "at most 32 are allowed"));
    }
    if produce.len() > PRODUCES_MAX {
        return Err(Rejection::invalid("produce", "at most 100 are allowed"));
    }
    check_pointers(pointers)
}
