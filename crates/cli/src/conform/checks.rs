//! The checks: each places one fault and reads from the server and the provider what held.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::gate::{Phase, Point, Resume};
use super::http::distinct;
use super::stage::{End, Rest, STEP_TIME, Stage, failed, not_run};

/// The order that meets the fault.
const ORDER: &str = "order-1";
/// Attempts of a message before it becomes a dead letter.
const ATTEMPTS: u32 = 20;
/// The lease in the check of a slow charge, short because it passes in real time.
const SHORT_LEASE_MS: u64 = 3_000;
/// How long the charge takes there.
const SLOW_TIME: Duration = Duration::from_millis(4_500);
/// How long a worker may take to react to SIGTERM before the provider responds.
const REACTION_TIME: Duration = Duration::from_secs(1);
/// How long a worker may take to exit after SIGTERM.
const EXIT_TIME: Duration = Duration::from_secs(40);

/// A check of `driftq conform`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Check {
    /// No fault: the charge is an effect of the ledger
    Ledger,
    /// The worker is killed before the provider charges
    CrashBeforeEffect,
    /// The worker is killed after the provider has charged, before it gets the response
    CrashAfterEffect,
    /// The provider charges and closes the connection without a response
    UnknownOutcome,
    /// The message is delivered again after it was charged and acked
    DuplicateDelivery,
    /// Another worker has processed the message before this one begins the effect
    LostLease,
    /// The charge takes longer than the lease
    SlowEffect,
    /// The ack arrives after another worker has acked the message
    SlowAck,
    /// The responses to the finish and to the ack are lost
    LostReply,
    /// The finish arrives after another worker has finished the effect
    StaleFinish,
    /// The provider is unavailable, the message becomes a dead letter and is redriven
    Redrive,
    /// The worker gets SIGTERM during the charge
    Shutdown,
}

impl Check {
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// What happens in this check.
    pub(super) fn fault(self) -> String {
        let value = self.to_possible_value();
        value.and_then(|value| Some(value.get_help()?.to_string())).unwrap_or_default()
    }

    /// Whether the check has to kill, stop and start workers.
    pub(super) fn needs_command(self) -> bool {
        matches!(self, Check::CrashBeforeEffect | Check::CrashAfterEffect | Check::Shutdown)
    }

