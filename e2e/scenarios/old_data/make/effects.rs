//! Effects in every state of the ledger, with the tokens of their holders.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use driftq_e2e::api::Api;
use serde_json::{Value, json};

use super::topics::{create_with, group};
use crate::answers::{Answers, Effect, Then};
use crate::requests::{
    HOUR_MS, LONG_LEASE_MS, Poll, begin, begin_under, finish, look, message, nack, object, produce,
};

const SCOPE: &str = "op/charge";
/// The shortest lease, which expires at once.
const BRIEF_LEASE_MS: u64 = 250;
const LOOKS_MAX: u32 = 200;

pub(super) async fn make(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    own_scope(api, answers).await?;
    under_deliveries(api, answers).await
}

/// Waits until the effect is in `state`, and stores it as the API returns it.
async fn keep(
    api: &Api,
    answers: &mut Answers,
    (then, scope, key): (Then, &str, &str),
    begun: &Value,
    state: &str,
) -> anyhow::Result<()> {
    let view = until(api, scope, key, state).await?;
    answers.effects.push(Effect {
        then,
        scope: scope.to_owned(),
        key: key.to_owned(),
        token: begun["token"].as_str().context("a token")?.to_owned(),
        nonce: format!("nonce-{key}"),
        lease: String::new(),
        view: object(view)?,
    });
    Ok(())
}

/// Waits until the effect is in a state. An expired lease takes effect with a short delay.
async fn until(api: &Api, scope: &str, key: &str, state: &str) -> anyhow::Result<Value> {
    for _ in 0..LOOKS_MAX {
        let view = look(api, scope, key).await?.ok()?;
        if view["state"] == state {
            return Ok(view);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("{scope} {key} did not reach {state}")
}

async fn own_scope(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    for (key, then, on_doubt, lease_ms, state) in [
        ("in-progress", Then::Finish, "park", LONG_LEASE_MS, "IN_PROGRESS"),
        ("extended", Then::Extend, "park", LONG_LEASE_MS, "IN_PROGRESS"),
        ("repeated", Then::RepeatBegin, "probe", LONG_LEASE_MS, "IN_PROGRESS"),
        ("probed", Then::Probe, "probe", BRIEF_LEASE_MS, "IN_DOUBT"),
        ("retried", Then::Retry, "retry", BRIEF_LEASE_MS, "IN_DOUBT"),
        ("late", Then::FinishLate, "probe", BRIEF_LEASE_MS, "IN_DOUBT"),
        ("parked", Then::Resolve, "park", BRIEF_LEASE_MS, "PARKED"),
        ("parked-late", Then::FinishLate, "park", BRIEF_LEASE_MS, "PARKED"),
    ] {
        let begun = start(api, key, on_doubt, lease_ms).await?;
        keep(api, answers, (then, SCOPE, key), &begun, state).await?;
    }
    let result = json!({ "charge": "ch_1", "lines": [1, 2.5, "drei"] });
    for (key, then, outcome, state) in [
        (
            "succeeded",
            Then::Replay,
            json!({ "status": "SUCCEEDED", "result": result }),
            "SUCCEEDED",
        ),
        (
            "bytes",
            Then::Replay,
            json!({ "status": "SUCCEEDED", "result_base64": "AAH/" }),
            "SUCCEEDED",
        ),
        (
            "failed",
            Then::Replay,
            json!({ "status": "FAILED_FINAL", "code": 402, "error": "declined" }),
            "FAILED_FINAL",
        ),
        (
            "again",
            Then::Reacquire,
            json!({ "status": "FAILED_RETRYABLE", "error": "busy" }),
            "FAILED_RETRYABLE",
        ),
        ("reported", Then::Probe, json!({ "status": "UNKNOWN" }), "IN_DOUBT"),
    ] {
        let begun = start(api, key, "probe", LONG_LEASE_MS).await?;
        finish(api, begun["token"].as_str().context("a token")?, outcome).await?.ok()?;
        keep(api, answers, (then, SCOPE, key), &begun, state).await?;
    }
    let begun = start(api, "resolved", "park", BRIEF_LEASE_MS).await?;
    until(api, SCOPE, "resolved", "PARKED").await?;
    let resolve = json!({ "scope": SCOPE, "key": "resolved", "fence": 1, "as": "succeeded",
        "result": "ch_9", "by": "ops", "reason": "found ch_9" });
    api.post("effects/resolve", &resolve).await?.ok()?;
    keep(api, answers, (Then::Replay, SCOPE, "resolved"), &begun, "SUCCEEDED").await
}

async fn start(api: &Api, key: &str, on_doubt: &str, lease_ms: u64) -> anyhow::Result<Value> {
    let more = json!({ "request": format!("charge for {key}"), "on_doubt": on_doubt,
        "lease_ms": lease_ms, "owner": "api-2", "nonce": format!("nonce-{key}") });
    Ok(begin(api, SCOPE, key, more).await?.ok()?)
}

async fn under_deliveries(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    create_with(api, "jobs", 1, json!({})).await?;
    group(api, "jobs", "workers").await?;
    let scope = "effect/jobs/workers";
    for (key, then, on_doubt, state) in [
        ("job-finish", Then::FinishUnderDelivery, "park", "IN_PROGRESS"),
        ("job-commit", Then::CommitUnderDelivery, "probe", "IN_PROGRESS"),
        ("job-doubt", Then::Resolve, "probe", "IN_DOUBT"),
        ("job-parked", Then::Resolve, "park", "PARKED"),
    ] {
        produce(api, &message("jobs", key, key)).await?;
        let delivery = Poll::long("jobs", "workers", 1).all(api).await?.remove(0);
        ensure!(delivery["value"] == key, "another message: {delivery}");
        let token = delivery["lease"]["token"].as_str().context("a token")?;
        let begun = begin_under(api, token, json!({ "on_doubt": on_doubt })).await?.ok()?;
        if state != "IN_PROGRESS" {
            let more = json!({ "reason": "gave up", "delay_ms": HOUR_MS });
            nack(api, token, more).await?.ok()?;
        }
        keep(api, answers, (then, scope, key), &begun, state).await?;
        let kept = answers.effects.last_mut().context("the effect was stored")?;
        kept.lease = token.to_owned();
        kept.nonce.clear();
    }
    Ok(())
}
