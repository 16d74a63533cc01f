//! Every cell of `docs/reference/effect-table.md` that is about effects without a delivery.

use std::time::Duration;

use tokio_postgres::Client;

use crate::database::{connect, database};

const PAGE: &str = include_str!("../../../../docs/reference/effect-table.md");
const COLUMNS: [&str; 6] =
    ["begin", "begin under a delivery", "reacquire", "finish", "extend", "resolve"];

/// How an effect comes into a state of the page. `KEY` are its three names.
const SETUPS: &[(&str, &[&str])] = &[
    ("not in the ledger", &[]),
    ("in progress", &["BEGIN"]),
    ("succeeded", &["BEGIN", "FINISH(1, 'SUCCEEDED')"]),
    ("failed for good", &["BEGIN", "FINISH(1, 'FAILED_FINAL')"]),
    ("failed, may be executed again", &["BEGIN", "FINISH(1, 'FAILED_RETRYABLE')"]),
    ("finished as unknown", &["BEGIN", "FINISH(1, 'UNKNOWN')"]),
    ("in doubt because its lease expired", &["BEGIN lease", "wait"]),
    (
        "finished as unknown, past the provider window",
        &["BEGIN window", "FINISH(1, 'UNKNOWN')", "wait"],
    ),
    ("executed again, and held by a later fence", &["BEGIN", "FINISH(1, 'UNKNOWN')", "BEGIN"]),
    (
        "executed again, and succeeded under a later fence",
        &["BEGIN", "FINISH(1, 'UNKNOWN')", "BEGIN", "FINISH(2, 'SUCCEEDED')"],
    ),
];

/// Returns the fences of the executions.
async fn reach(client: &Client, steps: &[&str], key: &str, policy: &str) -> Vec<i64> {
    let mut fences = Vec::new();
    for step in steps {
        match step.split_once('(') {
            None if *step == "wait" => tokio::time::sleep(Duration::from_millis(30)).await,
            None => {
                let lease = if step.ends_with("lease") { "10 ms" } else { "1 h" };
                let window = if step.ends_with("window") { "'10 ms'" } else { "NULL" };
                let fence = ask(client, &format!(
                    "(driftq_begin('p', 'o', '{key}', 'h', '{policy}', gen_random_uuid()::text, \
                     '{lease}', '1 h', {window})).fence::text"
                ))
                .await;
                fences.push(fence.parse().expect("a number"));
            }
            Some((_, finish)) => {
                let (number, status) = finish.split_once(", ").expect("a fence and a status");
                let number: usize = number.parse().expect("a number");
                let fence = fences[number - 1];
                ask(client, &format!("driftq_finish('p', 'o', '{key}', {fence}, {status}")).await;
            }
        }
    }
    fences
}

async fn ask(client: &Client, call: &str) -> String {
    let row = client.query_one(&format!("SELECT {call}"), &[]).await.expect(call);
    row.get(0)
}

/// The cell that a reply belongs to.
fn cell(reply: &str) -> &'static str {
    match reply {
        "EXECUTE f" => "execute",
        "EXECUTE t" => "execute, in doubt",
        "PROBE t" => "probe",
        "REPLAY f" => "replay",
        "RETRYABLE f" => "retryable",
        "IN_PROGRESS f" => "in progress",
        "PARKED t" => "parked",
        "DONE" => "done",
        "STALE" => "stale",
        "CONFLICT" => "conflict",
        "NOT_IN_DOUBT" => "not in doubt",
        "NOT_FOUND" | "NOT_FOUND f" => "no such effect",
        _ => "another reply",
    }
}

