//! The replies of begin over HTTP: the columns of `docs/reference/effect-table.md`, alone and under a
//! delivery.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ended, named, under};
use crate::broker::Broker;
use crate::client::{Answer, Client};
use crate::verbs::{fields, time, token, wanted, with};

/// How the effect reached its state.
#[derive(Clone, Copy, Debug)]
enum Before {
    Nothing,
    /// A worker holds the effect.
    Held,
    Ended(&'static str),
    /// The lease of the holder expired.
    Expired,
    /// Like `Ended("UNKNOWN")`, with the provider window over.
    PastWindow,
}

use Before::{Ended, Expired, Held, Nothing, PastWindow};

/// Whether the next begin is alone or under a delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Alone,
    Under,
}

/// The expected reply of a cell.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Execute,
    /// Execution granted, with the previous fence in doubt for this cause.
    ExecuteInDoubt(&'static str),
    ExecuteNext,
    Probe(&'static str),
    Replay(&'static str),
    Retryable,
    InProgress,
    Parked(&'static str),
}

use Expected::{
    Execute, ExecuteInDoubt, ExecuteNext, InProgress, Parked, Probe, Replay, Retryable,
};

impl Expected {
    fn decision(self) -> &'static str {
        match self {
            Execute | ExecuteInDoubt(_) | ExecuteNext => "EXECUTE",
            Probe(_) | Parked(_) => "IN_DOUBT",
            Replay(_) => "REPLAY",
            Retryable => "RETRYABLE",
            InProgress => "IN_PROGRESS",
        }
    }

    /// The reply in a cell of the page.
    fn read(cell: &str, before: Before) -> Expected {
        let cause = if let Expired = before { "lease_expired" } else { "reported" };
        match (cell, before) {
            ("execute", Nothing) => Execute,
            ("execute", _) => ExecuteNext,
            ("execute, in doubt", _) => ExecuteInDoubt(cause),
            ("probe", _) => Probe(cause),
            ("replay", Ended(state)) => Replay(state),
            ("retryable", _) => Retryable,
            ("in progress", _) => InProgress,
            ("parked", _) => Parked(cause),
            _ => panic!("unexpected cell `{cell}` for {before:?}"),
        }
    }
}

const REQUEST: &str = r#"{"amount":1200}"#;

/// One cell: its own effect, with everything needed to begin it again.
struct Cell<'a> {
    broker: &'a Client,
    /// The name of the topic and the key.
    name: String,
    way: Way,
    /// The latest delivery, if the effect is under one.
    named: Value,
    began: Value,
}

impl Cell<'_> {
    async fn set<'a>(broker: &'a Client, way: Way, before: Before, on_doubt: &str) -> Cell<'a> {
        let topics = broker.get("/v1/topics").await.is(200);
        let name = format!("t{}", topics["topics"].as_array().map_or(0, Vec::len));
        let policy = json!({ "max_attempts": 9, "backoff_ms": 0, "max_backoff_ms": 0 });
        broker.topic_with(&name, 1, json!({ "retry_policy": policy })).await;
        broker.produce(&name, "x").await;
        let short = json!({ "lease_ms": 250 });
        let mut how = json!({ "on_doubt": on_doubt, "request": REQUEST, "owner": "first",
            "nonce": "n1", "provider_window_ms": 86_400_000 });
        if let PastWindow = before {
            how["provider_window_ms"] = json!(1);
        }
        let expires = matches!(before, Expired);
        let named = match way {
            Way::Alone if expires => with(named(&name), short),
            Way::Alone => named(&name),
            Way::Under => {
                let lease = if expires { short } else { json!({}) };
                let delivery = broker.receive_with(with(wanted(&name, "g", "o"), lease)).await;
                with(under(&delivery), json!({ "key": name }))
            }
        };
        let mut cell = Cell { broker, name, way, named, began: Value::Null };
        if !matches!(before, Nothing) {
            cell.began = cell.broker.begin(cell.named.clone(), how).await.is(200);
        }
        cell.bring(before).await;
        cell
    }

    async fn bring(&mut self, before: Before) {
        let status = match before {
            Nothing | Held => return,
            Ended(status) => status,
            PastWindow => "UNKNOWN",
            Expired => {
                match self.way {
                    Way::Alone => {
                        self.named = named(&self.name);
                        self.broker.until_held_no_longer(&self.scope(), &self.name).await;
                    }
                    Way::Under => self.redeliver().await,
                }
                return;
            }
        };
        self.broker.finish(&self.began, ended(status)).await.is(200);
        if let PastWindow = before {
            self.broker.until_effect(&self.scope(), &self.name, "PARKED").await;
        }
    }

    /// Receives the next attempt.
    async fn redeliver(&mut self) {
        let delivery = self.broker.receive(&self.name, "g", "o").await;
        self.named = with(under(&delivery), json!({ "key": self.name }));
    }

    fn scope(&self) -> String {
        match self.way {
            Way::Alone => "op/charge".to_owned(),
            Way::Under => format!("effect/{}/g", self.name),
        }
    }

    async fn look(&self) -> Value {
        self.broker.effect(&self.scope(), &self.name).await
    }

    /// Begins the same effect as another owner.
    async fn begin(&self, more: Value) -> Answer {
        let how = with(json!({ "on_doubt": "park", "request": REQUEST, "owner": "second" }), more);
        self.broker.begin(self.named.clone(), how).await
    }

    #[track_caller]
    fn check(&self, answer: &Answer, expected: Expected) {
        let doubt = |body: &Value, cause: &str| {
            let doubt = &body["doubt"];
            assert_eq!(fields(doubt), ["began_at", "cause", "fence", "owner", "since"]);
            assert_eq!((&doubt["fence"], &doubt["owner"]), (&json!(1), &json!("first")), "{body}");
            assert_eq!(doubt["cause"], cause, "{body}");
            assert!(time(&doubt["since"]) >= time(&doubt["began_at"]), "{body}");
        };
        let granted = |fence: u64| {
            let body = answer.is(200);
            assert_eq!(body["fence"], fence, "{body}");
            assert_eq!((&body["scope"], &body["key"]), (&json!(self.scope()), &json!(self.name)));
            assert_eq!(body["tenant_id"], "default", "{body}");
            assert!(body["token"].as_str().is_some_and(|token| token.starts_with("et_")), "{body}");
            time(&body["expires_at"]);
            is_downstream_key(&body["downstream_key"]);
            if fence > 1 {
                assert_eq!(body["downstream_key"], self.began["downstream_key"]);
                assert_eq!(body["downstream_until"], self.began["downstream_until"]);
                assert_ne!(body["token"], self.began["token"]);
            }
            body
        };
        let over = |decision: &str, state: &str| {
            let body = answer.is(200);
            assert_eq!(body["decision"], decision, "{body}");
            assert_eq!(body["state"], state, "{body}");
            let status = if state == "SUCCEEDED" { "COMMITTED" } else { "FAILED" };
            assert_eq!(body["status"], status, "{body}");
            assert_eq!((&body["fence"], &body["code"]), (&json!(1), &json!(0)), "{body}");
            time(&body["finished_at"]);
            for field in ["token", "expires_at", "downstream_key", "doubt", "action"] {
                assert_eq!(body.get(field), None, "{body}");
            }
        };
        match expected {
            Execute => {
                let body = granted(1);
                assert_eq!((&body["decision"], body.get("doubt")), (&json!("EXECUTE"), None));
            }
            ExecuteNext => {
                let body = granted(2);
                assert_eq!((&body["decision"], body.get("doubt")), (&json!("EXECUTE"), None));
            }
            ExecuteInDoubt(cause) => {
                let body = granted(2);
                assert_eq!(body["decision"], "EXECUTE", "{body}");
                doubt(&body, cause);
            }
            Probe(cause) => {
                let body = granted(2);
                assert_eq!(
                    (&body["decision"], &body["action"]),
                    (&json!("IN_DOUBT"), &json!("probe"))
                );
                doubt(&body, cause);
            }
            Replay(state) => over("REPLAY", state),
            Retryable => over("RETRYABLE", "FAILED_RETRYABLE"),
            InProgress => {
                let body = answer.refused(409, "IN_PROGRESS");
                assert_eq!(body["decision"], "IN_PROGRESS");
                assert_eq!((&body["fence"], &body["owner"]), (&json!(1), &json!("first")));
                let left = body["retry_after_ms"].as_u64().expect("a time");
                assert!((20_000..=30_000).contains(&left), "the rest of the lease: {left}");
            }
            Parked(cause) => {
                let body = answer.refused(409, "IN_DOUBT");
                assert_eq!(
                    (&body["decision"], &body["action"]),
                    (&json!("IN_DOUBT"), &json!("park"))
                );
                assert_eq!(body["retry_after_ms"], 60_000);
                doubt(&body, cause);
            }
        }
    }
}

