//! The router: rules, and a hook that answers in every way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use driftq_server::config::{Config, HookConfig, Match, OnRouterError, RouterConfig, RoutingRule};
use serde_json::{Value, json};

use crate::broker::Broker;
use crate::verbs::{token, wanted, with};

const TIMEOUT: Duration = Duration::from_millis(300);

/// What a hook answers to its calls, by their number from 0, and to the messages of a call.
type Behaviour = fn(usize, &Value) -> Answer;

enum Answer {
    Decisions(Value),
    Text(&'static str),
    Status(u16),
    Hangs,
}

/// A hook that counts its calls.
struct Hook {
    url: String,
    calls: Arc<AtomicUsize>,
    chooses_nothing_first: Arc<AtomicBool>,
}

impl Hook {
    async fn start(behaviour: Behaviour) -> Hook {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/route", listener.local_addr().expect("an address"));
        let calls = Arc::new(AtomicUsize::new(0));
        let chooses_nothing_first = Arc::new(AtomicBool::new(false));
        let state = (behaviour, calls.clone(), chooses_nothing_first.clone());
        let app = Router::new().route("/route", post(answer)).with_state(state);
        tokio::spawn(async { axum::serve(listener, app).await });
        Hook { url, calls, chooses_nothing_first }
    }

    /// A hook that chooses nothing in its first call.
    async fn start_after_first(behaviour: Behaviour) -> Hook {
        let hook = Hook::start(behaviour).await;
        hook.chooses_nothing_first.store(true, Ordering::SeqCst);
        hook
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn of(&self, on_error: OnRouterError) -> impl FnOnce(&mut Config) {
        let url = self.url.clone().into();
        move |config| {
            config.router = RouterConfig::Hook(HookConfig { url, timeout: TIMEOUT });
            config.on_router_error = on_error;
        }
    }
}

type HookState = (Behaviour, Arc<AtomicUsize>, Arc<AtomicBool>);

async fn answer(
    State((behaviour, calls, chooses_nothing_first)): State<HookState>,
    Json(request): Json<Value>,
) -> Response<Body> {
    let status = |status: u16| {
        let status = StatusCode::from_u16(status).expect("a status");
        // A redirect that is followed would be a decision.
        Response::builder().status(status).header("location", "/route").body(Body::empty())
    };
    let messages = &request["messages"];
    let call = calls.fetch_add(1, Ordering::SeqCst);
    let answer = if chooses_nothing_first.load(Ordering::SeqCst) && call == 0 {
        all(messages, &Value::Null)
    } else {
        behaviour(call, messages)
    };
    let response = match answer {
        Answer::Decisions(decisions) => {
            Response::builder().body(json!({ "decisions": decisions }).to_string().into())
        }
        Answer::Text(text) => Response::builder().body(text.into()),
        Answer::Status(code) => status(code),
        Answer::Hangs => std::future::pending().await,
    };
    response.expect("a response")
}

/// The same decision for every message.
fn all(messages: &Value, decision: &Value) -> Answer {
    let count = messages.as_array().expect("a list").len();
    Answer::Decisions(vec![decision.clone(); count].into())
}

async fn topics(broker: &Broker) {
    for topic in ["orders", "eu", "us"] {
        broker.topic_with(topic, 4, json!({})).await;
    }
}

async fn produce(broker: &Broker, more: Value) -> Value {
    let message = with(json!({ "topic": "orders", "value": "a" }), more);
    broker.post("/v1/produce", message).await.is(200)
}

async fn received(broker: &Broker, topic: &str) -> Vec<Value> {
    let wanted = with(wanted(topic, "g", "w"), json!({ "max": 100, "wait_ms": 0 }));
    let received = broker.post("/v1/receive", wanted).await.is(200);
    received["messages"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn the_first_rule_that_matches_decides() {
    let rule = |matches, label: &str, target: Option<&str>| RoutingRule {
        matches,
        label: label.to_owned(),
        target_topic: target.map(str::to_owned),
        ..RoutingRule::default()
    };
    let labels = [("region".to_owned(), "us".to_owned())].into();
    let of_key = Match { key_prefix: Some("eu-".to_owned()), ..Match::default() };
    let of_label = Match { labels, ..Match::default() };
    let of_step = Match {
        topic: Some("orders".to_owned()),
        step_id: Some("plan".to_owned()),
        ..Match::default()
    };
    let mut last = rule(of_step, "planned", None);
    last.partition = Some(3);
    last.meta = [("source".to_owned(), "rules".to_owned())].into();
    let rules = vec![rule(of_key, "eu", Some("eu")), rule(of_label, "", Some("us")), last];
    let broker = Broker::with(|config| config.router = RouterConfig::Rules(rules)).await;
    topics(&broker).await;
    let eu = produce(&broker, json!({ "key": "eu-1", "envelope": { "target_topic": "us" } })).await;
    assert_eq!((&eu["topic"], &eu["final_topic"]), (&json!("orders"), &json!("eu")));
    let us = produce(&broker, json!({ "key": "x", "envelope": { "labels": { "region": "us" } } }));
    assert_eq!(us.await["final_topic"], "us");
    assert_eq!(
        produce(&broker, json!({ "envelope": { "step_id": "plan" } })).await["partition"],
        3
    );
    let other = produce(&broker, json!({ "key": "x" })).await;
    assert!(other["final_topic"].is_null(), "{other}");
    assert_eq!(
        received(&broker, "eu").await[0]["routing"],
        json!({ "label": "eu", "target_topic": "eu" })
    );
    let orders = received(&broker, "orders").await;
    let planned =
        json!({ "label": "planned", "partition_override": 3, "meta": { "source": "rules" } });
    assert!(orders.iter().any(|of| of["routing"] == planned), "{orders:?}");
    assert!(orders.iter().any(|of| of["routing"].is_null()), "{orders:?}");
}

#[tokio::test]
async fn a_hook_is_called_once_for_all_messages_of_a_request() {
    let hook = Hook::start(|_, messages| {
        let decide = |message: &Value| match message["value"].as_str() {
            Some("a") => json!({ "label": "first", "target_topic": "eu", "ignored": 1 }),
            Some("b") => Value::Null,
            _ => json!({ "meta": { "key": message["key"], "bytes": message["value_base64"],
                "step": message["envelope"]["step_id"] } }),
        };
        Answer::Decisions(messages.as_array().expect("a list").iter().map(decide).collect())
    });
    let hook = hook.await;
    let broker = Broker::with(hook.of(OnRouterError::Reject)).await;
    topics(&broker).await;
    let messages = json!([
        { "topic": "orders", "value": "a" },
        { "topic": "orders", "value": "b" },
        { "topic": "nowhere", "value": "a" },
        { "topic": "orders", "key": "k", "value_base64": "/w==", "envelope": { "step_id": "s" } },
    ]);
    let answer = broker.post("/v1/produce/batch", json!({ "messages": messages })).await.is(200);
    assert_eq!(answer["results"][0]["final_topic"], "eu");
    assert_eq!(answer["results"][2]["error"], "NOT_FOUND");
    assert_eq!((hook.calls(), &answer["accepted"]), (1, &json!(3)));
    let orders = received(&broker, "orders").await;
    let meta = json!({ "label": "", "meta": { "key": "k", "bytes": "/w==", "step": "s" } });
    assert!(orders.iter().any(|of| of["routing"] == meta), "{orders:?}");
    assert!(orders.iter().any(|of| of["value"] == "b" && of["routing"].is_null()), "{orders:?}");
}

/// Topics on several shards, and a hook that decides differently each time.
#[tokio::test]
async fn a_repeat_is_routed_as_the_first_time_without_the_hook() {
    let hook = Hook::start(|call, messages| {
        all(messages, &json!({ "target_topic": (["eu", "us", "orders"])[call % 3] }))
    });
    let hook = hook.await;
    let with_shards = hook.of(OnRouterError::Reject);
    let broker = Broker::with(|config| {
        config.shards = Some(8);
        with_shards(config);
    });
    let broker = broker.await;
    topics(&broker).await;
    for number in 0..9 {
        for more in [
            json!({ "nonce": format!("n{number}") }),
            json!({ "envelope": { "idempotency_key": format!("k{number}") } }),
        ] {
            let first = produce(&broker, more.clone()).await;
            let calls = hook.calls();
            for _ in 0..3 {
                let again = produce(&broker, more.clone()).await;
                assert_eq!((&again["id"], &again["deduplicated"]), (&first["id"], &json!(true)));
            }
            assert_eq!(hook.calls(), calls, "a repeat does not call the hook");
        }
    }
    let mut stored = 0;
    for topic in ["orders", "eu", "us"] {
        let count = broker.get(format!("/v1/topics/{topic}")).await.is(200)["messages"].clone();
        assert_ne!(count, 0, "the hook chose each topic");
        stored += count.as_u64().expect("a number");
    }
    assert_eq!(stored, 18);
}

const FAILURES: [Behaviour; 8] = [
    |_, _| Answer::Status(500),
    |_, _| Answer::Status(302),
    |_, _| Answer::Hangs,
    |_, _| Answer::Text("no JSON"),
    |_, _| Answer::Decisions(json!([])),
    |_, _| Answer::Decisions(json!([{ "label": 7 }])),
    |_, _| Answer::Decisions(json!([{ "label": "x".repeat(2 << 20) }])),
    |_, _| Answer::Decisions(json!([{ "target_topic": "eu", "partition_override": -1 }])),
];

#[tokio::test]
async fn a_message_goes_where_it_was_sent_if_the_hook_fails() {
    for behaviour in FAILURES {
        let hook = Hook::start(behaviour).await;
        let broker = Broker::in_memory_with(hook.of(OnRouterError::Accept)).await;
        topics(&broker).await;
        let stored = produce(&broker, json!({ "envelope": { "target_topic": "us" } })).await;
        assert_eq!((&stored["final_topic"], hook.calls()), (&json!("us"), 1));
        assert!(received(&broker, "us").await[0]["routing"].is_null());
    }
}

#[tokio::test]
async fn a_message_is_rejected_if_the_hook_fails_and_must_decide() {
    for behaviour in FAILURES {
        let hook = Hook::start(behaviour).await;
        let broker = Broker::in_memory_with(hook.of(OnRouterError::Reject)).await;
        topics(&broker).await;
        let message = json!({ "topic": "orders", "value": "a", "nonce": "n" });
        let refused = broker.post("/v1/produce", message).await.refused(503, "UNAVAILABLE");
        assert_eq!((&refused["outcome"], &refused["retryable"]), (&json!("none"), &json!(true)));
        assert_eq!(broker.get("/v1/topics/orders").await.is(200)["messages"], 0);
    }
}

#[tokio::test]
async fn a_repeat_succeeds_while_the_hook_fails() {
    let hook = Hook::start(|call, messages| match call {
        0 | 1 => all(messages, &json!({ "target_topic": "eu" })),
        _ => Answer::Status(500),
    });
    let hook = hook.await;
    let broker = Broker::with(hook.of(OnRouterError::Reject)).await;
    topics(&broker).await;
    let keyed = json!({ "envelope": { "idempotency_key": "k" } });
    let of_request = json!({ "nonce": "n" });
    let first = [produce(&broker, keyed.clone()).await, produce(&broker, of_request.clone()).await];
    let again = [produce(&broker, keyed).await, produce(&broker, of_request).await];
    assert_eq!(first.map(|of| of["id"].clone()), again.map(|of| of["id"].clone()));
    assert_eq!(hook.calls(), 2);
}

/// A topic that does not exist, a dead-letter topic, a partition that does not exist, and texts that
/// are too long.
#[tokio::test]
async fn a_decision_that_cannot_be_followed_is_a_failure() {
    let decide: Behaviour = |call, messages| {
        let meta: serde_json::Map<String, Value> =
            (0..65).map(|number| (number.to_string(), json!("x"))).collect();
        let decisions = [
            json!({ "target_topic": "nowhere" }),
            json!({ "target_topic": "dlq.orders" }),
            json!({ "target_topic": "not a name" }),
            json!({ "partition_override": 4 }),
            json!({ "label": "x".repeat(3_000) }),
            json!({ "meta": meta }),
        ];
        all(messages, &decisions[call % decisions.len()])
    };
    let hook = Hook::start(decide).await;
    let broker = Broker::with(hook.of(OnRouterError::Accept)).await;
    topics(&broker).await;
    for _ in 0..6 {
        let stored = produce(&broker, json!({})).await;
        assert!(stored["final_topic"].is_null(), "{stored}");
    }
    assert!(received(&broker, "orders").await.iter().all(|of| of["routing"].is_null()));
    let hook = Hook::start(decide).await;
    let broker = Broker::with(hook.of(OnRouterError::Reject)).await;
    topics(&broker).await;
    for _ in 0..6 {
        let message = json!({ "topic": "orders", "value": "a" });
        broker.post("/v1/produce", message).await.refused(503, "UNAVAILABLE");
    }
}

#[tokio::test]
async fn a_commit_is_never_rejected_because_of_the_router() {
    let unusable: [Behaviour; 2] = [
        |_, messages| all(messages, &json!({ "target_topic": "nowhere" })),
        |_, messages| all(messages, &json!({ "partition_override": 9 })),
    ];
    for behaviour in FAILURES.into_iter().chain(unusable) {
        let hook = Hook::start_after_first(behaviour).await;
        let broker = Broker::in_memory_with(hook.of(OnRouterError::Reject)).await;
        topics(&broker).await;
        broker.topic("steps").await;
        // The first message is not asked about.
        broker.post_query("/v1/produce?topic=steps&value=a").await.is(200);
        let delivery = received(&broker, "steps").await.remove(0);
        let produce = json!([{ "topic": "orders", "value": "next" }]);
        let commit = with(token(&delivery), json!({ "produce": produce }));
        let committed = broker.post("/v1/commit", commit.clone()).await.is(200);
        assert!(committed["produced"][0]["final_topic"].is_null(), "{committed}");
        let again = broker.post("/v1/commit", commit).await.is(200);
        assert_eq!(
            (&again["repeated"], &again["produced"]),
            (&json!(true), &committed["produced"])
        );
    }
}

#[tokio::test]
async fn the_messages_of_a_commit_are_routed() {
    let hook = Hook::start(|_, messages| match messages[0]["topic"].as_str() {
        Some("orders") => all(messages, &json!({ "label": "eu", "target_topic": "eu" })),
        _ => all(messages, &Value::Null),
    });
    let hook = hook.await;
    let broker = Broker::with(hook.of(OnRouterError::Reject)).await;
    topics(&broker).await;
    broker.topic("steps").await;
    broker.post_query("/v1/produce?topic=steps&value=a").await.is(200);
    let delivery = received(&broker, "steps").await.remove(0);
    let next = json!([{ "topic": "orders", "value": "b" }, { "topic": "orders", "value": "c" }]);
    let commit = with(token(&delivery), json!({ "produce": next }));
    let committed = broker.post("/v1/commit", commit).await.is(200);
    assert_eq!(committed["produced"][1]["final_topic"], "eu");
    assert_eq!(hook.calls(), 2, "one call for the produce, one for the commit");
    let labels: Vec<Value> =
        received(&broker, "eu").await.iter().map(|of| of["routing"]["label"].clone()).collect();
    assert_eq!(labels, ["eu", "eu"]);
}

#[tokio::test]
async fn a_dead_letter_is_redriven_without_the_router() {
    let hook = Hook::start(|_, messages| all(messages, &json!({ "label": "once" }))).await;
    let broker = Broker::with(hook.of(OnRouterError::Reject)).await;
    topics(&broker).await;
    produce(&broker, json!({})).await;
    let delivery = received(&broker, "orders").await.remove(0);
    broker.post("/v1/nack", with(token(&delivery), json!({ "dead_letter": true }))).await.is(204);
    let redrive = json!({ "ids": [delivery["id"]] });
    broker.post("/v1/dlq/orders/redrive", redrive).await.is(200);
    let again = received(&broker, "orders").await.remove(0);
    assert_eq!((&again["routing"]["label"], hook.calls()), (&json!("once"), 1));
}

#[tokio::test]
async fn the_breaker_opens_and_closes() {
    let hook = Hook::start(|call, messages| match call {
        0..5 => Answer::Hangs,
        _ => all(messages, &json!({ "label": "well" })),
    });
    let hook = hook.await;
    let broker = Broker::with(hook.of(OnRouterError::Accept)).await;
    topics(&broker).await;
    for _ in 0..5 {
        let began = Instant::now();
        produce(&broker, json!({})).await;
        assert!(began.elapsed() >= TIMEOUT);
    }
    let began = Instant::now();
    for _ in 0..5 {
        produce(&broker, json!({})).await;
    }
    assert!(began.elapsed() < TIMEOUT, "{:?}: no call waits for the hook", began.elapsed());
    assert_eq!(hook.calls(), 5);
    // One call is tried a second after the last failure.
    while hook.calls() == 5 {
        assert!(began.elapsed() < Duration::from_secs(10), "no call is tried");
        tokio::time::sleep(Duration::from_millis(50)).await;
        produce(&broker, json!({})).await;
    }
    produce(&broker, json!({})).await;
    assert_eq!(hook.calls(), 7, "the breaker is closed");
    let metrics = broker.get("/v1/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).expect("text");
    for line in [
        "driftq_router_calls_total{result=\"timeout\"} 5",
        "driftq_router_calls_total{result=\"ok\"} 2",
        "driftq_router_messages_total{result=\"routed\"} 2",
    ] {
        assert!(text.lines().any(|of| of == line), "{line}: {text}");
    }
}

#[tokio::test]
async fn a_test_shows_what_would_happen_and_stores_nothing() {
    let hook = Hook::start(|call, messages| match call {
        0 => all(messages, &json!({ "label": "eu", "target_topic": "eu", "meta": { "a": "b" } })),
        1 => all(messages, &json!({ "target_topic": "nowhere" })),
        2 => all(messages, &json!({ "partition_override": 4 })),
        3 => all(messages, &Value::Null),
        _ => Answer::Status(404),
    });
    let hook = hook.await;
    let broker = Broker::with(hook.of(OnRouterError::Reject)).await;
    topics(&broker).await;
    let test = async || {
        let message =
            json!({ "topic": "orders", "value": "a", "envelope": { "target_topic": "us" } });
        broker.post("/v1/route/test", message).await.is(200)
    };
    let decision = json!({ "label": "eu", "target_topic": "eu", "meta": { "a": "b" } });
    assert_eq!(test().await, json!({ "router": "hook", "final_topic": "eu", "routing": decision }));
    for why in [
        "the decision is ignored: the topic nowhere does not exist; a produced message would be rejected",
        "the decision is ignored: the topic us has 4 partitions, and partition 4 was chosen; a produced message would be rejected",
    ] {
        let shown = test().await;
        assert_eq!((&shown["final_topic"], &shown["error"]), (&json!("us"), &json!(why)));
    }
    assert_eq!(test().await, json!({ "router": "hook", "final_topic": "us" }));
    assert_eq!(
        test().await["error"],
        "the router answered with status 404 Not Found; a produced message would be rejected"
    );
    broker
        .post("/v1/route/test", json!({ "topic": "nowhere", "value": "a" }))
        .await
        .refused(404, "NOT_FOUND");
    assert_eq!(broker.get("/v1/topics/eu").await.is(200)["messages"], 0);
    let plain = Broker::start().await;
    topics(&plain).await;
    let shown =
        plain.post("/v1/route/test", json!({ "topic": "orders", "value": "a" })).await.is(200);
    assert_eq!(shown, json!({ "router": "none", "final_topic": "orders" }));
}

/// Equal messages with one key go one way, whatever is decided about each of them.
#[tokio::test]
async fn one_key_in_one_request_is_stored_once() {
    let hook = Hook::start(|_, messages| {
        let topics = ["eu", "us", "orders"].into_iter().cycle();
        let count = messages.as_array().expect("a list").len();
        Answer::Decisions(
            topics.take(count).map(|topic| json!({ "target_topic": topic })).collect(),
        )
    });
    let hook = hook.await;
    let with_hook = hook.of(OnRouterError::Accept);
    let broker = Broker::with(|config| {
        config.shards = Some(8);
        with_hook(config);
    });
    let broker = broker.await;
    topics(&broker).await;
    for (number, nonce) in [json!("n"), Value::Null].into_iter().enumerate() {
        let message = json!({ "topic": "orders", "value": "a",
            "envelope": { "idempotency_key": format!("k{number}") } });
        let batch = json!({ "nonce": nonce, "messages": vec![message; 6] });
        let answer = broker.post("/v1/produce/batch", batch).await.is(200);
        let results = answer["results"].as_array().expect("a list");
        assert!(results.iter().all(|of| of["id"] == results[0]["id"]), "{answer}");
    }
    let mut stored = 0;
    for topic in ["orders", "eu", "us"] {
        let view = broker.get(format!("/v1/topics/{topic}")).await.is(200);
        stored += view["messages"].as_u64().expect("a number");
    }
    assert_eq!(stored, 2);
}

/// A client that waits less than the server does must not keep the hook in use for ever.
#[tokio::test]
async fn abandoned_calls_open_the_breaker() {
    let hook = Hook::start(|_, _| Answer::Hangs).await;
    let broker = Broker::in_memory_with(hook.of(OnRouterError::Accept)).await;
    topics(&broker).await;
    for _ in 0..5 {
        let path = "/v1/produce?topic=orders&value=a";
        let gone = tokio::time::timeout(TIMEOUT / 3, broker.post_query(path)).await;
        assert!(gone.is_err(), "the hook hangs");
    }
    // The server notices a closed connection a little later. Calls that time out would open the
    // breaker too, so fewer of them than it takes are allowed.
    for _ in 0..4 {
        let sent = Instant::now();
        produce(&broker, json!({})).await;
        if sent.elapsed() < TIMEOUT / 2 {
            return;
        }
    }
    panic!("five abandoned calls do not open the breaker");
}