    /// What to change in a worker that fails.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Check::Ledger => {
                "Call POST /v1/effects/begin before the charge, send its downstream_key as \
                 Idempotency-Key, and record the outcome with POST /v1/effects/finish."
            }
            Check::CrashBeforeEffect => {
                "Ack last: after the charge, and after its outcome is recorded. An acked message is \
                 not delivered again."
            }
            Check::CrashAfterEffect => {
                "Send the downstream_key of the begin as Idempotency-Key. It is the same in every \
                 attempt, so the provider recognizes the second request."
            }
            Check::UnknownOutcome => {
                "If the provider does not respond, record UNKNOWN, or repeat the charge with the same \
                 key. FAILED_RETRYABLE and FAILED_FINAL mean that it did not charge."
            }
            Check::DuplicateDelivery => {
                "If the decision of the begin is REPLAY, do not charge: use the recorded result and \
                 ack."
            }
            Check::LostLease => {
                "If the begin is rejected, do not charge: drop the message. Another worker has it."
            }
            Check::SlowEffect => {
                "Extend the lease while the charge runs, every third of it, with POST /v1/extend; or \
                 receive with a lease_ms that is longer than the slowest charge."
            }
            Check::SlowAck => {
                "If the ack is rejected with STALE_LEASE, drop the message and go on. Do not retry."
            }
            Check::LostReply => {
                "If the response to finish, ack or commit is lost, send the same request again with \
                 the same token. The server recognizes it."
            }
            Check::StaleFinish => {
                "If the finish is rejected with STALE_FENCE, drop the result and the message. Do not \
                 charge again."
            }
            Check::Redrive => {
                "Name the effect by what stays the same after a redrive: leave out the key in the \
                 begin, or use origin_id, the idempotency key or the id of the order, not the id of \
                 the message."
            }
            Check::Shutdown => {
                "On SIGTERM, receive no more messages, finish the one in hand and exit; or exit \
                 without settling it."
            }
        }
    }

    /// Settings of the topic that differ between checks.
    pub(super) fn settings(self) -> Value {
        let attempts = if self == Check::Redrive { 1 } else { ATTEMPTS };
        let retry = json!({ "max_attempts": attempts, "backoff_ms": 100, "max_backoff_ms": 1_000 });
        let lease_ms = if self == Check::SlowEffect { SHORT_LEASE_MS } else { 30_000 };
        json!({ "lease_ms": lease_ms, "retry_policy": retry, "history": true })
    }

    pub(super) async fn run(self, stage: &mut Stage<'_>) -> Result<(), End> {
        stage.start().await?;
        match self {
            Check::Ledger => ledger(stage).await,
            Check::CrashBeforeEffect => crash(stage, Phase::Request).await,
            Check::CrashAfterEffect => {
                crash(stage, Phase::Response).await?;
                check_keys(stage)
            }
            Check::UnknownOutcome => unknown_outcome(stage).await,
            Check::DuplicateDelivery => duplicate_delivery(stage).await,
            Check::LostLease => lost_lease(stage).await,
            Check::SlowEffect => slow_effect(stage).await,
            Check::SlowAck => slow_ack(stage).await,
            Check::LostReply => lost_reply(stage).await,
            Check::StaleFinish => stale_finish(stage).await,
            Check::Redrive => redrive(stage).await,
            Check::Shutdown => shutdown(stage).await,
        }
    }
}

async fn ledger(stage: &mut Stage<'_>) -> Result<(), End> {
    stage.produce(ORDER).await?;
    stage.rest().await?;
    stage.check_charged_once(ORDER).await?;
    let charged_at = stage.provider.requests().first().map(|request| request.at);
    let begun_at = stage.proxy.begun().first().map(|begun| begun.at);
    match (begun_at, charged_at) {
        (None, _) => return failed("the worker charged and began no effect"),
        (Some(begun), Some(charged)) if charged < begun => {
            return failed("the worker charged before the begin was answered");
        }
        _ => {}
    }
    if let Some(effect) = stage.unfinished_effect().await? {
        let (key, state) = (&effect["key"], &effect["state"]);
        return failed(format!(
            "the effect {key} is in state {state} after the message was settled"
        ));
    }
    stage.check_goes_on(ORDER, Rest::Settled).await
}

async fn crash(stage: &mut Stage<'_>, phase: Phase) -> Result<(), End> {
    let mut gate = stage.provider.gates.arm(Point::Charge, phase);
    stage.produce(ORDER).await?;
    stage.arrival(&mut gate, "the charge").await?;
    stage.kill().await?;
    gate.resume(Resume::Close);
    stage.expire_leases().await?;
    stage.start().await?;
    let rest = stage.rest().await?;
    stage.check_goes_on(ORDER, rest).await
}

/// Checks that every request to the provider carried the downstream key of the effect.
fn check_keys(stage: &Stage<'_>) -> Result<(), End> {
    let begun = stage.proxy.begun();
    for request in stage.provider.requests() {
        if !begun.iter().any(|begun| begun.downstream_key == request.key) {
            let key = request.key.unwrap_or_else(|| "none".to_owned());
            return failed(format!("Idempotency-Key was {key}, which is not a downstream_key"));
        }
    }
    Ok(())
}