#[track_caller]
fn is_downstream_key(key: &Value) {
    let key = key.as_str().expect("a key");
    let is_so = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    assert!(key.starts_with("dq_") && key.len() == 43 && key[3..].chars().all(is_so), "{key}");
}

const PAGE: &str = include_str!("../../../../../docs/reference/effect-table.md");

/// The states of the page. Those under a later fence are not here: `finish` and `again` have tests for them.
const STATES: [(&str, Before); 8] = [
    ("not in the ledger", Nothing),
    ("in progress", Held),
    ("succeeded", Ended("SUCCEEDED")),
    ("failed for good", Ended("FAILED_FINAL")),
    ("failed, may be executed again", Ended("FAILED_RETRYABLE")),
    ("finished as unknown", Ended("UNKNOWN")),
    ("in doubt because its lease expired", Expired),
    ("finished as unknown, past the provider window", PastWindow),
];

/// Every row, for one of the two forms: the state, the policy and the reply.
fn cells(of: Way) -> Vec<(Before, &'static str, Expected)> {
    let mut cells = Vec::new();
    let (_, table) = PAGE.split_once("| the effect is").expect("the page has the table");
    for (state, before) in STATES {
        let rows = table.lines().map(|line| line.trim_matches('|').split('|').map(str::trim));
        let rows = rows.map(Iterator::collect).filter(|row: &Vec<&str>| row[0] == state);
        let count = cells.len();
        cells.extend(rows.map(|row| {
            let cell = if of == Way::Alone { row[2] } else { row[3] };
            (before, row[1], Expected::read(cell, before))
        }));
        assert!(cells.len() > count, "the page lacks {state}");
    }
    cells
}

