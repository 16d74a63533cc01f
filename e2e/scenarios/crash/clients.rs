//! Clients: producers that repeat messages with an unknown outcome, and consumers that ack, fail
//! and forget.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use driftq_checker::history::{
    Content, DeadLetter, Delivery, Lease, Name, Op, Produce, Reply, Verb, What,
};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::history::{History, LEASE_MS};

pub(crate) const TOPIC: &str = "orders";
pub(crate) const GROUPS: [&str; 2] = ["biller", "mailer"];
const PARTITIONS: u32 = 4;
/// Messages per batch, so that many are in flight.
const BATCH: u64 = 32;
const RECEIVE: u32 = 64;
/// Connection attempts, 20 ms apart, before a request is given up.
const CONNECTS: u32 = 150;
/// Timeout of a request with one server, and with several.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
const ANSWER_AMONG_WITHIN: Duration = Duration::from_secs(3);
/// Bytes of a value. A run may set a larger size.
const VALUE_BYTES: usize = 100;

/// Cursor generations by topic, group and partition.
type Generations = BTreeMap<(String, String, u64), u64>;

/// A client, and the state that all clients share.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// The servers. A random one is used for each request.
    urls: Arc<[String]>,
    number: u32,
    pub(crate) history: Arc<History>,
    next: Arc<AtomicU64>,
    producing: Arc<AtomicU64>,
    leased: Arc<AtomicU64>,
    produced: Arc<AtomicU64>,
    acked: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    pub(crate) value_bytes: usize,
    generations: Arc<Mutex<Generations>>,
    /// Whether producers must stop.
    pub(crate) stopped: Arc<AtomicBool>,
    /// Whether consumers must stop.
    pub(crate) ended: Arc<AtomicBool>,
}

impl Client {
    pub(crate) fn new(url: String, history: Arc<History>) -> Client {
        Client::within(ANSWER_WITHIN, vec![url], history)
    }

    /// A client of several servers. After a timeout, another server may be used.
    pub(crate) fn among(urls: Vec<String>, history: Arc<History>) -> Client {
        Client::within(ANSWER_AMONG_WITHIN, urls, history)
    }

    fn within(answer: Duration, urls: Vec<String>, history: Arc<History>) -> Client {
        Client {
            http: reqwest::Client::builder()
                .timeout(answer)
                .build()
                .expect("a default client can be built"),
            urls: urls.into(),
            number: u32::MAX,
            history,
            next: Arc::default(),
            producing: Arc::default(),
            leased: Arc::default(),
            produced: Arc::default(),
            acked: Arc::default(),
            refused: Arc::default(),
            value_bytes: VALUE_BYTES,
            generations: Arc::default(),
            stopped: Arc::default(),
            ended: Arc::default(),
        }
    }

    fn url(&self) -> &str {
        &self.urls[fastrand::usize(..self.urls.len())]
    }

    pub(crate) fn of(&self, number: u32) -> Client {
        Client { number, ..self.clone() }
    }

    /// Produces and leases in flight.
    pub(crate) fn under_way(&self) -> (u64, u64) {
        (self.producing.load(Ordering::Relaxed), self.leased.load(Ordering::Relaxed))
    }

    /// Successful produces and acks.
    pub(crate) fn acknowledged(&self) -> (u64, u64) {
        (self.produced.load(Ordering::Relaxed), self.acked.load(Ordering::Relaxed))
    }

    /// Produces that were rejected.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether the server reports that it is ready.
    pub(crate) async fn is_ready(&self) -> bool {
        self.get("readyz").await.is_ok()
    }

    pub(crate) fn record(&self, what: What) {
        self.history.push(self.number, what);
    }

    pub(crate) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the response of a success. A rejection of the entire request and a lost response
    /// both return `None`: the outcome is unknown, which the checker never counts as a violation.
    /// While no server listens, the call waits, because a request that was not sent had no effect.
    pub(crate) async fn post(&self, path: &str, asked: &Value) -> Option<Value> {
        self.ask(path, asked).await.filter(|(status, _)| status.is_success()).map(|(_, body)| body)
    }

    /// Returns the response, success or not. While no server listens, it waits like
    /// [`Client::post`].
    pub(crate) async fn ask(&self, path: &str, asked: &Value) -> Option<(StatusCode, Value)> {
        for _ in 0..CONNECTS {
            let request = self.http.post(format!("{}/{path}", self.url())).json(asked);
            match request.send().await {
                Ok(response) => {
                    let status = response.status();
                    return Some((status, response.json().await.ok()?));
                }
                Err(error) if error.is_connect() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(_) => return None,
            }
        }
        None
    }

    fn asked(&self, (body, key): (u64, u64)) -> Value {
        json!({
            "topic": TOPIC, "key": format!("k{key}"),
            "value": format!("{body}:{}", "x".repeat(self.value_bytes)),
            "envelope": { "idempotency_key": format!("intent-{body}") },
        })
    }

