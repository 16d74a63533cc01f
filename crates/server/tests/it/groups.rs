//! Groups: create, list, show, delete.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::verbs::{connections, fields, time, token, wanted, with};

#[tokio::test]
async fn creating_an_existing_group_changes_nothing() {
    let broker = Broker::start().await;
    broker.topic("orders").await;
    let made = broker.put("/v1/topics/orders/groups/biller", json!({})).await.is(201);
    assert_eq!(made["topic"], "orders");
    assert_eq!(made["group"], "biller");
    time(&made["created_at"]);
    let latest = json!({ "start": "latest" });
    let again = broker.put("/v1/topics/orders/groups/biller", latest).await.is(200);
    assert_eq!(again, made);
    assert_eq!(broker.group("orders", "biller").await, made);
}

#[tokio::test]
async fn a_group_can_be_created_without_a_body() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.ask("PUT", "/v1/topics/t/groups/g").send().await.is(201);
    broker.ask("PUT", "/v1/topics/t/groups/h?start=latest").send().await.is(201);
}

#[tokio::test]
async fn a_group_starts_at_the_requested_position() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "old").await;
    for (group, start) in [("early", json!("earliest")), ("late", json!("latest"))] {
        let body = json!({ "start": start });
        broker.put(format!("/v1/topics/t/groups/{group}"), body).await.is(201);
    }
    broker.put("/v1/topics/t/groups/silent", json!({})).await.is(201);
    broker.produce("t", "new").await;
    for (group, first) in [("early", "old"), ("late", "new"), ("silent", "old")] {
        assert_eq!(broker.receive("t", group, "o").await["value"], first, "{group}");
    }
    let bad = json!({ "start": "middle" });
    broker.put("/v1/topics/t/groups/bad", bad).await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test]
async fn a_group_created_by_consume_starts_at_its_start_parameter() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "old").await;
    let latest = with(wanted("t", "late", "o"), json!({ "start": "latest", "wait_ms": 0 }));
    let none = broker.post("/v1/receive", latest.clone()).await.is(200);
    assert_eq!(none, json!({ "messages": [] }));
    broker.produce("t", "new").await;
    // The group exists, so `start` has no effect.
    let earliest = with(wanted("t", "late", "o"), json!({ "start": "earliest" }));
    assert_eq!(broker.receive_with(earliest).await["value"], "new");
    let stream = broker.ask("GET", "/v1/consume?topic=t&group=tail&owner=o&start=latest");
    let mut stream = stream.stream().await;
    broker.produce("t", "newest").await;
    assert_eq!(stream.next().await["value"], "newest");
}

#[tokio::test]
async fn a_group_can_start_at_a_time() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "old").await;
    let old = broker.receive("t", "g", "o").await;
    // The clock must advance before the next message is produced; otherwise both have the same
    // time.
    let at = time(&old["produced_at"]) + 1;
    let mut new = String::new();
    for number in 0.. {
        new = format!("new {number}");
        broker.produce("t", &new).await;
        let delivery = broker.receive("t", "g", "o").await;
        if time(&delivery["produced_at"]) >= at {
            break;
        }
    }
    let start = json!({ "start": { "time": driftq_api::Time(at).to_string() } });
    broker.put("/v1/topics/t/groups/timed", start).await.is(201);
    assert_eq!(broker.receive("t", "timed", "o").await["value"], new.as_str());
}

