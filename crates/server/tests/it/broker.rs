//! A real server in this process, and what a test says to it.
//!
//! `DRIFTQ_TEST_ENGINE=sqlite` runs every test on SQLite in a directory of its own; otherwise rows live
//! in memory. A test that restarts the server, or makes time pass, names its engine itself.

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
    data: Option<TempDir>,
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
        match std::env::var("DRIFTQ_TEST_ENGINE").as_deref() {
            Ok("sqlite") => Broker::on_disk(change).await,
            Ok("memory") | Err(_) => Broker::begin(None, change).await,
            Ok(other) => panic!("DRIFTQ_TEST_ENGINE is memory or sqlite, not {other:?}"),
        }
    }

    /// A server with the defaults that the examples of the first contract were written with.
    pub(crate) async fn v1() -> Broker {
        Broker::with(|config| config.defaults = driftq_server::config::v1_defaults()).await
    }

    /// A server that can be started again, whatever the environment says.
    pub(crate) async fn durable() -> Broker {
        Broker::on_disk(|_| ()).await
    }

    /// A server whose rows are where time can be made to pass: no thread waits for a disk.
    pub(crate) async fn in_memory() -> Broker {
        Broker::begin(None, |_| ()).await
    }

    /// The same, with its configuration changed a little.
    pub(crate) async fn on_disk(change: impl FnOnce(&mut Config)) -> Broker {
        let data = TempDir::new().expect("a directory of its own");
        Broker::begin(Some(data), change).await
    }

    async fn begin(data: Option<TempDir>, change: impl FnOnce(&mut Config)) -> Broker {
        let engine = match &data {
            Some(data) => EngineConfig::Sqlite(data.path().to_owned()),
            None => EngineConfig::Memory,
        };
        let mut config = Config::local(engine);
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        change(&mut config);
        let server = Server::start(config).await.expect("it starts");
        let client = Client::new(server.address());
        Broker { server, client, data }
    }

    /// Stops it and starts another on the same rows.
    pub(crate) async fn restart(self) -> Broker {
        self.restart_with(|_| ()).await
    }

    /// Stops it and starts another on the same rows, with its configuration changed a little.
    pub(crate) async fn restart_with(self, change: impl FnOnce(&mut Config)) -> Broker {
        let data = self.data.expect("only what is on disk survives a restart");
        self.server.stop().await;
        Broker::begin(Some(data), change).await
    }

    /// Stops it. What is under way ends first.
    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}
