//! A result is replayed byte for byte, however it was encoded.

use serde_json::{Value, json};

use super::named;
use crate::broker::Broker;
use crate::client::Client;

/// Results in many JSON notations.
const ODD: [&str; 14] = [
    r#"{"charge":"ch_1"}"#,
    r#"{ "b" : 1 ,"a":  2 }"#,
    "{\n\t\"a\" :\r\n [ 1 , 2 ]\n}",
    "[]",
    "{}",
    "\"\"",
    "0",
    "-0.0",
    "1.50e+01",
    "123456789012345678901234567890.000",
    "true",
    "\"ü\u{1f980} \u{2028}\"",
    r#""\u00fc \ud83e\udd80 \/ \" \\""#,
    r#"{"":{"":[[[]]]},"a":null}"#,
];

async fn finish_raw(broker: &Client, key: &str, result: &str) {
    let began = broker.execute(key, json!({ "on_doubt": "park" })).await;
    let token = &began["token"];
    let body = format!(r#"{{"token":{token},"status":"SUCCEEDED","result":{result}}}"#);
    broker.ask("POST", "/v1/effects/finish").body(body.clone()).send().await.is(200);
    let again = broker.ask("POST", "/v1/effects/finish").body(body).send().await.is(200);
    assert_eq!(again["repeated"], true, "{result}");
}

#[track_caller]
fn holds(answer: &crate::client::Answer, result: &str) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = std::str::from_utf8(&answer.body).expect("text");
    let written = format!(r#""result":{result},""#);
    assert!(text.contains(&written), "{result} is not in {text}");
}

#[tokio::test]
async fn json_is_replayed_byte_for_byte() {
    let broker = Broker::start().await;
    for (number, result) in ODD.into_iter().enumerate() {
        let key = number.to_string();
        finish_raw(&broker, &key, result).await;
        holds(&broker.begin(named(&key), json!({ "on_doubt": "park" })).await, result);
        holds(&broker.post("/v1/effects/reacquire", named(&key)).await, result);
        holds(&broker.get(format!("/v1/effects?scope=op/charge&key={key}")).await, result);
    }
}

#[tokio::test]
async fn the_same_value_in_another_notation_is_another_outcome() {
    let broker = Broker::start().await;
    let began = broker.execute("k", json!({ "on_doubt": "park" })).await;
    let token = &began["token"];
    let body = |result| format!(r#"{{"token":{token},"status":"SUCCEEDED","result":{result}}}"#);
    let finish =
        async |result| broker.ask("POST", "/v1/effects/finish").body(body(result)).send().await;
    finish(r#"{"a":1}"#).await.is(200);
    finish(r#"{"a": 1}"#).await.refused(422, "CONFLICT");
    finish(r#"{"a":1.0}"#).await.refused(422, "CONFLICT");
    // Whitespace around the value is not part of it.
    assert_eq!(finish("   {\"a\":1}\n").await.is(200)["repeated"], true);
}

#[tokio::test]
async fn bytes_are_replayed_as_base64() {
    let broker = Broker::start().await;
    for (key, bytes) in [("some", "/wD+"), ("one", "AA=="), ("none", "")] {
        let began = broker.execute(key, json!({ "on_doubt": "park" })).await;
        let how = json!({ "status": "SUCCEEDED", "result_base64": bytes });
        broker.finish(&began, how.clone()).await.is(200);
        assert_eq!(broker.finish(&began, how).await.is(200)["repeated"], true);
        for shown in [
            broker.begin(named(key), json!({ "on_doubt": "park" })).await.is(200),
            broker.effect("op/charge", key).await,
        ] {
            assert_eq!((&shown["result_base64"], shown.get("result")), (&json!(bytes), None));
        }
    }
}

#[tokio::test]
async fn an_absent_result_equals_null() {
    let broker = Broker::start().await;
    for (key, how) in [
        ("absent", json!({ "status": "SUCCEEDED" })),
        ("null", json!({ "status": "SUCCEEDED", "result": null, "result_base64": null })),
    ] {
        let began = broker.execute(key, json!({ "on_doubt": "park" })).await;
        broker.finish(&began, how).await.is(200);
        // Absent and null are equal.
        assert_eq!(
            broker.finish(&began, json!({ "status": "SUCCEEDED" })).await.is(200)["repeated"],
            true
        );
        let shown = broker.effect("op/charge", key).await;
        assert_eq!((shown.get("result"), shown.get("result_base64")), (None, None));
    }
}

#[tokio::test]
async fn an_invalid_result_is_rejected() {
    let broker = Broker::start().await;
    let began = broker.execute("k", json!({ "on_doubt": "park" })).await;
    let token = &began["token"];
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for (result, field) in [
        (r#""result":{"a":1,"a":2}"#.to_owned(), "result"),
        (r#""result":[{"b":{"a":1,"\u0061":2}}]"#.to_owned(), "result"),
        (format!(r#""result":{}"#, nested(32)), "result"),
        (format!(r#""result":{}"#, nested(5_000)), "result"),
        (r#""result":"\ud800""#.to_owned(), "result"),
        (r#""result":{"\udc00":1}"#.to_owned(), "result"),
        (r#""result":1,"result_base64":"AA==""#.to_owned(), "result"),
        (r#""result_base64":"AA""#.to_owned(), "result_base64"),
        (r#""result_base64":"-_=="#.to_owned() + "\"", "result_base64"),
        (r#""result_base64":"A A=""#.to_owned(), "result_base64"),
        (r#""result_base64":1"#.to_owned(), "result_base64"),
    ] {
        let body = format!(r#"{{"token":{token},"status":"SUCCEEDED",{result}}}"#);
        let answer = broker.ask("POST", "/v1/effects/finish").body(body).send().await;
        let said = answer.json();
        assert_eq!((answer.status, &said["field"]), (400, &json!(field)), "{result:.80}: {said}");
    }
    // Truncated JSON and invalid text.
    for result in [&b"{"[..], b"01", b"'a'", b"nul", b"\"\xff\"", b"[1,]"] {
        let head = format!(r#"{{"token":{token},"status":"SUCCEEDED","result":"#);
        let body = [head.as_bytes(), result, b"}"].concat();
        let answer = broker.ask("POST", "/v1/effects/finish").body(body).send().await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
    let body = format!(r#"{{"token":{token},"status":"SUCCEEDED","result":{}}}"#, nested(31));
    let answer = broker.ask("POST", "/v1/effects/finish").body(body).send().await;
    assert_eq!(answer.is(200)["repeated"], false, "none of them stored anything");
}

#[tokio::test]
async fn finished_effects_are_not_listed() {
    let broker = Broker::start().await;
    finish_raw(&broker, "k", "1").await;
    broker.execute("open", json!({ "on_doubt": "park" })).await;
    let list = broker.get("/v1/effects?state=IN_PROGRESS").await.is(200);
    let keys: Vec<&Value> =
        list["effects"].as_array().expect("a list").iter().map(|e| &e["key"]).collect();
    assert_eq!(keys, [&json!("open")], "finished effects are not listed");
}
