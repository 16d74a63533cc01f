//! Commits of workers: settle, finish effects and produce messages in one request. Workers repeat a
//! commit without a reply, sometimes with different content.

use driftq_checker::history::{
    Commit as CommandContext, Content, Name, Op, Pointer, Produce as Sent, Verb,
};
use driftq_core::command::{Commit, Ending, PointerName, Produce, SetPointer, TopicName};
use driftq_core::{Command, Envelope, Rejection};

use crate::consumer::worker;
use crate::facts::operator::pointer_text;
use crate::facts::{extension_bytes, extension_of, extension_text};
use crate::world::{Committing, Outcome, SimEvent, WorkerDelivery, World};

/// How often a commit is sent at most.
const TIMES_MAX: u32 = 6;

/// Returns one of a few pointers, so that messages set the same ones.
pub(crate) fn some_pointer(rng: &mut fastrand::Rng) -> PointerName {
    let (dataset, version) = ("sales".into(), "v1".into());
    PointerName { dataset, version, partition_key: format!("day-{}", rng.u32(0..6)).into() }
}

impl World {
    /// Commits a delivery with its effects, messages and pointers.
    pub(crate) fn commit(&mut self, client: usize, taken: &WorkerDelivery) {
        // Derived from the body, so that a repeat sends the same reason.
        let reason = taken.body.is_multiple_of(2).then(|| "it broke".into());
        let delay_ms = self.rng.bool().then(|| self.rng.u64(0..2_000));
        let (verb, ending) = match self.rng.u32(0..20) {
            _ if self.clients.is_healed => (Verb::Ack, Ending::Ack),
            0..2 => (Verb::Final, Ending::Final(reason)),
            2..4 => (Verb::Nack { delay_ms }, Ending::Nack { reason, delay_ms }),
            _ => (Verb::Ack, Ending::Ack),
        };
        let messages = match verb {
            _ if self.clients.is_healed => 0,
            Verb::Nack { .. } => 0,
            Verb::Ack | Verb::Final | Verb::Release { .. } | Verb::Extend { .. } => {
                self.rng.usize(0..4)
            }
        };
        if matches!(verb, Verb::Nack { delay_ms: Some(_) }) {
            self.facts.asked_delays.insert(taken.lease.clone());
        }
        let (finishes, effects) = taken.ends.iter().map(|(held, said)| said.of(held)).unzip();
        let (told, produce): (_, Vec<Produce>) =
            (0..messages).map(|_| self.next_step(taken)).unzip();
        let (token, result) = (taken.token.clone(), None);
        let (told_pointers, pointers) = self.some_pointers(&verb);
        let command = Commit { token, ending, effects, produce, pointers, result };
        let asked = CommandContext {
            lease: taken.lease.clone(),
            verb,
            finishes,
            produce: told,
            pointers: told_pointers,
        };
        if !asked.finishes.is_empty() {
            self.stats.saw("commit with effects");
        }
        self.send_commit(client, Committing { taken: taken.clone(), asked, command, times: 0 });
    }

    /// Pointers to set, as recorded in the history and as sent.
    fn some_pointers(&mut self, verb: &Verb) -> (Vec<Pointer>, Vec<SetPointer>) {
        let is_set = matches!(verb, Verb::Ack) && !self.clients.is_healed;
        if !is_set || self.rng.u32(0..5) != 0 {
            return Default::default();
        }
        self.clients.next_result += 1;
        let name = some_pointer(&mut self.rng);
        let location: Name = format!("s3://bucket/{}", self.clients.next_result).into();
        let replace = self.rng.u32(0..4) != 0;
        let told = Pointer { name: pointer_text(&name), location: location.clone(), replace };
        (vec![told], vec![SetPointer { name, location, checksum: None, replace }])
    }

    pub(crate) fn send_commit(&mut self, client: usize, committing: Committing) {
        let is_current = committing.taken.token.restore == self.restore;
        let asked = Box::new(committing.asked.clone());
        let op = if is_current { Op::Commit(asked) } else { Op::OutdatedCommit(asked) };
        let mut commit = committing.command.clone();
        for produce in &mut commit.produce {
            if produce.routing.is_some() {
                produce.routing = self.ask_router();
            }
            self.set_remote_topics(commit.token.shard, produce);
        }
        let ticket = self.call(client, op, Command::Commit(Box::new(commit)));
        let committing = Committing { times: committing.times + 1, ..committing };
        worker(self, client).committing.insert(ticket, committing);
    }