async fn every_cell(way: Way) {
    let broker = Broker::start().await;
    for (before, on_doubt, expected) in cells(way) {
        let cell = Cell::set(&broker, way, before, on_doubt).await;
        let answer = cell.begin(json!({})).await;
        let decision = answer.json()["decision"].clone();
        assert_eq!(decision, expected.decision(), "{way:?} {before:?} {on_doubt}: {answer:?}");
        cell.check(&answer, expected);
    }
}

#[tokio::test]
async fn every_cell_of_the_table_holds_alone() {
    every_cell(Way::Alone).await;
}

#[tokio::test]
async fn every_cell_of_the_table_holds_under_a_delivery() {
    every_cell(Way::Under).await;
}

#[tokio::test]
async fn another_request_is_rejected_in_every_state_and_changes_nothing() {
    let broker = Broker::start().await;
    for way in [Way::Alone, Way::Under] {
        for (before, on_doubt, _) in
            cells(way).into_iter().filter(|cell| !matches!(cell.0, Nothing))
        {
            let cell = Cell::set(&broker, way, before, on_doubt).await;
            let shown = cell.look().await;
            for other in [
                json!({ "request": "other" }),
                json!({ "request": null }),
                json!({ "request": null, "request_hash": REQUEST }),
                json!({ "request": format!("{REQUEST} ") }),
                json!({ "request": "other", "nonce": "n1" }),
            ] {
                let body = cell.begin(other.clone()).await.refused(422, "CONFLICT");
                assert_eq!(body["field"], "request", "{way:?} {before:?} {other}: {body}");
            }
            assert_eq!(cell.look().await, shown, "{way:?} {before:?}");
        }
    }
}

