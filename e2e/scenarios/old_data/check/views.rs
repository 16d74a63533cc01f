//! The API returns the same settings, groups, effects, dead letters, pointers and histories as
//! before.

use driftq_e2e::api::Api;
use serde_json::{Value, json};

use super::Checks;
use crate::answers::{Answers, Group, Topic};
use crate::requests::look;

pub(super) async fn run(api: &Api, answers: &Answers, checks: &mut Checks) -> anyhow::Result<()> {
    for topic in &answers.topics {
        settings(api, topic, checks).await?;
    }
    for group in &answers.groups {
        groups(api, group, checks).await?;
    }
    for effect in &answers.effects {
        let found = look(api, &effect.scope, &effect.key).await?;
        let what = format!("effect {} {}", effect.scope, effect.key);
        checks.answered(&what, &found, 200, &json!(effect.view));
    }
    for dead in &answers.dead_letters {
        let list = api.get(&format!("dlq/{}?state=all", dead.topic)).await?.ok()?;
        let id = dead.view.get("id");
        let found = list["dead_letters"].as_array().into_iter().flatten();
        let found = found.into_iter().find(|one| one.get("id") == id);
        let mut view = json!(dead.view);
        // The stored value is unchanged. Before 0.2.0 it was also the value in the API.
        if view["dlq"]["reason"] == "final" {
            view["dlq"]["reason"] = "rejected".into();
        }
        checks.reads("dead letter", found.unwrap_or(&Value::Null), &view);
    }
    for pointer in &answers.pointers {
        let of = |name: &str| pointer[name].as_str().unwrap_or_default();
        let (dataset, version, piece) = (of("dataset"), of("version"), of("partition_key"));
        let topic = of("topic");
        let query = format!(
            "pointers?topic={topic}&dataset={dataset}&version={version}&partition_key={piece}"
        );
        checks.answered("pointer", &api.get(&query).await?, 200, pointer);
    }
    for history in &answers.histories {
        let (topic, partition, offset) = (&history.topic, history.partition, history.offset);
        let query = format!("explain?topic={topic}&partition={partition}&offset={offset}");
        let wanted = json!({ "history": history.events });
        checks.answered("history", &api.get(&query).await?, 200, &wanted);
    }
    Ok(())
}

/// Checks each setting.
async fn settings(api: &Api, topic: &Topic, checks: &mut Checks) -> anyhow::Result<()> {
    let name = &topic.name;
    let found = api.get(&format!("topics/{name}")).await?;
    let changed = topic.changed_settings.as_array().into_iter().flatten();
    let changed: Vec<Value> = changed.map(renamed_name).collect();
    let wanted = json!({ "name": name, "partitions": topic.partitions,
        "created_at": topic.created_at, "changed_settings": changed });
    checks.answered(&format!("topic {name}"), &found, 200, &wanted);
    for (setting, wanted) in &topic.settings {
        let (setting, wanted) = renamed(setting, wanted);
        let what = format!("{setting} of {name}");
        checks.reads(&what, &found.body["settings"][setting], &wanted);
    }
    Ok(())
}

/// The name and value of a setting in the API, from those before 0.2.0.
fn renamed<'a>(setting: &'a str, value: &Value) -> (&'a str, Value) {
    match (setting, value.as_str()) {
        ("keyless", Some("partition_0")) => ("unkeyed", json!("first")),
        ("keyless", Some("round_robin")) => ("unkeyed", json!("spread")),
        ("groups", Some(groups)) => ("auto_create_groups", json!(groups == "open")),
        (setting, _) => (setting, value.clone()),
    }
}

fn renamed_name(setting: &Value) -> Value {
    match setting.as_str() {
        Some("keyless") => json!("unkeyed"),
        Some("groups") => json!("auto_create_groups"),
        _ => setting.clone(),
    }
}

async fn groups(api: &Api, group: &Group, checks: &mut Checks) -> anyhow::Result<()> {
    let Group { topic, group: name, created_at, paused, generations } = group;
    let found = api.get(&format!("topics/{topic}/groups/{name}")).await?;
    let partitions: Vec<_> =
        generations.iter().map(|generation| json!({ "generation": generation })).collect();
    let wanted = json!({ "created_at": created_at, "paused": paused, "partitions": partitions });
    checks.answered(&format!("group {name} of {topic}"), &found, 200, &wanted);
    Ok(())
}
