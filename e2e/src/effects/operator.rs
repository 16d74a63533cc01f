//! The person who ends doubt, as a loop: lists what is parked, looks each order up at the provider, says so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::provider::Provider;
use crate::queue::{Queue, order_of};

/// Orders that a person saw in doubt, and whether the person ended it.
pub(crate) type Listed = Arc<Mutex<BTreeMap<usize, bool>>>;

/// Works until it is stopped.
pub(crate) async fn resolve(
    queue: Queue,
    provider: Provider,
    listed: Listed,
) -> anyhow::Result<()> {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        // The broker may be dead just now.
        let Ok(page) = queue.get("effects?state=PARKED&limit=1000").await else { continue };
        for effect in page["effects"].as_array().context("a list of effects")? {
            let order = order_of(effect)?;
            // If that fails it is in the next list again, unless its worker came back to say it.
            let said = queue.post("effects/resolve", &said(&provider, order, effect)).await;
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