#[tokio::test]
async fn an_absent_request_and_a_hash_are_compared_as_requests() {
    let broker = Broker::start().await;
    let park = json!({ "on_doubt": "park" });
    for (key, said, others) in [
        ("none", json!({}), [json!({ "request": "" }), json!({ "request_hash": "h" })]),
        ("empty", json!({ "request": "" }), [json!({}), json!({ "request": " " })]),
        ("hash", json!({ "request_hash": "h" }), [json!({ "request": "h" }), json!({})]),
    ] {
        let said = with(park.clone(), said);
        let began = broker.execute(key, said.clone()).await;
        for other in others {
            let answer = broker.begin(named(key), with(park.clone(), other)).await;
            assert_eq!(answer.refused(422, "CONFLICT")["field"], "request", "{key}");
        }
        broker.finish(&began, ended("SUCCEEDED")).await.is(200);
        assert_eq!(broker.begin(named(key), said).await.is(200)["decision"], "REPLAY");
    }
}

#[tokio::test]
async fn the_nonce_of_the_holder_returns_the_same_answer() {
    let broker = Broker::start().await;
    for way in [Way::Alone, Way::Under] {
        for on_doubt in ["retry", "probe", "park"] {
            let cell = Cell::set(&broker, way, Held, on_doubt).await;
            assert_eq!(cell.begin(json!({ "nonce": "n1" })).await.is(200), cell.began);
            for other in [json!({ "nonce": "n2" }), json!({ "nonce": null })] {
                cell.check(&cell.begin(other).await, InProgress);
            }
        }
    }
}

#[tokio::test]
async fn the_nonce_of_a_probing_worker_returns_the_probe_again() {
    let broker = Broker::start().await;
    for way in [Way::Alone, Way::Under] {
        let cell = Cell::set(&broker, way, Ended("UNKNOWN"), "probe").await;
        let probed = cell.begin(json!({ "nonce": "n2" })).await;
        cell.check(&probed, Probe("reported"));
        assert_eq!(cell.begin(json!({ "nonce": "n2" })).await.is(200), probed.is(200));
        let body = cell.begin(json!({ "nonce": "n1" })).await.refused(409, "IN_PROGRESS");
        assert_eq!((&body["fence"], &body["owner"]), (&json!(2), &json!("second")));
    }
}

#[tokio::test]
async fn a_nonce_is_ignored_once_the_effect_is_finished_or_in_doubt() {
    let broker = Broker::start().await;
    for way in [Way::Alone, Way::Under] {
        for (before, on_doubt, expected) in
            cells(way).into_iter().filter(|cell| !matches!(cell.0, Held | Nothing))
        {
            let cell = Cell::set(&broker, way, before, on_doubt).await;
            cell.check(&cell.begin(json!({ "nonce": "n1" })).await, expected);
        }
    }
}

#[tokio::test]
async fn the_doubt_policy_of_the_first_begin_applies() {
    let broker = Broker::start().await;
    let cell = Cell::set(&broker, Way::Alone, Ended("UNKNOWN"), "park").await;
    for on_doubt in ["retry", "probe", "park"] {
        cell.check(&cell.begin(json!({ "on_doubt": on_doubt })).await, Parked("reported"));
    }
    assert_eq!(cell.look().await["on_doubt"], "park");
}

#[tokio::test]
async fn a_begin_without_a_doubt_policy_is_rejected() {
    let broker = Broker::start().await;
    broker.begin(named("k"), json!({})).await.invalid("on_doubt");
    broker.begin(named("k"), json!({ "on_doubt": "hope" })).await.invalid("on_doubt");
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.begin(under(&delivery), json!({})).await.invalid("on_doubt");
    broker.patch("/v1/topics/t", json!({ "settings": { "on_doubt": "probe" } })).await.is(200);
    let began = broker.begin(under(&delivery), json!({})).await.is(200);
    assert_eq!(began["decision"], "EXECUTE");
    let key = began["key"].as_str().expect("a key");
    assert_eq!(broker.effect("effect/t/g", key).await["on_doubt"], "probe", "the topic's");
}

