//! The producer client: sends one message after another, with keys, repeats, deadlines and
//! occasional mistakes.

use std::collections::BTreeMap;
use std::sync::Arc;

use driftq_checker::history::{Content, Name, Op, Produce as CommandContext};
use driftq_core::command::{Produce, ProduceWithNonce, TopicName};
use driftq_core::placement::shard_of_topic;
use driftq_core::{Command, Envelope, Rejection, Reply, RetryRequest, Ticket, Timestamp};

use crate::facts::{extension_bytes, extension_of, extension_text};
use crate::plan::keys;
use crate::world::{Client, Outcome, Producer, Sent, SimEvent, World};

/// How many used keys a producer remembers.
const REMEMBERED: usize = 40;

impl Producer {
    pub(crate) fn new(topic: Name) -> Producer {
        Producer {
            topic,
            in_flight: BTreeMap::new(),
            used_keys: Vec::new(),
            used_nonces: Vec::new(),
            rejected: Vec::new(),
            planned: BTreeMap::new(),
            next_plan: 0,
        }
    }
}

fn producer(world: &mut World, client: usize) -> &mut Producer {
    match &mut world.clients.list[client] {
        Client::Producer(producer) => producer,
        Client::Worker(_) | Client::Admin(_) | Client::Executor(_) => {
            unreachable!("client {client} is a producer")
        }
    }
}

impl World {
    pub(crate) fn wake_producer(&mut self, client: usize) {
        let me = producer(self, client);
        let is_busy = !me.in_flight.is_empty() || !me.planned.is_empty();
        if self.clients.is_healed || is_busy {
            return;
        }
        let known = producer(self, client).used_keys.len();
        match self.rng.u32(0..100) {
            0..8 if known > 0 => {
                let again = self.some_used_key(client);
                self.send(client, again);
            }
            8..10 if known > 0 => {
                let again = self.some_used_key(client);
                let body = self.new_body();
                self.send(client, Sent { body, times: 0, ..again });
            }
            10..12 if known > 0 => {
                let again = self.some_used_key(client);
                let body = self.new_body();
                let tenant = Some("other".into());
                self.send(client, Sent { body, tenant, times: 0, ..again });
            }
            12..18 if known > 0 => self.aim_at_the_end_of_a_key(client),
            27..30 if !producer(self, client).used_nonces.is_empty() => {
                let again = producer(self, client).used_nonces.pop().expect("it is not empty");
                // The same request, or another one with its nonce.
                let body = if self.rng.bool() { again.body } else { self.new_body() };
                self.send(client, Sent { body, times: 0, ..again });
            }
            23..27 if !producer(self, client).rejected.is_empty() => {
                // Its sender gave up, and another message uses the key.
                let rejected = producer(self, client).rejected.pop().expect("it is not empty");
                let body = self.new_body();
                self.stats.saw("key of a rejected message used again");
                self.send(client, Sent { body, times: 0, ..rejected });
            }
            18..23 => {
                let message =
                    Sent { idem: Some(self.new_key()), nonce: None, ..self.new_message() };
                self.stats.saw("key repeated while its first commit was in flight");
                self.send(client, message.clone());
                // The same message, or a different one with the same key.
                match self.rng.u32(0..3) {
                    0 => {
                        let body = self.new_body();
                        self.send(client, Sent { body, ..message });
                    }
                    _ => self.send(client, message),
                }
            }
            _ => {
                let message = self.new_message();
                self.send(client, message);
            }
        }
    }

    /// Repeats a key so that it arrives about when it expires.
    fn aim_at_the_end_of_a_key(&mut self, client: usize) {
        let again = self.some_used_key(client);
        let topic = producer(self, client).topic.clone();
        let tenant = again.tenant.clone().unwrap_or_else(|| "default".into());
        let Some(idem) = again.idem.clone() else {
            return;
        };
        let until = self.facts.keys.get(&(topic, tenant, idem)).copied();
        let wait = until.map(|until| Timestamp(until).since(self.followed_now()).saturating_sub(9));
        match wait {
            Some(wait) if wait < 20_000 => {
                // The same content: before the expiry it is a duplicate, afterwards a new message.
                self.send_later(client, wait, again);
            }
            Some(_) | None => self.send(client, again),
        }
    }

    fn send_later(&mut self, client: usize, delay_ms: u64, sent: Sent) {
        let me = producer(self, client);
        me.next_plan += 1;
        let plan = me.next_plan;
        me.planned.insert(plan, sent);
        self.later(delay_ms, SimEvent::Planned { client, plan });
    }

    pub(crate) fn send_planned(&mut self, client: usize, plan: u64) {
        if let Some(sent) = producer(self, client).planned.remove(&plan) {
            self.send(client, sent);
        }
    }

    fn some_used_key(&mut self, client: usize) -> Sent {
        let known = producer(self, client).used_keys.len();
        let index = self.rng.usize(0..known);
        producer(self, client).used_keys[index].clone()
    }

    pub(crate) fn new_body(&mut self) -> u64 {
        self.clients.next_body += 1;
        self.clients.next_body
    }

    fn new_key(&mut self) -> Name {
        format!("intent-{}", self.clients.next_body).into()
    }

