//! A storage of one engine: created, packed into a set, and unpacked from it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use driftq_e2e::clock::Clock;
use driftq_e2e::directory::Directory;
use driftq_e2e::postgres::Cluster;
use driftq_e2e::server::{Launch, Server};
use tokio::process::Command;

const POSTGRES_VERSION: u32 = 15;
/// Short, so that a killed server does not keep its shards for long.
const NODE_LEASE_MS: &str = "3000";
/// Several, so that messages are sent from one shard to another.
pub(crate) const SHARDS: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    pub(crate) const ALL: [Engine; 2] = [Engine::Sqlite, Engine::Postgres];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
        }
    }

    /// The file of a set that contains the rows.
    fn file(self) -> &'static str {
        match self {
            Engine::Sqlite => "data.tar.xz",
            Engine::Postgres => "dump.sql.xz",
        }
    }
}

/// Rows, and the clock of the server and the database.
pub(crate) struct Storage {
    engine: Engine,
    clock: Option<Clock>,
    /// None on SQLite.
    cluster: Option<Cluster>,
    directory: Directory,
}

impl Storage {
    /// The log of the database, or nothing on SQLite.
    pub(crate) fn log(&self) -> anyhow::Result<String> {
        self.cluster.as_ref().map_or_else(|| Ok(String::new()), Cluster::log)
    }

    /// Creates an empty storage that uses the machine's clock.
    pub(crate) async fn make(engine: Engine) -> anyhow::Result<Storage> {
        let cluster = match engine {
            Engine::Sqlite => None,
            Engine::Postgres => Some(Cluster::start(POSTGRES_VERSION).await?),
        };
        Ok(Storage { engine, clock: None, cluster, directory: Directory::make()? })
    }

    /// Unpacks the storage of a set, with another clock.
    pub(crate) async fn open(engine: Engine, set: &Path, clock: Clock) -> anyhow::Result<Storage> {
        let directory = Directory::make()?;
        let packed = set.join(engine.file());
        let cluster = match engine {
            Engine::Sqlite => {
                let mut tar = Command::new("tar");
                run(tar.arg("-C").arg(directory.path()).arg("-xJf").arg(packed)).await?;
                None
            }
            Engine::Postgres => {
                let cluster = Cluster::start_with(POSTGRES_VERSION, clock.clone()).await?;
                let sql = directory.path().join("dump.sql");
                std::fs::write(&sql, unpack(&packed).await?)?;
                cluster.load(&sql).await?;
                // The dump stands for the database itself. As a restored database it would need
                // `driftq mark-restored`, which invalidates the tokens that are checked here.
                cluster.sql("DELETE FROM driftq.meta WHERE name = 'place'").await?;
                Some(cluster)
            }
        };
        Ok(Storage { engine, clock: Some(clock), cluster, directory })
    }

    /// Writes the storage into a set. No server may be running on it.
    pub(crate) async fn save(&self, set: &Path) -> anyhow::Result<()> {
        match &self.cluster {
            None => {
                let plain = set.join("data.tar");
                let mut tar = Command::new("tar");
                tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
                tar.arg("-C").arg(self.directory.path()).arg("-cf").arg(&plain).arg("data");
                run(&mut tar).await?;
                pack(&plain).await
            }
            Some(cluster) => {
                let plain = set.join("dump.sql");
                std::fs::write(&plain, cluster.dump().await?)?;
                pack(&plain).await
            }
        }
    }

    pub(crate) async fn start(&self, binary: &str) -> anyhow::Result<Server> {
        let data = self.data();
        let shards = SHARDS.to_string();
        let mut launch = Launch::sqlite(binary, &data, &["--storage-shards", &shards]);
        if let Some(cluster) = &self.cluster {
            let url = cluster.url();
            let arguments = ["--engine", "postgres", "--database-url", &url, "--storage-shards"];
            let arguments = arguments.into_iter().chain([shards.as_str(), "--cluster-lease-ms"]);
            launch.arguments = arguments.chain([NODE_LEASE_MS]).map(str::to_owned).collect();
        }
        launch.clock = self.clock.clone();
        let server = launch.start().await?;
        server.ready().await?;
        Ok(server)
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine
    }

    /// The path of a temporary file of the run.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }
}

/// Compresses a file in place.
pub(crate) async fn pack(file: &Path) -> anyhow::Result<()> {
    run(Command::new("xz").args(["-9", "-f"]).arg(file)).await?;
    Ok(())
}

/// Returns the contents of a compressed file.
pub(crate) async fn unpack(file: &Path) -> anyhow::Result<Vec<u8>> {
    run(Command::new("xz").args(["-d", "-c"]).arg(file)).await
}

/// Runs a program, which must succeed, and returns its output.
pub(crate) async fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let said = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let said = said.with_context(|| format!("start {:?}", command.as_std()))?;
    let errors = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "{:?}: {}", command.as_std(), errors.trim());
    Ok(said.stdout)
}
