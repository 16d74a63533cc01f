//! `driftq check` and `driftq backup`: data directories, without asking a server.

use std::path::PathBuf;

use clap::Args;

/// Is a data directory whole? No server may run on it
#[derive(Args)]
pub(crate) struct Check {
    /// The data directory
    #[arg(long)]
    data: PathBuf,
}

impl Check {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let checked = driftq_server::offline::check(&self.data).await?;
        for (table, rows) in &checked.rows {
            println!("{table:<16} {rows:>10} rows");
        }
        for problem in &checked.problems {
            println!("problem: {problem}");
        }
        let problems = checked.problems.len();
        anyhow::ensure!(problems == 0, "{problems} problems: restore from a backup");
        println!("whole");
        Ok(())
    }
}

/// Copy a data directory's database while a server runs on it
#[derive(Args)]
#[command(after_help = "\
To restore, stop the server, put the file into an empty directory as driftq.db, and start on it:
  driftq backup --data ./data --to backup.db
  mkdir restored && cp backup.db restored/driftq.db && driftq serve --data ./restored")]
pub(crate) struct Backup {
    /// The data directory
    #[arg(long)]
    data: PathBuf,
    /// The file to write; it must not be there
    #[arg(long)]
    to: PathBuf,
}

impl Backup {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        driftq_server::offline::back_up(&self.data, &self.to)?;
        println!("written: {}", self.to.display());
        Ok(())
    }
}