    fn new_message(&mut self) -> Sent {
        let body = self.new_body();
        let key = match self.rng.u32(0..4) {
            0 => Arc::from(""),
            _ => format!("user:{}", self.rng.u32(0..keys(self.shape))).into(),
        };
        let tenant = (self.rng.u32(0..3) == 0).then(|| Arc::from("acme"));
        let idem = (self.rng.u32(0..2) == 0).then(|| self.new_key());
        let soon = self.followed_now().after(self.rng.u64(50..8_000));
        let deadline = (self.rng.u32(0..16) == 0).then_some(soon);
        let retry = (self.rng.u32(0..10) == 0).then(|| RetryRequest {
            max_attempts: self.rng.i32(1..4),
            backoff_ms: Some(self.rng.u64(0..500)),
            max_backoff_ms: Some(1_000),
        });
        let padding = self.rng.usize(0..60);
        let deaths = self.faults.deaths;
        let target = (self.rng.u32(0..20) == 0).then(|| self.some_target());
        let asks_router = self.rng.u32(0..10) == 0;
        let times = 0;
        let is_request = idem.is_none() && self.rng.u32(0..2) == 0;
        let nonce = is_request.then(|| format!("request-{body}").into());
        Sent {
            body,
            key,
            tenant,
            idem,
            nonce,
            padding,
            deadline,
            retry,
            target,
            asks_router,
            times,
            deaths,
        }
    }

    fn send(&mut self, client: usize, sent: Sent) {
        let topic = producer(self, client).topic.clone();
        let value = format!("{} {}", sent.body, "x".repeat(sent.padding));
        let size = (sent.key.len() + value.len() + extension_bytes(sent.body)) as u64;
        // The router is asked after the shard has looked for an earlier try.
        let needs_routing = sent.asks_router && self.rng.u32(0..3) != 0;
        let is_asked = sent.asks_router && self.rng.u32(0..3) != 0;
        let routing = if is_asked { self.ask_router() } else { None };
        let mut produce = Produce {
            topic: TopicName { namespace: "default".into(), topic: topic.clone() },
            key: sent.key.to_string().into(),
            value: value.into(),
            envelope: Envelope {
                tenant_id: sent.tenant.clone(),
                idempotency_key: sent.idem.clone(),
                deadline: sent.deadline,
                retry_policy: sent.retry,
                target_topic: sent.target.clone(),
                extension: extension_of(sent.body),
                ..Envelope::default()
            },
            routing,
            needs_routing,
            trace: None,
            seen: None,
            routed: None,
        };
        let shard = shard_of_topic("default", &topic, self.nodes.len() as u32);
        self.set_remote_topics(shard, &mut produce);
        let command = match &sent.nonce {
            None => Command::Produce(Box::new(produce)),
            Some(nonce) => {
                let shards = self.nodes.len() as u32;
                let mut parts = ProduceWithNonce::parts(nonce, vec![(0, produce)], shards);
                Command::ProduceWithNonce(Box::new(parts.remove(0)))
            }
        };
        // A keyed message may go to the topic that an earlier message of its key was pinned to.
        if sent.asks_router || sent.target.is_some() || sent.idem.is_some() {
            self.facts.requested.insert(sent.body, topic.clone());
        }
        let tenant = sent.tenant.clone().unwrap_or_else(|| "default".into());
        let extension = extension_text(extension_of(sent.body).as_deref());
        let message = Content { body: sent.body, key: sent.key.clone(), tenant, extension };
        let op = Op::Produce(CommandContext {
            topic,
            message,
            idem: sent.idem.clone(),
            nonce: sent.nonce.clone(),
            target: sent.target.clone(),
            size,
        });
        let ticket = self.call(client, op, command);
        let sent = Sent { times: sent.times + 1, ..sent };
        producer(self, client).in_flight.insert(ticket, sent);
    }

    pub(crate) fn on_producer_reply(&mut self, client: usize, ticket: Ticket, outcome: Outcome) {
        let Some(sent) = producer(self, client).in_flight.remove(&ticket) else {
            return;
        };
        let deaths = self.faults.deaths;
        if let Outcome::Refused(rejection) = &outcome
            && sent.idem.is_some()
            && !matches!(rejection, Rejection::KeyConflict | Rejection::KeyConflictIn { .. })
        {
            let rejected = &mut producer(self, client).rejected;
            rejected.truncate(8);
            rejected.push(sent.clone());
        }
        let again = match outcome {
            Outcome::Done(Reply::Produced(receipt)) => {
                self.stats.produced += 1;
                if receipt.deduplicated {
                    self.stats.saw("dedupe hit");
                    if deaths > sent.deaths {
                        self.stats.saw("dedupe hit after crash");
                    }
                }
                if sent.nonce.is_some() {
                    if receipt.deduplicated {
                        self.stats.saw("nonce sent again");
                        if deaths > sent.deaths {
                            self.stats.saw("nonce sent again after crash");
                        }
                    }
                    let used = &mut producer(self, client).used_nonces;
                    used.truncate(8);
                    used.push(sent.clone());
                }
                let used = &mut producer(self, client).used_keys;
                let is_other = |used: &Sent| {
                    (&used.idem, &used.tenant) == (&sent.idem, &sent.tenant)
                        && used.body != sent.body
                };
                if receipt.deduplicated && used.iter().any(is_other) {
                    self.stats.saw("repeat with other content");
                }
                let used = &mut producer(self, client).used_keys;
                if sent.idem.is_some() && !receipt.deduplicated && used.len() < REMEMBERED {
                    used.push(sent.clone());
                } else if used.len() >= REMEMBERED {
                    used.remove(0);
                }
                false
            }
            // The same content under the same key, so that the server deduplicates it.
            Outcome::Unknown => sent.idem.is_some() || sent.nonce.is_some() || self.rng.bool(),
            Outcome::NotSent => true,
            Outcome::Refused(Rejection::Exhausted { .. } | Rejection::Unrouted) => sent.times < 4,
            Outcome::Done(_) | Outcome::Refused(_) => false,
        };
        if again && !self.clients.is_healed && sent.times < 12 {
            let delay = self.rng.u64(20..600);
            self.send_later(client, delay, sent);
        } else {
            let pause = self.rng.u64(300..1_200);
            self.later(pause, SimEvent::Wake { client });
        }
    }
}
