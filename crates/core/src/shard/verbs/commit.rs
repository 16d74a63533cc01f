//! One atomic commit: the end of a delivery, the outcomes of its effects and the next steps are one
//! decision, so there is no moment in which one of them has happened and another has not.
//!
//! What was committed is on record, by the attempt: the same again is answered as done, other content is
//! refused. An attempt that holds its message has not committed, so the record is only looked for when
//! it does not.

use serde::{Deserialize, Serialize};

use crate::change::{Decision, Entry, Lookup, Reads, Record};
use crate::command::{
    Claim, Commit, CommitReceipt, Ending, Finish, Nack, NackKind, Part, Produce, Rejection, Reply,
    Sender, Stale,
};
use crate::effect::{EffectRow, Outcome};
use crate::id::{Generation, GroupId, Lane, Offset};
use crate::limits::{DELAY_MS_MAX, EFFECTS_MAX, PRODUCES_MAX};
use crate::message::Message;
use crate::pack::{self, effect_hash};
use crate::refusal::{Decided, Refusal};
use crate::row::{Hash16, Key, RecordKind};
use crate::shard::Shard;
use crate::shard::context::Context;
use crate::shard::ledger::{self, Effects};
use crate::shard::rules::dedupe::content;
use crate::shard::state::open_delivery::OpenDelivery;
use crate::shard::verbs::pointer::{check_pointers, pointer_reads};
use crate::shard::verbs::produce::ProduceBatch;
use crate::shard::verbs::produce::Stored;
use crate::shard::verbs::settle::{Standing, stale_lease};
use crate::time::Timestamp;
use crate::token::LeaseToken;

/// The attempt that committed.
type Attempt = (GroupId, Generation, Lane, Offset, u32);

/// What is kept of a commit.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommitRecord {
    /// The identity in clear: a hash alone could be another's.
    attempt: Attempt,
    content: [u8; 16],
    produced: Vec<CommitReceipt>,
    expires: Timestamp,
}

fn attempt(token: &LeaseToken) -> Attempt {
    (token.group, token.generation, token.lane, token.offset, token.attempt)
}

/// After a restore places are given out again: what was committed at one before is not what is there now.
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
    /// Everything at once, as far as it can be told: each round of reading costs a commit's time.
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
            // Probably a repeat. What the first one needed may be damaged since.
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
            Ok(Standing::Leased(held)) => (held, false),
            Ok(Standing::Expired(held)) => (held, true),
            Ok(ended) => {
                let otherwise = ended.leased(&claim).err();
                let otherwise = otherwise.expect("what is leased was taken above");
                return self.committed_before(commit, otherwise);
            }
            Err(Refusal::Rejected(stale @ Rejection::StaleLease { .. })) => {
                return self.committed_before(commit, stale);
            }
            Err(refusal) => return Err(refusal),
        };
        if held.topic.is_dlq() && commit.ending != Ending::Ack {
            // A dead letter that fails waits and comes again: its next steps would be taken again as well.
            check_steps(commit, "with ack only: a dead letter that is nacked comes again")?;
        }
        if is_late && commit.ending != Ending::Ack {
            // Its retry is on its way: only an outcome can still overtake it.
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
            // An ack writes all of them anyway, with the end of their time.
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
            unreachable!("a commit is answered as one")
        };
        let record = self.commit_record(commit, &held, produced.clone());
        self.put_record(self.now, record, &mut decision.changes);
        Ok(decision)
    }

    /// A commit of an attempt that holds nothing any more: told again if it is the same.
    fn committed_before(&self, commit: &Commit, otherwise: Rejection) -> Decided {
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

    /// The messages of a commit, which follow `message`; without one there are none. Reads of all of them are
    /// asked for together.
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
            let produce = with_origin(asked, message);
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

/// Whether anything of it depends on what the message says.
fn has_message(commit: &Commit) -> bool {
    !commit.produce.is_empty() || !commit.pointers.is_empty() || commit.result.is_some()
}

/// Effects that the commit ends, as they are then.
fn conclude(
    now: Timestamp,
    commit: &Commit,
    effects: &mut Effects,
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
        // One that has gone on to another message of its key was begun here all the same.
        let row = effects.rows.iter_mut().chain(&mut effects.others).find(is_meant);
        let row = row.ok_or_else(|| {
            refused(Rejection::invalid("token", "it was not begun under this delivery"))
        })?;
        if let Some(ended) = ledger::conclude(now, row, finish, restore).map_err(refused)? {
            *row = ended.clone();
            concluded.push(ended);
        }
    }
    Ok(concluded)
}

/// The next step belongs to the run and the customer of the one before, unless it says otherwise.
fn with_origin(produce: &Produce, message: &Message) -> Produce {
    let mut produce = produce.clone();
    let (envelope, before) = (&mut produce.envelope, &message.envelope);
    envelope.run_id = envelope.run_id.take().or_else(|| before.run_id.clone());
    envelope.tenant_id = envelope.tenant_id.take().or_else(|| before.tenant_id.clone());
    produce
}

/// Everything that makes a commit another one.
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
    pack::fingerprint(&(ending, effects, produce, pointers, result))
}

/// Next steps are for a message that does not come again: there may be none.
fn check_steps(commit: &Commit, with: &str) -> Result<(), Rejection> {
    if !commit.produce.is_empty() {
        return Err(Rejection::invalid("produce", format!("goes {with}")));
    }
    if !commit.pointers.is_empty() {
        return Err(Rejection::invalid("pointers", format!("go {with}")));
    }
    Ok(())
}

fn check(commit: &Commit) -> Result<(), Rejection> {
    let Commit { ending, effects, produce, pointers, result, .. } = commit;
    let is_over = match ending {
        Ending::Ack | Ending::Final(_) => true,
        Ending::Nack { delay_ms, .. } if delay_ms.is_some_and(|delay| delay > DELAY_MS_MAX) => {
            return Err(Rejection::invalid("delay_ms", "is at most 604800000"));
        }
        Ending::Nack { .. } => false,
    };
    if !is_over {
        check_steps(commit, "with ack and with a final nack only")?;
    }
    if result.is_some() && *ending != Ending::Ack {
        return Err(Rejection::invalid("result", "goes with ack only"));
    }
    if effects.len() > usize::from(EFFECTS_MAX) {
        return Err(Rejection::invalid("effects", "are at most 32"));
    }
    if produce.len() > PRODUCES_MAX {
        return Err(Rejection::invalid("produce", "are at most 100"));
    }
    check_pointers(pointers)
}