#[tokio::test]
async fn a_group_name_has_a_limited_character_set() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let longest = "g".repeat(128);
    for name in ["g", "9", "A.b-c_d", "dlq.g", &longest] {
        broker.put(format!("/v1/topics/t/groups/{name}"), json!({})).await.is(201);
    }
    let too_long = "g".repeat(129);
    for name in [".g", "-g", "_g", "a%20b", "a%2Fb", "%C3%BC", "a:b", &too_long] {
        let answer = broker.put(format!("/v1/topics/t/groups/{name}"), json!({})).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
    for name in ["", ".g", "a b", "a/b", "ü", &too_long] {
        let answer = broker.post("/v1/receive", wanted("t", name, "o")).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn groups_are_listed_by_name_in_pages() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    assert_eq!(broker.get("/v1/topics/t/groups").await.is(200), json!({ "groups": [] }));
    for group in ["c", "a", "b"] {
        broker.put(format!("/v1/topics/t/groups/{group}"), json!({})).await.is(201);
    }
    let names = |page: &Value| -> Vec<String> {
        let groups = page["groups"].as_array().expect("a list");
        groups.iter().map(|group| group["group"].as_str().expect("a name").to_owned()).collect()
    };
    let all = broker.get("/v1/topics/t/groups").await.is(200);
    assert_eq!(fields(&all), ["groups"]);
    assert_eq!(names(&all), ["a", "b", "c"]);
    let group = &all["groups"][0];
    assert_eq!((group.get("partitions"), group.get("consumers")), (None, None));
    let first = broker.get("/v1/topics/t/groups?limit=2").await.is(200);
    assert_eq!(names(&first), ["a", "b"]);
    let cursor = first["next_cursor"].as_str().expect("a next page");
    let rest = broker.get(format!("/v1/topics/t/groups?limit=2&cursor={cursor}")).await.is(200);
    assert_eq!(names(&rest), ["c"]);
    assert_eq!(fields(&rest), ["groups"]);
}

#[tokio::test]
async fn a_group_reports_its_position() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for value in ["a", "b", "c", "d"] {
        broker.produce("t", value).await;
    }
    let first = broker.receive("t", "g", "o").await;
    let second = broker.receive("t", "g", "o").await;
    broker.receive("t", "g", "o").await;
    broker.ack(token(&first)).await.is(204);
    broker.nack(token(&second), json!({ "delay_ms": 60_000 })).await.is(204);
    let group = broker.group("t", "g").await;
    let names = "backlog consumers created_at group leased oldest_unsettled_at open \
                 partitions rates topic waiting";
    assert_eq!(fields(&group).join(" "), names);
    assert_eq!(group["backlog"], 3);
    assert_eq!(group["open"], 2);
    assert_eq!(group["leased"], 1);
    assert_eq!(group["waiting"], 1);
    assert_eq!(group["oldest_unsettled_at"], second["produced_at"]);
    assert_eq!(group["consumers"][0]["leased"], group["leased"]);
    let partition = &group["partitions"][0];
    assert_eq!(partition["partition"], 0);
    assert!(partition["generation"].is_u64(), "{partition}");
    assert_eq!(partition["next_to_deliver"], 3);
    assert_eq!(partition["settled_through"], 0, "the one below the first that is open");
    assert_eq!(partition["backlog"], 3);
    assert_eq!(partition["leased"], 1);
    assert_eq!(partition["waiting"], 1);
    assert_eq!(partition["blocked"], "consumers_full");
    let nacked = time(&second["produced_at"]);
    assert!(time(&partition["next_retry_at"]) >= nacked + 60_000, "{partition}");
}

#[tokio::test]
async fn a_fresh_group_has_settled_nothing() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    let group = broker.group("t", "g").await;
    assert_eq!(group["partitions"][0]["settled_through"], -1);
    assert_eq!(group["partitions"][0]["next_to_deliver"], 0);
    assert_eq!(group.get("oldest_unsettled_at"), None, "{group}");
    assert_eq!(group.get("paused"), None, "{group}");
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    assert_eq!(broker.group("t", "g").await["partitions"][0]["settled_through"], -1);
    broker.ack(token(&delivery)).await.is(204);
    assert_eq!(broker.group("t", "g").await["partitions"][0]["settled_through"], 0);
}

#[tokio::test]
async fn a_group_reports_why_nothing_is_delivered() {
    let broker = Broker::start().await;
    let blocked = async |topic: &str| {
        let group = broker.group(topic, "g").await;
        group["partitions"][0]["blocked"].as_str().unwrap_or("flows").to_owned()
    };
    broker.topic_with("t", 1, json!({ "max_in_flight": 3, "max_open": 3 })).await;
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    assert_eq!(blocked("t").await, "no_consumers");
    let stream = |credit: u32| {
        let path = format!("/v1/consume?topic=t&group=g&owner=o&prefetch={credit}");
        broker.ask("GET", path).stream()
    };
    let mut first = stream(2).await;
    assert_eq!(blocked("t").await, "nothing_new");
    for value in ["a", "b", "c", "d", "e"] {
        broker.produce("t", value).await;
    }
    let a = first.next().await;
    first.next().await;
    assert_eq!(blocked("t").await, "consumers_full");
    let mut second = stream(10).await;
    second.next().await;
    assert_eq!(blocked("t").await, "in_flight_limit");
    broker.nack(token(&a), json!({ "delay_ms": 60_000 })).await.is(204);
    assert_eq!(blocked("t").await, "max_open");
    broker.post("/v1/topics/t/groups/g/pause", json!({})).await.is(200);
    assert_eq!(blocked("t").await, "paused");
}

