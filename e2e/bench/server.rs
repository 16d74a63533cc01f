//! The server under measurement, as a process.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::wire::{Wire, get};

const START_TIME: Duration = Duration::from_secs(30);

/// The variants that are compared.
#[derive(Clone)]
pub(crate) enum Side {
    /// The binary on SQLite, with a flush before every answer.
    Sqlite(String),
    /// The binary in memory.
    Memory(String),
    /// The binary in memory, with a connection limit.
    Limited { driftq: String, connections: usize },
    /// The binary on SQLite, with a memory budget.
    Budgeted { driftq: String, bytes: u64 },
    /// The binary on an existing PostgreSQL, with a number of shards.
    Postgres { driftq: String, url: String, shards: u32 },
    /// A handler that parses the request and does nothing, see [`crate::baseline_http`].
    Bare,
}

/// A running server. Dropping it kills it and deletes its files.
pub(crate) struct Server {
    side: Side,
    files: PathBuf,
    child: Child,
    /// Not read after the first line, but kept open.
    _stdout: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) async fn start(side: Side) -> anyhow::Result<Server> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Next to the build, because the temporary directory is often in memory, where a flush
        // costs nothing.
        let built = std::env::current_exe()?;
        let built = built.parent().context("the path of a program has a parent")?;
        let files = built.join(format!("measure-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&files)?;
        let (child, stdout, address) = spawn(&side, &files, "127.0.0.1:0").await?;
        Ok(Server { side, files, child, _stdout: stdout, address })
    }

    /// Sends SIGKILL and starts the server on the same files. Returns how long it took to become
    /// ready.
    pub(crate) async fn kill_and_restart(&mut self) -> anyhow::Result<Duration> {
        self.child.kill().await?;
        let began = Instant::now();
        let listen = self.address.to_string();
        (self.child, self._stdout, self.address) = spawn(&self.side, &self.files, &listen).await?;
        while let Err(error) = self.connect().await?.json(&get("/v1/readyz")).await {
            anyhow::ensure!(began.elapsed() < START_TIME, "the server is not ready: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(began.elapsed())
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Wire> {
        Wire::connect(self.address).await
    }

    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server has exited")
    }

    /// Returns the median duration of a flush next to the data, which is needed to interpret
    /// figures about a disk.
    pub(crate) fn flush_time(&self) -> anyhow::Result<Duration> {
        let mut file = File::create(self.files.join("flushed"))?;
        let mut took = [Duration::ZERO; 51];
        for each in &mut took {
            let began = Instant::now();
            file.write_all(&[0; 8_192])?;
            file.sync_data()?;
            *each = began.elapsed();
        }
        took.sort_unstable();
        Ok(took[took.len() / 2])
    }

    /// Returns the contents of stderr, where panics and errors are logged. Empty if there were
    /// none.
    pub(crate) fn complaints(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.files.join("stderr"))?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The run is over, so failures do not matter.
        let _ended = self.child.start_kill();
        let _removed = std::fs::remove_dir_all(&self.files);
    }
}

async fn spawn(
    side: &Side,
    files: &std::path::Path,
    listen: &str,
) -> anyhow::Result<(Child, BufReader<ChildStdout>, SocketAddr)> {
    let mut command = match side {
        Side::Bare => Command::new(std::env::current_exe()?),
        Side::Sqlite(driftq)
        | Side::Memory(driftq)
        | Side::Limited { driftq, .. }
        | Side::Budgeted { driftq, .. }
        | Side::Postgres { driftq, .. } => Command::new(driftq),
    };
    match side {
        Side::Bare => command.arg("bare"),
        Side::Memory(_) => command.args(["serve", "--engine", "memory", "--listen", listen]),
        Side::Limited { connections, .. } => {
            command.args(["serve", "--engine", "memory", "--listen", listen]);
            command.args(["--limits-connections", &connections.to_string()])
        }
        Side::Sqlite(_) => {
            command.args(["serve", "--engine", "sqlite", "--listen", listen, "--data"]);
            command.arg(files.join("data"))
        }
        Side::Budgeted { bytes, .. } => {
            command.args(["serve", "--engine", "sqlite", "--listen", listen]);
            command.args(["--memory-budget-bytes", &bytes.to_string(), "--data"]);
            command.arg(files.join("data"))
        }
        Side::Postgres { url, shards, .. } => {
            command.args(["serve", "--engine", "postgres", "--listen", listen]);
            command.args(["--database-url", url, "--storage-shards", &shards.to_string()])
        }
    };
    let stderr = File::options().create(true).append(true).open(files.join("stderr"))?;
    command.env("DRIFTQ_LOG", "error").stdout(Stdio::piped()).stderr(stderr).kill_on_drop(true);
    let mut child = command.spawn().context("start the server")?;
    let mut stdout = BufReader::new(child.stdout.take().context("its output is piped")?);
    let mut line = String::new();
    let ready = tokio::time::timeout(START_TIME, stdout.read_line(&mut line));
    ready.await.context("the server is not ready")??;
    let listens = line.trim().strip_prefix("listening on http://");
    let address = listens.with_context(|| format!("unexpected first line: {line:?}"))?;
    Ok((child, stdout, address.parse()?))
}
