//! Limits at their value and one past it, in the query form and the body form.

use serde_json::{Value, json};

use super::{ended, named, under};
use crate::broker::Broker;
use crate::verbs::{time, token, with};

fn park() -> Value {
    json!({ "on_doubt": "park" })
}

#[tokio::test]
async fn names_and_texts_have_length_limits() {
    let broker = Broker::start().await;
    let long = |count: usize| json!("x".repeat(count));
    let wide = |count: usize| json!("ü".repeat(count));
    for (field, value, is_taken) in [
        ("key", long(1), true),
        ("key", long(255), true),
        ("key", long(256), false),
        ("key", wide(127), true),
        ("key", wide(128), false),
        ("key", json!(""), false),
        ("key", json!("a\u{7f}b"), false),
        ("key", json!("a\nb"), false),
        ("key", json!(" /?&\u{1f980}\""), true),
        ("tenant_id", json!(""), true),
        ("tenant_id", long(255), true),
        ("tenant_id", long(256), false),
        ("nonce", long(1), true),
        ("nonce", long(64), true),
        ("nonce", long(65), false),
        ("nonce", wide(64), true),
        ("nonce", wide(65), false),
        ("nonce", json!(""), false),
        ("request_hash", long(1), true),
        ("request_hash", long(128), true),
        ("request_hash", long(129), false),
        ("request_hash", wide(128), true),
        ("request_hash", wide(129), false),
        ("request_hash", json!(""), false),
        ("owner", long(1), true),
        ("owner", long(255), true),
        ("owner", long(256), false),
        ("owner", json!(""), false),
        ("owner", json!("a\u{0}b"), false),
        ("request", json!(""), true),
        ("request", long(1 << 20), true),
        ("scope", json!(format!("op/{}", "x".repeat(128))), true),
        ("scope", json!(format!("op/{}", "x".repeat(129))), false),
        ("scope", json!("op/"), false),
        ("scope", json!("op"), false),
        ("scope", json!("op/-x"), false),
        ("scope", json!("op/a/b"), true),
        ("scope", json!("op//pkg.Service/Method"), true),
        ("scope", json!("op/a b"), false),
        ("scope", json!("OP/a"), false),
        ("scope", json!(""), false),
        ("scope", json!("sys/a"), false),
    ] {
        // Each case has its own key, unless the key itself is tested.
        let key =
            json!({ "scope": format!("op/{field}"), "key": value.to_string().len().to_string() });
        let how = with(with(key, park()), json!({ field: value }));
        let answer = broker.post("/v1/effects/begin", how.clone()).await;
        let shown: String = how.to_string().chars().take(90).collect();
        if is_taken {
            assert_eq!(answer.status, 200, "{shown}: {answer:?}")
        } else {
            assert_eq!(answer.status, 400, "{shown}: {answer:?}");
            answer.invalid(field);
        }
    }
}

