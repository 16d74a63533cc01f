//! The cost of the PostgreSQL engine compared with the simplest loop that writes the same rows, and
//! of two nodes compared with one.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use driftq_core::row::{Read, Row, Write};
use driftq_core::{BatchNo, ShardId, Timestamp};
use driftq_e2e::postgres::Cluster;
use driftq_sim::bench::{Bench, Order};
use driftq_storage::postgres::Postgres;
use driftq_storage::{Answer, Engine, Ownership};
use tokio::runtime::Handle;

use crate::baseline_pg::BaselineWriter;
use crate::lifecycle_load::{Keys, Life, PARTITIONS, create};
use crate::server::{Server, Side};
use crate::verdict::{Verdict, median};

/// Messages leased at any time.
const LEASED: usize = 4_800;
const ROUNDS: usize = 5;
/// Batches until retries are due and trimming has begun.
const WARM_UP: usize = 1_500;
const BATCHES: usize = 1_000;
/// Commits of a shard in flight while the next batch is decided, as in the server.
const UNDER_WAY: usize = 1;
const SHARDS: u32 = 16;
const WORKERS: usize = 16;
const SETTLE_DOWN: Duration = Duration::from_secs(15);
const WINDOW: Duration = Duration::from_secs(10);

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new("bench-pg");
    let database = Cluster::start(15).await?;
    engines(&database, &mut verdict).await?;
    nodes(driftq, &database, &mut verdict).await?;
    Ok(verdict)
}

/// Creates another database in the same PostgreSQL. Returns its URL.
pub(crate) async fn another(database: &Cluster, name: &str) -> anyhow::Result<String> {
    database.sql(&format!("CREATE DATABASE {name}")).await?;
    let mut url = database.url();
    let at = url.rfind("/postgres").expect("the URL names the database");
    url.replace_range(at..at + "/postgres".len(), &format!("/{name}"));
    Ok(url)
}

/// Runs complete lifecycles through core and engine, batch by batch, then the same batches through
/// the baseline.
async fn engines(database: &Cluster, verdict: &mut Verdict) -> anyhow::Result<()> {
    let url = another(database, "ours").await?;
    let ours = Recorded::new(Postgres::open(&url, Some(1)).await?);
    let url = another(database, "minimal").await?;
    // Creates the tables.
    drop(Postgres::open(&url, Some(1)).await?);
    let mut minimal = BaselineWriter::connect(&url).await?;
    let recorded = ours.batches.clone();
    let taken = || std::mem::take(&mut *recorded.lock().expect("never poisoned"));
    let mut bench = on_its_own_thread(move || {
        let mut bench = Bench::on(ours, Order::First, LEASED, UNDER_WAY);
        (0..WARM_UP).for_each(|_| bench.batch());
        bench
    })
    .await?;
    for batch in taken() {
        minimal.commit(&batch).await?;
    }
    minimal.analyze().await?;
    let mut ratios = Vec::new();
    for round in 1..=ROUNDS {
        let before = bench.settled;
        let began = Instant::now();
        bench = on_its_own_thread(move || {
            (0..BATCHES).for_each(|_| bench.batch());
            bench.finish(0);
            bench
        })
        .await?;
        let ours = began.elapsed();
        let batches = taken();
        let began = Instant::now();
        for batch in &batches {
            minimal.commit(batch).await?;
        }
        let bare = began.elapsed();
        let settled = (bench.settled - before) as f64;
        println!(
            "round {round}: {:.0} settled/s in {} batches, minimal {:.0}/s",
            settled / ours.as_secs_f64(),
            batches.len(),
            settled / bare.as_secs_f64()
        );
        ratios.push(bare.as_secs_f64() / ours.as_secs_f64());
    }
    verdict.at_least("lifecycle/baseline", median(ratios), 0.5, "");
    Ok(())
}

async fn on_its_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

/// An engine that blocks until each call completes, and records what was committed.
struct Recorded {
    engine: Postgres,
    runtime: Handle,
    batches: Arc<Mutex<Vec<Vec<Write>>>>,
}

impl Recorded {
    fn new(engine: Postgres) -> Recorded {
        Recorded { engine, runtime: Handle::current(), batches: Arc::default() }
    }

    fn waited<T: Send + 'static>(&self, answer: Answer<'_, T>) -> Answer<'static, T> {
        Box::pin(std::future::ready(self.runtime.block_on(answer)))
    }
}

impl Engine for Recorded {
    fn claim(&self, shard: ShardId) -> Answer<'_, (Ownership, Timestamp)> {
        self.waited(self.engine.claim(shard))
    }

    fn load<'a>(
        &'a self,
        ownership: Ownership,
        each: &'a mut (dyn FnMut(Row) + Send),
    ) -> Answer<'a, ()> {
        self.waited(self.engine.load(ownership, each))
    }

    fn read(&self, ownership: Ownership, reads: Vec<Read>) -> Answer<'_, Vec<Vec<Row>>> {
        self.waited(self.engine.read(ownership, reads))
    }

    fn commit(
        &self,
        ownership: Ownership,
        batch: BatchNo,
        writes: Vec<Write>,
    ) -> Answer<'_, Timestamp> {
        self.batches.lock().expect("never poisoned").push(writes.clone());
        // The commit is sent here. Awaiting the answer blocks.
        let (done, runtime) = (self.engine.commit(ownership, batch, writes), self.runtime.clone());
        Box::pin(async move { runtime.block_on(done) })
    }
}

/// Compares two nodes with one, on the same PostgreSQL and under the same load.
async fn nodes(driftq: &str, database: &Cluster, verdict: &mut Verdict) -> anyhow::Result<()> {
    let side = |url: &str| Side::Postgres {
        driftq: driftq.to_owned(),
        url: url.to_owned(),
        shards: SHARDS,
    };
    let (one, two) = (another(database, "one").await?, another(database, "two").await?);
    let alone = [Server::start(side(&one)).await?];
    let both = [Server::start(side(&two)).await?, Server::start(side(&two)).await?];
    create(alone[0].address, PARTITIONS).await?;
    create(both[0].address, PARTITIONS).await?;
    tokio::time::sleep(SETTLE_DOWN).await;
    let mut ratios = Vec::new();
    for round in 0..=ROUNDS {
        let (at_one, at_two) = (lives(&alone).await?, lives(&both).await?);
        println!("round {round}: one node {at_one:.0}/s, two {at_two:.0}/s");
        // The first round only fills caches.
        if round > 0 {
            ratios.push(at_two / at_one);
        }
    }
    verdict.at_least("two nodes/one node", median(ratios), 0.8, "");
    Ok(())
}

async fn lives(servers: &[Server]) -> anyhow::Result<f64> {
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let life = Life::start(&addresses, WORKERS, Keys::Many).await?;
    // Warm-up.
    life.go_on(Duration::from_secs(2)).await?;
    let window = life.window(WINDOW).await?;
    life.stop().await?;
    Ok(window.per_second)
}
