//! The operator, as a loop: lists parked effects, looks each order up at the provider, and resolves
//! it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::api::{Api, Reply};
use serde_json::{Value, json};

use crate::order::order_of;
use crate::provider::Provider;

/// Orders that the operator saw in doubt, and whether the operator resolved them.
pub(crate) type Listed = Arc<Mutex<BTreeMap<usize, bool>>>;

/// Runs until it is aborted.
pub(crate) async fn resolve(queue: Api, provider: Provider, listed: Listed) -> anyhow::Result<()> {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        // The broker may be down at the moment.
        let Ok(page) = queue.get("effects?state=PARKED&limit=1000").await.and_then(Reply::ok)
        else {
            continue;
        };
        for effect in page["effects"].as_array().context("a list of effects")? {
            let order = order_of(effect)?;
            // If this fails, the effect is in the next list again, unless its worker has finished
            // it.
            let said = queue
                .post("effects/resolve", &said(&provider, order, effect))
                .await
                .and_then(Reply::ok);
            let mut listed = listed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *listed.entry(order).or_default() |= said.is_ok();
        }
    }
}

fn said(provider: &Provider, order: usize, effect: &Value) -> Value {
    let (scope, key, fence) = (&effect["scope"], &effect["key"], &effect["fence"]);
    match provider.find(order) {
        Some(name) => json!({ "scope": scope, "key": key, "fence": fence, "as": "succeeded",
            "result": { "charge": name }, "by": "operator", "reason": format!("{name} is in the provider's books") }),
        None => json!({ "scope": scope, "key": key, "fence": fence, "as": "retry",
            "by": "operator", "reason": "the provider's books do not have it" }),
    }
}
