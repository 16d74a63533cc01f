//! The effect ledger over HTTP.
//!
//! `table` covers every cell of the replies of begin. `finish`, `results`, `again` (reacquire and
//! extend), `resolve`, `look` and `audit` have one test per rule of the API. `delivery` and
//! `redrive` cover effects of messages. `sinks` covers the systems that effects write to.

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

/// Names an effect without a delivery.
fn named(key: &str) -> Value {
    json!({ "scope": "op/charge", "key": key })
}

/// Names an effect under this delivery.
fn under(delivery: &Value) -> Value {
    json!({ "lease_token": delivery["lease"]["token"] })
}

/// The outcome of an execution.
fn ended(status: &str) -> Value {
    json!({ "status": status })
}

impl Client {
    pub(crate) async fn begin(&self, named: Value, how: Value) -> Answer {
        self.post("/v1/effects/begin", with(named, how)).await
    }

    /// Begins an effect and expects the decision `EXECUTE`.
    pub(crate) async fn execute(&self, key: &str, how: Value) -> Value {
        let began = self.begin(named(key), how).await.is(200);
        assert_eq!(began["decision"], "EXECUTE", "{began}");
        began
    }

    /// Finishes an effect.
    pub(crate) async fn finish(&self, began: &Value, how: Value) -> Answer {
        self.post("/v1/effects/finish", with(json!({ "token": began["token"] }), how)).await
    }

    /// Returns the record of an effect.
    pub(crate) async fn effect(&self, scope: &str, key: &str) -> Value {
        self.get(format!("/v1/effects?scope={scope}&key={key}")).await.is(200)
    }

    /// Waits until the effect is in this state.
    pub(crate) async fn until_effect(&self, scope: &str, key: &str, state: &str) -> Value {
        self.until(scope, key, state, |shown| shown["state"] == state).await
    }

    /// Waits until the lease of the holder has expired.
    async fn until_held_no_longer(&self, scope: &str, key: &str) {
        self.until(scope, key, "free", |shown| shown["state"] != "IN_PROGRESS").await;
    }

    /// Polls, because only time changes the state.
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
        panic!("it never became {what}: {shown}");
    }
}
