//! One of several servers on a PostgreSQL: killed, paused, started again at the same address.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::broker::listening;

/// How long a server may take to be gone: it hands over first.
const PATIENCE: Duration = Duration::from_secs(60);

/// How servers are to share a database.
#[derive(Debug, Clone, Copy)]
pub struct Sharing {
    /// How many shards it gets.
    pub shards: u32,
    /// After how long one that is not heard loses them.
    pub lease_ms: u64,
}

/// A server, and what it is started with.
pub struct Node {
    binary: String,
    arguments: Vec<String>,
    child: Child,
}

impl Node {
    /// Starts one at `listen`, where others reach it at `advertise`, on a database.
    pub async fn start(
        binary: &str,
        listen: SocketAddr,
        advertise: SocketAddr,
        database: &str,
        sharing: Sharing,
    ) -> anyhow::Result<Node> {
        let arguments: Vec<String> = [
            ("--listen", listen.to_string()),
            ("--cluster-advertise", format!("http://{advertise}")),
            ("--database-url", database.to_owned()),
            ("--storage-shards", sharing.shards.to_string()),
            ("--cluster-lease-ms", sharing.lease_ms.to_string()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
        let child = spawn(binary, &arguments).await?;
        Ok(Node { binary: binary.to_owned(), arguments, child })
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
        self.child = spawn(&self.binary, &self.arguments).await?;
        Ok(())
    }

    /// The same with another binary, until it is started with another again.
    pub async fn start_as(&mut self, binary: &str) -> anyhow::Result<()> {
        self.binary = binary.to_owned();
        self.start_again().await
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(kill_process(id.context("it has ended")?, signal)?)
    }
}

/// An address on this machine that was free when asked for.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

async fn spawn(binary: &str, more: &[String]) -> anyhow::Result<Child> {
    let mut command = Command::new(binary);
    command.args(["serve", "--engine", "postgres"]).args(more);
    Ok(listening(command).await?.0)
}
