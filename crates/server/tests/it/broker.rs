//! A real server in this process, and what a test says to it.
//!
//! `DRIFTQ_TEST_ENGINE=sqlite` runs every test on SQLite in a directory of its own, `postgres` in a database
//! of its own; otherwise rows live in memory, but for tests that restart the server: those are on SQLite
//! then. A test that makes time pass is in memory, whatever is said.

use std::net::SocketAddr;
use std::ops::Deref;

use driftq_server::Server;
use driftq_server::config::{Config, EngineConfig};
use tempfile::TempDir;

use crate::client::Client;

/// A server that serves this test alone.
pub(crate) struct Broker {
    server: Server,
    client: Client,
    /// Kept until the server is gone.
    data: Data,
}

/// Where its rows are.
enum Data {
    Memory,
    Directory(TempDir),
    Database(String),
}

/// What this run is about.
pub(crate) fn engine() -> String {
    let engine = std::env::var("DRIFTQ_TEST_ENGINE").unwrap_or_else(|_| "memory".to_owned());
    let known = ["memory", "sqlite", "postgres"];
    assert!(known.contains(&&*engine), "DRIFTQ_TEST_ENGINE is one of {known:?}, not {engine:?}");
    engine
}

/// A database of this test's own.
pub(crate) async fn database() -> String {
    create_database("").await
}

/// A copy of a database that nobody is connected to.
pub(crate) async fn copy_of(url: &str) -> String {
    let name = url.split("dbname=").nth(1).expect("a name");
    create_database(&format!("TEMPLATE {name}")).await
}

async fn create_database(how: &str) -> String {
    let server = std::env::var("DRIFTQ_TEST_POSTGRES").expect(
        "no PostgreSQL to test with: run this by `just contract`, or under e2e/with-postgres",
    );
    let name = format!("t{}_{:x}", std::process::id(), fastrand::u64(..));
    let (client, connection) =
        tokio_postgres::connect(&server, tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name} {how}")).await.expect("a database");
    server.replace("dbname=postgres", &format!("dbname={name}"))
}

impl Deref for Broker {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Broker {
    /// A server with the defaults.
    pub(crate) async fn start() -> Broker {
        Broker::with(|_| ()).await
    }

    /// A server whose configuration is changed a little.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Broker {
        match engine().as_str() {
            "memory" => Broker::begin(Data::Memory, change).await,
            _ => Broker::on_disk(change).await,
        }
    }

    /// A server with the defaults that the examples of the first contract were written with.
    pub(crate) async fn v1() -> Broker {
        Broker::with(|config| config.defaults = driftq_server::config::v1_defaults()).await
    }

    /// A server that can be started again.
    pub(crate) async fn durable() -> Broker {
        Broker::on_disk(|_| ()).await
    }

    /// A server whose rows are where time can be made to pass: no thread waits for a disk.
    pub(crate) async fn in_memory() -> Broker {
        Broker::begin(Data::Memory, |_| ()).await
    }

    /// The same, with its configuration changed a little.
    pub(crate) async fn on_disk(change: impl FnOnce(&mut Config)) -> Broker {
        if engine() != "postgres" {
            return Broker::in_directory(change).await;
        }
        Broker::begin(Data::Database(database().await), |config| {
            // As many as on the other engines: what several do is told by tests of its own.
            config.shards = Some(1);
            change(config);
        })
        .await
    }

    /// A server on SQLite, whatever is said.
    pub(crate) async fn in_directory(change: impl FnOnce(&mut Config)) -> Broker {
        let directory = TempDir::new().expect("a directory of its own");
        Broker::begin(Data::Directory(directory), change).await
    }

    async fn begin(data: Data, change: impl FnOnce(&mut Config)) -> Broker {
        let engine = match &data {
            Data::Memory => EngineConfig::Memory,
            Data::Directory(directory) => EngineConfig::Sqlite(directory.path().to_owned()),
            Data::Database(url) => EngineConfig::Postgres(url.clone().into()),
        };
        let mut config = Config::local(engine);
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        change(&mut config);
        let server = Server::start(config).await.expect("it starts");
        server.served().await;
        let client = Client::new(server.address());
        Broker { server, client, data }
    }

    /// Nodes that share a database with so many shards.
    pub(crate) async fn nodes<const N: usize>(shards: u32) -> [Broker; N] {
        let url = database().await;
        let start = |_| {
            let data = Data::Database(url.clone());
            Broker::begin(data, move |config| config.shards = Some(shards))
        };
        let nodes = futures_util::future::join_all((0..N).map(start)).await;
        nodes.try_into().unwrap_or_else(|_| unreachable!("as many as were started"))
    }

    /// Another node on the same database.
    pub(crate) async fn another(&self) -> Broker {
        self.another_with(|_| ()).await
    }

    /// The same, with its configuration changed a little.
    pub(crate) async fn another_with(&self, change: impl FnOnce(&mut Config)) -> Broker {
        Broker::begin(Data::Database(self.url().to_owned()), change).await
    }

    /// Its database.
    pub(crate) fn url(&self) -> &str {
        let Data::Database(url) = &self.data else { panic!("only on a database") };
        url
    }

    /// A server on a database that is there.
    pub(crate) async fn on_database(url: &str) -> Broker {
        Broker::begin(Data::Database(url.to_owned()), |_| ()).await
    }

    /// Its data directory.
    pub(crate) fn directory(&self) -> std::path::PathBuf {
        let Data::Directory(directory) = &self.data else { panic!("only in a directory") };
        directory.path().to_owned()
    }

    /// Stops it; its data directory is left.
    pub(crate) async fn leave_directory(self) -> TempDir {
        self.server.stop().await;
        let Data::Directory(directory) = self.data else { panic!("only in a directory") };
        directory
    }

    /// Stops it and starts another on the same rows.
    pub(crate) async fn restart(self) -> Broker {
        self.restart_with(|_| ()).await
    }

    /// Stops it and starts another on the same rows, with its configuration changed a little.
    pub(crate) async fn restart_with(self, change: impl FnOnce(&mut Config)) -> Broker {
        let data = self.data;
        assert!(!matches!(data, Data::Memory), "only what is on disk survives a restart");
        self.server.stop().await;
        Broker::begin(data, change).await
    }

    /// Stops it. What is under way ends first.
    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}