    /// Receives messages. Returns none if the request fails.
    pub(crate) async fn receive(&self, topic: &str, group: &str, max: u32) -> Vec<Value> {
        let asked = json!({
            "topic": topic, "group": group, "owner": format!("worker-{}", self.number),
            "max": max, "wait_ms": 500, "lease_ms": LEASE_MS,
        });
        let Some(mut answer) = self.post("receive", &asked).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            return Vec::new();
        };
        answer["messages"].as_array_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let response = self.http.get(format!("{}/{path}", self.url())).send().await?;
        Ok(response.error_for_status()?.json().await?)
    }

    pub(crate) async fn set_up(&self) -> anyhow::Result<()> {
        let settings = json!({
            "retry_policy": { "max_attempts": 8, "backoff_ms": 50, "max_backoff_ms": 500 },
            "retention_ms": 0,
        });
        self.create(TOPIC, settings, &GROUPS).await
    }

    /// Creates a topic and its groups.
    pub(crate) async fn create(
        &self,
        topic: &str,
        settings: Value,
        groups: &[&str],
    ) -> anyhow::Result<()> {
        let asked = json!({ "name": topic, "partitions": PARTITIONS, "settings": settings });
        self.post("topics", &asked).await.context("create topic")?;
        for group in groups {
            let path = format!("{}/topics/{topic}/groups/{group}", self.url());
            let made: Value = self.http.put(path).send().await?.json().await?;
            let partitions = made["partitions"].as_array().context("a group has partitions")?;
            let mut generations =
                self.generations.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            for partition in partitions {
                let number = partition["partition"].as_u64().context("a number")?;
                let generation = partition["generation"].as_u64().context("a generation")?;
                generations.insert((topic.to_owned(), (*group).to_owned(), number), generation);
            }
        }
        Ok(())
    }

    /// Waits until every group has settled everything.
    pub(crate) async fn drained(&self) -> anyhow::Result<()> {
        for _ in 0..3_000 {
            let mut backlog = 0;
            for group in GROUPS {
                let view = self.get(&format!("topics/{TOPIC}/groups/{group}")).await?;
                backlog += view["backlog"].as_u64().context("a backlog")?;
            }
            if backlog == 0 && self.producing.load(Ordering::Relaxed) == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("the backlog was not drained in time");
    }

    /// Records every dead letter in the history.
    pub(crate) async fn dead_letters(&self) -> anyhow::Result<()> {
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("dlq/{TOPIC}?state=all&limit=1000{cursor}")).await?;
            for letter in page["dead_letters"].as_array().context("a list")? {
                self.record(What::DeadLetter(dead_letter(letter)?));
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(()),
            }
        }
    }
}

