//! Common requests: create a topic, produce, receive, settle, show.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Answer, Client};

/// A request for the first message of a group.
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

/// What a server shows, without rates and counts of the last minute: they change with time alone.
pub(crate) fn without_rates(mut shown: Value) -> Value {
    let remove = |value: &mut Value| *value = without_rates(value.take());
    match &mut shown {
        Value::Object(fields) => {
            fields.retain(|name, _| name != "rates" && !name.ends_with("_1m"));
            fields.values_mut().for_each(remove);
        }
        Value::Array(items) => items.iter_mut().for_each(remove),
        _ => {}
    }
    shown
}

/// The streams and polls of a group.
pub(crate) fn connections(group: &Value) -> Vec<&Value> {
    // A group that does not exist yet has none.
    let consumers = group["consumers"].as_array().into_iter().flatten();
    consumers.flat_map(|of| of["connections"].as_array().expect("connections")).collect()
}

/// A delivery by position and owner, as in v1.
pub(crate) fn place(delivery: &Value, owner: &str) -> Value {
    json!({ "topic": delivery["topic"], "group": delivery["group"],
        "partition": delivery["partition"], "offset": delivery["offset"], "owner": owner })
}

/// The names of an object's fields, sorted.
pub(crate) fn fields(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// A time of a response as Unix milliseconds. Checks that it has the format of the API.
#[track_caller]
pub(crate) fn time(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("a time, not {value}"));
    assert_eq!(text.len(), "2026-11-14T12:00:00.250Z".len(), "milliseconds and Z: {text}");
    let time: driftq_api::Time = text.parse().unwrap_or_else(|_| panic!("a time, not {text}"));
    assert_eq!(time.to_string(), text);
    time.0
}

impl Client {
    /// Creates a topic with one partition.
    pub(crate) async fn topic(&self, name: &str) {
        self.topic_with(name, 1, json!({})).await;
    }

    /// Creates a topic.
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

    /// Waits for the next delivery to the group and returns it.
    pub(crate) async fn receive(&self, topic: &str, group: &str, owner: &str) -> Value {
        self.receive_with(wanted(topic, group, owner)).await
    }

    /// Waits for the next delivery with these parameters.
    pub(crate) async fn receive_with(&self, wanted: Value) -> Value {
        let mut got = self.post("/v1/receive", wanted).await.is(200);
        got["messages"].get_mut(0).expect("a message in time").take()
    }

    /// Returns all messages available to the group now.
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

    /// Returns the group.
    pub(crate) async fn group(&self, topic: &str, group: &str) -> Value {
        self.get(format!("/v1/topics/{topic}/groups/{group}")).await.is(200)
    }

    /// Returns the topic.
    pub(crate) async fn show(&self, topic: &str) -> Value {
        self.get(format!("/v1/topics/{topic}")).await.is(200)
    }

    /// Polls until the group satisfies the condition, because only time or the detected end of
    /// another connection changes it.
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
        panic!("the group never reached: {what}; it is {shown}");
    }

    /// Waits until the only open message of the group waits for its retry.
    pub(crate) async fn until_waiting(&self, topic: &str, group: &str) -> Value {
        self.until_group(topic, group, "a waiting message", |group| group["waiting"] == 1).await
    }
}
