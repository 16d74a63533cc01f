//! Dead letters: list, redrive, purge.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{fields, time, token};

/// Dead-letters a message with this value for this group and error. Returns the failed delivery.
async fn kill(broker: &Client, value: &str, group: &str, error: &str, envelope: Value) -> Value {
    let receipt = broker.produce_with("t", value, envelope).await;
    loop {
        let delivery = broker.receive("t", group, "worker-a").await;
        if delivery["id"] == receipt["id"] {
            broker
                .nack(token(&delivery), json!({ "dead_letter": true, "reason": error }))
                .await
                .is(204);
            return delivery;
        }
        broker.ack(token(&delivery)).await.is(204);
    }
}

async fn letters(broker: &Client, query: &str) -> Vec<Value> {
    let page = broker.get(format!("/v1/dlq/t?{query}")).await.is(200);
    page["dead_letters"].as_array().expect("a list").clone()
}

fn values(letters: &[Value]) -> Vec<&str> {
    letters.iter().map(|letter| letter["value"].as_str().expect("text")).collect()
}

async fn one_dead() -> (Broker, Value, Value) {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let envelope = json!({ "tenant_id": "acme", "idempotency_key": "order-77", "run_id": "run_1" });
    let delivery = kill(&broker, "x", "biller", "card_declined", envelope).await;
    let letter = letters(&broker, "").await.remove(0);
    (broker, delivery, letter)
}

#[tokio::test]
async fn a_dead_letter_records_how_it_died() {
    let (broker, delivery, letter) = one_dead().await;
    assert_eq!(fields(&letter), ["dlq", "envelope", "id", "key", "state", "value"]);
    assert_ne!(letter["id"], delivery["id"], "another message");
    assert_eq!(letter["value"], "x");
    assert_eq!(letter["state"], "dead");
    assert_eq!(letter["envelope"], delivery["envelope"]);
    let dlq = &letter["dlq"];
    assert_eq!(
        dlq["origin"],
        json!({ "topic": "t", "partition": 0, "offset": 0, "id": delivery["id"] })
    );
    assert_eq!(dlq["group"], "biller");
    assert_eq!(dlq["reason"], "rejected");
    assert_eq!(dlq["attempts"], 1);
    assert_eq!(dlq["last_error"], "card_declined");
    assert_eq!(dlq["last_owner"], "worker-a");
    assert_eq!(dlq["produced_at"], delivery["produced_at"]);
    assert_eq!(dlq["tenant_id"], "acme");
    assert_eq!(dlq["idempotency_key"], "order-77");
    assert!(time(&dlq["dead_at"]) >= time(&dlq["first_delivered_at"]));
    let consumed = broker.receive("dlq.t", "ops", "o").await;
    assert_eq!(consumed["dlq"], *dlq);
    assert_eq!(consumed["id"], letter["id"]);
}

#[tokio::test]
async fn a_topic_without_dead_letters_has_an_empty_list() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    assert_eq!(broker.get("/v1/dlq/t").await.is(200), json!({ "dead_letters": [] }));
    let answer = broker.get("/v1/dlq/nowhere").await;
    assert_eq!(answer.refused(404, "NOT_FOUND")["kind"], "topic");
}

