//! Runs SQL statements with `psql`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::process::Command;

/// How long the statements may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Runs the statements given by `-c` or `-f` and returns their rows, with fields separated by `|`.
pub(crate) async fn ask(psql: &Path, url: &str, statements: &[&str]) -> anyhow::Result<String> {
    let mut psql = Command::new(psql);
    psql.args([url, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]).args(statements);
    psql.stdin(Stdio::null()).kill_on_drop(true);
    let said = tokio::time::timeout(ANSWER_WITHIN, psql.output()).await;
    let said = said.context("psql timed out")?.context("start psql")?;
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr).trim());
    Ok(String::from_utf8(said.stdout)?.trim_end().to_owned())
}