#[tokio::test]
async fn a_group_lists_its_consumers() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let path = "/v1/consume?topic=t&group=g&owner=worker-a&prefetch=16&lease_ms=60000";
    let mut stream = broker.ask("GET", path).stream().await;
    broker.produce("t", "x").await;
    stream.next().await;
    let group = broker.group("t", "g").await;
    let consumers = group["consumers"].as_array().expect("a list");
    assert_eq!(consumers.len(), 1);
    let consumer = &consumers[0];
    assert_eq!((&consumer["owner"], &consumer["leased"]), (&json!("worker-a"), &json!(1)));
    time(&consumer["next_expiry_at"]);
    time(&consumer["last_seen_at"]);
    let [connection] = connections(&group)[..] else { panic!("one stream: {consumer}") };
    let id = connection["consumer"].as_str();
    assert!(id.is_some_and(|id| id.starts_with("c_")), "{connection}");
    assert_eq!(connection["prefetch"], 16);
    assert_eq!(connection["outstanding"], 1);
    assert_eq!(connection["lease_ms"], 60_000);
    drop(stream);
    broker.until_group("t", "g", "no consumer", |group| connections(group).is_empty()).await;
}

#[tokio::test]
async fn a_consumer_is_listed_with_its_kind_and_address() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let path = "/v1/consume?topic=t&group=g&owner=worker-a";
    let mut stream = broker.ask("GET", path).stream().await;
    broker.produce("t", "x").await;
    let delivery = stream.next().await;
    broker.ack(token(&delivery)).await.is(204);
    let group = broker.group("t", "g").await;
    let consumer = &group["consumers"][0];
    let connection = &consumer["connections"][0];
    assert_eq!(connection["kind"], "stream", "{consumer}");
    let remote = connection["remote"].as_str().unwrap_or_default();
    assert!(remote.starts_with("127.0.0.1:"), "{consumer}");
    time(&connection["since"]);
    time(&consumer["last_settle_at"]);
    assert_eq!((&consumer["settled_1m"], &consumer["failed_1m"]), (&json!(1), &json!(0)));
    assert!(consumer["hold_p50_ms"].is_u64(), "{consumer}");
}

#[tokio::test]
async fn an_unknown_group_is_not_found() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let not_found = |answer: &crate::client::Answer| {
        assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "group");
    };
    let group = "/v1/topics/t/groups/g";
    not_found(&broker.get(group).await);
    not_found(&broker.delete(group).await);
    not_found(&broker.delete(format!("{group}?confirm=g")).await);
    not_found(&broker.post(format!("{group}/pause"), json!({})).await);
    not_found(&broker.post(format!("{group}/resume"), json!({})).await);
    not_found(&broker.post(format!("{group}/seek"), json!({ "to": "latest" })).await);
    not_found(&broker.post_query("/v1/ack?topic=t&group=g&partition=0&offset=0&owner=o").await);
}

#[tokio::test]
async fn deleting_a_group_requires_its_name_as_confirmation() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for value in ["a", "b", "c"] {
        broker.produce("t", value).await;
    }
    let first = broker.receive("t", "g", "o").await;
    let second = broker.receive("t", "g", "o").await;
    broker.ack(token(&first)).await.is(204);
    for path in ["/v1/topics/t/groups/g", "/v1/topics/t/groups/g?confirm=t"] {
        let body = broker.delete(path).await.refused(400, "INVALID_ARGUMENT");
        let message = body["message"].as_str().expect("a message");
        for part in ["2 messages", "1 open", "?confirm=g"] {
            assert!(message.contains(part), "{part:?} in {message:?}");
        }
    }
    let deleted = broker.delete("/v1/topics/t/groups/g?confirm=g").await.is(200);
    assert_eq!(deleted, json!({ "status": "deleted", "backlog": 2, "open": 1 }));
    let answer = broker.ack(token(&second)).await;
    assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "group");
    assert_eq!(broker.show("t").await["groups"], json!([]));
    assert_eq!(broker.receive("t", "g", "o").await["value"], "a", "a new group reads again");
}

#[tokio::test]
async fn groups_are_independent() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let first = broker.receive("t", "a", "o").await;
    let second = broker.receive("t", "b", "o").await;
    assert_eq!(first["id"], second["id"]);
    broker.ack(token(&first)).await.is(204);
    assert_eq!(broker.group("t", "a").await["backlog"], 0);
    assert_eq!(broker.group("t", "b").await["backlog"], 1);
}

#[tokio::test]
async fn an_empty_cursor_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let lists = ["/v1/topics/t/groups", "/v1/topics/t/messages", "/v1/dlq/t", "/v1/topics"];
    for list in lists {
        broker.get(format!("{list}?cursor=")).await.invalid("cursor");
    }
}