#[tokio::test]
async fn dead_letters_are_listed_newest_first_and_by_filter() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    kill(&broker, "a", "biller", "card_declined", json!({ "tenant_id": "acme", "run_id": "r" }))
        .await;
    kill(&broker, "b", "mailer", "card_expired", json!({})).await;
    let policy = json!({ "retry_policy": { "max_attempts": 1 } });
    let receipt = broker.produce_with("t", "c", policy).await;
    let delivery = broker.receive("t", "fresh", "o").await;
    assert_ne!(delivery["id"], receipt["id"], "the group starts at the oldest message");
    broker
        .post("/v1/topics/t/groups/fresh/seek", json!({ "to": { "partition": 0, "offset": 2 } }))
        .await
        .is(200);
    let delivery = broker.receive("t", "fresh", "o").await;
    broker.nack(token(&delivery), json!({ "reason": "timeout" })).await.is(204);
    let all = letters(&broker, "").await;
    assert_eq!(values(&all), ["c", "b", "a"]);
    let dead_at = all[1]["dlq"]["dead_at"].as_str().expect("a time");
    for (query, found) in [
        ("group=biller", vec!["a"]),
        ("reason=exhausted", vec!["c"]),
        ("reason=final", vec!["b", "a"]),
        ("reason=deadline", vec![]),
        ("tenant_id=acme", vec!["a"]),
        ("tenant_id=default", vec!["c", "b"]),
        ("run_id=r", vec!["a"]),
        ("error=card", vec!["b", "a"]),
        ("error=card_d", vec!["a"]),
        ("error=declined", vec![]),
        ("state=dead", vec!["c", "b", "a"]),
        ("state=redriven", vec![]),
        ("state=all", vec!["c", "b", "a"]),
        ("group=mailer&error=card", vec!["b"]),
    ] {
        assert_eq!(values(&letters(&broker, query).await), found, "{query}");
    }
    let since = letters(&broker, &format!("since={dead_at}")).await;
    assert!(values(&since).contains(&"b") && values(&since).contains(&"c"), "{since:?}");
}