#[tokio::test]
async fn durations_have_limits() {
    let broker = Broker::start().await;
    for (field, value, is_taken) in [
        ("lease_ms", 249i64, false),
        ("lease_ms", 250, true),
        ("lease_ms", 43_200_000, true),
        ("lease_ms", 43_200_001, false),
        ("lease_ms", 0, false),
        ("lease_ms", -1, false),
        ("ttl_ms", 59_999, false),
        ("ttl_ms", 60_000, true),
        ("ttl_ms", 31_536_000_000, true),
        ("ttl_ms", 31_536_000_001, false),
        ("ttl_ms", 0, false),
        ("ttl_ms", -1, false),
        ("provider_window_ms", 0, false),
        ("provider_window_ms", 1, true),
        ("provider_window_ms", 315_360_000_000, true),
        ("provider_window_ms", 315_360_000_001, false),
        ("provider_window_ms", -1, false),
        ("provider_window_ms", 9_007_199_254_740_992, false),
    ] {
        let key = format!("{field}{value}");
        let answer = broker.begin(named(&key), with(park(), json!({ field: value }))).await;
        if is_taken {
            answer.is(200);
        } else {
            answer.invalid(field);
        }
        let query = format!("scope=op/query&key={key}&on_doubt=park&{field}={value}");
        let answer = broker.post_query(format!("/v1/effects/begin?{query}")).await;
        assert_eq!(answer.status, if is_taken { 200 } else { 400 }, "{query}: {answer:?}");
    }
    let began = broker.execute("k", park()).await;
    for (lease_ms, is_taken) in [
        (249i64, false),
        (43_200_001, false),
        (0, false),
        (-1, false),
        (43_200_000, true),
        (250, true),
    ] {
        let body = json!({ "token": began["token"], "lease_ms": lease_ms });
        let answer = broker.post("/v1/effects/extend", body).await;
        if is_taken {
            answer.is(200);
        } else {
            answer.invalid("lease_ms");
        }
    }
    let began = broker.execute("again", park()).await;
    broker.finish(&began, ended("FAILED_RETRYABLE")).await.is(200);
    for lease_ms in [249, 43_200_001] {
        let body = with(named("again"), json!({ "lease_ms": lease_ms }));
        broker.post("/v1/effects/reacquire", body).await.invalid("lease_ms");
    }
}

#[tokio::test]
async fn omitted_durations_have_defaults() {
    let broker = Broker::start().await;
    let began = broker.execute("k", park()).await;
    let shown = broker.effect("op/charge", "k").await;
    assert_eq!(time(&began["expires_at"]), time(&shown["began_at"]) + 30_000);
    assert_eq!(shown.get("downstream_until"), None, "no provider window was set");
    assert_eq!(shown.get("owner"), None);
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    let shown = broker.effect("op/charge", "k").await;
    assert_eq!(shown["code"], 0);
    assert_eq!(time(&shown["replay_until"]), time(&shown["updated_at"]) + 604_800_000);
    // Under a delivery, the topic sets the time to live.
    let hour =
        json!({ "dedupe_ttl_ms": 3_600_000, "effect_ttl_ms": 3_600_000, "on_doubt": "park" });
    broker.topic_with("t", 1, hour).await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    for (key, ttl, kept) in [("topic", None, 3_600_000), ("own", Some(120_000), 120_000)] {
        let how = json!({ "key": key, "ttl_ms": ttl });
        let began = broker.begin(under(&delivery), how).await.is(200);
        broker.finish(&began, ended("SUCCEEDED")).await.is(200);
        assert_eq!(broker.effect("effect/t/g", key).await.get("replay_until"), None, "{kept}");
    }
    broker.ack(token(&delivery)).await.is(204);
    let left = async |key| {
        let shown = broker.effect("effect/t/g", key).await;
        time(&shown["replay_until"]) - time(&shown["began_at"])
    };
    assert!(
        (3_600_000..3_660_000).contains(&left("topic").await),
        "from the settle of its message"
    );
    assert!((120_000..180_000).contains(&left("own").await));
}

