//! Stored records let the server recognize repeats: produces, commits, redrives, and the exported
//! ledger.

use std::path::Path;

use anyhow::Context as _;
use driftq_e2e::api::Api;
use serde_json::{Value, json};
use tokio::process::Command;

use super::Checks;
use crate::answers::{Answers, DeadThen};
use crate::requests::{commit_body, produce_body};
use crate::storage::{Storage, run as run_program, unpack};

/// Every eighth key is also tried with another value.
const OTHER_EVERY: usize = 8;

pub(super) async fn run(api: &Api, answers: &Answers, checks: &mut Checks) -> anyhow::Result<()> {
    for produced in &answers.produced {
        let receipt = &produced.receipt;
        let reply = api.post("produce", &produce_body(&produced.message)).await?;
        let mut wanted = json!({ "deduplicated": true, "partition": receipt.partition,
            "offset": receipt.offset, "id": receipt.id });
        if receipt.topic != produced.message.topic {
            wanted["final_topic"] = json!(receipt.topic);
        }
        checks.answered(&format!("repeat of {}", produced.message.value), &reply, 200, &wanted);
    }
    for produced in answers.produced.iter().step_by(OTHER_EVERY) {
        let mut other = produced.message.clone();
        other.value.push_str(", but another");
        let reply = api.post("produce", &produce_body(&other)).await?;
        checks.answered(
            "another value under the key",
            &reply,
            422,
            &json!({ "error": "CONFLICT" }),
        );
    }
    for message in &answers.unanswered {
        let reply = api.post("produce", &produce_body(message)).await?;
        checks.answered(&format!("unanswered {}", message.value), &reply, 200, &json!({}));
        let again = api.post("produce", &produce_body(message)).await?;
        let wanted = json!({ "deduplicated": true, "id": reply.body["id"] });
        checks.answered(&format!("repeat of {}", message.value), &again, 200, &wanted);
    }
    for commit in &answers.commits {
        let Some(produced) = &commit.produced else { continue };
        let reply = api.post("commit", &commit_body(commit)).await?;
        let wanted = json!({ "status": "committed", "repeated": true, "produced": produced });
        checks.answered("repeated commit", &reply, 200, &wanted);
    }
    dead_letters(api, answers, checks).await
}

async fn dead_letters(api: &Api, answers: &Answers, checks: &mut Checks) -> anyhow::Result<()> {
    for dead in &answers.dead_letters {
        let id = dead.view.get("id").context("an id")?;
        let (path, body, wanted) = match dead.then {
            DeadThen::Leave => continue,
            DeadThen::Purge => {
                ("purge", json!({ "ids": [id], "confirm": 1 }), json!({ "purged": 1 }))
            }
            DeadThen::Redrive => (
                "redrive",
                json!({ "ids": [id], "by": "ops" }),
                json!({ "redriven": 1, "results": [{ "id": id, "status": "redriven" }] }),
            ),
            DeadThen::Already => {
                let new =
                    dead.view.get("redriven").map_or(&Value::Null, |redriven| &redriven["new"]);
                let result = json!({ "id": id, "status": "already", "new": new });
                ("redrive", json!({ "ids": [id], "by": "ops" }), json!({ "results": [result] }))
            }
        };
        let reply = api.post(&format!("dlq/{}/{path}", dead.topic), &body).await?;
        checks.answered(&format!("{path} of {id}"), &reply, 200, &wanted);
    }
    Ok(())
}

/// The old export verifies, and the ledger still contains all its records.
pub(super) async fn export(
    driftq: &str,
    api: &Api,
    storage: &Storage,
    set: &Path,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let (old, new) = (storage.scratch("old.ndjson"), storage.scratch("new.ndjson"));
    let old_bytes = unpack(&set.join("effects.ndjson.xz")).await?;
    std::fs::write(&old, &old_bytes)?;
    let mut export = Command::new(driftq);
    let exported = run_program(export.args(["export", "--effects", "--url", api.url()])).await?;
    std::fs::write(&new, &exported)?;
    for file in [&old, &new] {
        let verified = run_program(Command::new(driftq).arg("verify").arg(file)).await;
        checks.that(verified.is_ok(), || format!("verify: {verified:?}"));
    }
    let new: Vec<Value> = lines(&exported)?;
    for old in lines(&old_bytes)?.iter().filter(|line| line.get("record").is_some()) {
        checks.that(new.contains(old), || format!("missing from the ledger: {old}"));
    }
    let engine = storage.engine().name();
    checks.that(!old_bytes.is_empty(), || format!("the export of {engine} is empty"));
    Ok(())
}

fn lines(file: &[u8]) -> anyhow::Result<Vec<Value>> {
    let lines = serde_json::Deserializer::from_slice(file).into_iter();
    Ok(lines.collect::<Result<_, _>>()?)
}
