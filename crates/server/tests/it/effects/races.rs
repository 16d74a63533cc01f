//! Concurrent requests: one executes, and one outcome counts.

use serde_json::{Value, json};

use super::named;
use crate::broker::Broker;
use crate::client::{Answer, Client};

const MANY: usize = 20;

/// Sends one request per body, all at once.
async fn all_at_once(broker: &Client, path: &str, body: impl Fn(usize) -> Value) -> Vec<Answer> {
    let asked: Vec<_> = (0..MANY)
        .map(|number| {
            let (broker, path, body) = (broker.clone(), path.to_owned(), body(number));
            tokio::spawn(async move { broker.post(path, body).await })
        })
        .collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.expect("an answer"));
    }
    answers
}

fn count(answers: &[Answer], status: u16, field: &str, is: &Value) -> usize {
    answers.iter().filter(|answer| answer.status == status && answer.json()[field] == *is).count()
}

#[tokio::test]
async fn of_many_concurrent_begins_one_executes() {
    let broker = Broker::start().await;
    let begin = |number: usize| json!({ "scope": "op/charge", "key": "k", "on_doubt": "retry", "nonce": number.to_string() });
    let began = all_at_once(&broker, "/v1/effects/begin", begin).await;
    assert_eq!(count(&began, 200, "decision", &json!("EXECUTE")), 1);
    assert_eq!(count(&began, 409, "error", &json!("IN_PROGRESS")), MANY - 1);
}

#[tokio::test]
async fn of_many_concurrent_retries_of_doubt_one_executes() {
    let broker = Broker::start().await;
    for on_doubt in ["retry", "probe"] {
        let began = broker.execute(on_doubt, json!({ "on_doubt": on_doubt })).await;
        broker.finish(&began, json!({ "status": "UNKNOWN" })).await.is(200);
        let again = all_at_once(&broker, "/v1/effects/reacquire", |_| named(on_doubt)).await;
        assert_eq!(count(&again, 200, "fence", &json!(2)), 1, "{on_doubt}");
        assert_eq!(count(&again, 409, "fence", &json!(2)), MANY - 1, "{on_doubt}");
    }
}

#[tokio::test]
async fn of_many_concurrent_outcomes_one_counts() {
    let broker = Broker::start().await;
    let began = broker.execute("k", json!({ "on_doubt": "park" })).await;
    // Each result is sent twice. The second request with the accepted result is answered as a
    // repeat.
    let finish = |number: usize| json!({ "token": began["token"], "status": "SUCCEEDED", "result": number / 2 });
    let finished = all_at_once(&broker, "/v1/effects/finish", finish).await;
    assert_eq!(count(&finished, 200, "repeated", &json!(false)), 1);
    assert_eq!(count(&finished, 200, "repeated", &json!(true)), 1);
    assert_eq!(count(&finished, 422, "field", &json!("outcome")), MANY - 2);
    let first = finished.iter().position(|answer| answer.status == 200).expect("one");
    assert_eq!(broker.effect("op/charge", "k").await["result"], json!(first / 2));
}