#[tokio::test]
async fn dead_letters_are_listed_in_pages_and_with_a_summary() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for (value, error) in [("a", "one"), ("b", "two"), ("c", "two"), ("d", "two"), ("e", "one")] {
        kill(&broker, value, "g", error, json!({})).await;
    }
    let mut path = "/v1/dlq/t?limit=2".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = broker.get(&path).await.is(200);
        assert_eq!((page.get("total"), page.get("by_error")), (None, None));
        let letters = page["dead_letters"].as_array().expect("a list");
        seen.extend(values(letters).into_iter().map(str::to_owned));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/dlq/t?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ["e", "d", "c", "b", "a"]);
    let page = broker.get("/v1/dlq/t?summary=true&limit=1").await.is(200);
    assert_eq!(page["total"], 5);
    let by_error = json!([{ "error": "two", "count": 3 }, { "error": "one", "count": 2 }]);
    assert_eq!(page["by_error"], by_error);
    assert_eq!(page["dead_letters"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_summary_names_ten_errors_by_their_first_64_bytes() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let long = "e".repeat(100);
    for number in 0..11 {
        kill(&broker, "x", "g", &format!("error {number}"), json!({})).await;
    }
    for number in 0..2 {
        kill(&broker, "x", "g", &format!("{long}{number}"), json!({})).await;
    }
    let page = broker.get("/v1/dlq/t?summary=true").await.is(200);
    assert_eq!(page["total"], 13);
    let by_error = page["by_error"].as_array().expect("a list");
    assert_eq!(by_error.len(), 10);
    assert_eq!(by_error[0], json!({ "error": "e".repeat(64), "count": 2 }));
}

#[tokio::test]
async fn invalid_filters_are_rejected() {
    let (broker, _, _) = one_dead().await;
    for query in
        ["limit=0", "limit=1001", "cursor=!", "state=lost", "reason=bad", "since=x", "bogus=1"]
    {
        let answer = broker.get(format!("/v1/dlq/t?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
        answer.refused(400, "INVALID_ARGUMENT");
    }
}

#[tokio::test]
async fn a_dead_letter_is_redriven_once() {
    let (broker, delivery, letter) = one_dead().await;
    let redrive = json!({ "ids": [letter["id"]], "by": "ops", "reason": "fixed in 41f3" });
    let answer = broker.post("/v1/dlq/t/redrive", redrive.clone()).await.is(200);
    assert_eq!(fields(&answer), ["dry_run", "matched", "redriven", "results"]);
    assert_eq!(answer["dry_run"], false);
    assert_eq!((&answer["matched"], &answer["redriven"]), (&json!(1), &json!(1)));
    let result = &answer["results"][0];
    assert_eq!(result["id"], letter["id"]);
    assert_eq!(result["status"], "redriven");
    assert_eq!(result["new"]["partition"], 0);
    assert_eq!(result["new"]["offset"], 1, "at the end of its partition");
    let again = broker.post("/v1/dlq/t/redrive", redrive).await.is(200);
    assert_eq!(again["redriven"], 0);
    assert_eq!(again["results"][0]["status"], "already");
    assert_eq!(again["results"][0]["new"], result["new"], "the message of the first redrive");
    let back = broker.receive("t", "biller", "o").await;
    assert_eq!(back["id"], result["new"]["id"]);
    assert_eq!(back["value"], "x");
    assert_eq!(back["attempts"], 1);
    assert_eq!(back["envelope"], delivery["envelope"]);
    assert_eq!(back["redriven"], json!({ "origin_id": delivery["id"], "times": 1 }));
    broker.ack(token(&back)).await.is(204);
    assert!(letters(&broker, "").await.is_empty(), "it is no longer listed as dead");
    let shown = letters(&broker, "state=redriven").await.remove(0);
    assert_eq!(shown["state"], "redriven");
    let by = &shown["redriven"];
    assert_eq!(fields(by), ["at", "by", "new", "reason"]);
    assert_eq!((&by["by"], &by["reason"]), (&json!("ops"), &json!("fixed in 41f3")));
    assert_eq!(by["new"]["id"], back["id"]);
}

#[tokio::test]
async fn a_message_can_be_redriven_repeatedly() {
    let (broker, delivery, letter) = one_dead().await;
    broker.post("/v1/dlq/t/redrive", json!({ "ids": [letter["id"]] })).await.is(200);
    let back = broker.receive("t", "biller", "o").await;
    broker.nack(token(&back), json!({ "dead_letter": true })).await.is(204);
    let second = letters(&broker, "").await.remove(0);
    broker.post("/v1/dlq/t/redrive", json!({ "ids": [second["id"]] })).await.is(200);
    let back = broker.receive("t", "biller", "o").await;
    assert_eq!(back["redriven"], json!({ "origin_id": delivery["id"], "times": 2 }));
}

#[tokio::test]
async fn a_dead_letter_is_shown_by_its_id_or_the_id_of_its_message() {
    let (broker, delivery, letter) = one_dead().await;
    let path = |id: &Value| format!("/v1/dlq/t/{}", id.as_str().expect("an id"));
    assert_eq!(broker.get(path(&letter["id"])).await.is(200), letter);
    assert_eq!(broker.get(path(&delivery["id"])).await.is(200), letter);
    let other = broker.produce("t", "alive").await;
    let answer = broker.get(path(&other["id"])).await.refused(404, "NOT_FOUND");
    let id = other["id"].as_str().expect("an id");
    assert_eq!(answer["message"], format!("{id} is not a dead letter of \"t\""));
    // An id of another topic.
    broker.topic("u").await;
    let id = letter["id"].as_str().expect("an id");
    let answer = broker.get(format!("/v1/dlq/u/{id}")).await.refused(404, "NOT_FOUND");
    assert_eq!(answer["kind"], "message");
    broker.get("/v1/dlq/nowhere/m_aaaacaaa").await.refused(404, "NOT_FOUND");
    broker.get("/v1/dlq/t/nonsense").await.invalid("id");
    // Explained as a dead letter.
    let explained = broker.get(format!("/v1/explain?id={id}")).await.is(200);
    assert_eq!(explained["dlq"], letter["dlq"]);
    let summary = explained["summary"].as_str().expect("a text");
    assert!(summary.starts_with("a dead letter of group biller of t for "), "{summary}");
    assert!(summary.ends_with("(rejected after 1 attempt: card_declined)"), "{summary}");
}

#[tokio::test]
async fn a_redrive_by_the_id_of_the_message_follows_earlier_redrives() {
    let (broker, delivery, letter) = one_dead().await;
    let redrive = json!({ "ids": [delivery["id"]], "by": "ops" });
    let first = broker.post("/v1/dlq/t/redrive", redrive.clone()).await.is(200);
    assert_eq!(first["results"][0]["status"], "redriven");
    assert_eq!(first["results"][0]["id"], letter["id"]);
    let again = broker.post("/v1/dlq/t/redrive", redrive.clone()).await.is(200);
    assert_eq!(again["results"][0]["status"], "already");
    assert_eq!(again["results"][0]["new"], first["results"][0]["new"]);
    let back = broker.receive("t", "biller", "o").await;
    assert_eq!(back["origin_id"], delivery["id"]);
    broker.nack(token(&back), json!({ "dead_letter": true })).await.is(204);
    let second = letters(&broker, "").await.remove(0);
    let path = format!("/v1/dlq/t/{}", delivery["id"].as_str().expect("an id"));
    assert_eq!(broker.get(path).await.is(200), second);
    let last = broker.post("/v1/dlq/t/redrive", redrive.clone()).await.is(200);
    assert_eq!(last["results"][0]["status"], "redriven");
    assert_eq!(last["results"][0]["id"], second["id"]);
    // The message was settled since.
    let back = broker.receive("t", "biller", "o").await;
    broker.ack(token(&back)).await.is(204);
    let after = broker.post("/v1/dlq/t/redrive", redrive).await.is(200);
    assert_eq!(after["results"][0]["status"], "already");
    assert_eq!(after["results"][0]["id"], second["id"]);
}

#[tokio::test]
async fn a_search_that_is_too_long_returns_no_older_dead_letter() {
    let (broker, delivery, _) = one_dead().await;
    // Each death and each redrive is one step.
    for _ in 0..64 {
        let last = letters(&broker, "").await.remove(0);
        let redrive = json!({ "ids": [last["id"]] });
        assert_eq!(broker.post("/v1/dlq/t/redrive", redrive).await.is(200)["redriven"], 1);
        let back = broker.receive("t", "biller", "o").await;
        broker.nack(token(&back), json!({ "dead_letter": true })).await.is(204);
    }
    let path = format!("/v1/dlq/t/{}", delivery["id"].as_str().expect("an id"));
    let refused = broker.get(path).await.refused(409, "FAILED_PRECONDITION");
    let message = refused["message"].as_str().expect("a text");
    assert!(message.ends_with("driftq dlq list t"), "{message}");
    let redrive = json!({ "ids": [delivery["id"]] });
    let answer = broker.post("/v1/dlq/t/redrive", redrive).await.is(200);
    assert_eq!(answer["results"][0]["error"], "FAILED_PRECONDITION");
}

#[tokio::test]
async fn a_message_that_died_in_several_groups_must_be_named_by_its_dead_letter() {
    let (broker, delivery, _) = one_dead().await;
    let other = broker.receive("t", "mailer", "o").await;
    assert_eq!(other["id"], delivery["id"]);
    broker.nack(token(&other), json!({ "dead_letter": true })).await.is(204);
    let redrive = json!({ "ids": [delivery["id"]] });
    let answer = broker.post("/v1/dlq/t/redrive", redrive).await.is(200);
    assert_eq!(answer["redriven"], 0);
    let error = &answer["results"][0];
    assert_eq!(error["error"], "FAILED_PRECONDITION");
    let message = error["message"].as_str().expect("a text");
    for letter in letters(&broker, "").await {
        let group = letter["dlq"]["group"].as_str().expect("a name");
        let id = letter["id"].as_str().expect("an id");
        assert!(message.contains(&format!("{id} of group {group}")), "{message}");
    }
}

#[tokio::test]
async fn a_dry_run_reports_what_would_be_redriven() {
    let (broker, _, letter) = one_dead().await;
    let dry = json!({ "filter": { "group": "biller" }, "dry_run": true });
    let answer = broker.post("/v1/dlq/t/redrive", dry).await.is(200);
    assert_eq!(answer["dry_run"], true);
    assert_eq!((&answer["matched"], &answer["redriven"]), (&json!(1), &json!(0)));
    assert_eq!(letters(&broker, "").await[0], letter);
    assert_eq!(broker.show("t").await["messages"], 1);
}

#[tokio::test]
async fn dead_letters_are_redriven_by_filter_up_to_a_limit() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for (value, error) in [("a", "timeout"), ("b", "card"), ("c", "timeout"), ("d", "timeout")] {
        kill(&broker, value, "g", error, json!({})).await;
    }
    let filter =
        json!({ "filter": { "group": "g", "reason": "rejected", "error": "timeout" }, "limit": 2 });
    let answer = broker.post("/v1/dlq/t/redrive", filter.clone()).await.is(200);
    assert_eq!(answer["redriven"], 2);
    for value in ["c", "d"] {
        let back = broker.receive("t", "g", "o").await;
        assert_eq!(back["value"], value, "in the order they died");
    }
    assert_eq!(broker.post("/v1/dlq/t/redrive", filter).await.is(200)["redriven"], 1);
    assert_eq!(values(&letters(&broker, "").await), ["b"]);
}

#[tokio::test]
async fn a_redrive_needs_ids_or_a_filter() {
    let (broker, _, letter) = one_dead().await;
    let many: Vec<_> = (0..1001).map(|_| letter["id"].clone()).collect();
    for bad in [
        json!({}),
        json!({ "ids": [letter["id"]], "filter": {} }),
        json!({ "ids": [] }),
        json!({ "ids": many }),
        json!({ "ids": ["nonsense"], "bogus": 1 }),
        json!({ "filter": {}, "limit": 0 }),
        json!({ "filter": {}, "limit": 1001 }),
        json!({ "filter": { "bogus": 1 } }),
        json!({ "filter": { "reason": "bad" } }),
    ] {
        let answer = broker.post("/v1/dlq/t/redrive", bad.clone()).await;
        assert_eq!(answer.status, 400, "{bad}: {answer:?}");
    }
    let answer = broker.post("/v1/dlq/nowhere/redrive", json!({ "filter": {} })).await;
    answer.refused(404, "NOT_FOUND");
    assert_eq!(letters(&broker, "").await.len(), 1);
}

#[tokio::test]
async fn unknown_ids_and_deleted_groups_are_rejected_item_by_item() {
    let (broker, delivery, letter) = one_dead().await;
    kill(&broker, "y", "other", "e", json!({})).await;
    let second = letters(&broker, "group=other").await.remove(0);
    broker.delete("/v1/topics/t/groups/biller?confirm=biller").await.is(200);
    let ids = json!({ "ids": [letter["id"], delivery["id"], second["id"]] });
    let answer = broker.post("/v1/dlq/t/redrive", ids).await.is(200);
    let results = &answer["results"];
    assert_eq!(results[0]["error"], "NOT_FOUND", "its group is deleted: {answer}");
    assert_eq!(results[1]["error"], "NOT_FOUND", "not a dead letter: {answer}");
    assert_eq!(results[2]["status"], "redriven");
    assert_eq!(answer["redriven"], 1);
}

#[tokio::test]
async fn a_redrive_removes_the_deadline_that_killed_the_message() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "clock").await;
    let now = time(&broker.receive("t", "other", "o").await["produced_at"]);
    let deadline = driftq_api::Time(now + 700).to_string();
    broker.produce_with("t", "x", json!({ "deadline": deadline, "run_id": "r" })).await;
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    // Wait until the deadline has passed: a new message with it is rejected from then on.
    let late = json!({ "topic": "t", "value": "y", "envelope": { "deadline": deadline, "partition_override": 9 } });
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
    broker.topic("probe").await;
    let probe =
        crate::verbs::with(late, json!({ "topic": "probe", "envelope": { "deadline": deadline } }));
    while broker.post("/v1/produce", probe.clone()).await.status == 200 {
        looks.tick().await;
    }
    assert_eq!(broker.receive("t", "g", "o").await["value"], "clock");
    assert!(broker.receive_now("t", "g", "o").await.is_empty(), "the late one is not delivered");
    let letter = letters(&broker, "group=g&reason=deadline").await.remove(0);
    assert_eq!(letter["dlq"]["attempts"], 0);
    broker.post("/v1/dlq/t/redrive", json!({ "ids": [letter["id"]] })).await.is(200);
    let back = broker.receive("t", "g", "o").await;
    assert_eq!(back["value"], "x");
    assert_eq!(back["envelope"], json!({ "run_id": "r" }));
}

