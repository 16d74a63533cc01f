//! A driftq server process with arbitrary arguments, an optional clock, and a readable log.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::api::Api;
use crate::clock::Clock;

/// How long a server may take to become ready and to exit.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The arguments and environment of a server.
#[derive(Clone)]
pub struct Launch {
    /// The program.
    pub binary: String,
    /// The arguments after `serve`, without `--listen`.
    pub arguments: Vec<String>,
    /// Environment variables in addition to those of this process.
    pub variables: Vec<(String, String)>,
    /// A clock other than the machine's.
    pub clock: Option<Clock>,
    /// The file to which the log is appended.
    pub log: PathBuf,
}

/// A running server. Killed on drop.
pub struct Server {
    launch: Launch,
    child: Child,
    /// Kept open, because the server may write to it.
    _stdout: BufReader<ChildStdout>,
    /// Its listen address.
    pub address: SocketAddr,
}

impl Launch {
    /// A server on a data directory. Its log is next to the directory.
    pub fn sqlite(binary: &str, data: &Path, more: &[&str]) -> Launch {
        let mut arguments = vec!["--engine".to_owned(), "sqlite".to_owned(), "--data".to_owned()];
        arguments.push(data.display().to_string());
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        Launch {
            binary: binary.to_owned(),
            arguments,
            variables: Vec::new(),
            clock: None,
            log: data.with_extension("log"),
        }
    }

    /// Starts the server and waits until it listens.
    pub async fn start(self) -> anyhow::Result<Server> {
        let (child, stdout, address) = self.spawn("127.0.0.1:0").await?;
        Ok(Server { launch: self, child, _stdout: stdout, address })
    }

    async fn spawn(
        &self,
        listen: &str,
    ) -> anyhow::Result<(Child, BufReader<ChildStdout>, SocketAddr)> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.binary);
        command.args(["serve", "--listen", listen]).args(&self.arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.envs(self.clock.iter().flat_map(Clock::variables));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("start {}", self.binary))?;
        let mut stdout = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut line = String::new();
        let ready = tokio::time::timeout(TIMEOUT, stdout.read_line(&mut line));
        ready.await.context("the server is not ready")??;
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.with_context(|| {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            format!("the server did not start: {line}{log}")
        })?;
        Ok((child, stdout, address.parse()?))
    }
}

impl Server {
    /// A client of this server.
    pub fn api(&self) -> anyhow::Result<Api> {
        crate::api::api(self.address)
    }

    /// Waits until it accepts requests.
    pub async fn ready(&self) -> anyhow::Result<()> {
        let api = self.api()?;
        let began = tokio::time::Instant::now();
        while api.get("readyz").await?.status != 200 {
            anyhow::ensure!(began.elapsed() < TIMEOUT, "the server is not ready");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server has exited")
    }

    /// Sends SIGKILL and waits until it has exited.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Sends SIGTERM and waits until it has exited.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.pid()?.cast_signed()).context("a process id")?;
        kill_process(pid, Signal::TERM)?;
        tokio::time::timeout(TIMEOUT, self.child.wait()).await.context("server did not exit")??;
        Ok(())
    }

    /// Stops it and starts it again at the same address with another clock.
    pub async fn restart_at(&mut self, clock: Clock) -> anyhow::Result<()> {
        self.stop().await?;
        self.launch.clock = Some(clock);
        self.start_again().await
    }

    /// Starts it again at the same address.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        let listen = self.address.to_string();
        (self.child, self._stdout, self.address) = self.launch.spawn(&listen).await?;
        self.ready().await
    }

    /// Its log.
    pub fn log(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(&self.launch.log)?)
    }
}
