//! Effects that were begun before the kill, checked against the tables of `docs/reference/api.md`.

use driftq_e2e::api::{Api, Reply};
use serde_json::{Value, json};

use super::Checks;
use crate::answers::{Answers, Commit, Effect, Then};
use crate::requests::{HOUR_MS, ack, begin, commit_body, finish, look};

pub(super) async fn run(api: &Api, answers: &Answers, checks: &mut Checks) -> anyhow::Result<()> {
    for effect in &answers.effects {
        match effect.then {
            Then::Finish | Then::Extend | Then::RepeatBegin => {
                in_progress(api, effect, checks).await?;
            }
            Then::FinishUnderDelivery | Then::CommitUnderDelivery => {
                under_delivery(api, effect, checks).await?;
            }
            Then::Probe | Then::Retry | Then::FinishLate => in_doubt(api, effect, checks).await?,
            Then::Resolve => resolve(api, effect, checks).await?,
            Then::Replay => replay(api, effect, checks).await?,
            Then::Reacquire => reacquire(api, effect, checks).await?,
        }
    }
    Ok(())
}

fn what(effect: &Effect, verb: &str) -> String {
    format!("{verb} of effect {} {}", effect.scope, effect.key)
}

fn field<'a>(effect: &'a Effect, name: &str) -> &'a Value {
    effect.view.get(name).unwrap_or(&Value::Null)
}

fn fence(effect: &Effect) -> u64 {
    field(effect, "fence").as_u64().unwrap_or_default()
}

/// Begins the effect as another worker would.
async fn begin_anew(api: &Api, effect: &Effect, nonce: &str) -> anyhow::Result<Reply> {
    let more = json!({ "request": format!("charge for {}", effect.key), "nonce": nonce,
        "on_doubt": field(effect, "on_doubt"), "owner": "api-3", "lease_ms": HOUR_MS });
    begin(api, &effect.scope, &effect.key, more).await
}

/// The first finish succeeds, and a second is reported as a repeat.
async fn finished_once(api: &Api, effect: &Effect, checks: &mut Checks) -> anyhow::Result<()> {
    let outcome = json!({ "status": "SUCCEEDED", "result": { "charge": effect.key } });
    for (verb, is_repeated) in [("finish", false), ("finish again", true)] {
        let reply = finish(api, &effect.token, outcome.clone()).await?;
        let wanted =
            json!({ "state": "SUCCEEDED", "fence": fence(effect), "repeated": is_repeated });
        checks.answered(&what(effect, verb), &reply, 200, &wanted);
    }
    let found = look(api, &effect.scope, &effect.key).await?;
    let wanted = json!({ "state": "SUCCEEDED", "result": { "charge": effect.key },
        "downstream_key": field(effect, "downstream_key") });
    checks.answered(&what(effect, "look after finish"), &found, 200, &wanted);
    Ok(())
}

async fn in_progress(api: &Api, effect: &Effect, checks: &mut Checks) -> anyhow::Result<()> {
    let reply = begin_anew(api, effect, "another").await?;
    let wanted = json!({ "error": "IN_PROGRESS", "fence": fence(effect) });
    checks.answered(&what(effect, "begin by another"), &reply, 409, &wanted);
    if effect.then == Then::Extend {
        let extend = json!({ "token": effect.token, "lease_ms": HOUR_MS });
        let reply = api.post("effects/extend", &extend).await?;
        checks.answered(&what(effect, "extend"), &reply, 200, &json!({ "status": "extended" }));
    }
    if effect.then == Then::RepeatBegin {
        let reply = begin_anew(api, effect, &effect.nonce).await?;
        // The token may have a newer version. The old token finishes the effect below.
        let wanted = json!({ "decision": "EXECUTE", "fence": fence(effect),
            "downstream_key": field(effect, "downstream_key") });
        checks.answered(&what(effect, "repeated begin"), &reply, 200, &wanted);
    }
    finished_once(api, effect, checks).await
}

