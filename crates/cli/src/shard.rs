//! `driftq shard`: assignment of shards to nodes, and their stored rows.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use driftq_server::offline::{self, Inspected, ShardId};
use serde_json::{Value, json};

use crate::client::{Remote, segment};
use crate::confirm::Operator;
use crate::escape::escaped;
use crate::node;
use crate::output::{self, Format};

/// List, move, check, repair and dump shards
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq shard list
  driftq shard move 12 http://127.0.0.1:8081
  driftq shard dump --data ./data")]
pub(crate) struct Shard {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the shards and the node that serves each
    #[command(after_help = "\
Examples:
  driftq shard list
  driftq shard list -o ndjson")]
    List,
    /// Pin a shard to a node; it stays there while that node accepts shards
    #[command(after_help = "\
Examples:
  driftq shard move 12 http://127.0.0.1:8081
  driftq shard move 12 n_0123456789abcdef
  driftq shard move 12 any                       unpin; assign it like the other shards")]
    Move {
        /// Shard number
        shard: u32,
        /// Address or id of the node, or `any` to unpin the shard
        node: String,
        #[command(flatten)]
        operator: Operator,
    },
    /// Verify the shards of a database; nodes may keep running
    #[command(after_help = "\
Examples:
  driftq shard check --database-url 'postgresql://driftq@db.example/driftq?sslmode=verify-full'
  driftq shard check --database-url 'postgresql://driftq@db.example/driftq?sslmode=verify-full' --shard 12")]
    Check {
        /// URL of the database
        #[arg(long, value_name = "URL", env = "DRIFTQ_DATABASE_URL", hide_env_values = true)]
        database_url: String,
        /// Only this shard
        #[arg(long)]
        shard: Option<u32>,
    },
    /// Repair the partitions of a topic that have damaged rows
    #[command(after_help = "\
Examples:
  driftq shard repair orders                     show what would be lost and redelivered
  driftq shard repair orders --yes")]
    Repair {
        /// Topic to repair
        topic: String,
        /// Give up unreadable messages, and redeliver messages that may or may not have been
        /// settled; without this option, only report
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        operator: Operator,
    },
    /// Print stored rows of a data directory; a server may keep running
    #[command(after_help = "\
Examples:
  driftq shard dump --data ./data
  driftq shard dump --data ./data --table topic
  driftq shard dump --data ./data --table page --limit 1000 -o ndjson")]
    Dump {
        /// Data directory
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Only this table
        #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(offline::tables()))]
        table: Option<String>,
        /// Maximum number of rows per table
        #[arg(long, default_value_t = 20, value_name = "ROWS")]
        limit: u32,
        /// Shard number
        #[arg(long, default_value_t = 0)]
        shard: u32,
    },
}

const COLUMNS: &[output::Column] = &[
    ("shard", "shard"),
    ("state", "state"),
    ("address", "address"),
    ("epoch", "epoch"),
    ("since", "since"),
    ("batch", "batch"),
    ("pinned to", "pinned_to"),
];

impl Shard {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let format = remote.output;
        match self.verb {
            Verb::List => {
                let answer = remote.client()?.get("shards", &[]).await?;
                output::list(format, &answer, "shards", COLUMNS);
                Ok(())
            }
            Verb::Move { shard, node, operator } => {
                let client = remote.client()?;
                let node = match node.as_str() {
                    "any" => None,
                    named => Some(node::find(&client, named).await?),
                };
                let mut request_body = json!({ "node": node });
                operator.add_to_body(&mut request_body);
                let answer = client.post(&format!("shards/{shard}/move"), request_body).await?;
                output::one(format, &answer, COLUMNS);
                Ok(())
            }
            Verb::Repair { topic, yes, operator } => repair(remote, &topic, yes, operator).await,
            Verb::Check { database_url, shard } => check(format, &database_url, shard).await,
            Verb::Dump { data, table, limit, shard } => {
                dump(format, &data, table.as_deref(), limit, ShardId(shard))
            }
        }
    }
}

