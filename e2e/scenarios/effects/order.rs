//! Orders and their effects.

use anyhow::Context as _;
use serde_json::Value;

/// The order to which an effect belongs.
pub(crate) fn order_of(effect: &Value) -> anyhow::Result<usize> {
    let number = effect["key"].as_str().and_then(|key| key.strip_prefix("order-")?.parse().ok());
    number.context("the key of an effect is its order")
}