#[tokio::test]
async fn a_result_has_up_to_64_kib() {
    let broker = Broker::start().await;
    let limit = 64 << 10;
    let text = |bytes: usize| json!({ "result": "x".repeat(bytes - 2) });
    let bytes =
        |count: usize| json!({ "result_base64": data_encoding::BASE64.encode(&vec![0xfe; count]) });
    for (key, fits, is_over) in [
        ("text", text(limit), text(limit + 1)),
        ("bytes", bytes(limit), bytes(limit + 1)),
        ("bytes2", bytes(limit - 1), bytes(limit + 2)),
    ] {
        for status in ["SUCCEEDED", "FAILED_FINAL"] {
            let key = format!("{key}-{status}");
            let began = broker.execute(&key, park()).await;
            let answer = broker.finish(&began, with(ended(status), is_over.clone())).await;
            let body = answer.refused(413, "TOO_LARGE");
            assert_eq!(
                (&body["field"], &body["limit"]),
                (&json!("result"), &json!(limit)),
                "{body}"
            );
            assert!(body["size"].as_u64().is_some_and(|size| size > limit as u64), "{body}");
            broker.finish(&began, with(ended(status), fits.clone())).await.is(200);
            let shown = broker.effect("op/charge", &key).await;
            for (field, value) in fits.as_object().expect("one field") {
                assert_eq!(shown[field], *value);
            }
        }
        let began = broker.execute(&format!("{key}-doubt"), park()).await;
        broker.finish(&began, ended("UNKNOWN")).await.is(200);
        let how = json!({ "fence": 1, "as": "succeeded", "by": "ops", "reason": "r" });
        let resolve = with(named(&format!("{key}-doubt")), how);
        let answer = broker.post("/v1/effects/resolve", with(resolve.clone(), is_over)).await;
        answer.refused(413, "TOO_LARGE");
        broker.post("/v1/effects/resolve", with(resolve, fits)).await.is(200);
    }
}

#[tokio::test]
async fn whitespace_inside_a_result_counts_and_around_it_does_not() {
    let broker = Broker::start().await;
    let began = broker.execute("k", park()).await;
    let finish = async |result: String| {
        let body =
            format!(r#"{{"token":{},"status":"SUCCEEDED","result":{result}}}"#, began["token"]);
        broker.ask("POST", "/v1/effects/finish").body(body).send().await
    };
    let spaces = |count: usize| " ".repeat(count);
    finish(format!("[{}]", spaces((64 << 10) - 1))).await.refused(413, "TOO_LARGE");
    finish(format!("{}[{}]{}", spaces(9), spaces((64 << 10) - 2), spaces(9))).await.is(200);
}

#[tokio::test]
async fn a_code_has_32_bits() {
    let broker = Broker::start().await;
    for (number, (code, is_taken)) in [
        (json!(i32::MIN), true),
        (json!(i32::MAX), true),
        (json!(0), true),
        (json!(-1), true),
        (json!(i64::from(i32::MIN) - 1), false),
        (json!(i64::from(i32::MAX) + 1), false),
        (json!(1.5), false),
        (json!("1"), false),
        (json!(1e3), false),
    ]
    .into_iter()
    .enumerate()
    {
        let key = number.to_string();
        let began = broker.execute(&key, park()).await;
        let answer = broker.finish(&began, json!({ "status": "FAILED_FINAL", "code": code })).await;
        if is_taken {
            answer.is(200);
            assert_eq!(broker.effect("op/charge", &key).await["code"], code);
        } else {
            answer.invalid("code");
        }
    }
}

#[tokio::test]
async fn a_message_has_up_to_32_effects_in_a_group() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let mut delivery = broker.receive("t", "g", "o").await;
    let other = broker.receive("t", "h", "o").await;
    for number in 0..32 {
        let how = with(park(), json!({ "key": number.to_string(), "ttl_ms": 60_000 }));
        let began = broker.begin(under(&delivery), how).await.is(200);
        broker.finish(&began, ended("SUCCEEDED")).await.is(200);
        if number == 20 {
            // Effects count per message, not per attempt.
            broker.nack(token(&delivery), json!({ "delay_ms": 0 })).await.is(204);
            delivery = broker.receive("t", "g", "o").await;
        }
    }
    let one_more = with(park(), json!({ "key": "32" }));
    broker.begin(under(&delivery), one_more.clone()).await.invalid("key");
    let again = with(park(), json!({ "key": "31" }));
    assert_eq!(broker.begin(under(&delivery), again).await.is(200)["decision"], "REPLAY");
    let answer = broker.begin(under(&other), one_more).await;
    assert_eq!(answer.is(200)["decision"], "EXECUTE", "another group has its own limit");
    broker.ack(token(&delivery)).await.is(204);
}