/// What a second request charges is the matter of the check before this one.
async fn unknown_outcome(stage: &mut Stage<'_>) -> Result<(), End> {
    let mut gate = stage.provider.gates.arm(Point::Charge, Phase::Response);
    stage.produce(ORDER).await?;
    stage.arrival(&mut gate, "the charge").await?;
    gate.resume(Resume::Close);
    stage.rest().await?;
    stage.process_next(ORDER).await?;
    let outcomes = stage.proxy.outcomes();
    match outcomes.iter().find(|outcome| outcome.starts_with("FAILED")) {
        Some(outcome) => {
            failed(format!("the worker recorded {outcome}, and the provider had charged"))
        }
        None => Ok(()),
    }
}

async fn duplicate_delivery(stage: &mut Stage<'_>) -> Result<(), End> {
    stage.produce(ORDER).await?;
    let rest = stage.rest().await?;
    stage.check_charged_once(ORDER).await?;
    // Otherwise the second delivery would be about an effect in progress.
    stage.unfinished_effect().await?;
    stage.change_group("pause", &json!({})).await?;
    let moved = stage.change_group("seek", &json!({ "to": "earliest" })).await?;
    if moved["redelivers"] != 1 {
        return Err(End::Broken(anyhow::anyhow!("the seek redelivers nothing: {moved}")));
    }
    stage.change_group("resume", &json!({})).await?;
    stage.rest().await?;
    stage.check_goes_on(ORDER, rest).await
}

async fn lost_lease(stage: &mut Stage<'_>) -> Result<(), End> {
    let mut gate = stage.proxy.gates().arm(Point::Begin, Phase::Request);
    stage.produce(ORDER).await?;
    let begin = stage.arrival(&mut gate, "the begin").await?;
    stage.require_unsettled().await?;
    stage.take_over(ORDER, &begin.json()).await?;
    Stage::pass(gate);
    stage.check_goes_on(ORDER, Rest::Settled).await
}