#[tokio::test]
async fn an_expired_outcome_allows_a_new_execution() {
    let broker = Broker::in_memory().await;
    let how = json!({ "on_doubt": "park", "ttl_ms": 60_000 });
    for status in ["SUCCEEDED", "FAILED_FINAL", "FAILED_RETRYABLE"] {
        let began = broker.execute(status, how.clone()).await;
        broker.finish(&began, ended(status)).await.is(200);
    }
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    for status in ["SUCCEEDED", "FAILED_FINAL", "FAILED_RETRYABLE"] {
        // Another request is accepted too, because the first has expired.
        let anew = broker.execute(status, with(how.clone(), json!({ "request": "r" }))).await;
        assert_eq!(anew["fence"], 1, "{anew}");
    }
}

#[tokio::test]
async fn the_time_to_live_starts_with_the_last_change() {
    let broker = Broker::in_memory().await;
    let began = broker.execute("k", json!({ "on_doubt": "park", "ttl_ms": 60_000 })).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(600)).await;
    tokio::time::resume();
    broker.finish(&began, ended("SUCCEEDED")).await.is(200);
    let shown = broker.effect("op/charge", "k").await;
    assert_eq!(time(&shown["replay_until"]), time(&shown["updated_at"]) + 60_000);
}

#[tokio::test]
async fn a_begin_with_a_stale_lease_is_rejected() {
    type State = (&'static str, &'static [(&'static str, &'static str)]);
    let states: [State; 4] = [
        ("waiting", &[("nack", r#"{"delay_ms":600000}"#)]),
        ("leased", &[("nack", r#"{"delay_ms":0}"#), ("receive", "")]),
        ("dead", &[("nack", r#"{"dead_letter":true}"#)]),
        ("generation", &[("seek", "")]),
    ];
    for (state, steps) in states {
        let broker = Broker::start().await;
        broker.topic("t").await;
        broker.produce("t", "x").await;
        let delivery = broker.receive("t", "g", "o").await;
        for (step, how) in steps {
            match *step {
                "nack" => {
                    let how = serde_json::from_str(how).expect("JSON");
                    broker.nack(token(&delivery), how).await.is(204);
                }
                "receive" => drop(broker.receive("t", "g", "o").await),
                _ => {
                    let to = json!({ "to": "earliest" });
                    broker.post("/v1/topics/t/groups/g/seek", to).await.is(200);
                }
            }
        }
        let answer = broker.begin(under(&delivery), json!({ "on_doubt": "park" })).await;
        let body = answer.refused(409, "STALE_LEASE");
        assert_eq!((&body["state"], &body["attempt"]), (&json!(state), &json!(1)), "{body}");
        let list = broker.get("/v1/effects?state=IN_PROGRESS").await.is(200);
        assert_eq!(list, json!({ "effects": [] }));
    }
}

#[tokio::test]
async fn a_begin_under_a_settled_delivery_is_rejected() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    let delivery = broker.receive("t", "g", "o").await;
    broker.ack(token(&delivery)).await.is(204);
    let answer = broker.begin(under(&delivery), json!({ "on_doubt": "park" })).await;
    answer.refused(409, "STALE_LEASE");
}

#[tokio::test]
async fn tenant_scope_and_key_identify_an_effect() {
    let broker = Broker::start().await;
    let mut keys = std::collections::BTreeSet::new();
    for named in [
        json!({ "scope": "op/charge", "key": "k" }),
        json!({ "scope": "op/charge", "key": "K" }),
        json!({ "scope": "op/charg", "key": "ek" }),
        json!({ "scope": "op/mail", "key": "k" }),
        json!({ "scope": "op/charge", "key": "k", "tenant_id": "acme" }),
    ] {
        let began = broker.begin(named, json!({ "on_doubt": "park" })).await.is(200);
        assert_eq!(began["decision"], "EXECUTE", "{began}");
        keys.insert(began["downstream_key"].to_string());
    }
    assert_eq!(keys.len(), 5, "{keys:?}");
    // The empty tenant is the default one.
    for tenant in ["", "default"] {
        let same = with(named("k"), json!({ "tenant_id": tenant }));
        broker.begin(same, json!({ "on_doubt": "park" })).await.refused(409, "IN_PROGRESS");
    }
}