#[tokio::test]
async fn wait_ms_is_at_most_a_minute() {
    let broker = Broker::start().await;
    let began = broker.execute("k", park()).await;
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    let path = "/v1/effects?scope=op/charge&key=k&wait_ms=";
    broker.get(format!("{path}60000")).await.is(200);
    for wait in ["60001", "-1", "1.5", ""] {
        broker.get(format!("{path}{wait}")).await.invalid("wait_ms");
    }
    for limit in ["0", "1001", "-1"] {
        broker.get(format!("/v1/effects?state=PARKED&limit={limit}")).await.invalid("limit");
    }
}

#[tokio::test]
async fn the_query_form_equals_the_body_form() {
    let broker = Broker::start().await;
    let query = "scope=op/charge&key=a%20b&tenant_id=acme&request=%7B%7D&on_doubt=probe&lease_ms=60000&ttl_ms=60000&provider_window_ms=86400000&owner=o&nonce=n";
    let by_query = broker.post_query(format!("/v1/effects/begin?{query}")).await.is(200);
    let body = json!({ "scope": "op/charge", "key": "a b", "tenant_id": "acme", "request": "{}",
        "on_doubt": "probe", "lease_ms": 60_000, "ttl_ms": 60_000,
        "provider_window_ms": 86_400_000, "owner": "o", "nonce": "n" });
    assert_eq!(broker.post("/v1/effects/begin", body).await.is(200), by_query);
    let token = by_query["token"].as_str().expect("a token");
    let post = async |query: String| broker.post_query(format!("/v1/effects/{query}")).await;
    post(format!("extend?token={token}&lease_ms=61000")).await.is(200);
    post(format!("finish?token={token}&status=UNKNOWN&code=-5&error=late")).await.is(200);
    let name = "scope=op/charge&key=a%20b&tenant_id=acme";
    let shown = broker.get(format!("/v1/effects?{name}")).await.is(200);
    assert_eq!((&shown["state"], &shown["error"]), (&json!("IN_DOUBT"), &json!("late")));
    let again =
        post(format!("reacquire?{name}&request=%7B%7D&lease_ms=60000&owner=p")).await.is(200);
    let token = again["token"].as_str().expect("a token");
    post(format!("finish?token={token}&status=UNKNOWN")).await.is(200);
    let why = "by=ops&reason=looked%20there&result_base64=%2FwD%2B&code=9";
    let record = post(format!("resolve?{name}&fence=2&as=succeeded&{why}")).await.is(200);
    assert_eq!((&record["result_base64"], &record["code"]), (&json!("/wD+"), &json!(9)));
    assert_eq!(record["resolution"]["reason"], "looked there");
}

#[tokio::test]
async fn the_idempotency_key_header_sets_the_key() {
    let broker = Broker::start().await;
    for (number, (header, key, is_taken)) in [
        ("k", Value::Null, true),
        ("\"k\"", Value::Null, true),
        ("k", json!("k"), true),
        ("\"k\"", json!("k"), true),
        ("k", json!("other"), false),
        ("", json!("k"), false),
        ("", Value::Null, false),
    ]
    .into_iter()
    .enumerate()
    {
        for verb in ["begin", "reacquire"] {
            let scope = format!("op/s{number}");
            let mut body = json!({ "scope": scope, "key": key });
            if verb == "begin" {
                body["on_doubt"] = json!("park");
            }
            let ask = broker.ask("POST", format!("/v1/effects/{verb}")).json(&body);
            let answer = ask.header("idempotency-key", header).send().await;
            // The effect begun before is still in progress.
            let status = match (is_taken, verb) {
                (true, "begin") => 200,
                (true, _) => 409,
                (false, _) => 400,
            };
            assert_eq!(answer.status, status, "{verb} {header} {key}: {answer:?}");
            if status == 200 {
                assert_eq!(answer.json()["key"], "k");
            }
        }
    }
    let nothing = json!({ "scope": "op/charge", "on_doubt": "park" });
    broker.post("/v1/effects/begin", nothing).await.invalid("key");
}
