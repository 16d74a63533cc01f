//! Clients whose every commit settles an order, ends its effect and sends its next steps to other
//! shards.
//!
//! They begin effects, commit, repeat commits with an unknown outcome, let leases expire, finish an
//! effect without committing, and abandon orders after `begin` or before it. An order has the same
//! steps whichever attempt commits it, so each step is stored exactly once if and only if exactly
//! one commit was accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use driftq_checker::history::{
    Begin, Content, Decision, Effect, Lease, Name, Op, Produce, Reply, Right, Status, Verb, What,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::clients::{Client, TOPIC, content, name, number, produce_batch, read};
use crate::history::LEASE_MS;

pub(crate) const GROUP: &str = "biller";
/// Topics of the next steps, spread over several shards.
pub(crate) const STEPS: [&str; 6] = ["receipts", "mails", "stock", "reports", "points", "audits"];
pub(crate) const STEPS_OF_AN_ORDER: usize = 3;
/// Orders that a worker receives at a time.
const RECEIVE: u32 = 16;
/// Maximum number of waiting orders. All produced orders must be drained at the end.
const WAITING_MAX: u64 = 2_000;
/// How often a call is sent in total when it gets no response.
const TIMES: u32 = 4;
/// Bodies of steps are numbered above those of orders.
const STEP_BODIES: u64 = 1 << 40;

/// Counters over all workers.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) committing: AtomicU64,
    pub(crate) committed: AtomicU64,
    /// Steps that were still on their way to another shard when their commit was answered.
    pub(crate) queued: AtomicU64,
    pub(crate) replayed: AtomicU64,
}

