//! One of several servers that share a PostgreSQL database. It can be killed, paused, and restarted
//! at the same address.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::broker::listening;

/// How long a server may take to exit. It hands over its shards first.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How the servers share a database.
#[derive(Debug, Clone, Copy)]
pub struct Sharing {
    /// Number of shards.
    pub shards: u32,
    /// How long a silent node keeps its shards.
    pub lease_ms: u64,
}

/// A server and its arguments.
pub struct Node {
    binary: String,
    arguments: Vec<String>,
    child: Child,
}

impl Node {
    /// Starts a server that listens at `listen` and that other nodes reach at `advertise`.
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

    /// Sends SIGKILL and waits until the process has exited.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)?;
        self.ended().await
    }

    /// Sends SIGTERM. The server hands over its shards and exits.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Waits until the process has exited.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        tokio::time::timeout(TIMEOUT, self.child.wait()).await.context("server did not exit")??;
        Ok(())
    }

    /// Sends SIGSTOP. The server answers no request and does not notice the pause.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Starts a new process at the same address.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        self.child = spawn(&self.binary, &self.arguments).await?;
        Ok(())
    }

    /// Starts a new process from another binary, which later restarts use too.
    pub async fn start_as(&mut self, binary: &str) -> anyhow::Result<()> {
        self.binary = binary.to_owned();
        self.start_again().await
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(kill_process(id.context("the server has exited")?, signal)?)
    }
}

/// Returns a local address that was free at the time of the call.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

async fn spawn(binary: &str, more: &[String]) -> anyhow::Result<Child> {
    let mut command = Command::new(binary);
    command.args(["serve", "--engine", "postgres"]).args(more);
    Ok(listening(command).await?.0)
}