#[tokio::test]
async fn a_purge_requires_the_matching_confirm_count() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for (value, error) in [("a", "timeout"), ("b", "card"), ("c", "timeout")] {
        kill(&broker, value, "g", error, json!({})).await;
    }
    let until = letters(&broker, "").await[0]["dlq"]["dead_at"].as_str().map(str::to_owned);
    let until = until.expect("a time").parse::<driftq_api::Time>().expect("a time").0 + 60_000;
    let filter = json!({ "error": "timeout", "until": driftq_api::Time(until).to_string() });
    let purge = |confirm: Value| json!({ "filter": filter, "confirm": confirm, "by": "ops", "reason": "r" });
    for wrong in [json!(null), json!(1), json!(3)] {
        let body =
            broker.post("/v1/dlq/t/purge", purge(wrong)).await.refused(409, "FAILED_PRECONDITION");
        assert_eq!(body["matched"], 2);
    }
    assert_eq!(letters(&broker, "").await.len(), 3);
    assert_eq!(
        broker.post("/v1/dlq/t/purge", purge(json!(2))).await.is(200),
        json!({ "purged": 2 })
    );
    assert_eq!(values(&letters(&broker, "state=all").await), ["b"]);
    assert_eq!(broker.show("t").await["dead_letters"], 1);
}

