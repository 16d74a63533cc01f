//! `driftq shard`: what lies in a data directory.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use driftq_server::offline;
use serde_json::{Value, json};

use crate::output::{self, Format};

/// Look into the shards of a data directory
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq shard dump --data ./data")]
pub(crate) struct Shard {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print rows as they are stored; a server may run meanwhile
    #[command(after_help = "\
Examples:
  driftq shard dump --data ./data
  driftq shard dump --data ./data --table topic
  driftq shard dump --data ./data --table page --limit 1000 -o ndjson")]
    Dump {
        /// The data directory
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Only this table
        #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(offline::tables()))]
        table: Option<String>,
        /// Rows of each table
        #[arg(long, default_value_t = 20, value_name = "ROWS")]
        limit: u32,
        /// The shard
        #[arg(long, default_value_t = 0)]
        shard: u32,
    },
}

impl Shard {
    pub(crate) fn run(self, format: Format) -> anyhow::Result<()> {
        let Verb::Dump { data, table, limit, shard } = self.verb;
        let mut all = Vec::new();
        let mut each = |row: Value| match format {
            Format::Table => output::line(readable(&row)),
            Format::Ndjson => output::line(row),
            Format::Json => all.push(row),
        };
        let shard = offline::ShardId(shard);
        offline::dump(&data, shard, table.as_deref(), limit, &mut each)?;
        if format == Format::Json {
            output::line(format_args!("{:#}", json!({ "rows": all })));
        }
        Ok(())
    }
}

/// `topic kind=topic name=orders namespace=default topic=1 {"partitions":1}`
fn readable(row: &Value) -> String {
    let bare = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = row.as_object().into_iter().flatten();
    let columns = fields.filter(|(name, _)| *name != "table" && *name != "body");
    let columns = columns.map(|(name, value)| format!(" {name}={}", bare(value)));
    format!("{}{} {}", bare(&row["table"]), columns.collect::<String>(), bare(&row["body"]))
}
