//! Messages that a commit produces for other shards. They are rows of the same commit, numbered per
//! target without gaps.
//!
//! 1. One window per target is in flight, in order. Sending it again is harmless: the target stores
//!    the next number it expects in the commit of the messages.
//! 2. A row is deleted when its message has arrived. If the target rejected the message, the row is
//!    deleted in one commit with the dead letter. A window ends at a rejection, so that the reason
//!    cannot be lost with a reply.
//! 3. It is not stored that a window was sent, so a recovered shard sends it again.

use crate::change::{Action, Change, Chore, Decision, Lookup, Reads, TopicKind, VolatileChange};
use crate::command::{
    Arrive, Arrived, Full, Missing, Outgoing, Produce, Rejection, Reply, Seen, Sender,
};
use crate::id::cut;
use crate::id::{Lane, ShardId, Text};
use crate::limits::{OUTBOX_ROWS_MAX, OUTBOX_WAITING_MAX, REASON_BYTES_MAX};
use crate::message::DeathReason;
use crate::pack;
use crate::placement::is_dead_letters;
use crate::refusal::{Decided, Refusal};
use crate::row::MarkKind;
use crate::shard::context::Context;
use crate::shard::rules::dead_letter::Letter;
use crate::shard::verbs::produce::Stored;
use crate::shard::verbs::produce::{BatchSource, ProduceBatch, message, requested_partition};
use crate::shard::{Shard, done};
use crate::time::Timestamp;

/// After this time a window counts as lost and is sent again.
const SEND_AGAIN_MS: u64 = 2_000;
/// How long a commit waits before a retry if the outbox is full.
const FULL_RETRY_MS: u64 = 1_000;

impl Shard {
    fn mark(&self, kind: MarkKind, of: ShardId) -> u64 {
        self.marks.get(&(kind, u64::from(of.0))).copied().unwrap_or(0)
    }
}

impl Context<'_> {
    fn set_mark(&self, kind: MarkKind, of: ShardId, value: u64) -> Change {
        Change::Mark { kind, id: u64::from(of.0), value }
    }

    /// Returns the shard of the requested topic, if it is not this one. That shard checks the key.
    pub(crate) fn elsewhere(&self, produce: &Produce) -> Result<Option<ShardId>, Rejection> {
        let shard = produce.topic.shard(self.config.shards);
        if shard == self.config.shard {
            return Ok(None);
        }
        self.check_produce(produce)?;
        let last = produce.final_topic();
        if is_dead_letters(&last.topic) {
            return Err(Rejection::invalid("topic", "must not be a dead-letter topic"));
        }
        if last.shard(self.config.shards) == self.config.shard {
            self.topic_named(&last)?;
        }
        match produce.seen {
            Some(Seen::Absent) => Err(Rejection::NotFound(Missing::Topic)),
            Some(Seen::Partitions(partitions)) if produce.routing.is_some() => {
                requested_partition(produce, partitions).map(|_| Some(shard))
            }
            Some(Seen::Partitions(_)) | None => Ok(Some(shard)),
        }
    }

    /// Rejects a message if too many messages are waiting for the target shard.
    pub(crate) fn check_outbox(
        &self,
        target: ShardId,
        batch: &ProduceBatch,
    ) -> Result<(), Rejection> {
        let next = self.mark(MarkKind::OutboxNext, target) + batch.queued(target);
        if next - self.mark(MarkKind::OutboxDone, target) < OUTBOX_WAITING_MAX {
            Ok(())
        } else {
            Err(Rejection::Exhausted { full: Full::Outbox, retry_after_ms: FULL_RETRY_MS })
        }
    }

    /// Stores a message in the outbox.
    pub(crate) fn queue(
        &self,
        target: ShardId,
        produce: &Produce,
        sender: Sender,
        batch: &mut ProduceBatch,
        changes: &mut Vec<Change>,
    ) {
        let seq = self.mark(MarkKind::OutboxNext, target) + batch.queued(target);
        *batch.queued.entry(target).or_default() += 1;
        let message = Box::new(Outgoing::of(produce, sender));
        changes.push(Change::Outbox { target, seq, message });
        changes.push(self.set_mark(MarkKind::OutboxNext, target, seq + 1));
    }
}