#[tokio::test]
async fn a_purge_by_id_requires_the_matching_confirm_count() {
    let (broker, _, letter) = one_dead().await;
    let purge = |confirm: u32| json!({ "ids": [letter["id"]], "confirm": confirm });
    let body = broker.post("/v1/dlq/t/purge", purge(2)).await.refused(409, "FAILED_PRECONDITION");
    assert_eq!(body["matched"], 1);
    let nobody = "m_aaacaaaa";
    let both = json!({ "ids": [letter["id"], nobody], "confirm": 2 });
    let body = broker.post("/v1/dlq/t/purge", both).await.refused(409, "FAILED_PRECONDITION");
    assert_eq!(body["matched"], 1);
    assert_eq!(broker.post("/v1/dlq/t/purge", purge(1)).await.is(200), json!({ "purged": 1 }));
    assert!(letters(&broker, "state=all").await.is_empty());
}

#[tokio::test]
async fn a_purge_needs_ids_or_a_filter_with_until() {
    let (broker, _, letter) = one_dead().await;
    for bad in [
        json!({ "confirm": 1 }),
        json!({ "filter": {}, "confirm": 1 }),
        json!({ "filter": { "group": "biller" }, "confirm": 1 }),
        json!({ "ids": [letter["id"]], "filter": { "until": "2999-01-01T00:00:00Z" }, "confirm": 1 }),
        json!({ "ids": [letter["id"]], "confirm": -1 }),
        json!({ "ids": [letter["id"]], "confirm": 1, "bogus": 1 }),
    ] {
        let answer = broker.post("/v1/dlq/t/purge", bad.clone()).await;
        assert_eq!(answer.status, 400, "{bad}: {answer:?}");
    }
    assert_eq!(letters(&broker, "").await.len(), 1);
}