async fn slow_effect(stage: &mut Stage<'_>) -> Result<(), End> {
    let mut gate = stage.provider.gates.arm(Point::Charge, Phase::Response);
    stage.produce(ORDER).await?;
    stage.arrival(&mut gate, "the charge").await?;
    stage.require_unsettled().await?;
    let began = Instant::now();
    while began.elapsed() < SLOW_TIME {
        let page = stage.get("topics/orders/messages?group=biller").await?;
        let message = &page["messages"][0];
        if message["state"] != "leased" || message["attempts"] != 1 {
            let after = began.elapsed().as_millis();
            return failed(format!(
                "the lease of {SHORT_LEASE_MS} ms expired {after} ms into the charge, and the message \
                 would be delivered to another worker"
            ));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Stage::pass(gate);
    let rest = stage.rest().await?;
    stage.check_goes_on(ORDER, rest).await
}

async fn slow_ack(stage: &mut Stage<'_>) -> Result<(), End> {
    let mut gate = stage.proxy.gates().arm(Point::Ack, Phase::Request);
    stage.produce(ORDER).await?;
    stage.arrival(&mut gate, "the ack").await?;
    let begun = stage.proxy.begun();
    let Some(begun) = begun.first().filter(|_| stage.provider.charges(ORDER) > 0) else {
        return not_run("the message was acked before its charge; see crash-before-effect");
    };
    stage.take_over(ORDER, &begun.request).await?;
    Stage::pass(gate);
    stage.check_goes_on(ORDER, Rest::Settled).await
}

async fn lost_reply(stage: &mut Stage<'_>) -> Result<(), End> {
    let finish = stage.proxy.gates().arm(Point::Finish, Phase::Response);
    let ack = stage.proxy.gates().arm(Point::Ack, Phase::Response);
    let id = stage.produce(ORDER).await?;
    // A commit is both, and a worker may ack first.
    let mut lost = Vec::new();
    let mut gates = vec![finish, ack];
    while !gates.is_empty() {
        let (at, call) = stage.first_arrival(&mut gates, "the finish or the ack").await?;
        gates.remove(at).resume(Resume::Close);
        lost.push(call.path().to_owned());
    }
    stage.rest().await?;
    let deliveries = deliveries(stage, &id).await?;
    if deliveries != 1 {
        let lost = lost.join(" and ");
        return failed(format!(
            "the message was delivered {deliveries} times after the responses to {lost} were lost"
        ));
    }
    stage.check_goes_on(ORDER, Rest::Settled).await
}

/// Returns how often a message was delivered.
async fn deliveries(stage: &Stage<'_>, id: &str) -> Result<usize, End> {
    let message = stage.get(&format!("explain?id={id}")).await?;
    let history = message["history"].as_array().into_iter().flatten();
    Ok(history.filter(|event| event["event"] == "delivered").count())
}

async fn stale_finish(stage: &mut Stage<'_>) -> Result<(), End> {
    let mut gate = stage.provider.gates.arm(Point::Charge, Phase::Response);
    stage.produce(ORDER).await?;
    stage.arrival(&mut gate, "the charge").await?;
    stage.require_unsettled().await?;
    let begun = stage.proxy.begun();
    let Some(begun) = begun.first() else { return not_run("the worker began no effect") };
    stage.take_over(ORDER, &begun.request).await?;
    Stage::pass(gate);
    stage.check_goes_on(ORDER, Rest::Settled).await
}

async fn redrive(stage: &mut Stage<'_>) -> Result<(), End> {
    stage.provider.set_unavailable(true);
    stage.produce(ORDER).await?;
    let began = Instant::now();
    let dead = loop {
        stage.check_is_running()?;
        // Before the dead letters are read: one commit settles the message and stores the dead letter.
        let unsettled = stage.require_unsettled().await;
        let dead = stage.dead_letters().await?;
        if !dead.is_empty() {
            break dead;
        }
        unsettled?;
        match began.elapsed() {
            // The worker may retry the charge for as long as it has the lease.
            took if took > STEP_TIME / 4 && took < STEP_TIME => stage.expire_leases().await?,
            took if took > STEP_TIME => return failed("the message did not become a dead letter"),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    stage.provider.set_unavailable(false);
    // A worker that asks the provider first may need a second attempt.
    stage.change_topic(&json!({ "retry_policy": { "max_attempts": ATTEMPTS } })).await?;
    let redrive = json!({ "ids": [dead[0]["id"]], "by": "driftq conform" });
    let redriven = stage.post("dlq/orders/redrive", &redrive).await?;
    if redriven["redriven"] != 1 {
        return Err(End::Broken(anyhow::anyhow!("the redrive failed: {redriven}")));
    }
    let rest = stage.rest().await?;
    let names: Vec<_> = stage.proxy.begun().into_iter().map(|begun| begun.name).collect();
    if let [(_, first), (_, second), ..] = &*distinct(&names) {
        return failed(format!(
            "after the redrive, the effect {first} was begun as {second}; had the first attempt \
             charged, the order would be charged twice"
        ));
    }
    stage.check_goes_on(ORDER, rest).await
}

async fn shutdown(stage: &mut Stage<'_>) -> Result<(), End> {
    let mut gate = stage.provider.gates.arm(Point::Charge, Phase::Request);
    stage.produce(ORDER).await?;
    stage.arrival(&mut gate, "the charge").await?;
    stage.require_unsettled().await?;
    stage.terminate();
    let began = Instant::now();
    while began.elapsed() < REACTION_TIME && !stage.has_exited()? {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    if stage.is_settled().await? {
        return failed("on SIGTERM, the worker settled the message before the provider responded");
    }
    if !stage.dead_letters().await?.is_empty() {
        return failed("on SIGTERM, the worker made the message a dead letter");
    }
    Stage::pass(gate);
    let began = Instant::now();
    while !stage.has_exited()? {
        if began.elapsed() > EXIT_TIME {
            return failed(format!("the worker did not exit within {EXIT_TIME:?} of SIGTERM"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stage.kill().await?;
    stage.expire_leases().await?;
    stage.start().await?;
    let rest = stage.rest().await?;
    stage.check_goes_on(ORDER, rest).await
}
