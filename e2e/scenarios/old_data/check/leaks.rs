//! Keys whose message ended before the kill, used again after the lifetime of their outcome.

use driftq_e2e::api::Api;
use serde_json::{Value, json};

use super::Checks;
use crate::answers::{Answers, Leaked};
use crate::requests::{Poll, begin_under, message, produce_body};

pub(super) async fn run(api: &Api, answers: &Answers, checks: &mut Checks) -> anyhow::Result<()> {
    for leaked in &answers.leaked {
        let decision = decide(api, leaked, checks).await?;
        let Leaked { ended_by, key, .. } = leaked;
        checks.that(decision == "EXECUTE", || {
            format!("{key} after {ended_by}: the effect of a new message gets {decision}")
        });
    }
    Ok(())
}

/// Returns the decision for the effect of a new message with this key.
async fn decide(api: &Api, leaked: &Leaked, checks: &mut Checks) -> anyhow::Result<Value> {
    let Leaked { ended_by, topic, group, key } = leaked;
    let reply = api.post("produce", &produce_body(&message(topic, "pay again", key))).await?;
    let what = format!("produce of {key} after {ended_by}");
    checks.answered(&what, &reply, 200, &json!({ "deduplicated": false }));
    let delivery = Poll::long(topic, group, 1).all(api).await?.remove(0);
    checks.reads(&what, &delivery["id"], &reply.body["id"]);
    let token = delivery["lease"]["token"].as_str().unwrap_or_default();
    let begun = begin_under(api, token, json!({ "on_doubt": "park" })).await?;
    Ok(begun.body["decision"].clone())
}
