//! A driftq server process on SQLite, optionally under strace, which makes system calls fail, block
//! or kill the process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::api::Api;

/// How long the server may take to become ready and to exit.
const TIMEOUT: Duration = Duration::from_secs(20);
/// System calls that flush. SQLite chooses which one it uses.
pub const FLUSH: &str = "fdatasync,fsync";
/// The system call that writes to the database and its WAL, and to nothing else.
pub const WRITE: &str = "pwrite64";

/// A system call fault, in strace syntax (`EIO` at the third call: `error=EIO:when=3`).
#[derive(Debug, Clone)]
pub struct Fault {
    /// The system calls, separated by commas.
    pub calls: &'static str,
    /// The injected fault.
    pub does: String,
}

/// A server on a data directory.
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

    /// Starts a server on a directory that is created with this number of shards.
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
        // A server that hangs must not keep the directory locked.
        let (child, listen) = started.inspect_err(|_| end(data))?;
        Ok(Broker { binary: binary.to_owned(), data: data.to_owned(), listen, child })
    }

    /// The base URL of its API.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.listen)
    }

    /// A client of this server.
    pub fn api(&self) -> anyhow::Result<Api> {
        crate::api::api(self.listen.parse()?)
    }

    /// Sends SIGKILL and waits until the process has exited.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        // Under strace the child process is strace, which exits when the server does.
        end(&self.data);
        tokio::time::timeout(TIMEOUT, self.child.wait()).await.context("it did not exit")??;
        Ok(())
    }

    /// Starts another server on the same directory and address.
    pub async fn start_again(&mut self, fault: Option<&Fault>) -> anyhow::Result<()> {
        let (child, _) = spawn(&self.binary, &self.data, &self.listen, fault, &[]).await?;
        self.child = child;
        Ok(())
    }

    /// The id of its process.
    pub fn pid(&self) -> Option<Pid> {
        let pid = i32::try_from(self.child.id()?).ok()?;
        Pid::from_raw(pid)
    }

    /// Whether its process has ended.
    pub fn is_dead(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

/// Kills the process named in the lock file of the directory.
fn end(data: &Path) {
    let lock = std::fs::read_to_string(data.join("lock")).unwrap_or_default();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", lock.trim()));
    // The process may be dead already, and its id reused.
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

/// Starts a server and waits until it prints its listen address.
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
    let line = tokio::time::timeout(TIMEOUT, lines.next_line()).await;
    let line = line.context("server is not ready")??.context("server exited early")?;
    let listen = line.strip_prefix("listening on http://").context("unexpected first line")?;
    Ok((child, listen.to_owned()))
}
