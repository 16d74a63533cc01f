//! What the PostgreSQL engine promises beside the conformance suite.

use std::sync::LazyLock;

use driftq_core::row::{Read, Row, Write};
use driftq_core::{BatchNo, ShardId, Timestamp};
use driftq_storage::postgres::Postgres;
use driftq_storage::{Answer, Engine, Ownership};
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// How to reach the server of this run.
fn server() -> String {
    std::env::var("DRIFTQ_TEST_POSTGRES")
        .expect("no PostgreSQL to test with: run this by `just test`, or under e2e/with-postgres")
}

/// A database of this test's own.
async fn database() -> String {
    let name = format!("t{}_{:x}", std::process::id(), fastrand::u64(..));
    let (client, connection) = tokio_postgres::connect(&server(), NoTls).await.expect("a server");
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database");
    server().replace("dbname=postgres", &format!("dbname={name}"))
}

/// An engine over a database that nobody else has.
pub(crate) struct Fresh {
    engine: Postgres,
}

impl Fresh {
    pub(crate) fn new() -> Fresh {
        let engine = RUNTIME
            .block_on(async { Postgres::open(&database().await, None).await.expect("it opens") });
        Fresh { engine }
    }
}

impl Engine for Fresh {
    fn claim(&self, shard: ShardId) -> Answer<'_, (Ownership, Timestamp)> {
        self.engine.claim(shard)
    }

    fn load<'a>(
        &'a self,
        ownership: Ownership,
        each: &'a mut (dyn FnMut(Row) + Send),
    ) -> Answer<'a, ()> {
        self.engine.load(ownership, each)
    }

    fn read(&self, ownership: Ownership, reads: Vec<Read>) -> Answer<'_, Vec<Vec<Row>>> {
        self.engine.read(ownership, reads)
    }

    fn commit(
        &self,
        ownership: Ownership,
        batch: BatchNo,
        writes: Vec<Write>,
    ) -> Answer<'_, Timestamp> {
        self.engine.commit(ownership, batch, writes)
    }
}
