//! A table of invalid requests. Each is rejected as the contract specifies, the server keeps
//! running, and nothing is stored. Malformed HTTP is in `bad_http`.

mod consume;
mod effects;
mod groups;
mod looks;
mod produce;
mod topics;

use serde_json::Value;

use crate::broker::Broker;
use crate::verbs::{wanted, with, without_rates};

/// One request and its rejection.
struct Row {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static [u8])>,
    body: Vec<u8>,
    refusal: Refusal,
}

#[derive(Clone, Copy)]
struct Refusal {
    status: u16,
    error: &'static str,
    /// The `field`, or the `kind` of the missing resource; empty if there is neither.
    names: &'static str,
}

const fn invalid(field: &'static str) -> Refusal {
    Refusal { status: 400, error: "INVALID_ARGUMENT", names: field }
}

const fn missing(kind: &'static str) -> Refusal {
    Refusal { status: 404, error: "NOT_FOUND", names: kind }
}

const fn unmet() -> Refusal {
    Refusal { status: 409, error: "FAILED_PRECONDITION", names: "" }
}

const fn too_large(field: &'static str) -> Refusal {
    Refusal { status: 413, error: "TOO_LARGE", names: field }
}

const fn no_method() -> Refusal {
    Refusal { status: 405, error: "METHOD_NOT_ALLOWED", names: "" }
}

/// Requests without a body, one row for each (path, rejection).
fn asked<const N: usize>(method: &'static str, rows: [(&str, Refusal); N]) -> Vec<Row> {
    let row = |(path, refusal): (&str, _)| Row {
        method,
        path: path.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        refusal,
    };
    rows.into_iter().map(row).collect()
}

/// Requests with a body to one path, one row for each (body, rejection).
fn said<const N: usize>(
    method: &'static str,
    path: &str,
    rows: [(impl Into<Vec<u8>>, Refusal); N],
) -> Vec<Row> {
    let row = |(body, refusal): (_, _)| {
        let (path, headers, body) = (path.to_owned(), Vec::new(), Into::into(body));
        Row { method, path, headers, body, refusal }
    };
    rows.into_iter().map(row).collect()
}

/// Every route with a valid path.
const ROUTES: [(&str, &str); 43] = [
    ("GET", "/v1/audit"),
    ("GET", "/v1/audit/records"),
    ("GET", "/v1/healthz"),
    ("GET", "/v1/readyz"),
    ("GET", "/v1/version"),
    ("GET", "/metrics"),
    ("GET", "/v1/topics"),
    ("POST", "/v1/topics"),
    ("GET", "/v1/topics/t"),
    ("PATCH", "/v1/topics/t"),
    ("DELETE", "/v1/topics/t"),
    ("GET", "/v1/topics/t/messages"),
    ("GET", "/v1/topics/t/groups"),
    ("GET", "/v1/topics/t/groups/g"),
    ("PUT", "/v1/topics/t/groups/g"),
    ("DELETE", "/v1/topics/t/groups/g"),
    ("POST", "/v1/topics/t/groups/g/pause"),
    ("POST", "/v1/topics/t/groups/g/resume"),
    ("POST", "/v1/topics/t/groups/g/seek"),
    ("POST", "/v1/produce"),
    ("POST", "/v1/produce/batch"),
    ("GET", "/v1/consume"),
    ("POST", "/v1/consume"),
    ("POST", "/v1/receive"),
    ("POST", "/v1/ack"),
    ("POST", "/v1/nack"),
    ("POST", "/v1/extend"),
    ("POST", "/v1/settle"),
    ("GET", "/v1/dlq/t"),
    ("POST", "/v1/dlq/t/redrive"),
    ("POST", "/v1/dlq/t/purge"),
    ("GET", "/v1/explain"),
    ("POST", "/v1/effects/begin"),
    ("POST", "/v1/effects/finish"),
    ("POST", "/v1/effects/reacquire"),
    ("POST", "/v1/effects/extend"),
    ("POST", "/v1/effects/resolve"),
    ("GET", "/v1/effects"),
    ("GET", "/v1/nodes"),
    ("POST", "/v1/nodes/n_0000000000000001/drain"),
    ("POST", "/v1/nodes/n_0000000000000001/undrain"),
    ("GET", "/v1/shards"),
    ("POST", "/v1/shards/0/move"),
];

/// Requests that every route rejects.
fn anywhere() -> Vec<Row> {
    let deep = format!("{{\"bogus\":{}{}}}", "[".repeat(33), "]".repeat(33));
    let very_deep = "[".repeat(100_000);
    let bodies: [(&[u8], Refusal); 11] = [
        (b"{", invalid("")),
        (b"{\"bogus\":1}", invalid("bogus")),
        (deep.as_bytes(), invalid("bogus")),
        (very_deep.as_bytes(), invalid("")),
        (b"[]", invalid("")),
        (b"null", invalid("")),
        (b"7", invalid("")),
        (b"{'name':'n'}", invalid("")),
        (b"\xef\xbb\xbf{}", invalid("")),
        (b"\xff", invalid("")),
        (b"\0", invalid("")),
    ];
    let queries = [
        ("?bogus=1", invalid("bogus")),
        ("?bogus", invalid("bogus")),
        ("?bogus=%FF", invalid("")),
        ("?%FF=1", invalid("")),
        ("?topic%00=t", invalid("topic\0")),
    ];
    let mut rows = Vec::new();
    for (method, path) in ROUTES {
        rows.extend(said(method, path, bodies));
        for (query, refusal) in queries {
            rows.extend(asked(method, [(&*format!("{path}{query}"), refusal)]));
        }
        rows.extend(said(method, &format!("{path}?bogus=1"), [("{}", invalid(""))]));
        rows.extend(asked("TRACE", [(path, no_method())]));
        for encoding in [&b"gzip"[..], b"identity, br"] {
            let mut compressed = said(method, path, [(b"\x1f\x8b\x08", invalid(""))]);
            compressed[0].headers.push(("content-encoding", encoding));
            rows.extend(compressed);
        }
    }
    rows
}

