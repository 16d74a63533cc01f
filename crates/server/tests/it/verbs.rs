//! What most tests say: make a topic, produce, receive, settle, look.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Answer, Client};

/// The first message a group is given, and who asks.
pub(crate) fn wanted(topic: &str, group: &str, owner: &str) -> Value {
    json!({ "topic": topic, "group": group, "owner": owner })
}

/// `value` with more fields.
pub(crate) fn with(mut value: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("more fields") };
    value.as_object_mut().expect("an object").extend(more);
    value
}

/// The token of a delivery.
pub(crate) fn token(delivery: &Value) -> Value {
    json!({ "token": delivery["lease"]["token"] })
}

/// The v1 name of a delivery.
pub(crate) fn place(delivery: &Value, owner: &str) -> Value {
    json!({ "topic": delivery["topic"], "group": delivery["group"],
        "partition": delivery["partition"], "offset": delivery["offset"], "owner": owner })
}

/// The names of an object's fields, sorted.
pub(crate) fn fields(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// A time of an answer, as Unix milliseconds; it must be written as the API says.
#[track_caller]
pub(crate) fn time(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("a time, not {value}"));
    assert_eq!(text.len(), "2026-11-14T12:00:00.250Z".len(), "milliseconds and Z: {text}");
    let time: driftq_api::Time = text.parse().unwrap_or_else(|_| panic!("a time, not {text}"));
    assert_eq!(time.to_string(), text);
    time.0
}

impl Client {
    /// Makes a topic of one partition.
    pub(crate) async fn topic(&self, name: &str) {
        self.topic_with(name, 1, json!({})).await;
    }

    /// Makes a topic.
    pub(crate) async fn topic_with(&self, name: &str, partitions: u32, settings: Value) {
        let body = json!({ "name": name, "partitions": partitions, "settings": settings });
        self.post("/v1/topics", body).await.is(201);
    }

    /// Produces a value and returns the receipt.
    pub(crate) async fn produce(&self, topic: &str, value: &str) -> Value {
        self.post("/v1/produce", json!({ "topic": topic, "value": value })).await.is(200)
    }

    /// Produces with an envelope and returns the receipt.
    pub(crate) async fn produce_with(&self, topic: &str, value: &str, envelope: Value) -> Value {
        let body = json!({ "topic": topic, "value": value, "envelope": envelope });
        self.post("/v1/produce", body).await.is(200)
    }

    /// The next delivery to the group; it must come.
    pub(crate) async fn receive(&self, topic: &str, group: &str, owner: &str) -> Value {
        self.receive_with(wanted(topic, group, owner)).await
    }

    /// The next delivery to one who is particular.
    pub(crate) async fn receive_with(&self, wanted: Value) -> Value {
        let mut got = self.post("/v1/receive", wanted).await.is(200);
        got["messages"].get_mut(0).expect("a message in time").take()
    }

    /// What the group is given at once: all of it.
    pub(crate) async fn receive_now(&self, topic: &str, group: &str, owner: &str) -> Vec<Value> {
        let now = json!({ "max": 1000, "wait_ms": 0 });
        let got = self.post("/v1/receive", with(wanted(topic, group, owner), now)).await.is(200);
        got["messages"].as_array().expect("a list").clone()
    }

    pub(crate) async fn ack(&self, named: Value) -> Answer {
        self.post("/v1/ack", named).await
    }

    pub(crate) async fn nack(&self, named: Value, how: Value) -> Answer {
        self.post("/v1/nack", with(named, how)).await
    }

    pub(crate) async fn extend(&self, named: Value, how: Value) -> Answer {
        self.post("/v1/extend", with(named, how)).await
    }

    /// The group as the API shows it.
    pub(crate) async fn group(&self, topic: &str, group: &str) -> Value {
        self.get(format!("/v1/topics/{topic}/groups/{group}")).await.is(200)
    }

    /// The topic as the API shows it.
    pub(crate) async fn show(&self, topic: &str) -> Value {
        self.get(format!("/v1/topics/{topic}")).await.is(200)
    }

    /// Waits until the group shows what is waited for. Time must pass for it, or another connection's
    /// end must be noticed: there is nothing else to wait on.
    pub(crate) async fn until_group(
        &self,
        topic: &str,
        group: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut shown = Value::Null;
        let mut looks = tokio::time::interval(Duration::from_millis(10));
        for _ in 0..2_000 {
            looks.tick().await;
            shown = self.group(topic, group).await;
            if is_so(&shown) {
                return shown;
            }
        }
        panic!("never seen: {what}; the group is {shown}");
    }

    /// Waits until the group's one open message waits for its retry.
    pub(crate) async fn until_waiting(&self, topic: &str, group: &str) -> Value {
        self.until_group(topic, group, "one that waits", |group| group["waiting"] == 1).await
    }
}