/// The steps of an order: topic and body.
pub(crate) fn steps_of(order: u64) -> [(&'static str, u64); STEPS_OF_AN_ORDER] {
    [0, 1, 3].map(|step| {
        let at = (order + step) % STEPS.len() as u64;
        (STEPS[at as usize], STEP_BODIES + order * STEPS.len() as u64 + step)
    })
}

/// Produces orders until it is stopped. Limits the number of waiting orders.
pub(crate) async fn order(client: Client, progress: Arc<Progress>) -> anyhow::Result<()> {
    let mut unknown = Vec::new();
    while !client.stopped.load(Ordering::Relaxed) || !unknown.is_empty() {
        let (produced, _) = client.acknowledged();
        let waiting = produced.saturating_sub(progress.committed.load(Ordering::Relaxed));
        if unknown.is_empty() && waiting > WAITING_MAX {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        if !client.stopped.load(Ordering::Relaxed) {
            unknown
                .extend((unknown.len()..32).map(|_| client.next()).map(|body| (body, body % 97)));
        }
        unknown = produce_batch(&client, unknown).await;
    }
    Ok(())
}

/// Handles orders until it is stopped.
pub(crate) async fn work(client: Client, progress: Arc<Progress>) -> anyhow::Result<()> {
    let worker = Worker { client, progress };
    while !worker.client.ended.load(Ordering::Relaxed) {
        let messages = worker.client.receive(TOPIC, GROUP, RECEIVE).await;
        let mut attempts = Vec::new();
        for message in &messages {
            let lease = read(&worker.client, TOPIC, GROUP, message)?;
            attempts.push(Attempt {
                order: content(message)?.body,
                token: message["lease"]["token"].clone(),
                lease,
            });
        }
        join_all(attempts.iter().map(|attempt| worker.handle(attempt))).await;
    }
    Ok(())
}

struct Worker {
    client: Client,
    progress: Arc<Progress>,
}

/// One delivery of an order.
struct Attempt {
    order: u64,
    token: Value,
    lease: Lease,
}

/// The response to a `begin`.
struct Begun {
    token: Value,
    right: Right,
    decision: Decision,
}

/// The result of a call.
enum End {
    Done(Value),
    Refused(Value),
    Unknown,
}

impl Worker {
    async fn handle(&self, attempt: &Attempt) {
        let whim = fastrand::u32(0..100);
        if whim < 3 {
            return;
        }
        let Some(begun) = self.begin(attempt).await else { return };
        if let Decision::Replay(_) = begun.decision {
            self.progress.replayed.fetch_add(1, Ordering::Relaxed);
            return self.commit(attempt, None).await;
        }
        // Unique, so that no other attempt reports the same outcome.
        let outcome = json!({ "charge": self.client.next() });
        match whim {
            3..8 => {}
            8..14 => self.finish(&begun, &outcome).await,
            14..17 => {
                tokio::time::sleep(Duration::from_millis(LEASE_MS + 200)).await;
                self.commit(attempt, Some((&begun, &outcome))).await;
            }
            _ => self.commit(attempt, Some((&begun, &outcome))).await,
        }
    }

    async fn ask(&self, path: &str, asked: &Value) -> End {
        match self.client.ask(path, asked).await {
            Some((status, answer)) if status.is_success() => End::Done(answer),
            Some((status, answer))
                if status.is_client_error()
                    && answer["error"].is_string()
                    && answer["outcome"].is_null() =>
            {
                End::Refused(answer)
            }
            Some(_) | None => End::Unknown,
        }
    }

    fn invoked(&self, op: Op) -> u64 {
        let call = self.client.next();
        self.client.record(What::Invoked { call, op });
        call
    }

    fn refused(&self, call: u64, answer: &Value) {
        let state = answer["state"].as_str().map(Into::into);
        self.client.record(What::Refused { call, code: name(&answer["error"]), state });
    }

    async fn begin(&self, attempt: &Attempt) -> Option<Begun> {
        let effect = Effect {
            tenant: "default".into(),
            scope: format!("effect/{TOPIC}/{GROUP}").into(),
            key: format!("intent-{}", attempt.order).into(),
        };
        let nonce: Name = self.client.next().to_string().into();
        let asked = json!({ "lease_token": attempt.token, "on_doubt": "retry", "nonce": &*nonce });
        for _ in 0..TIMES {
            let call = self.invoked(Op::Begin(Box::new(Begin {
                effect: effect.clone(),
                lease: Some(attempt.lease.clone()),
                request: None,
                nonce: Some(nonce.clone()),
                again: false,
            })));
            match self.ask("effects/begin", &asked).await {
                End::Done(answer) => {
                    let fence = number(&answer["fence"]);
                    let right = Right { effect, life: 0, fence };
                    let (decision, outcome) = match answer["decision"].as_str() {
                        Some("REPLAY") => {
                            (Decision::Replay(Status::Succeeded), answer["result"].to_string())
                        }
                        _ => (Decision::Execute, String::new()),
                    };
                    let (acknowledged_decisions, outcome) =
                        (Box::new(right.clone()), outcome.into());
                    let reply = Reply::Began { decision, right: acknowledged_decisions, outcome };
                    self.client.record(What::Done { call, reply });
                    return Some(Begun { token: answer["token"].clone(), right, decision });
                }
                End::Refused(answer) => {
                    self.refused(call, &answer);
                    return None;
                }
                End::Unknown => self.client.record(What::Unknown { call }),
            }
        }
        None
    }

    async fn finish(&self, begun: &Begun, outcome: &Value) {
        let call = self.invoked(finished(begun, outcome));
        match self.ask("effects/finish", &said(begun, outcome)).await {
            End::Done(_) => self.client.record(What::Done { call, reply: Reply::Ok }),
            End::Refused(answer) => self.refused(call, &answer),
            End::Unknown => self.client.record(What::Unknown { call }),
        }
    }

    /// Records a commit as its parts, which succeed, are rejected or are unknown together.
    async fn commit(&self, attempt: &Attempt, finish: Option<(&Begun, &Value)>) {
        let steps = steps_of(attempt.order);
        let produce: Vec<Value> =
            steps.iter().map(|(topic, body)| message(topic, *body, attempt.order)).collect();
        let effects: Vec<Value> =
            finish.iter().map(|(begun, outcome)| said(begun, outcome)).collect();
        let asked = json!({ "token": attempt.token, "effects": effects, "produce": produce });
        for _ in 0..TIMES {
            let mut calls = vec![self.invoked(Op::Settle {
                lease: attempt.lease.clone(),
                verb: Verb::Ack,
                by_owner: false,
            })];
            calls.extend(finish.map(|(begun, outcome)| self.invoked(finished(begun, outcome))));
            let sends =
                steps.map(|(topic, body)| self.invoked(produced(topic, body, attempt.order)));
            self.progress.committing.fetch_add(1, Ordering::Relaxed);
            let end = self.ask("commit", &asked).await;
            self.progress.committing.fetch_sub(1, Ordering::Relaxed);
            match end {
                End::Done(answer) => {
                    for call in calls {
                        self.client.record(What::Done { call, reply: Reply::Ok });
                    }
                    for (at, call) in sends.into_iter().enumerate() {
                        let reply = self.receipt(&answer, at);
                        self.client.record(What::Done { call, reply });
                    }
                    self.progress.committed.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                End::Refused(answer) => {
                    for call in calls.into_iter().chain(sends) {
                        self.refused(call, &answer);
                    }
                    return;
                }
                End::Unknown => {
                    for call in calls.into_iter().chain(sends) {
                        self.client.record(What::Unknown { call });
                    }
                }
            }
        }
    }

    fn receipt(&self, answer: &Value, at: usize) -> Reply {
        let receipt = &answer["produced"][at];
        let is_queued = receipt["status"] == "queued";
        self.progress.queued.fetch_add(u64::from(is_queued), Ordering::Relaxed);
        // A queued step has no position yet. A repeated commit returns positions from before this
        // call.
        if is_queued || answer["repeated"] == true {
            return Reply::Ok;
        }
        Reply::Produced {
            topic: None,
            id: name(&receipt["id"]),
            partition: number(&receipt["partition"]) as u32,
            offset: number(&receipt["offset"]),
            deduplicated: false,
        }
    }
}

fn said(begun: &Begun, outcome: &Value) -> Value {
    json!({ "token": begun.token, "status": "SUCCEEDED", "result": outcome })
}

fn finished(begun: &Begun, outcome: &Value) -> Op {
    let right = Box::new(begun.right.clone());
    Op::Finish { right, status: Status::Succeeded, outcome: outcome.to_string().into() }
}

fn message(topic: &str, body: u64, order: u64) -> Value {
    json!({ "topic": topic, "key": format!("k{order}"), "value": format!("{body}:next") })
}

fn produced(topic: &str, body: u64, order: u64) -> Op {
    let key = format!("k{order}");
    let size = (key.len() + format!("{body}:next").len()) as u64;
    let message = Content { body, key: key.into(), tenant: "default".into(), extension: "".into() };
    Op::Produce(Produce {
        topic: topic.into(),
        message,
        idem: None,
        nonce: None,
        target: None,
        size,
    })
}
