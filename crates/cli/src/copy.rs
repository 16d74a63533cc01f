//! `driftq mark-restored` and `driftq copy-to-postgres`: a storage that continues elsewhere.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use driftq_server::offline;
use serde_json::json;

use crate::confirm::Operator;
use crate::output::{self, Format};

/// Mark a storage as restored from a backup, before a server starts on it
///
/// Lease tokens and effect tokens issued before the restore become invalid. New message ids and
/// fences differ from all that were issued before. Required after the restore of a PostgreSQL
/// database, or of a data directory from a copy that `driftq backup` did not make.
#[derive(Args)]
#[command(group = ArgGroup::new("storage").required(true).multiple(true))]
#[command(after_help = "\
Examples:
  driftq mark-restored --database-url 'postgresql://driftq@db.example/driftq?sslmode=verify-full'
  driftq mark-restored --data ./data")]
pub(crate) struct Restored {
    /// URL of the database
    #[arg(long, value_name = "URL", group = "storage")]
    #[arg(env = "DRIFTQ_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Data directory
    #[arg(long, value_name = "DIR", group = "storage")]
    data: Option<PathBuf>,
    #[command(flatten)]
    operator: Operator,
}

impl Restored {
    pub(crate) async fn run(self, format: Format) -> anyhow::Result<()> {
        let act = self.operator.act();
        let restore = match (self.data, self.database_url) {
            (Some(data), _) => offline::directory_restored(&data, &act)?,
            (None, Some(url)) => offline::database_restored(&url, &act).await?,
            (None, None) => unreachable!("clap requires one of them"),
        };
        let message = format!("restore generation is now {restore}; start the servers");
        output::print_result(format, &json!({ "restore": restore }), &message);
        Ok(())
    }
}

/// Copy a data directory into an empty PostgreSQL database
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq copy-to-postgres --data ./data --database-url 'postgresql://driftq@db.example/driftq?sslmode=verify-full'

Stop the server first. After the copy, a server refuses to start on the directory. Otherwise the same lease tokens would be valid in two places.")]
pub(crate) struct CopyTo {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// URL of the database; must not contain DriftQ data
    #[arg(long, value_name = "URL", env = "DRIFTQ_DATABASE_URL", hide_env_values = true)]
    database_url: String,
}

impl CopyTo {
    pub(crate) async fn run(self, format: Format) -> anyhow::Result<()> {
        let progress = output::spinner("copying");
        let mut far = |table: &'static str, rows: u64| {
            progress.set_message(format!("{table}: {rows} rows"));
        };
        let copied = offline::copy(&self.data, &self.database_url, &mut far).await;
        progress.finish_and_clear();
        let copied = copied?;
        let rows = copied.iter().map(|(table, rows)| json!({ "table": table, "rows": rows }));
        let answer = json!({ "tables": rows.collect::<Vec<_>>() });
        output::list(format, &answer, "tables", &[("table", "table"), ("rows", "rows")]);
        output::talk(format_args!("copied; start servers on the database from now on"));
        Ok(())
    }
}
