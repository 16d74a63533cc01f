//! `driftq status`: the whole system on one screen.

use std::time::Duration;

use clap::Args;
use driftq_api::Time;
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use serde_json::{Value, json};

use crate::client::{Client, Remote};
use crate::output::{self, Format};

/// Show the whole system on one screen: what needs attention, totals, groups, topics
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq status
  driftq status --limit 50
  driftq status -o json")]
pub(crate) struct Status {
    /// Number of groups and topics to list
    #[arg(long, default_value = "20", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

const TOPICS: &[output::Column] = &[
    ("topic", "name"),
    ("partitions", "partitions"),
    ("messages", "messages"),
    ("size", "size"),
    ("produced/s", "rates.produced"),
    ("dead letters", "dead_letters"),
];

pub(crate) const GROUPS: &[output::Column] = &[
    ("topic", "topic"),
    ("group", "group"),
    ("backlog", "backlog"),
    ("oldest", "oldest"),
    ("leased", "leased"),
    ("waiting", "waiting"),
    ("delivered/s", "rates.delivered"),
    ("acked/s", "rates.acked"),
    ("failed/s", "rates.failed"),
    ("paused by", "paused.by"),
];

impl Status {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let (client, format) = (remote.client()?, remote.output);
        let overview = client.get("overview", &[]).await?.into_value();
        let groups = groups(&client, "oldest", self.limit).await?;
        let query = [("detail", "true".to_owned()), ("limit", self.limit.to_string())];
        let topics = client.get("topics", &query).await?.into_value();
        let status = json!({
            "overview": overview, "groups": groups["groups"], "topics": topics["topics"],
        });
        if format != Format::Table {
            output::print_result(format, &status, "");
            return Ok(());
        }
        for line in totals(&overview) {
            output::line(line);
        }
        let attention = overview["attention"].as_array();
        if let Some(attention) = attention.filter(|attention| !attention.is_empty()) {
            output::line("\nneeds attention:");
            for item in attention {
                output::line(format_args!("  {}", output::text(&item["message"])));
            }
        }
        output::line("");
        output::list(format, &with_ages(status.clone()), "groups", GROUPS);
        output::line("");
        output::list(format, &with_sizes(status), "topics", TOPICS);
        if !topics["next_cursor"].is_null() {
            output::talk(format_args!("only the first {} topics are listed", self.limit));
        }
        Ok(())
    }
}

/// The groups in an order, with the time of the server.
pub(crate) async fn groups(client: &Client, sort: &str, limit: u32) -> anyhow::Result<Value> {
    let query = [("sort", sort.to_owned()), ("limit", limit.to_string())];
    Ok(client.get("groups", &query).await?.into_value())
}

/// The lines above the tables.
pub(crate) fn totals(overview: &Value) -> Vec<String> {
    let number = |name: &str| overview[name].as_u64().unwrap_or_default();
    let count = |name: &str| HumanCount(number(name)).to_string();
    let rate = |name: &str| overview["rates"][name].as_f64().unwrap_or_default();
    let text = |name: &str| output::text(&overview[name]);
    let ready = if overview["ready"] == true { "ready" } else { "not ready" };
    let up = since(overview, &overview["started_at"]).unwrap_or_default();
    let mut lines = vec![
        format!("DriftQ {} on {}: {ready}, up {up}", text("version"), text("engine")),
        format!(
            "{} topics, {} groups, {} messages stored ({})",
            count("topics"),
            count("groups"),
            count("stored_messages"),
            HumanBytes(number("stored_bytes")),
        ),
        format!(
            "backlog {}: {} leased, {} waiting for a retry{}",
            count("backlog"),
            count("leased"),
            count("waiting"),
            since(overview, &overview["oldest_unsettled_at"])
                .map_or_else(String::new, |age| format!(", oldest {age}")),
        ),
        format!(
            "per second: {} produced, {} delivered, {} acked, {} failed",
            rate("produced"),
            rate("delivered"),
            rate("acked"),
            rate("failed"),
        ),
        format!(
            "{} dead letters, {} effects in doubt, {} effects parked",
            count("dead_letters"),
            count("effects_in_doubt"),
            count("effects_parked"),
        ),
    ];
    if let Some(free) = overview["storage_free_bytes"].as_u64() {
        lines.push(format!("disk: {} free", HumanBytes(free)));
    }
    for node in overview["nodes"].as_array().into_iter().flatten() {
        let [id, address, state] =
            ["node", "address", "state"].map(|name| output::text(&node[name]));
        lines.push(format!("node {id} at {address}: {state}, {} shards", node["shards"]));
    }
    lines
}

/// The time from `value` to the time of the overview, such as `2h`.
fn since(overview: &Value, value: &Value) -> Option<String> {
    age(overview["at"].as_str()?.parse().ok()?, value)
}

fn age(now: Time, since: &Value) -> Option<String> {
    let Time(at) = since.as_str()?.parse().ok()?;
    let age = Duration::from_millis(now.0.saturating_sub(at));
    Some(format!("{:#}", HumanDuration(age)))
}

/// Adds the age of the oldest message to each group.
pub(crate) fn with_ages(mut status: Value) -> Value {
    let now = status["overview"]["at"].as_str().and_then(|at| at.parse().ok());
    for group in status["groups"].as_array_mut().into_iter().flatten() {
        group["oldest"] = json!(now.and_then(|now| age(now, &group["oldest_unsettled_at"])));
    }
    status
}

fn with_sizes(mut status: Value) -> Value {
    for topic in status["topics"].as_array_mut().into_iter().flatten() {
        let bytes = topic["bytes"].as_u64().unwrap_or_default();
        topic["size"] = json!(HumanBytes(bytes).to_string());
    }
    status
}
