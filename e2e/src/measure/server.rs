//! A server under measurement, as a process of its own.

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

/// What is started.
#[derive(Clone)]
pub(crate) enum Side {
    /// The binary on disk, flushed before every answer.
    Sqlite(String),
    /// The binary, in memory.
    Memory(String),
    /// The binary, in memory, with so many connections.
    Limited { driftq: String, connections: usize },
    /// The binary on disk, with a memory budget of so many bytes.
    Budgeted { driftq: String, bytes: u64 },
    /// The binary, on a PostgreSQL that is there, with so many shards.
    Postgres { driftq: String, url: String, shards: u32 },
    /// A handler that reads the request and does nothing, see [`crate::bare`].
    Bare,
}

/// A server at work. Dropped, it is gone, with its files.
pub(crate) struct Server {
    side: Side,
    files: PathBuf,
    child: Child,
    /// Read by nobody after the first line, and kept open.
    _stdout: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) async fn start(side: Side) -> anyhow::Result<Server> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Beside the build: the place for temporary files is often memory, where a flush costs nothing.
        let built = std::env::current_exe()?;
        let built = built.parent().context("a program lies in a directory")?;
        let files = built.join(format!("measure-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&files)?;
        let (child, stdout, address) = spawn(&side, &files, "127.0.0.1:0").await?;
        Ok(Server { side, files, child, _stdout: stdout, address })
    }

    /// SIGKILL, and a start on the same files. Returns how long it took to be ready.
    pub(crate) async fn kill_and_restart(&mut self) -> anyhow::Result<Duration> {
        self.child.kill().await?;
        let began = Instant::now();
        let listen = self.address.to_string();
        (self.child, self._stdout, self.address) = spawn(&self.side, &self.files, &listen).await?;
        while let Err(error) = self.connect().await?.json(&get("/v1/readyz")).await {
            anyhow::ensure!(began.elapsed() < START_TIME, "it does not get ready: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(began.elapsed())
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Wire> {
        Wire::connect(self.address).await
    }

    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server has ended")
    }

    /// The middle of some flushes beside its data: without it no figure about a disk can be read.
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

    /// What it said where a panic is told: nothing, if all is well.
    pub(crate) fn complaints(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.files.join("stderr"))?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The run is over: how it ends is of no interest.
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
    ready.await.context("it does not get ready")??;
    let listens = line.trim().strip_prefix("listening on http://");
    let address = listens.with_context(|| format!("its first line is another: {line:?}"))?;
    Ok((child, stdout, address.parse()?))
}
