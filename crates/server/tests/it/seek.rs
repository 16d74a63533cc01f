//! Moving a group's cursor.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::verbs::{time, token, without_rates};

const SEEK: &str = "/v1/topics/t/groups/g/seek";

/// Two partitions with three and two messages, of which `g` has read four and settled one.
async fn read_in_part() -> (Broker, Vec<Value>) {
    let broker = Broker::start().await;
    broker.topic_with("t", 2, json!({})).await;
    for (partition, count) in [(0, 3), (1, 2)] {
        for number in 0..count {
            let envelope = json!({ "partition_override": partition });
            broker.produce_with("t", &format!("{partition}/{number}"), envelope).await;
        }
    }
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(broker.receive("t", "g", "o").await);
    }
    broker.ack(token(&held[0])).await.is(204);
    (broker, held)
}

fn nexts(group: &Value) -> Vec<u64> {
    let partitions = group["partitions"].as_array().expect("a list");
    partitions
        .iter()
        .map(|partition| partition["next_to_deliver"].as_u64().expect("an offset"))
        .collect()
}

fn generations(group: &Value) -> Vec<u64> {
    let partitions = group["partitions"].as_array().expect("a list");
    partitions.iter().map(|partition| partition["generation"].as_u64().expect("a number")).collect()
}

#[tokio::test]
async fn a_seek_to_earliest_redelivers_everything() {
    let (broker, _) = read_in_part().await;
    let before = nexts(&broker.group("t", "g").await);
    let sought = broker.post(SEEK, json!({ "to": "earliest" })).await.is(200);
    assert_eq!(sought["status"], "moved");
    assert_eq!(sought["dry_run"], false);
    assert_eq!(sought["redelivers"], 4);
    assert_eq!(sought["skips"], 0);
    assert_eq!(sought["dropped_open"], 3);
    let moved = json!([
        { "partition": 0, "from": before[0], "to": 0 },
        { "partition": 1, "from": before[1], "to": 0 },
    ]);
    assert_eq!(sought["partitions"], moved);
    let again = broker.receive_now("t", "g", "o").await;
    assert_eq!(again.len(), 5);
    assert!(again.iter().all(|delivery| delivery["attempts"] == 1), "{again:?}");
}

#[tokio::test]
async fn a_seek_to_latest_skips_the_backlog() {
    let (broker, _) = read_in_part().await;
    let sought = broker.post(SEEK, json!({ "to": "latest" })).await.is(200);
    assert_eq!(sought["redelivers"], 0);
    assert_eq!(sought["skips"], 1);
    assert_eq!(sought["dropped_open"], 3);
    let group = broker.group("t", "g").await;
    assert_eq!(nexts(&group), [3, 2]);
    assert_eq!(group["backlog"], 0);
    assert!(broker.receive_now("t", "g", "o").await.is_empty());
}

#[tokio::test]
async fn a_seek_to_an_offset_moves_one_partition() {
    let (broker, _) = read_in_part().await;
    let before = broker.group("t", "g").await;
    let to = json!({ "to": { "partition": 0, "offset": 1 } });
    let sought = broker.post(SEEK, to).await.is(200);
    assert_eq!(sought["partitions"].as_array().map(Vec::len), Some(1));
    assert_eq!(sought["partitions"][0]["partition"], 0);
    assert_eq!(sought["partitions"][0]["to"], 1);
    let after = broker.group("t", "g").await;
    assert_eq!(nexts(&after)[0], 1);
    assert_eq!(nexts(&after)[1], nexts(&before)[1]);
    assert!(generations(&after)[0] > generations(&before)[0]);
    assert_eq!(generations(&after)[1], generations(&before)[1], "the other does not move");
}

#[tokio::test]
async fn a_seek_past_the_stored_offsets_is_clamped() {
    let (broker, _) = read_in_part().await;
    let to = json!({ "to": { "partition": 0, "offset": 900 } });
    assert_eq!(broker.post(SEEK, to).await.is(200)["partitions"][0]["to"], 3);
    let nowhere = json!({ "to": { "partition": 2, "offset": 0 } });
    broker.post(SEEK, nowhere).await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn a_seek_to_a_time_finds_the_first_message_at_or_after_it() {
    let (broker, held) = read_in_part().await;
    let first = held.iter().map(|delivery| time(&delivery["produced_at"])).min().expect("some");
    let to = json!({ "to": { "time": driftq_api::Time(first).to_string() } });
    broker.post(SEEK, to).await.is(200);
    assert_eq!(nexts(&broker.group("t", "g").await), [0, 0]);
    let to = json!({ "to": { "time": driftq_api::Time(first + 86_400_000).to_string() } });
    broker.post(SEEK, to).await.is(200);
    assert_eq!(nexts(&broker.group("t", "g").await), [3, 2]);
}

#[tokio::test]
async fn a_dry_run_reports_the_seek_and_moves_nothing() {
    let (broker, held) = read_in_part().await;
    let before = without_rates(broker.group("t", "g").await);
    let sought = broker.post(SEEK, json!({ "to": "earliest", "dry_run": true })).await.is(200);
    assert_eq!(sought["dry_run"], true);
    assert_eq!(sought["redelivers"], 4);
    assert_eq!(without_rates(broker.group("t", "g").await), before);
    broker.ack(token(&held[1])).await.is(204);
}

#[tokio::test]
async fn a_group_with_consumers_can_seek_only_while_paused() {
    let (broker, _) = read_in_part().await;
    let stream = broker.ask("GET", "/v1/consume?topic=t&group=g&owner=o").stream().await;
    let answer = broker.post(SEEK, json!({ "to": "earliest" })).await;
    answer.refused(409, "FAILED_PRECONDITION");
    broker.post("/v1/topics/t/groups/g/pause", json!({})).await.is(200);
    broker.post(SEEK, json!({ "to": "earliest" })).await.is(200);
    drop(stream);
}

#[tokio::test]
async fn a_seek_requires_a_target() {
    let (broker, _) = read_in_part().await;
    let bad = [
        json!({}),
        json!({ "to": "middle" }),
        json!({ "to": 3 }),
        json!({ "to": { "offset": 3 } }),
        json!({ "to": { "partition": 0 } }),
        json!({ "to": { "partition": 0, "offset": -1 } }),
        json!({ "to": { "time": "yesterday" } }),
        json!({ "to": { "partition": 0, "offset": 1, "time": "2026-11-14T12:00:00Z" } }),
    ];
    for body in bad {
        broker.post(SEEK, body).await.refused(400, "INVALID_ARGUMENT");
    }
}
