//! A real server in this process, with helpers for requests.
//!
//! `DRIFTQ_TEST_ENGINE=sqlite` runs every test on SQLite in its own directory, `postgres` in its
//! own database. Otherwise rows are in memory, except for tests that restart the server, which use
//! SQLite. A test that advances time always runs in memory.

use std::net::SocketAddr;
use std::ops::Deref;

use driftq_server::Server;
use driftq_server::config::{Config, EngineConfig};
use tempfile::TempDir;

use crate::client::Client;

/// A server for one test.
pub(crate) struct Broker {
    server: Server,
    client: Client,
    /// Kept until the server has stopped.
    data: Data,
}

/// The storage of the server.
enum Data {
    Memory,
    Directory(TempDir),
    Database(String),
}

/// The engine of this test run.
pub(crate) fn engine() -> String {
    let engine = std::env::var("DRIFTQ_TEST_ENGINE").unwrap_or_else(|_| "memory".to_owned());
    let known = ["memory", "sqlite", "postgres"];
    assert!(known.contains(&&*engine), "DRIFTQ_TEST_ENGINE is one of {known:?}, not {engine:?}");
    engine
}

/// Creates a database for one test.
pub(crate) async fn database() -> String {
    create_database("").await
}

/// Copies a database that has no connections.
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
    /// Starts a server with the defaults.
    pub(crate) async fn start() -> Broker {
        Broker::with(|_| ()).await
    }

    /// Starts a server with a changed configuration.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Broker {
        match engine().as_str() {
            "memory" => Broker::begin(Data::Memory, change).await,
            _ => Broker::on_disk(change).await,
        }
    }

    /// Starts a server with the v1 defaults that the examples of the v1 contract assume.
    pub(crate) async fn v1() -> Broker {
        Broker::with(|config| {
            config.defaults = driftq_server::config::v1_defaults();
            config.unkeyed_of_new_topics = driftq_server::config::Unkeyed::First;
            config.is_v1 = true;
        })
        .await
    }

    /// Starts a server that can be restarted.
    pub(crate) async fn durable() -> Broker {
        Broker::on_disk(|_| ()).await
    }

    /// Starts a server in memory. Tests can advance its time because no thread waits for a disk.
    pub(crate) async fn in_memory() -> Broker {
        Broker::in_memory_with(|_| ()).await
    }

    /// The same with a changed configuration.
    pub(crate) async fn in_memory_with(change: impl FnOnce(&mut Config)) -> Broker {
        Broker::begin(Data::Memory, change).await
    }

    /// The same with a changed configuration.
    pub(crate) async fn on_disk(change: impl FnOnce(&mut Config)) -> Broker {
        if engine() != "postgres" {
            return Broker::in_directory(change).await;
        }
        Broker::begin(Data::Database(database().await), |config| {
            // One shard, as on the other engines. Several shards have their own tests.
            config.shards = Some(1);
            change(config);
        })
        .await
    }

    /// Starts a server on SQLite on every engine setting.
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

    /// Starts nodes that share a database with this many shards.
    pub(crate) async fn nodes<const N: usize>(shards: u32) -> [Broker; N] {
        let url = database().await;
        let start = |_| {
            let data = Data::Database(url.clone());
            Broker::begin(data, move |config| config.shards = Some(shards))
        };
        let nodes = futures_util::future::join_all((0..N).map(start)).await;
        nodes.try_into().unwrap_or_else(|_| unreachable!("one broker was started per element"))
    }

    /// Starts a node with a changed configuration on a new database with this many shards.
    pub(crate) async fn on_new_database(shards: u32, change: impl FnOnce(&mut Config)) -> Broker {
        Broker::begin(Data::Database(database().await), |config| {
            config.shards = Some(shards);
            change(config);
        })
        .await
    }

    /// Starts another node on the same database.
    pub(crate) async fn another(&self) -> Broker {
        self.another_with(|_| ()).await
    }

    /// The same with a changed configuration.
    pub(crate) async fn another_with(&self, change: impl FnOnce(&mut Config)) -> Broker {
        Broker::begin(Data::Database(self.url().to_owned()), change).await
    }

    /// The URL of its database.
    pub(crate) fn url(&self) -> &str {
        let Data::Database(url) = &self.data else { panic!("only on a database") };
        url
    }

    /// Starts a server on an existing database.
    pub(crate) async fn on_database(url: &str) -> Broker {
        Broker::begin(Data::Database(url.to_owned()), |_| ()).await
    }

    /// Its data directory.
    pub(crate) fn directory(&self) -> std::path::PathBuf {
        let Data::Directory(directory) = &self.data else { panic!("only in a directory") };
        directory.path().to_owned()
    }

    /// Stops it and keeps its data directory.
    pub(crate) async fn leave_directory(self) -> TempDir {
        self.server.stop().await;
        let Data::Directory(directory) = self.data else { panic!("only in a directory") };
        directory
    }

    /// Stops it and starts another on the same storage.
    pub(crate) async fn restart(self) -> Broker {
        self.restart_with(|_| ()).await
    }

    /// Stops it and starts another on the same storage with a changed configuration.
    pub(crate) async fn restart_with(self, change: impl FnOnce(&mut Config)) -> Broker {
        let data = self.data;
        assert!(!matches!(data, Data::Memory), "only a durable server can be restarted");
        self.server.stop().await;
        Broker::begin(data, change).await
    }

    /// Stops it after requests in flight have finished.
    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}