fn long(letters: usize) -> String {
    "a".repeat(letters)
}

/// A topic with messages (one leased, one dead) and effects (one in progress, one parked), with the
/// ids and tokens of these.
struct Stage {
    broker: Broker,
    token: String,
    grant: String,
    dead: String,
    before: Vec<Value>,
}

impl Stage {
    async fn set() -> Stage {
        let broker = Broker::start().await;
        broker.topic_with("t", 2, Value::Null).await;
        for value in ["x", "y", "z"] {
            broker.produce("t", value).await;
        }
        // No lease may expire while the table is processed.
        let for_long = serde_json::json!({ "lease_ms": 43_200_000 });
        let dies = broker.receive_with(with(wanted("t", "g", "o"), for_long.clone())).await;
        broker
            .nack(crate::verbs::token(&dies), serde_json::json!({ "dead_letter": true }))
            .await
            .is(204);
        let held = broker.receive_with(with(wanted("t", "g", "o"), for_long.clone())).await;
        let token = held["lease"]["token"].as_str().expect("a token").to_owned();
        let letters = broker.get("/v1/dlq/t").await.is(200);
        let dead = letters["dead_letters"][0]["id"].as_str().expect("an id").to_owned();
        let gone = |group: &Value| crate::verbs::connections(group).is_empty();
        broker.until_group("t", "g", "that its polls are over", gone).await;
        let mut grant = String::new();
        for key in ["parked", "held"] {
            let named = serde_json::json!({ "scope": "op/a", "key": key, "on_doubt": "park" });
            let began = broker.begin(named, for_long.clone()).await.is(200);
            grant = began["token"].as_str().expect("a token").to_owned();
            if key == "parked" {
                broker.finish(&began, serde_json::json!({ "status": "UNKNOWN" })).await.is(200);
            }
        }
        let mut stage = Stage { broker, token, grant, dead, before: Vec::new() };
        stage.before = stage.stored().await;
        stage
    }

    /// All state that a request could have changed.
    async fn stored(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for path in [
            "/v1/topics?detail=true",
            "/v1/topics/t/groups/g",
            "/v1/topics/t/messages?group=g",
            "/v1/dlq/t?state=all",
            "/v1/effects?state=IN_PROGRESS",
            "/v1/effects?state=PARKED",
            "/v1/audit",
        ] {
            all.push(without_rates(self.broker.get(path).await.is(200)));
        }
        all
    }

    async fn try_all(&self, rows: Vec<Row>) {
        let mut wrong = Vec::new();
        for row in rows {
            let Row { method, path, headers, body, refusal } = row;
            let (path, body) = (self.fill(path.into_bytes()), self.fill(body));
            let path = String::from_utf8(path).expect("a path is text");
            let shown: String = String::from_utf8_lossy(&body).chars().take(120).collect();
            let mut ask = self.broker.ask(method, path.clone()).body(body);
            for (name, value) in headers {
                ask = ask.header(name, value);
            }
            let answer = ask.send().await;
            let said = answer.json();
            let names = if refusal.status == 404 { &said["kind"] } else { &said["field"] };
            let is_so = answer.status == refusal.status
                && said["error"] == refusal.error
                && names.as_str().unwrap_or_default() == refusal.names;
            if is_so {
                answer.refused(refusal.status, refusal.error);
            } else {
                wrong.push(format!("{method} {path} {shown}\n  -> {} {said}", answer.status));
            }
            for (after, before) in self.stored().await.iter().zip(&self.before) {
                assert_eq!(after, before, "{method} {path} {shown}\n  -> {}", answer.status);
            }
        }
        assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    }

    fn fill(&self, text: Vec<u8>) -> Vec<u8> {
        match String::from_utf8(text) {
            // Tokens are replaced last: a token may contain the letters of another placeholder.
            Ok(text) => text
                .replace("ID", &self.dead)
                .replace("GRANT", &self.grant)
                .replace("TOKEN", &self.token)
                .into_bytes(),
            Err(bytes) => bytes.into_bytes(),
        }
    }
}

fn all() -> Vec<Row> {
    let tables = [
        topics::topics(),
        groups::groups(),
        produce::produce(),
        consume::consume(),
        consume::settle(),
        looks::looks(),
        looks::dead_letters(),
        effects::begins(),
        effects::outcomes(),
        effects::lookups(),
    ];
    tables.into_iter().flatten().collect()
}

#[tokio::test]
async fn input_that_is_invalid_on_every_route_is_rejected_and_stores_nothing() {
    Stage::set().await.try_all(anywhere()).await;
}

#[tokio::test]
async fn input_that_is_invalid_on_one_route_is_rejected_and_stores_nothing() {
    Stage::set().await.try_all(all()).await;
}

#[test]
fn every_route_has_at_least_eight_rows() {
    assert!(all().len() >= 150, "{} rows", all().len());
    let mut table = anywhere();
    table.extend(all());
    for (method, path) in ROUTES {
        let is_of = |row: &&Row| row.method == method && row.path.split('?').next() == Some(path);
        let count = table.iter().filter(is_of).count();
        assert!(count >= 8, "{method} {path} has {count} rows");
    }
}