#[tokio::test]
async fn a_dead_letter_that_fails_again_is_retried_and_never_dropped() {
    let (broker, _, _) = one_dead().await;
    let dead = broker.receive("dlq.t", "ops", "o").await;
    broker.nack(token(&dead), json!({ "delay_ms": 0 })).await.is(204);
    for attempt in 2..=25 {
        let dead = broker.receive("dlq.t", "ops", "o").await;
        assert_eq!(
            dead["lease"]["attempt"], attempt,
            "max_attempts does not apply to dead letters"
        );
        assert_eq!(
            (&dead["attempts"], &dead["last_error"]),
            (&dead["dlq"]["attempts"], &dead["dlq"]["last_error"])
        );
        broker.nack(token(&dead), json!({ "delay_ms": 0 })).await.is(204);
    }
    let dead = broker.receive("dlq.t", "ops", "o").await;
    broker.nack(token(&dead), json!({})).await.is(204);
    let group = broker.group("dlq.t", "ops").await;
    assert_eq!(group["waiting"], 1, "at the maximum backoff");
    assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": ["dlq.t", "t"] }));
}

#[tokio::test]
async fn the_topic_of_dead_letters_exists_before_the_first() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let shown = broker.get("/v1/topics/dlq.t").await.is(200);
    assert_eq!((&shown["messages"], &shown["groups"]), (&json!(0), &json!([])));
    let page = broker.get("/v1/topics/dlq.t/messages").await.is(200);
    assert_eq!(page["messages"], json!([]));
    broker.get("/v1/topics/dlq.v").await.refused(404, "NOT_FOUND");
    let created = broker.post("/v1/topics", json!({ "name": "dlq.t" })).await.is(200);
    assert_eq!(created["status"], "exists");
    broker.post("/v1/topics", json!({ "name": "dlq.u" })).await.refused(400, "INVALID_ARGUMENT");
    broker.topic("u").await;
    let poll =
        json!({ "topic": "dlq.u", "group": "ops", "owner": "o", "max": 1, "wait_ms": 20_000 });
    let (reader, _) = tokio::join!(broker.post("/v1/receive", poll), async {
        while broker.get("/v1/topics/dlq.u/groups/ops").await.status != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        broker.produce("u", "x").await;
        let delivery = broker.receive("u", "g", "o").await;
        broker
            .nack(token(&delivery), json!({ "dead_letter": true, "reason": "no card" }))
            .await
            .is(204);
    });
    let dead = &reader.is(200)["messages"][0];
    assert_eq!((&dead["value"], &dead["last_error"]), (&json!("x"), &json!("no card")));
}

