//! One of several servers on a PostgreSQL: killed, paused, started again at the same address.

use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::broker::listening;

/// How long a server may take to be gone: it hands over first.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and what it is started with.
pub struct Node {
    binary: String,
    arguments: Vec<String>,
    listen: String,
    child: Child,
}

impl Node {
    /// Starts one on a database that gets so many shards, and loses them to others after so long.
    pub async fn start(
        binary: &str,
        database: &str,
        shards: u32,
        lease_ms: u64,
    ) -> anyhow::Result<Node> {
        let (shards, lease_ms) = (shards.to_string(), lease_ms.to_string());
        let arguments = ["--database-url", database, "--storage-shards", &shards];
        let arguments = arguments.into_iter().chain(["--cluster-lease-ms", &lease_ms]);
        let arguments: Vec<String> = arguments.map(str::to_owned).collect();
        let (child, listen) = spawn(binary, &arguments, "127.0.0.1:0").await?;
        Ok(Node { binary: binary.to_owned(), arguments, listen, child })
    }

    /// Where its API is.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.listen)
    }

    /// SIGKILL, and wait until it is gone.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)?;
        self.ended().await
    }

    /// SIGTERM: it hands over, and ends.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Waits until it is gone.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        tokio::time::timeout(PATIENCE, self.child.wait()).await.context("it does not stop")??;
        Ok(())
    }

    /// SIGSTOP: it answers nobody, and does not know it.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Another process at the same address.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        (self.child, _) = spawn(&self.binary, &self.arguments, &self.listen).await?;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(kill_process(id.context("it has ended")?, signal)?)
    }
}

async fn spawn(binary: &str, more: &[String], listen: &str) -> anyhow::Result<(Child, String)> {
    let mut command = Command::new(binary);
    command.args(["serve", "--engine", "postgres", "--listen", listen]).args(more);
    listening(command).await
}
