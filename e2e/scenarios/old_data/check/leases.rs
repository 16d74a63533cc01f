//! Tokens that were issued before the kill, checked against the settle table of
//! `docs/reference/api.md`.

use anyhow::Context as _;
use driftq_e2e::api::{Api, Reply};
use serde_json::{Value, json};

use super::Checks;
use crate::answers::{Answers, Commit, Fate, Lease};
use crate::requests::{HOUR_MS, ack, begin_under, commit_body, nack, steps};

/// Leases that have expired by the clock. They are honoured for some seconds after the recovery, so
/// they are checked first.
pub(super) async fn in_grace(
    api: &Api,
    answers: &Answers,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    for lease in answers.leases.iter().filter(|lease| lease.fate == Fate::ExtendInGrace) {
        let reply = extend(api, lease, HOUR_MS).await?;
        checks.answered(&what(lease, "extend"), &reply, 200, &json!({ "status": "extended" }));
        checks.answered(&what(lease, "ack"), &ack(api, &lease.token).await?, 204, &Value::Null);
    }
    for lease in answers.leases.iter().filter(|lease| lease.fate == Fate::BeginAgain) {
        begin_again(api, lease, checks).await?;
    }
    for commit in answers.commits.iter().filter(|commit| commit.produced.is_none()) {
        unanswered(api, commit, checks).await?;
    }
    Ok(())
}

/// A begin with the same nonce returns the right to execute. If the first begin was answered, it
/// returns the same right.
async fn begin_again(api: &Api, lease: &Lease, checks: &mut Checks) -> anyhow::Result<()> {
    let begun = begin_under(api, &lease.token, json!({ "nonce": lease.nonce })).await?;
    let mut wanted = json!({ "decision": "EXECUTE", "fence": 1 });
    if !lease.effect.is_empty() {
        wanted["token"] = json!(lease.effect);
    }
    checks.answered(&what(lease, "begin"), &begun, 200, &wanted);
    let effect = begun.body["token"].as_str().unwrap_or_default().to_owned();
    let commit = Commit {
        token: lease.token.clone(),
        effects: vec![(effect, json!({ "charge": lease.value }))],
        produce: steps(&lease.value),
        pointers: Vec::new(),
        produced: None,
    };
    committed_once(api, &commit, &what(lease, "commit"), checks).await
}

/// The first commit succeeds. A repeat returns the same answer.
async fn committed_once(
    api: &Api,
    commit: &Commit,
    what: &str,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let reply = api.post("commit", &commit_body(commit)).await?;
    checks.answered(what, &reply, 200, &json!({ "status": "committed", "repeated": false }));
    let wanted = json!({ "repeated": true, "produced": reply.body["produced"] });
    let again = api.post("commit", &commit_body(commit)).await?;
    checks.answered(&format!("{what} again"), &again, 200, &wanted);
    Ok(())
}

/// A commit without a response is committed now, or was committed before the kill.
async fn unanswered(api: &Api, commit: &Commit, checks: &mut Checks) -> anyhow::Result<()> {
    let reply = api.post("commit", &commit_body(commit)).await?;
    checks.answered("unanswered commit", &reply, 200, &json!({ "status": "committed" }));
    let again = api.post("commit", &commit_body(commit)).await?;
    let wanted = json!({ "repeated": true, "produced": reply.body["produced"] });
    checks.answered("unanswered commit again", &again, 200, &wanted);
    Ok(())
}

