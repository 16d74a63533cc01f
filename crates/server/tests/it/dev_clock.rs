//! The test clock, which only `driftq dev --test-clock` has.

use driftq_server::config::{Config, EngineConfig};
use serde_json::json;

use crate::broker::Broker;
use crate::verbs::{connections, token};

const HOUR_MS: u64 = 3_600_000;

async fn broker() -> Broker {
    Broker::in_memory_with(|config| config.test_clock = true).await
}

async fn advance(broker: &Broker, ms: u64) {
    let answer = broker.post("/v1/dev/clock", json!({ "advance_ms": ms })).await.is(200);
    assert!(answer["now"].is_string());
}

#[tokio::test]
async fn a_retry_of_an_hour_is_due_at_once() {
    let broker = broker().await;
    broker.topic("t").await;
    broker.produce("t", "a").await;
    let first = broker.receive("t", "g", "o").await;
    broker.nack(token(&first), json!({ "delay_ms": HOUR_MS })).await.is(204);
    assert_eq!(broker.receive_now("t", "g", "o").await.len(), 0);
    advance(&broker, HOUR_MS - 60_000).await;
    assert_eq!(broker.receive_now("t", "g", "o").await.len(), 0);
    advance(&broker, 60_000).await;
    let again = broker.receive_now("t", "g", "o").await;
    assert_eq!(again[0]["lease"]["attempt"], 2);
}

#[tokio::test]
async fn leases_and_keys_expire_and_the_clock_raises_no_alarm() {
    let broker = broker().await;
    broker.topic("t").await;
    let keyed = json!({ "topic": "t", "value": "a", "envelope": { "idempotency_key": "k" } });
    broker.post("/v1/produce", keyed.clone()).await.is(200);
    let first = broker.receive("t", "g", "o").await;
    // The end of the lease, and then that of the backoff.
    advance(&broker, 31_000).await;
    advance(&broker, 31_000).await;
    let again = broker.receive_now("t", "g", "o").await;
    assert_eq!(again[0]["lease"]["attempt"], 2);
    broker.ack(token(&first)).await.refused(409, "STALE_LEASE");
    advance(&broker, 8 * 24 * HOUR_MS).await;
    assert_eq!(broker.post("/v1/produce", keyed).await.is(200)["deduplicated"], false);
    let ready = broker.get("/v1/readyz").await.is(200);
    assert_eq!(ready.get("clock"), None, "{ready}");
}

#[tokio::test]
async fn a_waiting_poll_gets_what_is_due() {
    let broker = broker().await;
    broker.topic("t").await;
    broker.produce("t", "a").await;
    let first = broker.receive("t", "g", "o").await;
    broker.nack(token(&first), json!({ "delay_ms": HOUR_MS })).await.is(204);
    let poll = json!({ "topic": "t", "group": "g", "owner": "o", "wait_ms": 20_000 });
    let (polled, ()) = tokio::join!(broker.post("/v1/receive", poll), async {
        while connections(&broker.group("t", "g").await).is_empty() {
            tokio::task::yield_now().await;
        }
        advance(&broker, HOUR_MS).await;
    });
    assert_eq!(polled.is(200)["messages"][0]["lease"]["attempt"], 2);
}

#[tokio::test]
async fn other_servers_have_no_test_clock() {
    let broker = Broker::start().await;
    let answer = broker.post("/v1/dev/clock", json!({ "advance_ms": 1 })).await;
    answer.refused(404, "NOT_FOUND");
    let document = broker.get("/v1/openapi.json").await.is(200);
    assert!(document["paths"].get("/v1/dev/clock").is_none());
    let open = Config {
        listen: ([0, 0, 0, 0], 0).into(),
        insecure: true,
        test_clock: true,
        ..Config::local(EngineConfig::Memory)
    };
    let faults: Vec<String> = open.faults().into_iter().map(|fault| fault.key).collect();
    assert_eq!(faults, ["test-clock"]);
}

#[tokio::test]
async fn an_advance_outside_of_the_range_is_rejected() {
    let broker = broker().await;
    for wrong in
        [json!({}), json!({ "advance_ms": 0 }), json!({ "advance_ms": 365 * 24 * HOUR_MS + 1 })]
    {
        broker.post("/v1/dev/clock", wrong).await.refused(400, "INVALID_ARGUMENT");
    }
}