pub(crate) fn name(value: &Value) -> Name {
    value.as_str().unwrap_or_default().into()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// A value is a number that identifies the message, followed by padding.
pub(crate) fn content(message: &Value) -> anyhow::Result<Content> {
    let value = message["value"].as_str().context("a value is text")?;
    let body = value.split(':').next().unwrap_or_default().parse().context("a body is a number")?;
    Ok(Content { body, key: name(&message["key"]), tenant: "default".into(), extension: "".into() })
}

fn dead_letter(letter: &Value) -> anyhow::Result<DeadLetter> {
    let (death, origin) = (&letter["dlq"], &letter["dlq"]["origin"]);
    Ok(DeadLetter {
        id: name(&letter["id"]),
        topic: name(&origin["topic"]),
        group: name(&death["group"]),
        partition: number(&origin["partition"]) as u32,
        offset: number(&origin["offset"]),
        origin: name(&origin["id"]),
        reason: name(&death["reason"]),
        attempts: number(&death["attempts"]) as u32,
        last_error: name(&death["last_error"]),
        message: content(letter)?,
        idem: death["idempotency_key"].as_str().map(Into::into),
        redriven: None,
    })
}

/// Produces until it is stopped. Messages with an unknown outcome are repeated with the same
/// idempotency key.
pub(crate) async fn produce(client: Client) -> anyhow::Result<()> {
    let mut unknown: Vec<(u64, u64)> = Vec::new();
    while !client.stopped.load(Ordering::Relaxed) || !unknown.is_empty() {
        let mut batch = std::mem::take(&mut unknown);
        if !client.stopped.load(Ordering::Relaxed) {
            while (batch.len() as u64) < BATCH {
                let body = client.next();
                batch.push((body, body % 97));
            }
        }
        unknown = produce_batch(&client, batch).await;
        if !unknown.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Produces a batch. Returns the messages whose outcome is unknown.
pub(crate) async fn produce_batch(client: &Client, batch: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut unknown = Vec::new();
    client.producing.fetch_add(batch.len() as u64, Ordering::Relaxed);
    let calls: Vec<u64> = batch.iter().map(|message| invoke(client, *message)).collect();
    let messages: Vec<Value> = batch.iter().map(|message| client.asked(*message)).collect();
    let answer = client.post("produce/batch", &json!({ "messages": messages })).await;
    let answer = answer.unwrap_or_default();
    for (at, (call, message)) in calls.into_iter().zip(&batch).enumerate() {
        let result = &answer["results"][at];
        if result["status"] == "produced" {
            let reply = Reply::Produced {
                topic: None,
                id: name(&result["id"]),
                partition: number(&result["partition"]) as u32,
                offset: number(&result["offset"]),
                deduplicated: result["deduplicated"] == true,
            };
            client.produced.fetch_add(1, Ordering::Relaxed);
            client.record(What::Done { call, reply });
        } else if result["error"].is_string() && result["outcome"].is_null() {
            client.refused.fetch_add(1, Ordering::Relaxed);
            client.record(What::Refused { call, code: name(&result["error"]), state: None });
        } else {
            client.record(What::Unknown { call });
            unknown.push(*message);
        }
    }
    client.producing.fetch_sub(batch.len() as u64, Ordering::Relaxed);
    unknown
}

fn invoke(client: &Client, (body, key): (u64, u64)) -> u64 {
    let call = client.next();
    let message = Content {
        body,
        key: format!("k{key}").into(),
        tenant: "default".into(),
        extension: "".into(),
    };
    let value = client.asked((body, key));
    let size = [&value["key"], &value["value"]].map(|text| text.as_str().map_or(0, str::len));
    let op = Op::Produce(Produce {
        topic: TOPIC.into(),
        message,
        idem: Some(format!("intent-{body}").into()),
        nonce: None,
        target: None,
        size: size.iter().sum::<usize>() as u64,
    });
    client.record(What::Invoked { call, op });
    call
}

/// How a worker settles a message. `None`: it does not, and the lease expires.
pub(crate) type Choice = fn() -> Option<Verb>;

/// Acks most messages, nacks some, dead-letters some, and forgets some.
pub(crate) fn mostly_ack() -> Option<Verb> {
    match fastrand::u32(0..100) {
        0..2 => None,
        2..6 => Some(Verb::Nack { delay_ms: None }),
        6 => Some(Verb::Final),
        _ => Some(Verb::Ack),
    }
}

/// Consumes until it is stopped.
pub(crate) async fn consume(
    client: Client,
    topic: &'static str,
    group: &'static str,
    choice: Choice,
) -> anyhow::Result<()> {
    while !client.ended.load(Ordering::Relaxed) {
        let messages = client.receive(topic, group, RECEIVE).await;
        client.leased.fetch_add(messages.len() as u64, Ordering::Relaxed);
        let leases = messages
            .iter()
            .map(|message| read(&client, topic, group, message))
            .collect::<anyhow::Result<Vec<_>>>()?;
        // Simulated work.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..40))).await;
        settle(&client, &messages, leases, choice).await;
        client.leased.fetch_sub(messages.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Records a delivery in the history.
pub(crate) fn read(
    client: &Client,
    topic: &str,
    group: &str,
    message: &Value,
) -> anyhow::Result<Lease> {
    let partition = number(&message["partition"]);
    let generations = client.generations.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let lease = Lease {
        topic: topic.into(),
        group: group.into(),
        generation: generations[&(topic.to_owned(), group.to_owned(), partition)],
        partition: partition as u32,
        offset: number(&message["offset"]),
        attempt: number(&message["lease"]["attempt"]) as u32,
    };
    drop(generations);
    client.record(What::Delivered(Delivery {
        lease: lease.clone(),
        id: name(&message["id"]),
        spent: number(&message["attempts"]) as u32,
        message: content(message)?,
    }));
    Ok(lease)
}

async fn settle(client: &Client, messages: &[Value], leases: Vec<Lease>, choice: Choice) {
    let (mut items, mut calls) = (Vec::new(), Vec::new());
    for (message, lease) in messages.iter().zip(leases) {
        let token = &message["lease"]["token"];
        let Some(verb) = choice() else { continue };
        let item = match verb {
            Verb::Final => {
                json!({ "op": "nack", "token": token, "final": true, "reason": "no" })
            }
            Verb::Nack { .. } => json!({ "op": "nack", "token": token, "reason": "it broke" }),
            Verb::Ack | Verb::Release { .. } | Verb::Extend { .. } => {
                json!({ "op": "ack", "token": token })
            }
        };
        let call = client.next();
        client.record(What::Invoked { call, op: Op::Settle { lease, verb, by_owner: false } });
        items.push(item);
        calls.push(call);
    }
    if items.is_empty() {
        return;
    }
    let answer = client.post("settle", &json!({ "items": items })).await.unwrap_or_default();
    for (at, call) in calls.into_iter().enumerate() {
        let result = &answer["results"][at];
        client.record(if result["status"].is_string() {
            client.acked.fetch_add(1, Ordering::Relaxed);
            What::Done { call, reply: Reply::Settled }
        } else if result["error"].is_string() && result["outcome"].is_null() {
            let state = result["state"].as_str().map(Into::into);
            What::Refused { call, code: name(&result["error"]), state }
        } else {
            What::Unknown { call }
        });
    }
}
