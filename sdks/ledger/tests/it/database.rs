//! A database with the tables of the ledger.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::{Client, Config, NoTls};

/// Connects to the server of the tests.
pub(crate) async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.expect("it accepts connections");
    tokio::spawn(connection);
    client
}

/// The server of `e2e/with-postgres`.
pub(crate) fn server() -> Config {
    let server = std::env::var("DRIFTQ_TEST_POSTGRES")
        .expect("DRIFTQ_TEST_POSTGRES is not set: run `just test`, or use e2e/with-postgres");
    server.parse().expect("a connection string")
}

/// A new database with the tables.
pub(crate) async fn database() -> Config {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("ledger_{}_{number}", std::process::id());
    let mut config = server();
    let create = format!("CREATE DATABASE {name}");
    connect(&config).await.batch_execute(&create).await.expect("it is created");
    config.dbname(&name);
    let client = connect(&config).await;
    client.batch_execute(driftq_ledger::SCHEMA).await.expect("the schema is valid");
    config
}