async fn repair(remote: &Remote, topic: &str, yes: bool, operator: Operator) -> anyhow::Result<()> {
    let path = format!("topics/{}/repair", segment(topic));
    let mut request_body = json!({ "dry_run": !yes });
    operator.add_to_body(&mut request_body);
    let answer = remote.client()?.post(&path, request_body).await?;
    let (lost, again) = (&answer["messages_lost"], &answer["messages_redelivered"]);
    let is_clean = lost == 0 && again == 0;
    let summary = match yes {
        true => format!("repaired {topic}: {lost} messages lost, {again} redelivered"),
        false if is_clean => format!("{topic} has no damage"),
        false => format!(
            "repair of {topic} would lose {lost} messages and redeliver up to {again}; repeat with --yes"
        ),
    };
    if remote.output == Format::Table {
        for range in answer["lost"].as_array().into_iter().flatten() {
            output::line(format_args!("lost: {}", offsets(range)));
        }
        for range in answer["redelivered"].as_array().into_iter().flatten() {
            let group = escaped(range["group"].as_str().unwrap_or_default());
            output::line(format_args!("redelivered: group {group}, {}", offsets(range)));
        }
    }
    output::print_result(remote.output, &answer, &summary);
    Ok(())
}

/// Formats a range as `partition 0, offsets 12 to 20`, with both ends included.
fn offsets(range: &Value) -> String {
    let last = range["to"].as_u64().unwrap_or_default().saturating_sub(1);
    format!("partition {}, offsets {} to {last}", range["partition"], range["from"])
}

async fn check(format: Format, url: &str, shard: Option<u32>) -> anyhow::Result<()> {
    let progress = output::spinner("checking");
    let (mut shards, mut problems) = (Vec::new(), Vec::new());
    let mut each = |seen: Inspected| {
        let Inspected { shard, epoch, batch, rows, problems: wrong } = seen;
        progress.set_message(format!("shard {shard}: {rows} rows"));
        shards.push(json!({ "shard": shard.0, "epoch": epoch.0, "batch": batch.0, "rows": rows }));
        problems.extend(wrong.into_iter().map(|problem| format!("shard {shard}: {problem}")));
    };
    let done = offline::inspect(url, shard.map(ShardId), &mut each).await;
    progress.finish_and_clear();
    done?;
    let answer = json!({ "shards": shards, "problems": problems });
    let columns = [("shard", "shard"), ("epoch", "epoch"), ("batch", "batch"), ("rows", "rows")];
    output::list(format, &answer, "shards", &columns);
    for problem in &problems {
        output::talk(format_args!("problem: {problem}"));
    }
    anyhow::ensure!(
        problems.is_empty(),
        "{} problems found; restore a backup, or see `driftq shard repair --help`",
        problems.len()
    );
    output::talk("ok");
    Ok(())
}

fn dump(
    format: Format,
    data: &std::path::Path,
    table: Option<&str>,
    limit: u32,
    shard: ShardId,
) -> anyhow::Result<()> {
    let mut all = Vec::new();
    let mut each = |row: Value| match format {
        Format::Table => output::line(escaped(&readable(&row))),
        Format::Ndjson => output::line(row),
        Format::Json => all.push(row),
    };
    offline::dump(data, shard, table, limit, &mut each)?;
    if format == Format::Json {
        output::line(format_args!("{:#}", json!({ "rows": all })));
    }
    Ok(())
}

/// Formats a row as `topic kind=topic name=orders namespace=default topic=1 {"partitions":1}`.
fn readable(row: &Value) -> String {
    let bare = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = row.as_object().into_iter().flatten();
    let columns = fields.filter(|(name, _)| *name != "table" && *name != "body");
    let columns = columns.map(|(name, value)| format!(" {name}={}", bare(value)));
    format!("{}{} {}", bare(&row["table"]), columns.collect::<String>(), bare(&row["body"]))
}
