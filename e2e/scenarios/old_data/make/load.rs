//! The load under which the server is killed: producers, and workers that begin effects, commit,
//! and send next steps to other shards.
//!
//! A client that gets no response stops, and its open request is stored. The check repeats it after
//! the restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::api::Api;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::topics::{create_with, group};
use crate::answers::{Answers, Commit, Fate, Lease, Message, Produced, Waiting};
use crate::requests::{
    NEXT, Poll, SHORT_LEASE_MS, begin_under, commit_body, lease, message, produce_body, receipt,
    steps,
};

const TOPIC: &str = "load";
const GROUP: &str = "workers";
const READERS: &str = "reader";
const PRODUCERS: usize = 12;
const WORKERS: usize = 12;
/// Maximum of produced but uncommitted messages, so that producers do not run ahead.
const AHEAD_MAX: usize = 40;
/// What must be completed, and in flight, at the kill.
const COMMITTED_MIN: usize = 100;
const PRODUCING_MIN: usize = 2;
const COMMITTING_MIN: usize = 4;
const HOLDING_MIN: usize = 1;
const TIMEOUT: Duration = Duration::from_secs(60);

/// What the clients know.
#[derive(Default)]
struct Known {
    /// Whether the server was killed.
    is_over: bool,
    number: usize,
    produced: Vec<Produced>,
    /// By value: sent without a response so far.
    producing: BTreeMap<String, Message>,
    holding: BTreeMap<String, Lease>,
    committing: BTreeMap<String, Commit>,
    committed: BTreeMap<String, Commit>,
}

pub(super) struct Load {
    known: Arc<Mutex<Known>>,
    tasks: Vec<JoinHandle<()>>,
}

pub(super) async fn prepare(api: &Api) -> anyhow::Result<()> {
    create_with(api, TOPIC, 2, json!({ "on_doubt": "probe" })).await?;
    group(api, TOPIC, GROUP).await?;
    for topic in NEXT {
        create_with(api, topic, 1, json!({})).await?;
        group(api, topic, READERS).await?;
    }
    Ok(())
}