async fn under_delivery(api: &Api, effect: &Effect, checks: &mut Checks) -> anyhow::Result<()> {
    let early = ack(api, &effect.lease).await?;
    let wanted = json!({ "error": "FAILED_PRECONDITION" });
    checks.answered(&what(effect, "ack before the end"), &early, 409, &wanted);
    if effect.then == Then::FinishUnderDelivery {
        finished_once(api, effect, checks).await?;
        let acked = ack(api, &effect.lease).await?;
        checks.answered(&what(effect, "ack"), &acked, 204, &Value::Null);
        return Ok(());
    }
    let commit = Commit {
        token: effect.lease.clone(),
        effects: vec![(effect.token.clone(), json!("done"))],
        produce: Vec::new(),
        pointers: Vec::new(),
        produced: None,
    };
    for is_repeated in [false, true] {
        let reply = api.post("commit", &commit_body(&commit)).await?;
        let wanted = json!({ "status": "committed", "repeated": is_repeated });
        checks.answered(&what(effect, "commit"), &reply, 200, &wanted);
    }
    Ok(())
}

async fn in_doubt(api: &Api, effect: &Effect, checks: &mut Checks) -> anyhow::Result<()> {
    if effect.then == Then::FinishLate {
        return finished_once(api, effect, checks).await;
    }
    let (decision, action) = if effect.then == Then::Probe {
        ("IN_DOUBT", json!("probe"))
    } else {
        ("EXECUTE", Value::Null)
    };
    let reply = begin_anew(api, effect, "another").await?;
    let mut wanted = json!({ "decision": decision, "fence": fence(effect) + 1,
        "downstream_key": field(effect, "downstream_key"), "doubt": field(effect, "doubt") });
    if !action.is_null() {
        wanted["action"] = action;
    }
    checks.answered(&what(effect, "begin in doubt"), &reply, 200, &wanted);
    let late = finish(api, &effect.token, json!({ "status": "SUCCEEDED" })).await?;
    let wanted = json!({ "error": "STALE_FENCE", "current_fence": fence(effect) + 1 });
    checks.answered(&what(effect, "finish under the old fence"), &late, 409, &wanted);
    let token = reply.body["token"].as_str().unwrap_or_default();
    let done = finish(api, token, json!({ "status": "SUCCEEDED" })).await?;
    checks.answered(&what(effect, "finish under the new fence"), &done, 200, &json!({}));
    Ok(())
}

async fn resolve(api: &Api, effect: &Effect, checks: &mut Checks) -> anyhow::Result<()> {
    if effect.lease.is_empty() {
        let reply = begin_anew(api, effect, "another").await?;
        let wanted = json!({ "error": "IN_DOUBT", "action": "park" });
        checks.answered(&what(effect, "begin while parked"), &reply, 409, &wanted);
    }
    let body = json!({ "scope": effect.scope, "key": effect.key, "fence": fence(effect),
        "as": "succeeded", "result": "ch_2", "by": "ops", "reason": "found ch_2" });
    let reply = api.post("effects/resolve", &body).await?;
    let wanted = json!({ "state": "SUCCEEDED", "result": "ch_2", "resolution": { "by": "ops" } });
    checks.answered(&what(effect, "resolve"), &reply, 200, &wanted);
    Ok(())
}

async fn replay(api: &Api, effect: &Effect, checks: &mut Checks) -> anyhow::Result<()> {
    let reply = begin_anew(api, effect, "another").await?;
    let mut wanted = json!({ "decision": "REPLAY", "fence": fence(effect) });
    for name in ["state", "code", "result", "result_base64", "error", "replay_until"] {
        if let Some(value) = effect.view.get(name) {
            wanted[name] = value.clone();
        }
    }
    checks.answered(&what(effect, "begin"), &reply, 200, &wanted);
    if effect.view.get("resolution").is_none() {
        let other = finish(api, &effect.token, json!({ "status": "SUCCEEDED", "result": "other" }));
        let wanted = json!({ "error": "CONFLICT" });
        checks.answered(&what(effect, "finish with another outcome"), &other.await?, 422, &wanted);
    }
    Ok(())
}

async fn reacquire(api: &Api, effect: &Effect, checks: &mut Checks) -> anyhow::Result<()> {
    let reply = begin_anew(api, effect, "another").await?;
    checks.answered(&what(effect, "begin"), &reply, 200, &json!({ "decision": "RETRYABLE" }));
    let body = json!({ "scope": effect.scope, "key": effect.key });
    let reply = api.post("effects/reacquire", &body).await?;
    let wanted = json!({ "decision": "EXECUTE", "fence": fence(effect) + 1,
        "downstream_key": field(effect, "downstream_key") });
    checks.answered(&what(effect, "reacquire"), &reply, 200, &wanted);
    Ok(())
}
