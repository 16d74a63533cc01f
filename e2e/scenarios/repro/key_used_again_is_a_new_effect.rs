//! A key that is accepted as new after its lifetime starts a new effect, however the earlier
//! message ended.

use driftq_e2e::clock::{Clock, now_ms};
use serde_json::{Value, json};

use crate::scene::{Fixture, Seen};

/// The shortest lifetime of keys and outcomes.
const LIFETIME_MS: u64 = 60_000;
const ENDS: [&str; 3] = ["ack", "seek", "delete"];

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let mut scene = Fixture::start(driftq).await?;
    for end in ENDS {
        let settings = json!({ "dedupe_ttl_ms": LIFETIME_MS, "effect_ttl_ms": LIFETIME_MS, "on_doubt": "park" });
        scene.topic(end, 1, settings).await?;
        produce(&scene, end).await?;
        let delivery = scene.receive_one(end).await?;
        let begun = begin(&scene, &delivery).await?;
        let outcome = json!({ "token": begun["token"], "status": "SUCCEEDED", "result": "week 1" });
        scene.api.post("effects/finish", &outcome).await?.ok()?;
        end_delivery(&scene, end, &delivery).await?;
    }
    scene.server.restart_at(Clock::at(now_ms()? + 2 * LIFETIME_MS)?).await?;
    let mut wrong = Vec::new();
    for end in ENDS {
        let reply = produce(&scene, end).await?;
        anyhow::ensure!(reply["deduplicated"] == false, "the key is not new: {reply}");
        let begun = begin(&scene, &scene.receive_one(end).await?).await?;
        if begun["decision"] != "EXECUTE" {
            wrong.push(format!(
                "after {end} the effect is answered {} {}",
                begun["decision"], begun["result"]
            ));
        }
    }
    Ok(Seen::kept_if(wrong.is_empty(), || wrong.join("; ")))
}

async fn produce(scene: &Fixture, topic: &str) -> anyhow::Result<Value> {
    let envelope = json!({ "idempotency_key": "weekly" });
    let message = json!({ "topic": topic, "value": "pay", "envelope": envelope });
    Ok(scene.api.post("produce", &message).await?.ok()?)
}

async fn begin(scene: &Fixture, delivery: &Value) -> anyhow::Result<Value> {
    let body = json!({ "lease_token": delivery["lease"]["token"] });
    Ok(scene.api.post("effects/begin", &body).await?.ok()?)
}

/// Ends the delivery. If the message is then delivered again, acks it.
async fn end_delivery(scene: &Fixture, end: &str, delivery: &Value) -> anyhow::Result<()> {
    let group = format!("topics/{end}/groups/g");
    match end {
        "seek" => {
            let to = json!({ "to": { "partition": 0, "offset": 0 } });
            scene.api.post(&format!("{group}/seek"), &to).await?.ok()?;
        }
        "delete" => {
            scene.api.delete(&format!("{group}?confirm=g")).await?.ok()?;
            scene.api.put(&group, &json!({})).await?.ok()?;
        }
        _ => return scene.settle("ack", delivery, json!({})).await,
    }
    let again = scene.receive_one(end).await?;
    let begun = begin(scene, &again).await?;
    anyhow::ensure!(begun["decision"] == "REPLAY", "not replayed: {begun}");
    scene.settle("ack", &again, json!({})).await
}