pub(super) fn start(api: &Api) -> Load {
    let known = Arc::new(Mutex::new(Known::default()));
    let mut tasks = Vec::new();
    for _ in 0..PRODUCERS {
        tasks.push(tokio::spawn(produce_all(api.clone(), Arc::clone(&known))));
    }
    for _ in 0..WORKERS {
        let (api, known) = (api.clone(), Arc::clone(&known));
        // The error is caused by the kill.
        tasks.push(tokio::spawn(async move { while work(&api, &known).await.is_ok() {} }));
    }
    Load { known, tasks }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Waits until enough is completed and enough is in flight.
    pub(super) async fn enough(&self) -> anyhow::Result<()> {
        let wait = async {
            loop {
                {
                    let known = lock(&self.known);
                    if known.committed.len() >= COMMITTED_MIN
                        && known.producing.len() >= PRODUCING_MIN
                        && known.committing.len() >= COMMITTING_MIN
                        && known.holding.len() >= HOLDING_MIN
                    {
                        return;
                    }
                }
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.context("too little in flight")
    }

    /// Adds what the clients hold after the kill to the answers.
    pub(super) async fn finish(self, answers: &mut Answers) -> anyhow::Result<()> {
        lock(&self.known).is_over = true;
        for task in self.tasks {
            task.await?;
        }
        let known = std::mem::take(&mut *lock(&self.known));
        println!(
            "load: {} produced, {} committed, in flight {} produces, {} commits, {} deliveries",
            known.produced.len(),
            known.committed.len(),
            known.producing.len(),
            known.committing.len(),
            known.holding.len()
        );
        let Known { produced, producing, holding, committing, committed, .. } = known;
        let is_over = |value: &str| {
            holding.contains_key(value)
                || committing.contains_key(value)
                || committed.contains_key(value)
        };
        for (message, receipt) in produced
            .iter()
            .map(|one| (&one.message, Some(&one.receipt)))
            .chain(producing.values().map(|message| (message, None)))
        {
            let routed = message.envelope.get("target_topic").and_then(Value::as_str);
            if is_over(&message.value) {
                continue;
            }
            answers.waiting.push(Waiting {
                topic: routed.unwrap_or(TOPIC).to_owned(),
                group: if routed.is_some() { READERS } else { GROUP }.to_owned(),
                value: message.value.clone(),
                receipt: receipt.cloned(),
            });
        }
        for value in holding.keys().chain(committing.keys()).chain(committed.keys()) {
            answers.waiting.extend(steps(value).into_iter().map(|step| Waiting {
                topic: step.topic,
                group: READERS.to_owned(),
                value: step.value,
                receipt: None,
            }));
        }
        answers.produced.extend(produced);
        answers.unanswered.extend(producing.into_values());
        answers.leases.extend(holding.into_values());
        answers.commits.extend(committed.into_values().chain(committing.into_values()));
        Ok(())
    }
}

/// Produces until the server is killed. Every fourth message is routed to another topic.
async fn produce_all(api: Api, known: Arc<Mutex<Known>>) {
    loop {
        let message = {
            let mut known = lock(&known);
            if known.is_over {
                return;
            }
            if known.produced.len() > known.committed.len() * 4 / 3 + AHEAD_MAX {
                None
            } else {
                let number = known.number;
                known.number += 1;
                let message = numbered(number);
                known.producing.insert(message.value.clone(), message.clone());
                Some(message)
            }
        };
        let Some(message) = message else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let reply = api.post("produce", &produce_body(&message)).await;
        let Some(receipt) = reply.ok().and_then(|reply| receipt(&reply.ok().ok()?).ok()) else {
            return;
        };
        let mut known = lock(&known);
        known.producing.remove(&message.value);
        known.produced.push(Produced { message, receipt });
    }
}

fn numbered(number: usize) -> Message {
    let (value, key) = (format!("load {number}"), format!("load-{number}"));
    if number % 4 != 3 {
        return message(TOPIC, value, &key);
    }
    let mut routed = message("orders", value, &key);
    let target = NEXT[number / 4 % NEXT.len()];
    routed.envelope.insert("target_topic".to_owned(), json!(target));
    routed
}

async fn work(api: &Api, known: &Mutex<Known>) -> anyhow::Result<()> {
    let poll = Poll { lease_ms: SHORT_LEASE_MS, wait_ms: 500, ..Poll::long(TOPIC, GROUP, 1) };
    for delivery in poll.send(api).await? {
        let mut held = lease(Fate::BeginAgain, &delivery)?;
        held.nonce = format!("nonce of {}", held.value);
        let value = held.value.clone();
        lock(known).holding.insert(value.clone(), held.clone());
        let begun = begin_under(api, &held.token, json!({ "nonce": held.nonce })).await?.ok()?;
        let effect = begun["token"].as_str().context("a token")?.to_owned();
        let mut commit = Commit {
            token: held.token,
            effects: vec![(effect.clone(), json!({ "charge": value }))],
            produce: steps(&value),
            pointers: Vec::new(),
            produced: None,
        };
        {
            let mut known = lock(known);
            if let Some(held) = known.holding.get_mut(&value) {
                held.effect = effect;
            }
            if fastrand::u8(..) >= 32 {
                known.holding.remove(&value);
                known.committing.insert(value.clone(), commit.clone());
            }
        }
        if !lock(known).committing.contains_key(&value) {
            // A pause before the commit, so that some effects are in progress at the kill.
            tokio::time::sleep(Duration::from_millis(30)).await;
            let mut known = lock(known);
            known.holding.remove(&value);
            known.committing.insert(value.clone(), commit.clone());
        }
        let mut reply = api.post("commit", &commit_body(&commit)).await?.ok()?;
        commit.produced = Some(reply["produced"].take());
        let mut known = lock(known);
        known.committing.remove(&value);
        known.committed.insert(value, commit);
    }
    Ok(())
}
