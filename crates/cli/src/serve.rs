//! `driftq serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use driftq_server::Server;
use driftq_server::config::{Config, EngineConfig};

/// Run a server
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq serve --data ./data                     one node, everything on disk
  driftq serve --data ./data --listen 0.0.0.0:8080 --api-key-file key.txt
  driftq serve --engine memory                   nothing survives")]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8080", env = "DRIFTQ_LISTEN")]
    listen: SocketAddr,
    /// Where rows live
    #[arg(long, value_enum, default_value = "sqlite", env = "DRIFTQ_ENGINE")]
    engine: Engine,
    /// The data directory of the sqlite engine
    #[arg(long, default_value = "driftq-data", env = "DRIFTQ_DATA")]
    data: PathBuf,
    /// Listen to other machines without a key
    #[arg(long)]
    insecure: bool,
    /// Begin with the defaults of another time: `v1` has those of the first contract
    #[arg(long, value_enum)]
    profile: Option<Profile>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Engine {
    Memory,
    Sqlite,
}

#[derive(Clone, Copy, ValueEnum)]
enum Profile {
    V1,
}

impl Serve {
    pub(crate) async fn run(self, api_key_file: Option<&Path>) -> anyhow::Result<()> {
        log_to_stderr();
        let engine = match self.engine {
            Engine::Memory => EngineConfig::Memory,
            Engine::Sqlite => EngineConfig::Sqlite(self.data),
        };
        let mut config = Config {
            listen: self.listen,
            insecure: self.insecure,
            api_key: api_key_file.map(first_line).transpose()?,
            ..Config::local(engine)
        };
        if let Some(Profile::V1) = self.profile {
            tracing::warn!("profile v1: defaults of the first contract, tiny on purpose");
            config.defaults = driftq_server::config::v1_defaults();
        }
        let server = Server::start(config).await?;
        println!("listening on http://{}", server.address());
        until_told_to_stop().await?;
        tracing::info!("stopping: what is under way ends first");
        server.stop().await;
        Ok(())
    }
}

pub(crate) fn first_line(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let key = text.lines().next().unwrap_or_default().trim().to_owned();
    anyhow::ensure!(key.len() >= 16, "{}: a key has at least 16 characters", path.display());
    Ok(key)
}

pub(crate) fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("DRIFTQ_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    // A second one in the same process is of no harm.
    let _there = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .try_init();
}

/// Ctrl-C, or what a supervisor sends.
pub(crate) async fn until_told_to_stop() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
    }
    Ok(())
}