pub(super) async fn run(api: &Api, answers: &Answers, checks: &mut Checks) -> anyhow::Result<()> {
    for lease in &answers.leases {
        match lease.fate {
            Fate::ExtendInGrace | Fate::BeginAgain => {}
            Fate::Ack | Fate::ExtendThenAck => acked(api, lease, checks).await?,
            Fate::AckByOwner => acked_by_owner(api, lease, checks).await?,
            Fate::Nack => {
                let reply = nack(api, &lease.token, json!({ "reason": "failed", "delay_ms": 0 }));
                checks.answered(&what(lease, "nack"), &reply.await?, 204, &Value::Null);
            }
            Fate::Release => {
                let reply = nack(api, &lease.token, json!({ "release": true })).await?;
                checks.answered(&what(lease, "release"), &reply, 204, &Value::Null);
            }
            Fate::FinalNack => rejected(api, lease, checks).await?,
            Fate::Commit => {
                let (token, effects) = (lease.token.clone(), Vec::new());
                let (produce, pointers) = (Vec::new(), Vec::new());
                let commit = Commit { token, effects, produce, pointers, produced: None };
                committed_once(api, &commit, &what(lease, "commit"), checks).await?;
            }
            // The ack of a first attempt need not be recorded, so the state is `gone` or `settled`.
            Fate::WasAcked => ended(api, lease, 204, "", checks).await?,
            Fate::WasAckedLate => ended(api, lease, 204, "settled", checks).await?,
            Fate::WasNacked => ended(api, lease, 409, "waiting", checks).await?,
            Fate::WasRedelivered => ended(api, lease, 409, "leased", checks).await?,
            Fate::WasFinal => ended(api, lease, 409, "dead", checks).await?,
            Fate::WasSought => ended(api, lease, 409, "generation", checks).await?,
        }
    }
    Ok(())
}

async fn acked(api: &Api, lease: &Lease, checks: &mut Checks) -> anyhow::Result<()> {
    if lease.fate == Fate::ExtendThenAck {
        let reply = extend(api, lease, HOUR_MS).await?;
        checks.answered(&what(lease, "extend"), &reply, 200, &json!({ "status": "extended" }));
    }
    for time in ["ack", "ack again"] {
        checks.answered(&what(lease, time), &ack(api, &lease.token).await?, 204, &Value::Null);
    }
    Ok(())
}

async fn acked_by_owner(api: &Api, lease: &Lease, checks: &mut Checks) -> anyhow::Result<()> {
    let Lease { topic, group, partition, offset, owner, .. } = lease;
    let named = json!({ "topic": topic, "group": group, "partition": partition,
        "offset": offset, "owner": owner });
    checks.answered(&what(lease, "ack"), &api.post("ack", &named).await?, 204, &Value::Null);
    Ok(())
}

async fn rejected(api: &Api, lease: &Lease, checks: &mut Checks) -> anyhow::Result<()> {
    for time in ["once", "again"] {
        let reply = nack(api, &lease.token, json!({ "final": true, "reason": "never" })).await?;
        checks.answered(&what(lease, time), &reply, 204, &Value::Null);
    }
    stale(lease, "ack", &ack(api, &lease.token).await?, "dead", checks);
    Ok(())
}

/// Checks a delivery that had ended before the kill.
async fn ended(
    api: &Api,
    lease: &Lease,
    ack_status: u16,
    state: &str,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    stale(lease, "extend", &extend(api, lease, HOUR_MS).await?, state, checks);
    let acked = ack(api, &lease.token).await?;
    match ack_status {
        204 => checks.answered(&what(lease, "ack"), &acked, 204, &Value::Null),
        _ => stale(lease, "ack", &acked, state, checks),
    }
    Ok(())
}

fn stale(lease: &Lease, verb: &str, reply: &Reply, state: &str, checks: &mut Checks) {
    let mut wanted = json!({ "error": "STALE_LEASE", "attempt": lease.attempt });
    if !state.is_empty() {
        wanted["state"] = json!(state);
    }
    checks.answered(&what(lease, verb), reply, 409, &wanted);
}

async fn extend(api: &Api, lease: &Lease, lease_ms: u64) -> anyhow::Result<Reply> {
    let body = json!({ "token": lease.token, "lease_ms": lease_ms });
    api.post("extend", &body).await.context("extend")
}

fn what(lease: &Lease, verb: &str) -> String {
    format!("{verb} of {:?} {}/{}", lease.fate, lease.partition, lease.offset)
}