impl Shard {
    pub(crate) fn send_reads(&self, target: ShardId) -> Reads {
        let from = self.mark(MarkKind::OutboxDone, target);
        if from < self.mark(MarkKind::OutboxNext, target) {
            vec![Lookup::Outbox { target, from }]
        } else {
            Vec::new()
        }
    }
}

impl Context<'_> {
    /// Sends the next window to a target. The shard itself issues this command.
    pub(crate) fn send(&self, target: ShardId) -> Decided {
        let again = |at| VolatileChange::Chore(Chore::Send { target }, at);
        let from = self.mark(MarkKind::OutboxDone, target);
        if from >= self.mark(MarkKind::OutboxNext, target) {
            return Ok(Decision { volatile: vec![again(None)], ..done() });
        }
        let rows = self.rows.outbox(target, from)?;
        let messages = rows.into_iter().take(OUTBOX_ROWS_MAX).map(pack::open_outgoing);
        let messages = messages.collect::<Result<_, _>>()?;
        let arrive = Arrive { source: self.config.shard, from, messages };
        Ok(Decision {
            volatile: vec![again(Some(self.now.after(SEND_AGAIN_MS)))],
            actions: vec![Action::Send(target, Box::new(arrive))],
            ..done()
        })
    }
}

impl Shard {
    /// A keyed message may already be stored here by another route, so its key is looked up.
    pub(crate) fn arrive_reads(&self, arrive: &Arrive) -> Reads {
        let keyed =
            arrive.messages.iter().flat_map(|message| self.produce_reads(&message.produce()));
        let mut reads: Reads = keyed.collect();
        reads.sort_unstable();
        reads.dedup();
        reads
    }
}

impl Context<'_> {
    /// Stores messages of another shard, each message once.
    pub(crate) fn arrive(&self, arrive: &Arrive) -> Decided {
        let Arrive { source, from, messages } = arrive;
        let expected = self.mark(MarkKind::Arrived, *source).max(*from);
        let mut decision = done();
        let mut batch = ProduceBatch::from(BatchSource::OtherShard);
        let (mut through, mut refused) = (expected, None);
        let mut needs: Reads = Vec::new();
        // A message that was rejected once is a dead letter of the source shard. It stays rejected,
        // even if it would be accepted now.
        let is_refused = self.mark(MarkKind::Refused, *source) == expected + 1;
        for message in messages.iter().skip((expected - from) as usize) {
            if is_refused {
                refused = Some("it was refused before".into());
                break;
            }
            let produce = message.produce();
            match self.store(&produce, Some(&mut batch), &mut decision) {
                Ok(Stored::Here(_)) => through += 1,
                Ok(Stored::Elsewhere(target, onward)) => {
                    through += 1;
                    let sender = self.resender(&produce, message)?;
                    self.queue(target, &onward, sender, &mut batch, &mut decision.changes);
                }
                Err(Refusal::Needs(more)) => needs.extend(more),
                Err(Refusal::Rejected(why)) => {
                    refused = Some(cut(&why.to_string().into(), REASON_BYTES_MAX));
                    break;
                }
                Err(damaged @ Refusal::Damaged(_)) => return Err(damaged),
            }
        }
        if !needs.is_empty() {
            return Err(needs.into());
        }
        decision.changes.push(self.set_mark(MarkKind::Arrived, *source, through));
        if refused.is_some() && !is_refused {
            decision.changes.push(self.set_mark(MarkKind::Refused, *source, through + 1));
        }
        let target = self.config.shard;
        decision.reply = Reply::Arrived(Arrived { target, through, refused });
        Ok(decision)
    }
}