#[tokio::test]
async fn every_cell_of_the_effect_table_holds() {
    let client = connect(&database().await).await;
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in PAGE.lines().skip_while(|line| !line.starts_with("| the effect is")).skip(2) {
        let row: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [state, policy, cells @ ..] = &row[..] else { panic!("no row: {line}") };
        assert_eq!(cells.len(), COLUMNS.len(), "{line}");
        let setup = SETUPS.iter().find(|(of, _)| of == state);
        let (_, steps) = setup.unwrap_or_else(|| panic!("no way into {state}"));
        for (column, expected) in COLUMNS.into_iter().zip(cells) {
            if expected.is_empty() || column == "begin under a delivery" {
                continue;
            }
            count += 1;
            let key = format!("k{count}");
            let fences = reach(&client, steps, &key, policy).await;
            let fence = fences.first().copied().unwrap_or(1);
            let names = format!("'p', 'o', '{key}'");
            let image = format!(
                "coalesce((SELECT string_agg(i::text, ',') FROM idempotency_keys AS i \
                 WHERE idempotency_key = '{key}'), '')"
            );
            let before = ask(&client, &image).await;
            let reply = ask(
                &client,
                &match column {
                    "begin" => format!(
                        "d.decision || ' ' || left(d.in_doubt::text, 1) \
                     FROM driftq_begin({names}, 'h', '{policy}', 'other') AS d"
                    ),
                    "reacquire" => format!(
                        "d.decision || ' ' || left(d.in_doubt::text, 1) \
                     FROM driftq_reacquire({names}, 'h', 'other') AS d"
                    ),
                    "finish" => format!("driftq_finish({names}, {fence}, 'SUCCEEDED')"),
                    "extend" => format!("driftq_extend({names}, {fence}, '2 h')"),
                    _ => format!("driftq_resolve({names}, {fence}, 'SUCCEEDED')"),
                },
            )
            .await;
            if cell(&reply) != *expected {
                wrong.push(format!("{state}, {policy}, {column}: `{reply}`, not `{expected}`"));
            }
            let changes = ["execute", "execute, in doubt", "probe", "done"].contains(expected);
            if !changes && ask(&client, &image).await != before {
                wrong.push(format!("{state}, {policy}, {column}: `{reply}`, and a change"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 80, "{count} cells");
}

#[tokio::test]
async fn another_request_under_a_used_key_is_a_conflict_in_every_state() {
    let client = connect(&database().await).await;
    for (number, (state, steps)) in SETUPS.iter().enumerate().skip(1) {
        let key = format!("k{number}");
        reach(&client, steps, &key, "retry").await;
        for call in [
            "driftq_begin('p', 'o', 'KEY', 'other', 'retry')",
            "driftq_reacquire('p', 'o', 'KEY', 'other')",
        ] {
            let call = format!("({}).decision", call.replace("KEY", &key));
            assert_eq!(ask(&client, &call).await, "CONFLICT", "{state}: {call}");
        }
    }
}

#[tokio::test]
async fn a_repeat_with_the_same_nonce_gets_the_same_reply() {
    let client = connect(&database().await).await;
    for (policy, first, second) in
        [("retry", "EXECUTE f", "EXECUTE t"), ("probe", "EXECUTE f", "PROBE t")]
    {
        let begin = |nonce: &str| {
            format!(
                "d.decision || ' ' || left(d.in_doubt::text, 1) \
                 FROM driftq_begin('p', 'o', '{policy}', 'h', '{policy}', '{nonce}') AS d"
            )
        };
        assert_eq!(ask(&client, &begin("1")).await, first);
        assert_eq!(ask(&client, &begin("1")).await, first);
        let unknown =
            "UPDATE idempotency_keys SET lease_until = 'epoch' WHERE status = 'IN_PROGRESS'";
        client.execute(unknown, &[]).await.expect("its lease ends");
        assert_eq!(ask(&client, &begin("2")).await, second);
        assert_eq!(ask(&client, &begin("2")).await, second, "{policy}");
        assert_eq!(ask(&client, &begin("")).await, "IN_PROGRESS f");
    }
}

#[tokio::test]
async fn a_key_that_has_expired_does_not_accept_its_old_fence() {
    let client = connect(&database().await).await;
    let begin = "(driftq_begin('p', 'o', 'k', 'h', 'park', NULL, '1 h', '10 ms')).fence::text";
    let old = ask(&client, begin).await;
    let finish = |fence: &str| format!("driftq_finish('p', 'o', 'k', {fence}, 'SUCCEEDED')");
    assert_eq!(ask(&client, &finish(&old)).await, "DONE");
    tokio::time::sleep(Duration::from_millis(30)).await;
    let new = ask(&client, begin).await;
    assert_eq!(ask(&client, &finish(&old)).await, "STALE");
    assert_eq!(ask(&client, &finish("NULL")).await, "STALE");
    assert_eq!(ask(&client, &finish(&new)).await, "DONE");
}

#[tokio::test]
async fn an_envelope_without_a_key_gets_one_and_another_value_is_rejected() {
    let client = connect(&database().await).await;
    let enqueue = |envelope: &str| format!("driftq_enqueue('t', 'x', '', '{envelope}')");
    assert!(ask(&client, &enqueue(r#"{"idempotency_key": null}"#)).await.starts_with("outbox-"));
    for envelope in ["[]", "3", r#"{"idempotency_key": 7}"#, r#"{"idempotency_key": ""}"#] {
        let query = format!("SELECT {}", enqueue(envelope));
        assert!(client.query_one(&query, &[]).await.is_err(), "{envelope}");
    }
}
