//! The handler of the scenarios: runs a list of steps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use driftq_client::{Context, EffectError, Execution, Fail, Message, OnDoubt, Probed};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::event;

/// How long the handler waits for the provider.
const PROVIDER_TIME: Duration = Duration::from_millis(500);
/// An address at which nothing listens.
const NOWHERE: &str = "http://127.0.0.1:1";

#[derive(Deserialize)]
pub(crate) struct Order {
    id: String,
}

/// A step of the handler. `attempt` and `id` limit it to one attempt and one message.
#[derive(Deserialize)]
pub(crate) struct Step {
    #[serde(default)]
    attempt: Option<u32>,
    #[serde(default)]
    id: Option<String>,
    #[serde(flatten)]
    what: What,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    /// Execute an effect at the provider.
    Effect(Effect),
    /// Commit, and produce the id of the message to each of these topics.
    Commit(Vec<String>),
    /// Produce the id of the message to a topic, with a request of its own.
    Produce(String),
    /// Wait, and let other tasks run.
    WaitMs(u64),
    /// Wait, and let no other task run on this thread.
    BlockMs(u64),
    /// Wait, let no other task run on this thread, and end when the handler is cancelled.
    BlockUntilCancelledMs(u64),
    /// Compute, and let no other task run on this thread.
    #[serde(alias = "hold_interpreter_ms")]
    BurnMs(u64),
    /// Wait for a command of the runner.
    AwaitGo(u64),
    /// End without success.
    Fail(Failure),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Effect {
    /// `{id}` is the id of the message.
    key: String,
    #[serde(default)]
    request: Option<String>,
    on_doubt: String,
    #[serde(default)]
    window_ms: Option<u64>,
    /// Record a success in the commit.
    #[serde(default)]
    in_commit: bool,
    /// In this attempt, the provider cannot be reached.
    #[serde(default)]
    unreachable_in: Option<u32>,
    /// In the first attempt, kill this process `before` or `after` the provider acts.
    #[serde(default)]
    die: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    how: String,
    #[serde(default)]
    after_ms: Option<u64>,
}

pub(crate) struct Handler {
    pub(crate) steps: Vec<Step>,
    pub(crate) provider: Arc<str>,
    pub(crate) go: Arc<watch::Sender<u64>>,
}

/// Reports how a handler ended, also if it is cancelled.
struct Report {
    of: Value,
    how: &'static str,
}

impl Drop for Report {
    fn drop(&mut self) {
        let mut of = self.of.take();
        of["event"] = "ended".into();
        of["how"] = self.how.into();
        event(&of);
    }
}

impl Handler {
    pub(crate) async fn run(&self, order: Order, ctx: Context) -> Result<(), Fail> {
        let delivery = ctx.delivery();
        let of = json!({
            "id": order.id, "topic": delivery.topic, "attempt": delivery.lease.attempt,
            "attempts": delivery.attempts,
        });
        let mut started = of.clone();
        started["event"] = "started".into();
        event(&started);
        let mut report = Report { of, how: "cancelled" };
        let result = self.steps(&order, &ctx).await;
        let cancelled = ctx.is_cancelled();
        report.how = match (&result, cancelled) {
            (_, true) => "cancelled",
            (Ok(()), _) => "ok",
            (Err(_), _) => "failed",
        };
        result
    }

    async fn steps(&self, order: &Order, ctx: &Context) -> Result<(), Fail> {
        let attempt = ctx.delivery().lease.attempt;
        for Step { attempt: only, id, what } in &self.steps {
            if only.is_some_and(|only| only != attempt)
                || id.as_ref().is_some_and(|id| *id != order.id)
            {
                continue;
            }
            match what {
                What::Effect(effect) => self.effect(effect, order, ctx).await?,
                What::Commit(topics) => {
                    let mut commit = ctx.commit();
                    for topic in topics {
                        commit = commit.produce(topic, &order.id)?;
                    }
                    commit.send().await?;
                }
                What::Produce(topic) => {
                    ctx.client().produce(Message::json(topic, &order.id)?).await?;
                }
                What::WaitMs(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
                What::BlockMs(ms) => std::thread::sleep(Duration::from_millis(*ms)),
                What::BurnMs(ms) => {
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_millis(*ms) {
                        std::hint::spin_loop();
                    }
                }
                What::BlockUntilCancelledMs(ms) => {
                    let began = Instant::now();
                    while !ctx.is_cancelled() && began.elapsed() < Duration::from_millis(*ms) {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    if ctx.is_cancelled() {
                        return Err(Fail::release(None));
                    }
                }
                What::AwaitGo(count) => {
                    let mut gone = self.go.subscribe();
                    let _gone = gone.wait_for(|gone| gone >= count).await;
                }
                What::Fail(failure) => return Err(failed(failure)),
            }
        }
        Ok(())
    }

    async fn effect(&self, effect: &Effect, order: &Order, ctx: &Context) -> Result<(), Fail> {
        let Effect { key, request, on_doubt, window_ms, in_commit, unreachable_in, die: dies } =
            effect;
        let key = key.replace("{id}", &order.id);
        let attempt = ctx.delivery().lease.attempt;
        let policy = match &**on_doubt {
            "retry" => OnDoubt::Retry,
            "probe" => OnDoubt::Probe,
            _ => OnDoubt::Park,
        };
        let mut asked = ctx.effect(&key).on_doubt(policy);
        if let Some(request) = request {
            asked = asked.request(request);
        }
        if let Some(ms) = window_ms {
            asked = asked.window(Duration::from_millis(*ms));
        }
        if *in_commit {
            asked = asked.finish_in_commit();
        }
        let here = if *unreachable_in == Some(attempt) { NOWHERE } else { &*self.provider };
        let dies = |when: &str| attempt == 1 && dies.as_deref() == Some(when);
        let execute = async |execution: Execution| {
            if dies("before") {
                die();
            }
            let http = reqwest::Client::builder().timeout(PROVIDER_TIME).build()?;
            let act = http
                .post(format!("{here}/act"))
                .header("idempotency-key", execution.downstream_key())
                .header("fence", execution.fence());
            let result: Value = EffectError::response(act.send().await)?.json().await?;
            if dies("after") {
                die();
            }
            Ok(result)
        };
        let probe = async |execution: Execution| {
            let http = reqwest::Client::builder().timeout(PROVIDER_TIME).build()?;
            let asked = http.get(format!("{here}/acts/{}", execution.downstream_key()));
            let answer = asked.send().await?;
            if answer.status().as_u16() == 404 {
                return Ok(Probed::NotHappened);
            }
            let result: Value = answer.error_for_status()?.json().await?;
            Ok::<_, EffectError>(Probed::Happened(result))
        };
        let result = asked.run_or_probe(execute, probe).await?;
        event(&json!({ "event": "effect", "key": key, "result": result }));
        Ok(())
    }
}

fn failed(Failure { how, after_ms }: &Failure) -> Fail {
    let after = after_ms.map(Duration::from_millis);
    match &**how {
        "panic" => panic!("boom"),
        "die" => die(),
        "reject" => Fail::reject("rejected"),
        "release" => Fail::release(after),
        "retry" => Fail::retry_after(after.unwrap_or_default(), "later"),
        how => Fail::retry(how),
    }
}

fn die() -> ! {
    let own = rustix::process::getpid();
    // The signal cannot be caught. The process ends before the call returns.
    let _killed = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    std::process::abort()
}
