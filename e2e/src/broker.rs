//! The server as a process of its own, alone or under strace, which makes system calls fail, wait or kill.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// How long a server may take to be ready, and to be gone.
const PATIENCE: Duration = Duration::from_secs(20);
/// System calls that flush; which of them is used is up to SQLite.
pub const FLUSH: &str = "fdatasync,fsync";
/// The system call that writes to the database and its WAL, and to nothing else.
pub const WRITE: &str = "pwrite64";

/// What strace does to a system call, in its own words (`EIO` at the third: `error=EIO:when=3`).
#[derive(Debug, Clone)]
pub struct Fault {
    /// Which.
    pub calls: &'static str,
    /// What becomes of them.
    pub does: String,
}

/// A data directory, and the server on it.
pub struct Broker {
    binary: String,
    data: PathBuf,
    listen: String,
    child: Child,
}

impl Broker {
    /// Starts a server on a directory.
    pub async fn start(binary: &str, data: &Path, fault: Option<&Fault>) -> anyhow::Result<Broker> {
        Broker::start_with(binary, data, fault, &[]).await
    }

    /// Starts a server on a directory that gets so many shards.
    pub async fn start_sharded(binary: &str, data: &Path, shards: u32) -> anyhow::Result<Broker> {
        let shards = shards.to_string();
        Broker::start_with(binary, data, None, &["--storage-shards", &shards]).await
    }

    async fn start_with(
        binary: &str,
        data: &Path,
        fault: Option<&Fault>,
        more: &[&str],
    ) -> anyhow::Result<Broker> {
        let started = spawn(binary, data, "127.0.0.1:0", fault, more).await;
        // One that hangs must not keep the directory.
        let (child, listen) = started.inspect_err(|_| end(data))?;
        Ok(Broker { binary: binary.to_owned(), data: data.to_owned(), listen, child })
    }

    /// Where its API is.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.listen)
    }

    /// SIGKILL, and wait until it is gone.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        // Under strace the child is strace, which ends with what it watches.
        end(&self.data);
        tokio::time::timeout(PATIENCE, self.child.wait()).await.context("it does not die")??;
        Ok(())
    }

    /// Another server on the same directory and address.
    pub async fn start_again(&mut self, fault: Option<&Fault>) -> anyhow::Result<()> {
        let (child, _) = spawn(&self.binary, &self.data, &self.listen, fault, &[]).await?;
        self.child = child;
        Ok(())
    }

    /// Whether its process has ended.
    pub fn is_dead(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

/// Kills the process that holds the directory, as its lock says.
fn end(data: &Path) {
    let lock = std::fs::read_to_string(data.join("lock")).unwrap_or_default();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", lock.trim()));
    // It may be dead already, and its number somebody else's.
    if name.is_ok_and(|name| name.trim() == "driftq")
        && let Some(pid) = lock.trim().parse().ok().and_then(Pid::from_raw)
    {
        let _dead = kill_process(pid, Signal::KILL);
    }
}

async fn spawn(
    binary: &str,
    data: &Path,
    listen: &str,
    fault: Option<&Fault>,
    more: &[&str],
) -> anyhow::Result<(Child, String)> {
    let mut command = match fault {
        None => Command::new(binary),
        Some(Fault { calls, does }) => {
            let mut strace = Command::new("strace");
            strace.args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
            strace.args(["-e", &format!("trace={calls}")]);
            strace.args(["-e", &format!("inject={calls}:{does}"), binary]);
            strace
        }
    };
    command
        .args(["serve", "--engine", "sqlite", "--listen", listen, "--data"])
        .arg(data)
        .args(more);
    listening(command).await
}

/// Starts a server, and waits until it says where it listens.
pub(crate) async fn listening(mut command: Command) -> anyhow::Result<(Child, String)> {
    let mut child = command
        .env("DRIFTQ_LOG", "error")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {:?}; is strace installed?", command.as_std()))?;
    let out = child.stdout.take().context("its output is piped")?;
    let mut lines = BufReader::new(out).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
    let line = line.context("it does not get ready")??.context("it ended before it was ready")?;
    let listen = line.strip_prefix("listening on http://").context("its first line is another")?;
    Ok((child, listen.to_owned()))
}
