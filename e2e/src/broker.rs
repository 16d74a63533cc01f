//! The server as a process of its own.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A server and its data directory.
pub(crate) struct Broker {
    binary: String,
    data: PathBuf,
    listen: String,
    child: Child,
}

impl Broker {
    pub(crate) async fn start(binary: String) -> anyhow::Result<Broker> {
        let data = std::env::temp_dir().join(format!("driftq-crash-{}", std::process::id()));
        let (child, listen) = spawn(&binary, &data, "127.0.0.1:0").await?;
        Ok(Broker { binary, data, listen, child })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.listen)
    }

    /// SIGKILL, and at once again on the same directory and address.
    pub(crate) async fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.child.kill().await?;
        let (child, _) = spawn(&self.binary, &self.data, &self.listen).await?;
        self.child = child;
        Ok(())
    }

    pub(crate) async fn stop(mut self) {
        // The run is over: how it ends is of no interest.
        let _ended = self.child.kill().await;
        let _removed = std::fs::remove_dir_all(&self.data);
    }
}

async fn spawn(
    binary: &str,
    data: &std::path::Path,
    listen: &str,
) -> anyhow::Result<(Child, String)> {
    let mut child = Command::new(binary)
        .args(["serve", "--engine", "sqlite", "--listen", listen, "--data"])
        .arg(data)
        .env("DRIFTQ_LOG", "error")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {binary}"))?;
    let out = child.stdout.take().context("its output is piped")?;
    let mut lines = BufReader::new(out).lines();
    let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await;
    let line = line.context("it does not get ready")??.context("it ended before it was ready")?;
    let listen = line.strip_prefix("listening on http://").context("its first line is another")?;
    Ok((child, listen.to_owned()))
}
