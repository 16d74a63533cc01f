//! Renews the leases of messages in work.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::http::{Client, Reply, SendError};

/// Items of one request.
const ITEMS_MAX: usize = 1_000;
/// The shortest time that a renewal waits for its answer.
const ANSWER_MIN: Duration = Duration::from_millis(250);

/// A message in work.
pub(crate) struct InWork {
    pub(crate) token: String,
    pub(crate) lease: Duration,
    /// When the delivery arrived.
    pub(crate) arrived: Instant,
    /// How long its lease is renewed.
    pub(crate) max_processing: Duration,
    /// Gets the reason when the lease is lost.
    pub(crate) lost: watch::Sender<Option<String>>,
}

enum Request {
    Begin(InWork),
    End(String),
}

/// Sends requests to the task that renews.
#[derive(Clone)]
pub(crate) struct Renewals(mpsc::UnboundedSender<Request>);

impl Renewals {
    /// Starts the task. It ends when the last handle to it is dropped.
    pub(crate) fn start(client: Client) -> Renewals {
        let (requests, inbox) = mpsc::unbounded_channel();
        let leases = Leases { client, leases: HashMap::new() };
        tokio::spawn(leases.run(inbox));
        Renewals(requests)
    }

    /// Renews the lease until [`Renewals::end`].
    pub(crate) fn begin(&self, work: InWork) {
        // Without the task, the lease ends and the message is delivered again.
        let _ended = self.0.send(Request::Begin(work));
    }

    /// Stops to renew.
    pub(crate) fn end(&self, token: &str) {
        let _ended = self.0.send(Request::End(token.to_owned()));
    }
}

struct Lease {
    work: InWork,
    renew_at: Instant,
    ends_at: Instant,
}

type Answered =
    (Vec<String>, Instant, Result<Result<Reply, SendError>, tokio::time::error::Elapsed>);

struct Leases {
    client: Client,
    leases: HashMap<String, Lease>,
}

impl Leases {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Request>) {
        let (answers, mut answered) = mpsc::unbounded_channel::<Answered>();
        let mut is_waiting = false;
        loop {
            let next = self.next(is_waiting);
            let due = tokio::time::sleep_until(next.unwrap_or_else(Instant::now).into());
            tokio::select! {
                request = inbox.recv() => match request {
                    Some(Request::Begin(work)) => self.begin(work),
                    Some(Request::End(token)) => drop(self.leases.remove(&token)),
                    None => return,
                },
                Some(answer) = answered.recv() => {
                    is_waiting = false;
                    self.answered(answer);
                }
                () = due, if next.is_some() => {}
            }
            self.cancel_ended();
            if !is_waiting && let Some((tokens, body, patience)) = self.renewal() {
                is_waiting = true;
                let (client, answers) = (self.client.clone(), answers.clone());
                tokio::spawn(async move {
                    let sent_at = Instant::now();
                    let sent = client.send(Method::POST, "settle", Some(&body));
                    let answer = tokio::time::timeout(patience, sent).await;
                    // The receiver lives as long as this runtime.
                    let _ended = answers.send((tokens, sent_at, answer));
                });
            }
        }
    }

    fn begin(&mut self, work: InWork) {
        let lease = Lease {
            renew_at: work.arrived + third(work.lease),
            ends_at: work.arrived + work.lease,
            work,
        };
        self.leases.insert(lease.work.token.clone(), lease);
    }

    /// When to act next.
    fn next(&self, is_waiting: bool) -> Option<Instant> {
        let next = |lease: &Lease| {
            if is_waiting || lease.is_over() { lease.ends_at } else { lease.renew_at }
        };
        self.leases.values().map(|lease| next(lease).min(lease.ends_at)).min()
    }

    fn cancel_ended(&mut self) {
        let now = Instant::now();
        self.leases.retain(|_, lease| {
            let is_held = now < lease.ends_at;
            if !is_held {
                lease
                    .work
                    .lost
                    .send_replace(Some("the lease ended before it was renewed".to_owned()));
            }
            is_held
        });
    }

    /// The next request, if one is due. One request renews every lease.
    fn renewal(&self) -> Option<(Vec<String>, Value, Duration)> {
        let now = Instant::now();
        let mut wanted: Vec<&Lease> =
            self.leases.values().filter(|lease| !lease.is_over()).collect();
        wanted.sort_unstable_by_key(|lease| lease.renew_at);
        wanted.truncate(ITEMS_MAX);
        let first = wanted.first().filter(|first| first.renew_at <= now)?;
        let shortest =
            wanted.iter().map(|lease| lease.work.lease).min().unwrap_or(first.work.lease);
        let items: Vec<Value> = wanted
            .iter()
            .map(|lease| {
                let lease_ms = lease.work.lease.as_millis() as u64;
                json!({ "op": "extend", "token": lease.work.token, "lease_ms": lease_ms })
            })
            .collect();
        let tokens = wanted.iter().map(|lease| lease.work.token.clone()).collect();
        Some((tokens, json!({ "items": items }), third(shortest).max(ANSWER_MIN)))
    }

    fn answered(&mut self, (tokens, sent_at, answer): Answered) {
        let results = match answer {
            Ok(Ok(Reply { status: 200, mut body })) => body["results"].take(),
            // The outcome is unknown, or the server is busy.
            Ok(_) | Err(_) => Value::Null,
        };
        for (at, token) in tokens.into_iter().enumerate() {
            let Some(lease) = self.leases.get_mut(&token) else { continue };
            let result = &results[at];
            if result["status"] == "extended" {
                lease.ends_at = sent_at + lease.work.lease;
                lease.renew_at = sent_at + third(lease.work.lease);
            } else if result["retryable"] == false {
                let why = result["message"].as_str().unwrap_or("the renewal was rejected");
                lease.work.lost.send_replace(Some(why.to_owned()));
                self.leases.remove(&token);
            } else {
                lease.renew_at = Instant::now() + lease.work.lease / 10;
            }
        }
    }
}

impl Lease {
    /// Whether it is not renewed any more.
    fn is_over(&self) -> bool {
        self.renew_at.saturating_duration_since(self.work.arrived) >= self.work.max_processing
    }
}

/// About a third, so that the renewals of many workers do not come together.
fn third(lease: Duration) -> Duration {
    lease.mul_f64((0.9 + 0.2 * fastrand::f64()) / 3.0)
}
