//! Peeking at messages.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{fields, time, token, without_rates};

const PEEK: &str = "/v1/topics/t/messages";

async fn peek(broker: &Client, query: &str) -> Vec<Value> {
    let page = broker.get(format!("{PEEK}?{query}")).await.is(200);
    assert_eq!(page.get("next_cursor"), None, "one page is enough: {page}");
    page["messages"].as_array().expect("a list").clone()
}

fn values(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["value"].as_str().expect("text")).collect()
}

#[tokio::test]
async fn messages_are_returned_by_partition_and_offset() {
    let broker = Broker::start().await;
    broker.topic_with("t", 2, json!({})).await;
    for (partition, value) in [(1, "c"), (0, "a"), (1, "d"), (0, "b")] {
        broker.produce_with("t", value, json!({ "partition_override": partition })).await;
    }
    let page = broker.get(PEEK).await.is(200);
    assert_eq!(fields(&page), ["messages", "scanned"]);
    assert_eq!(page["scanned"], 4);
    let all = page["messages"].as_array().expect("a list");
    assert_eq!(values(all), ["a", "b", "c", "d"]);
    let places: Vec<_> = all.iter().map(|one| (&one["partition"], &one["offset"])).collect();
    let (zero, one) = (json!(0), json!(1));
    assert_eq!(places, [(&zero, &zero), (&zero, &one), (&one, &zero), (&one, &one)]);
    assert_eq!(values(&peek(&broker, "partition=1").await), ["c", "d"]);
    assert_eq!(values(&peek(&broker, "partition=1&from=1").await), ["d"]);
    assert_eq!(values(&peek(&broker, "partition=1&from=2").await), Vec::<&str>::new());
}

#[tokio::test]
async fn a_message_is_returned_as_produced() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let envelope = json!({ "run_id": "run_1", "tenant_id": "acme" });
    let body = json!({ "topic": "t", "key": "cust-9", "value": "x", "envelope": envelope });
    let receipt = broker.post("/v1/produce", body).await.is(200);
    broker.post("/v1/produce", json!({ "topic": "t", "value_base64": "/wD+" })).await.is(200);
    let all = peek(&broker, "").await;
    let first = &all[0];
    assert_eq!(
        fields(first),
        ["envelope", "id", "key", "offset", "partition", "produced_at", "value"]
    );
    assert_eq!(first["id"], receipt["id"]);
    assert_eq!(first["key"], "cust-9");
    assert_eq!(first["envelope"], envelope);
    time(&first["produced_at"]);
    assert_eq!(all[1]["value_base64"], "/wD+");
    assert_eq!(all[1].get("value"), None);
    let bare = peek(&broker, "values=false").await;
    assert!(bare.iter().all(|one| one.get("value").is_none() && one.get("value_base64").is_none()));
    assert_eq!(bare[0]["key"], "cust-9");
}

#[tokio::test]
async fn messages_can_be_filtered_by_their_fields() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let cases = [
        ("key=k", json!({ "key": "k" })),
        ("run_id=r", json!({ "envelope": { "run_id": "r" } })),
        ("step_id=s", json!({ "envelope": { "step_id": "s" } })),
        ("tenant_id=acme", json!({ "envelope": { "tenant_id": "acme" } })),
        ("idempotency_key=i", json!({ "envelope": { "idempotency_key": "i" } })),
    ];
    for (query, what) in &cases {
        let body = json!({ "topic": "t", "value": query });
        broker.post("/v1/produce", crate::verbs::with(body, what.clone())).await.is(200);
    }
    for (query, _) in &cases {
        assert_eq!(values(&peek(&broker, query).await), [*query]);
    }
    assert!(peek(&broker, "key=k&run_id=r").await.is_empty(), "both must be true");
    assert_eq!(peek(&broker, "tenant_id=default").await.len(), 4);
}

#[tokio::test]
async fn messages_can_be_filtered_by_time() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let at = time(&peek(&broker, "").await[0]["produced_at"]);
    let written = |ms: u64| driftq_api::Time(ms).to_string();
    for (query, count) in [
        (format!("since={}", written(at)), 1),
        (format!("since={}", written(at + 1)), 0),
        (format!("until={}", written(at + 1)), 1),
        (format!("until={}", written(at - 1)), 0),
    ] {
        assert_eq!(peek(&broker, &query).await.len(), count, "{query}");
    }
}