impl Shard {
    pub(crate) fn arrived_reads(&self, arrived: &Arrived) -> Reads {
        match arrived.refused {
            Some(_) => vec![Lookup::Outbox { target: arrived.target, from: arrived.through }],
            None => Vec::new(),
        }
    }
}

impl Context<'_> {
    /// Deletes messages that have arrived. A rejected message becomes a dead letter of its source
    /// topic.
    pub(crate) fn arrived(&self, arrived: &Arrived) -> Decided {
        let Arrived { target, through, refused } = arrived;
        let target = *target;
        let first = self.mark(MarkKind::OutboxDone, target);
        let next = self.mark(MarkKind::OutboxNext, target);
        let mut decision = done();
        let mut through = (*through).clamp(first, next);
        if let Some(why) = refused
            && through == arrived.through
            && through < next
        {
            let rows = self.rows.outbox(target, through)?;
            if let Some(row) = rows.first() {
                let message = pack::open_outgoing(row)?;
                self.dead_letter_rejected(&message, why, &mut decision.changes);
            }
            through += 1;
        }
        let gone = (first..through).map(|seq| Change::OutboxGone { target, seq });
        decision.changes.extend(gone);
        if through > first {
            decision.changes.push(self.set_mark(MarkKind::OutboxDone, target, through));
        }
        // A repeated reply changes nothing and sends nothing.
        if through > first {
            let more = (through < next).then_some(self.now);
            decision.volatile.push(VolatileChange::Chore(Chore::Send { target }, more));
        }
        Ok(decision)
    }

    /// Returns the sender of a message that this shard forwards. If the next shard rejects the
    /// message, it becomes a dead letter of the topic that forwarded it.
    fn resender(&self, produce: &Produce, message: &Outgoing) -> Result<Sender, Rejection> {
        let topic = self.topic_named(&produce.topic)?.row.id;
        Ok(Sender { topic, group: None, lane: Lane::of(0), ..message.sender.clone() })
    }

    /// Stores a rejected message as a dead letter of its source topic. If that topic was deleted,
    /// the message is dropped.
    fn dead_letter_rejected(&self, outgoing: &Outgoing, why: &Text, changes: &mut Vec<Change>) {
        let Sender { topic, group, lane, message: id } = &outgoing.sender;
        let Some(source) = self.topics.get(topic) else { return };
        // A dead letter is never dead-lettered again, so the dead letter is stored next to the one
        // that produced it.
        let source = match source.row.kind {
            TopicKind::Dlq(source) => &self.topics[&source],
            TopicKind::Topic => source,
        };
        let group = group.and_then(|group| self.groups.get(&group));
        let group = group.map(|group| group.row.name.clone());
        let letter = Letter {
            source,
            lane: *lane,
            id: *id,
            group: group.unwrap_or_default(),
            reason: DeathReason::Undeliverable,
            attempts: 0,
            last_error: why.clone(),
            last_owner: Text::default(),
            first_delivered_at: None,
            had_effects: false,
            effects_until: None,
            message: message(self.config.restore, self.now, &outgoing.produce()),
        };
        self.store_letter(self.now, letter, changes);
    }
}

impl Shard {
    /// Schedules sending of the messages that the previous owner had in its outbox.
    pub(crate) fn recover_outbox(&mut self, now: Timestamp) {
        let targets =
            self.marks.range((MarkKind::OutboxNext, 0)..=(MarkKind::OutboxNext, u64::MAX));
        let targets: Vec<ShardId> = targets.map(|((_, id), _)| ShardId(*id as u32)).collect();
        for target in targets {
            self.plan_send(target, now);
        }
    }

    /// Schedules a send if messages are waiting and no send is scheduled.
    pub(crate) fn plan_send(&mut self, target: ShardId, now: Timestamp) {
        let is_waiting =
            self.mark(MarkKind::OutboxDone, target) < self.mark(MarkKind::OutboxNext, target);
        let chore = Chore::Send { target };
        if is_waiting && !self.volatile.chores.contains_key(&chore) {
            self.set_chore(chore, Some(now));
        }
    }
}
