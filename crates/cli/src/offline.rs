//! `driftq check` and `driftq backup`: work on a data directory without a server's API.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::output::{self, Format};

/// Verify a data directory offline; stop its server first
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq check --data ./data
  driftq check --data ./data -o json")]
pub(crate) struct Check {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

impl Check {
    pub(crate) async fn run(self, format: Format) -> anyhow::Result<()> {
        let progress = output::spinner("checking");
        let mut far = |table, rows| progress.set_message(format!("{table}: {rows} rows"));
        let checked = driftq_server::offline::check(&self.data, &mut far).await;
        progress.finish_and_clear();
        let checked = checked?;
        let rows = checked.rows.iter().map(|(table, rows)| json!({ "table": table, "rows": rows }));
        let answer = json!({ "tables": rows.collect::<Vec<_>>(), "problems": checked.problems });
        output::list(format, &answer, "tables", &[("table", "table"), ("rows", "rows")]);
        for problem in &checked.problems {
            output::talk(format_args!("problem: {problem}"));
        }
        let problems = checked.problems.len();
        anyhow::ensure!(
            problems == 0,
            "{problems} problems found; restore a backup, or see `driftq shard repair --help`"
        );
        output::talk("ok");
        Ok(())
    }
}

/// Back up the database of a data directory; its server may keep running
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq backup --data ./data --to backup.db

To restore, stop the server, copy the file to an empty directory as driftq.db, and start a server on it:
  mkdir restored && cp backup.db restored/driftq.db && driftq serve --data ./restored")]
pub(crate) struct Backup {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// File to write; must not exist
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

impl Backup {
    pub(crate) async fn run(self, format: Format) -> anyhow::Result<()> {
        let Backup { data, to } = self;
        let progress = output::spinner("copying");
        let copy = to.clone();
        let mut copying =
            tokio::task::spawn_blocking(move || driftq_server::offline::back_up(&data, &copy));
        let done = loop {
            let pause = tokio::time::sleep(Duration::from_millis(100));
            tokio::select! {
                done = &mut copying => break done,
                () = pause => {
                    let bytes = std::fs::metadata(&to).map_or(0, |file| file.len());
                    progress.set_message(format!("written: {} MiB", bytes >> 20));
                }
            }
        };
        progress.finish_and_clear();
        done??;
        let bytes = std::fs::metadata(&to).map_or(0, |file| file.len());
        let answer = json!({ "file": to, "bytes": bytes });
        output::print_result(format, &answer, &format!("written: {}, {bytes} bytes", to.display()));
        Ok(())
    }
}
