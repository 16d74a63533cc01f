//! A client of the broker.

use anyhow::Context as _;
use serde_json::Value;

/// The broker, as seen by producers and operators.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) http: reqwest::Client,
    pub(crate) url: String,
}

impl Queue {
    pub(crate) async fn post(&self, path: &str, asked: &Value) -> anyhow::Result<Value> {
        let request = self.http.post(format!("{}/{path}", self.url)).json(asked);
        Ok(request.send().await?.error_for_status()?.json().await?)
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let request = self.http.get(format!("{}/{path}", self.url));
        Ok(request.send().await?.error_for_status()?.json().await?)
    }
}

/// The order to which an effect belongs.
pub(crate) fn order_of(effect: &Value) -> anyhow::Result<usize> {
    let number = effect["key"].as_str().and_then(|key| key.strip_prefix("order-")?.parse().ok());
    number.context("the key of an effect is its order")
}
