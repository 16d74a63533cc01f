//! Statements, and what comes of them.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::process::Command;

/// How long they may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Runs those that `-c` or `-f` names and returns their rows, fields divided by `|`.
pub(crate) async fn ask(psql: &Path, url: &str, statements: &[&str]) -> anyhow::Result<String> {
    let mut psql = Command::new(psql);
    psql.args([url, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]).args(statements);
    psql.stdin(Stdio::null()).kill_on_drop(true);
    let said = tokio::time::timeout(ANSWER_WITHIN, psql.output()).await;
    let said = said.context("it does not answer")?.context("start psql")?;
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr).trim());
    Ok(String::from_utf8(said.stdout)?.trim_end().to_owned())
}
