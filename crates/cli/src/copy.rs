//! `driftq mark-restored` and `driftq copy-to-postgres`: a storage that begins again elsewhere.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use driftq_server::offline;
use serde_json::json;

use crate::output::{self, Format};

/// Say that a storage was restored from a backup, before anything serves it
///
/// No lease token, fence or id of after the backup is then taken for one of now. Needed for a database that was
/// restored, and for a data directory that was copied by other means than `driftq backup`.
#[derive(Args)]
#[command(group = ArgGroup::new("storage").required(true).multiple(true))]
#[command(after_help = "\
Examples:
  driftq mark-restored --database-url 'postgresql://driftq@db.example/driftq?sslmode=verify-full'
  driftq mark-restored --data ./data")]
pub(crate) struct Restored {
    /// The database
    #[arg(long, value_name = "URL", group = "storage")]
    #[arg(env = "DRIFTQ_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// The data directory
    #[arg(long, value_name = "DIR", group = "storage")]
    data: Option<PathBuf>,
}

impl Restored {
    pub(crate) async fn run(self, format: Format) -> anyhow::Result<()> {
        let restore = match (self.data, self.database_url) {
            (Some(data), _) => offline::directory_restored(&data)?,
            (None, Some(url)) => offline::database_restored(&url).await?,
            (None, None) => unreachable!("clap wants one of them"),
        };
        let message = format!("restore {restore}: start the servers");
        output::said(format, &json!({ "restore": restore }), &message);
        Ok(())
    }
}

/// Copy a data directory into an empty database, to serve it from there
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq copy-to-postgres --data ./data --database-url 'postgresql://driftq@db.example/driftq?sslmode=verify-full'

Stop the server first. After the copy no server starts on the directory: its tokens are valid in the database.")]
pub(crate) struct CopyTo {
    /// The data directory
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The database
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
        output::talk(format_args!("copied: serve the database from now on"));
        Ok(())
    }
}
