//! A world with a topic, a group, deliveries and dead letters, and a valid request for every route.

use serde_json::{Value, json};

use crate::ask::Ask;
use crate::wire::{Wire, get, post, request};

/// Messages in the world. Some are leased and some are dead letters.
const MESSAGES: usize = 24;
const DEAD: usize = 4;

/// Valid names and tokens, without which requests would be rejected immediately.
pub(crate) struct World {
    tokens: Vec<String>,
    ids: Vec<String>,
    dead: String,
}

impl World {
    /// Deletes all topics and creates the one that the requests use.
    pub(crate) async fn make(wire: &mut Wire) -> anyhow::Result<World> {
        let topics = wire.json(&get("/v1/topics")).await?;
        for topic in texts(&topics["topics"]) {
            // Topics of dead letters are deleted with their source topic.
            if !topic.starts_with("dlq.") {
                let path = format!("/v1/topics/{topic}?confirm={topic}");
                wire.json(&request("DELETE", &path, b"")).await?;
            }
        }
        let topic = json!({ "name": "orders", "partitions": 2 });
        wire.json(&post("/v1/topics", &topic)).await?;
        let message = |n: usize| json!({ "topic": "orders", "key": format!("k{n}"), "value": "v" });
        let messages: Vec<Value> = (0..MESSAGES).map(message).collect();
        wire.json(&post("/v1/produce/batch", &json!({ "messages": messages }))).await?;
        let receive = json!({ "topic": "orders", "group": "biller", "owner": "me", "max": 16 });
        let received = wire.json(&post("/v1/receive", &receive)).await?;
        let messages = received["messages"].as_array().cloned().unwrap_or_default();
        anyhow::ensure!(messages.len() > DEAD, "too few messages delivered: {received}");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut tokens: Vec<_> =
            messages.iter().map(|message| text(&message["lease"]["token"])).collect();
        for token in tokens.drain(..DEAD) {
            wire.json(&post("/v1/nack", &json!({ "token": token, "final": true }))).await?;
        }
        let dead = wire.json(&get("/v1/dlq/orders")).await?;
        let ids = messages.iter().map(|message| text(&message["id"])).collect();
        Ok(World { tokens, ids, dead: text(&dead["dead_letters"][0]["id"]) })
    }

    /// Returns at least one valid request for every route.
    pub(crate) fn requests(&self) -> Vec<Ask> {
        let (token, id) = (&self.tokens[0], &self.ids[0]);
        let group = "/v1/topics/orders/groups/biller";
        let mut all: Vec<Ask> = [
            "/v1/healthz",
            "/v1/readyz",
            "/v1/version",
            "/metrics",
            "/v1/topics",
            "/v1/topics?detail=true&limit=10",
            "/v1/topics/orders",
            "/v1/topics/orders/messages?partition=0&from=0&group=biller&values=false&limit=5",
            "/v1/topics/orders/messages?key=k1&run_id=r&step_id=s&tenant_id=t&idempotency_key=i",
            "/v1/topics/orders/messages?since=2026-01-01T00:00:00Z&until=2036-01-01T00:00:00Z",
            "/v1/topics/orders/groups?limit=2",
            group,
            "/v1/dlq/orders?group=biller&reason=rejected&state=all&summary=true&limit=3",
            "/v1/explain?topic=orders&partition=0&offset=0",
            "/v1/explain?topic=orders&group=biller",
            "/v1/consume?topic=orders&group=biller&owner=me&lease_ms=1000&credit=1&start=latest",
        ]
        .map(|path| Ask::new("GET", path))
        .into();
        all.push(Ask::new("GET", &format!("/v1/explain?id={id}")));
        all.push(Ask::new("GET", &format!("/v1/explain?token={token}")));
        all.push(Ask::new("POST", "/v1/topics?name=extra&partitions=3"));
        all.push(Ask::new("PUT", "/v1/topics/orders/groups/mailer?start=latest"));
        all.push(Ask::new("DELETE", "/v1/topics/extra?confirm=extra"));
        all.push(Ask::new("DELETE", "/v1/topics/orders/groups/mailer?confirm=mailer"));
        all.push(Ask::new("PATCH", "/v1/topics/orders").with(json!({ "settings": settings() })));
        all.push(Ask::new("PUT", group).with(json!({ "start": { "time": TIME } })));
        all.extend(self.produces());
        all.extend(self.settles());
        let posts = [
            ("/v1/topics", json!({ "name": "extra", "partitions": 2, "settings": settings() })),
            (
                "/v1/topics/orders/groups/biller/pause",
                json!({ "reason": "a deploy", "by": "ops", "until": TIME }),
            ),
            ("/v1/topics/orders/groups/biller/resume", json!({})),
            (
                "/v1/topics/orders/groups/biller/seek",
                json!({ "to": { "partition": 0, "offset": 1 }, "dry_run": true }),
            ),
            ("/v1/topics/orders/groups/biller/seek", json!({ "to": { "time": TIME } })),
            (
                "/v1/consume",
                json!({ "topic": "orders", "group": "biller", "owner": "me", "credit": 2 }),
            ),
            (
                "/v1/receive",
                json!({ "topic": "orders", "group": "biller", "owner": "me", "max": 2, "wait_ms": 0,
                        "lease_ms": 1000, "start": "earliest" }),
            ),
            ("/v1/dlq/orders/redrive", json!({ "ids": [self.dead], "by": "ops", "reason": "ok" })),
            (
                "/v1/dlq/orders/redrive",
                json!({ "filter": { "group": "biller", "error": "n" }, "limit": 2, "dry_run": true }),
            ),
            (
                "/v1/dlq/orders/purge",
                json!({ "filter": { "reason": "rejected", "until": TIME }, "confirm": 3, "by": "ops" }),
            ),
        ];
        all.extend(posts.map(|(path, body)| Ask::new("POST", path).with(body)));
        all
    }

