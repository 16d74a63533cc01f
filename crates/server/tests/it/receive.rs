//! The long poll.

use serde_json::json;

use crate::broker::Broker;
use crate::verbs::{connections, fields, time, token, wanted, with};

#[tokio::test]
async fn a_poll_returns_when_a_message_arrives() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let poll = tokio::spawn(broker.ask("POST", "/v1/receive").json(&wanted("t", "g", "o")).send());
    broker.produce("t", "x").await;
    let answer = poll.await.expect("no panic");
    assert_eq!(answer.header("content-type"), "application/json");
    let body = answer.is(200);
    assert_eq!(fields(&body), ["messages"]);
    assert_eq!(body["messages"][0]["value"], "x");
}

#[tokio::test]
async fn a_poll_returns_one_message_by_default_and_does_not_wait_for_more() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    for number in 0..5 {
        broker.produce("t", &number.to_string()).await;
    }
    let take = async |more| {
        let body = with(wanted("t", "g", "o"), more);
        let got = broker.post("/v1/receive", body).await.is(200);
        got["messages"].as_array().expect("a list").len()
    };
    assert_eq!(take(json!({})).await, 1);
    assert_eq!(take(json!({ "max": 2 })).await, 2);
    assert_eq!(take(json!({ "max": 1000 })).await, 2);
    assert_eq!(take(json!({ "max": 1000, "wait_ms": 0 })).await, 0);
}

#[tokio::test]
async fn a_poll_without_messages_returns_empty_after_wait_ms() {
    let broker = Broker::in_memory().await;
    broker.topic("t").await;
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    // From here on, time advances as soon as every task waits.
    tokio::time::pause();
    for (more, seconds) in [(json!({}), 20), (json!({ "wait_ms": 3_000 }), 3)] {
        let began = tokio::time::Instant::now();
        let got = broker.post("/v1/receive", with(wanted("t", "g", "o"), more)).await.is(200);
        assert_eq!(got, json!({ "messages": [] }));
        let took = began.elapsed().as_millis();
        assert!((seconds * 1_000..seconds * 1_000 + 500).contains(&took), "{took} ms");
    }
}

#[tokio::test]
async fn max_and_wait_ms_have_limits() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let ask = |more| broker.post("/v1/receive", with(wanted("t", "g", "o"), more));
    ask(json!({ "max": 1000, "wait_ms": 60_000 })).await.is(200);
    for (field, values) in [
        ("max", vec![0, -1, 1001]),
        ("wait_ms", vec![-1, 60_001]),
        ("lease_ms", vec![249, 43_200_001]),
    ] {
        for value in values {
            ask(json!({ field: value, })).await.refused(400, "INVALID_ARGUMENT");
        }
    }
}

#[tokio::test]
async fn a_poll_accepts_the_query_form() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let path =
        "/v1/receive?topic=t&group=g&owner=o&lease_ms=1000&max=5&wait_ms=1000&start=earliest";
    let got = broker.post_query(path).await.is(200);
    assert_eq!(got["messages"][0]["value"], "x");
}

#[tokio::test]
async fn lease_ms_defaults_to_that_of_the_topic() {
    let broker = Broker::start().await;
    broker.topic_with("t", 1, json!({ "lease_ms": 5_000 })).await;
    broker.produce("t", "a").await;
    broker.produce("t", "b").await;
    let lease = |delivery: &serde_json::Value| {
        time(&delivery["lease"]["expires_at"]) - time(&delivery["produced_at"])
    };
    let silent = lease(&broker.receive("t", "g", "o").await);
    assert!((5_000..8_000).contains(&silent), "{silent}");
    let said = with(wanted("t", "g", "o"), json!({ "lease_ms": 100_000 }));
    let said = lease(&broker.receive_with(said).await);
    assert!((100_000..103_000).contains(&said), "{said}");
}

#[tokio::test]
async fn a_poll_whose_client_disconnected_leases_nothing() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let body = with(wanted("t", "g", "gone"), json!({ "wait_ms": 60_000 }));
    let poll = tokio::spawn(broker.ask("POST", "/v1/receive").json(&body).send());
    broker.put("/v1/topics/t/groups/g", json!({})).await;
    broker.until_group("t", "g", "the poll", |group| !connections(group).is_empty()).await;
    poll.abort();
    broker.until_group("t", "g", "no consumer", |group| connections(group).is_empty()).await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "next").await;
    assert_eq!(delivery["attempts"], 1);
    broker.ack(token(&delivery)).await.is(204);
}

#[tokio::test]
async fn concurrent_polls_receive_different_messages() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    let polls: Vec<_> = (0..10)
        .map(|number| {
            let body = wanted("t", "g", &format!("w{number}"));
            tokio::spawn(broker.ask("POST", "/v1/receive").json(&body).send())
        })
        .collect();
    for number in 0..10 {
        broker.produce("t", &format!("{number}")).await;
    }
    let mut values = Vec::new();
    for poll in polls {
        let got = poll.await.expect("no panic").is(200);
        values.push(got["messages"][0]["value"].as_str().expect("one each").to_owned());
    }
    values.sort();
    assert_eq!(values, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}