#[tokio::test]
async fn dead_letters_redrives_and_purges_survive_a_restart() {
    let broker = Broker::durable().await;
    broker.topic("t").await;
    for value in ["a", "b", "c"] {
        kill(&broker, value, "g", "e", json!({})).await;
    }
    let all = letters(&broker, "").await;
    let redrive = json!({ "ids": [all[0]["id"]], "by": "ops", "reason": "fixed" });
    let first = broker.post("/v1/dlq/t/redrive", redrive.clone()).await.is(200);
    broker.post("/v1/dlq/t/purge", json!({ "ids": [all[1]["id"]], "confirm": 1 })).await.is(200);
    let broker = broker.restart().await;
    assert_eq!(letters(&broker, "").await, all[2..]);
    let again = broker.post("/v1/dlq/t/redrive", redrive).await.is(200);
    assert_eq!(again["results"][0]["status"], "already");
    assert_eq!(again["results"][0]["new"], first["results"][0]["new"]);
    assert_eq!(broker.receive("t", "g", "o").await["value"], "c");
}

#[tokio::test]
async fn a_purge_by_filter_ignores_redriven_messages() {
    let (broker, _, letter) = one_dead().await;
    broker.post("/v1/dlq/t/redrive", json!({ "ids": [letter["id"]] })).await.is(200);
    let purge = json!({ "filter": { "until": "2100-01-01T00:00:00Z" } });
    let body = broker.post("/v1/dlq/t/purge", purge).await.refused(409, "FAILED_PRECONDITION");
    assert_eq!(body["matched"], 0);
}