    fn produces(&self) -> [Ask; 3] {
        let message = json!({
            "topic": "orders", "key": "k", "value": "v",
            "envelope": { "run_id": "r", "step_id": "s", "parent_step_id": "p", "tenant_id": "t",
                "idempotency_key": "i", "target_topic": "orders", "partition_override": 1,
                "deadline": "2036-01-01T00:00:00Z",
                "retry_policy": { "max_attempts": 3, "backoff_ms": 10, "max_backoff_ms": 20 } },
        });
        let coded = json!({ "topic": "orders", "value_base64": "AAEC" });
        [
            Ask::new("POST", "/v1/produce").with(message.clone()),
            Ask::new(
                "POST",
                "/v1/produce?topic=orders&value=v&key=k&tenant=t&idem_key=i&deadline_ms=2082758400000\
                 &retry_max_attempts=3&retry_backoff_ms=10&retry_max_backoff_ms=20",
            ),
            Ask::new("POST", "/v1/produce/batch").with(json!({ "messages": [message, coded] })),
        ]
    }

    fn settles(&self) -> [Ask; 6] {
        let token = |at: usize| &self.tokens[at % self.tokens.len()];
        let place = json!({
            "topic": "orders", "group": "biller", "partition": 0, "offset": 3, "owner": "me",
        });
        [
            ("/v1/ack", json!({ "token": token(1) })),
            ("/v1/ack", place),
            ("/v1/nack", json!({ "token": token(2), "reason": "no", "delay_ms": 10 })),
            ("/v1/nack", json!({ "token": token(3), "release": true })),
            ("/v1/extend", json!({ "token": token(4), "lease_ms": 1000 })),
            (
                "/v1/settle",
                json!({ "items": [ { "op": "ack", "token": token(5) },
                    { "op": "nack", "token": token(6), "final": true, "reason": "no" },
                    { "op": "extend", "token": token(7), "lease_ms": 1000 } ] }),
            ),
        ]
        .map(|(path, body)| Ask::new("POST", path).with(body))
    }
}

const TIME: &str = "2026-11-14T12:00:00.250+01:00";

fn settings() -> Value {
    json!({
        "lease_ms": 1000, "max_in_flight": 100, "max_open": 1000,
        "retry_policy": { "max_attempts": 3, "backoff_ms": 10, "max_backoff_ms": 20 },
        "max_backlog_messages": 1000, "max_backlog_bytes": 100_000, "retention_ms": 1000,
        "retention_bytes": 1000, "dlq_retention_ms": 60_000, "dedupe_ttl_ms": 60_000,
        "effect_ttl_ms": 60_000, "on_doubt": "park", "unkeyed": "spread",
        "require_token": false, "auto_create_groups": true, "group_idle_ms": null,
    })
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