    /// A message to produce, to a topic that exists, existed or never will.
    fn next_step(&mut self, taken: &WorkerDelivery) -> (Sent, Produce) {
        let topic = self.some_target();
        let body = self.new_body();
        let tenant: Option<Name> = (self.rng.u32(0..4) == 0).then(|| "acme".into());
        let key: Name = match self.rng.u32(0..3) {
            0 => "".into(),
            _ => format!("user:{}", self.rng.u32(0..20)).into(),
        };
        let whose = tenant.clone().unwrap_or_else(|| taken.tenant.clone());
        let idem: Option<Name> = match self.rng.u32(0..20) {
            0..12 => None,
            12..18 => Some(format!("step-{body}").into()),
            _ => self.some_taken_key(&topic, &whose),
        };
        let value = format!("{body} {}", "x".repeat(self.rng.usize(0..40)));
        let told = Sent {
            topic: topic.clone(),
            message: Content {
                body,
                key: key.clone(),
                tenant: whose,
                extension: extension_text(extension_of(body).as_deref()),
            },
            idem: idem.clone(),
            nonce: None,
            target: None,
            size: (key.len() + value.len() + extension_bytes(body)) as u64,
        };
        let produce = Produce {
            topic: TopicName { namespace: "default".into(), topic },
            key: key.to_string().into(),
            value: value.into(),
            envelope: Envelope {
                tenant_id: tenant,
                idempotency_key: idem,
                extension: extension_of(body),
                ..Envelope::default()
            },
            routing: (self.rng.u32(0..8) == 0).then(|| self.ask_router()).flatten(),
            needs_routing: false,
            trace: None,
            seen: None,
            routed: None,
        };
        self.facts.requested.insert(body, told.topic.clone());
        (told, produce)
    }

    /// A key that another message of the topic holds or held.
    fn some_taken_key(&mut self, topic: &Name, tenant: &Name) -> Option<Name> {
        let first = (topic.clone(), tenant.clone(), "".into());
        let there = |(of, whose, _): &&(Name, Name, Name)| (of, whose) == (topic, tenant);
        let keys = self.facts.keys.range(first..).map(|(key, _)| key).take_while(there);
        let keys: Vec<Name> = keys.map(|(_, _, key)| key.clone()).collect();
        (!keys.is_empty()).then(|| keys[self.rng.usize(0..keys.len())].clone())
    }

    fn send_again_later(&mut self, client: usize, delay_ms: u64, committing: Committing) {
        let work = self.new_work(client);
        worker(self, client).again.insert(work, committing);
        self.later(delay_ms, SimEvent::Worked { client, work });
    }

    pub(crate) fn on_commit_reply(
        &mut self,
        client: usize,
        committing: Committing,
        outcome: &Outcome,
    ) {
        let is_last = committing.times >= TIMES_MAX;
        match outcome {
            Outcome::Unknown | Outcome::NotSent if !is_last => {
                let delay = self.rng.u64(5..1_500);
                match self.rng.u32(0..10) {
                    // A worker that decides again instead of repeating its commit.
                    0 => self.commit(client, &committing.taken),
                    _ => self.send_again_later(client, delay, committing),
                }
            }
            Outcome::Done(_) if !is_last && !self.clients.is_healed => {
                match self.rng.u32(0..20) {
                    0..2 => {
                        let delay = self.rng.u64(1..3_000);
                        self.send_again_later(client, delay, committing);
                    }
                    // About when the record of the commit expires.
                    2 => {
                        let delay = self.rng.u64(40_000..70_000);
                        self.send_again_later(client, delay, committing);
                    }
                    3 => self.commit(client, &committing.taken),
                    _ => {}
                }
            }
            Outcome::Refused(Rejection::Unfinished(_)) => {
                self.has_unfinished_effects(client, &committing.taken);
            }
            Outcome::Refused(Rejection::InPart { .. }) => {
                let verb = if self.rng.bool() { Verb::Ack } else { Verb::Nack { delay_ms: None } };
                self.settle(client, &committing.taken, verb, false);
            }
            Outcome::Done(_) | Outcome::Refused(_) | Outcome::Unknown | Outcome::NotSent => {}
        }
    }
}