/// Five messages: settled, waiting, dead, leased, ready.
async fn in_every_state(broker: &Client) {
    broker.topic("t").await;
    for value in ["settled", "waiting", "dead", "leased", "ready"] {
        broker.produce("t", value).await;
    }
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(broker.receive("t", "g", "o").await);
    }
    broker.ack(token(&held[0])).await.is(204);
    let nack = json!({ "reason": "timeout", "delay_ms": 60_000 });
    broker.nack(token(&held[1]), nack).await.is(204);
    broker.nack(token(&held[2]), json!({ "dead_letter": true, "reason": "bad" })).await.is(204);
}

#[tokio::test]
async fn the_state_of_a_message_is_that_of_the_group() {
    let broker = Broker::start().await;
    in_every_state(&broker).await;
    let all = peek(&broker, "group=g").await;
    for (at, state) in [(0, "settled"), (1, "waiting"), (3, "leased"), (4, "ready")] {
        assert_eq!(all[at]["value"], state);
        assert_eq!(all[at]["state"], state);
        assert_eq!(values(&peek(&broker, &format!("group=g&state={state}")).await)[0], state);
    }
    assert_eq!(all[1]["attempts"], 1);
    assert_eq!(all[1]["last_error"], "timeout");
    time(&all[1]["next_attempt_at"]);
    assert_eq!(all[3]["attempts"], 1);
    for silent in [0, 3, 4] {
        assert_eq!(all[silent].get("next_attempt_at"), None, "{}", all[silent]);
    }
    assert_eq!(peek(&broker, "").await[1].get("state"), None, "no state without a group");
    broker.put("/v1/topics/t/groups/other", json!({})).await.is(201);
    assert_eq!(peek(&broker, "group=other&state=ready").await.len(), 5);
}

#[tokio::test]
async fn a_peek_changes_nothing() {
    let broker = Broker::start().await;
    in_every_state(&broker).await;
    let before = without_rates(broker.group("t", "g").await);
    for _ in 0..3 {
        peek(&broker, "group=g").await;
    }
    assert_eq!(without_rates(broker.group("t", "g").await), before);
    assert_eq!(broker.receive("t", "g", "o").await["attempts"], 1);
}

#[tokio::test]
async fn messages_are_returned_in_pages() {
    let broker = Broker::start().await;
    broker.topic_with("t", 2, json!({})).await;
    for (partition, value) in [(0, "a"), (0, "b"), (0, "c"), (1, "d"), (1, "e")] {
        broker.produce_with("t", value, json!({ "partition_override": partition })).await;
    }
    let mut path = format!("{PEEK}?limit=2");
    let mut seen = Vec::new();
    loop {
        let page = broker.get(&path).await.is(200);
        let messages = page["messages"].as_array().expect("a list");
        assert!(messages.len() <= 2);
        seen.extend(values(messages).into_iter().map(str::to_owned));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("{PEEK}?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn invalid_filters_are_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for query in [
        "from=0",
        "partition=1",
        "partition=-1",
        "state=ready",
        "limit=0",
        "limit=1001",
        "cursor=!",
        "values=maybe",
        "since=yesterday",
        "bogus=1",
    ] {
        let answer = broker.get(format!("{PEEK}?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
        answer.refused(400, "INVALID_ARGUMENT");
    }
    let answer = broker.get(format!("{PEEK}?group=absent")).await;
    assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "group");
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    broker.get(format!("{PEEK}?group=g&state=dead")).await.refused(400, "INVALID_ARGUMENT");
    let answer = broker.get("/v1/topics/nowhere/messages").await;
    assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "topic");
}

/// More messages than one call scans; the last has a key.
async fn many(broker: &Client) {
    broker.topic("t").await;
    let messages: Vec<_> = (0..1000).map(|_| json!({ "topic": "t", "value": "x" })).collect();
    for _ in 0..13 {
        let batch = json!({ "messages": messages });
        assert_eq!(broker.post("/v1/produce/batch", batch).await.is(200)["accepted"], 1000);
    }
    let last = json!({ "topic": "t", "key": "last", "value": "found" });
    broker.post("/v1/produce", last).await.is(200);
}

#[tokio::test]
async fn an_empty_page_is_not_necessarily_the_last() {
    let broker = Broker::start().await;
    many(&broker).await;
    let page = broker.get(format!("{PEEK}?key=last")).await.is(200);
    assert_eq!(page["messages"], json!([]));
    let cursor = page["next_cursor"].as_str().expect("a next page");
    let page = broker.get(format!("{PEEK}?key=last&cursor={cursor}")).await.is(200);
    assert_eq!(page["messages"][0]["value"], "found");
}

#[tokio::test]
async fn one_call_scans_at_most_ten_thousand_messages() {
    let broker = Broker::start().await;
    many(&broker).await;
    let page = broker.get(format!("{PEEK}?key=last")).await.is(200);
    assert_eq!(page["scanned"], 10_000);
}
