//! The effect ledger: who may execute, how it ended, what nobody knows.
//!
//! `table` has every cell of what begin answers; `finish`, `results`, `again` (reacquire and extend),
//! `resolve`, `look` and `audit` are one rule of the API a test; `delivery` and `redrive` are effects of messages;
//! `sinks` are where effects lead.

mod again;
mod audit;
mod delivery;
mod finish;
mod limits;
mod look;
mod races;
mod redrive;
mod resolve;
mod restart;
mod results;
mod sinks;
mod table;

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::verbs::with;

/// An effect of nobody's message.
fn named(key: &str) -> Value {
    json!({ "scope": "op/charge", "key": key })
}

/// An effect of this delivery.
fn under(delivery: &Value) -> Value {
    json!({ "lease_token": delivery["lease"]["token"] })
}

/// How an execution ended.
fn ended(status: &str) -> Value {
    json!({ "status": status })
}

impl Client {
    pub(crate) async fn begin(&self, named: Value, how: Value) -> Answer {
        self.post("/v1/effects/begin", with(named, how)).await
    }

    /// A begin that must be told to execute, alone.
    pub(crate) async fn execute(&self, key: &str, how: Value) -> Value {
        let began = self.begin(named(key), how).await.is(200);
        assert_eq!(began["decision"], "EXECUTE", "{began}");
        began
    }

    /// Ends what was begun.
    pub(crate) async fn finish(&self, began: &Value, how: Value) -> Answer {
        self.post("/v1/effects/finish", with(json!({ "token": began["token"] }), how)).await
    }

    /// The record of an effect.
    pub(crate) async fn effect(&self, scope: &str, key: &str) -> Value {
        self.get(format!("/v1/effects?scope={scope}&key={key}")).await.is(200)
    }

    /// Waits until the effect is so.
    pub(crate) async fn until_effect(&self, scope: &str, key: &str, state: &str) -> Value {
        self.until(scope, key, state, |shown| shown["state"] == state).await
    }

    /// Waits until the lease of whoever is at work has run out.
    async fn until_held_no_longer(&self, scope: &str, key: &str) {
        self.until(scope, key, "free", |shown| shown["state"] != "IN_PROGRESS").await;
    }

    /// Time must pass for it: there is nothing else to wait on.
    async fn until(
        &self,
        scope: &str,
        key: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut shown = Value::Null;
        let mut looks = tokio::time::interval(Duration::from_millis(10));
        for _ in 0..2_000 {
            looks.tick().await;
            shown = self.effect(scope, key).await;
            if is_so(&shown) {
                return shown;
            }
        }
        panic!("never {what}: {shown}");
    }
}
