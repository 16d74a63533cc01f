//! `driftq audit`.

use clap::Args;
use serde_json::{Value, json};

use crate::client::Remote;
use crate::output;

/// Show who changed topics, groups, dead letters and effects, newest first
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq audit
  driftq audit --limit 1000 -o ndjson")]
pub(crate) struct Audit {
    /// Acts per page, between 1 and 1000
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Cursor printed after the previous page
    #[arg(long)]
    cursor: Option<String>,
}

const COLUMNS: &[output::Column] = &[
    ("time", "time"),
    ("act", "record.act"),
    ("topic", "record.topic"),
    ("group", "record.group"),
    ("counts", "record.counts"),
    ("details", "record.details"),
    ("by", "record.by"),
    ("reason", "record.reason"),
    ("request", "record.request_id"),
];

impl Audit {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let mut query = vec![("limit", self.limit.to_string())];
        query.extend(self.cursor.map(|cursor| ("cursor", cursor)));
        let answer = remote.client()?.get("audit/admin", &query).await?;
        let acts = answer["acts"].as_array().cloned().unwrap_or_default();
        let acts: Vec<Value> = acts.into_iter().map(with_time).collect();
        let answer = answer.in_tables("acts", acts.into());
        output::list(remote.output, &answer, "acts", COLUMNS);
        Ok(())
    }
}

/// Adds the time as text, because the record has milliseconds.
fn with_time(mut act: Value) -> Value {
    let ms = act["record"]["at_ms"].as_u64().unwrap_or_default();
    act["time"] = json!(driftq_api::Time(ms));
    act
}
