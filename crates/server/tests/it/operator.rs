//! Administrative requests accept who sends them and why, in both forms of a request.

use serde_json::{Value, json};

use crate::broker::Broker;

#[tokio::test]
async fn administrative_requests_accept_by_and_reason() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.put("/v1/topics/t/groups/g", json!({})).await.is(201);
    let requests = [
        ("/v1/topics/t/groups/g/pause", json!({})),
        ("/v1/topics/t/groups/g/seek", json!({ "to": "earliest" })),
        ("/v1/topics/t/groups/g/resume", json!({})),
        ("/v1/topics/t/repair", json!({})),
    ];
    for (path, body) in requests {
        let with = |name: &str, value: Value| {
            let mut body = body.clone();
            body[name] = value;
            body
        };
        let mut named = with("by", json!("ann"));
        named["reason"] = json!("a new release");
        broker.post(path, named).await.is(200);
        broker.post(path, with("by", Value::Null)).await.is(200);
        broker.post(path, with("by", json!(1))).await.invalid("by");
        broker.post(path, with("reason", json!(["x"]))).await.invalid("reason");
        let to = if path.ends_with("seek") { "to=earliest&" } else { "" };
        broker.post_query(format!("{path}?{to}by=ann&reason=why")).await.is(200);
        broker.post_query(format!("{path}?{to}by=ann&by=bob")).await.invalid("by");
    }
    let patch = json!({ "settings": { "max_in_flight": 64 }, "by": "ann", "reason": "slow" });
    broker.patch("/v1/topics/t", patch).await.is(200);
    let patch = json!({ "settings": {}, "by": 1 });
    broker.patch("/v1/topics/t", patch).await.invalid("by");
    for path in ["/v1/topics/t/groups/g", "/v1/topics/t"] {
        // Without `confirm`, nothing is deleted.
        broker.delete(format!("{path}?by=ann&reason=old")).await.invalid("confirm");
        let name = &path[path.len() - 1..];
        broker.delete(format!("{path}?confirm={name}&by=ann&by=bob")).await.invalid("by");
        broker.delete(format!("{path}?confirm={name}&by=ann&reason=old")).await.is(200);
        broker.delete(format!("{path}?confirm={name}")).await.refused(404, "NOT_FOUND");
    }
}
