//! What PostgreSQL retains of deleted messages: the sizes of tables and indexes while millions of
//! messages pass through, and the speed while an old snapshot prevents cleanup.

use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::postgres::Cluster;
use tokio_postgres::NoTls;

use crate::lifecycle_load::{Keys, Life, PARTITIONS, create};
use crate::server::{Server, Side};
use crate::verdict::Verdict;

const WORKERS: usize = 16;
/// Messages that pass through, and how many between two measurements.
const MESSAGES: u64 = 24_000_000;
const BETWEEN: u64 = 1_000_000;
/// How long the snapshot is held, and for how long the speed is measured before.
const HELD: Duration = Duration::from_secs(600);
const BEFORE: Duration = Duration::from_secs(180);
/// The speed is printed for each such interval.
const MINUTE: Duration = Duration::from_secs(60);

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Verdict> {
    let database = Cluster::start(15).await?;
    let (driftq, url) = (driftq.to_owned(), database.url());
    let server = Server::start(Side::Postgres { driftq, url, shards: 4 }).await?;
    create(server.address, PARTITIONS).await?;
    let life = Life::start(&[server.address], WORKERS, Keys::Many).await?;
    let mut verdict = Verdict::new("bloat");
    passing(&database, &life, &mut verdict).await?;
    holding(&database, &life, &mut verdict).await?;
    life.stop().await?;
    Ok(verdict)
}

/// Sizes in MB.
#[derive(Clone, Copy)]
struct Sizes {
    tables: f64,
    indexes: f64,
}

async fn sizes(database: &Cluster) -> anyhow::Result<Sizes> {
    let sums = "SELECT sum(pg_table_size(oid)), sum(pg_indexes_size(oid)) FROM pg_class
                WHERE relkind = 'r' AND relnamespace = 'driftq'::regnamespace";
    let said = database.sql(sums).await?;
    let (tables, indexes) = said.trim().split_once('|').context("two sums")?;
    Ok(Sizes { tables: tables.parse::<f64>()? / 1e6, indexes: indexes.parse::<f64>()? / 1e6 })
}

/// Checks that sizes are flat: at most 10 % larger in the second half than in the quarter before
/// it.
async fn passing(database: &Cluster, life: &Life, verdict: &mut Verdict) -> anyhow::Result<()> {
    let mut seen = Vec::new();
    for wanted in (1..=MESSAGES / BETWEEN).map(|look| look * BETWEEN) {
        let before = life.settled();
        let began = std::time::Instant::now();
        while life.settled() < wanted {
            life.go_on(Duration::from_secs(1)).await?;
        }
        let per_second = (life.settled() - before) as f64 / began.elapsed().as_secs_f64();
        let now = sizes(database).await?;
        println!(
            "{wanted} messages: tables {:.0} MB, indexes {:.0} MB, {per_second:.0}/s",
            now.tables, now.indexes
        );
        seen.push(now);
    }
    let (first, second) = seen.split_at(seen.len() / 2);
    let (_, quarter) = first.split_at(first.len() / 2);
    let most =
        |looks: &[Sizes], size: fn(&Sizes) -> f64| looks.iter().map(size).fold(0.0, f64::max);
    for (name, size) in [
        ("tables", (|sizes| sizes.tables) as fn(&Sizes) -> f64),
        ("indexes", |sizes| sizes.indexes),
    ] {
        let (before, after) = (most(quarter, size), most(second, size));
        verdict.note(&format!("{name} at most"), after, " MB");
        verdict.under(&format!("{name}, second half to second quarter"), after / before, 1.1, "");
    }
    Ok(())
}

/// Holds the oldest snapshot, so that rows deleted after it cannot be cleaned up.
async fn holding(database: &Cluster, life: &Life, verdict: &mut Verdict) -> anyhow::Result<()> {
    let before = life.window(BEFORE).await?;
    let (holder, connection) = tokio_postgres::connect(&database.url(), NoTls).await?;
    tokio::spawn(connection);
    let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM driftq.head";
    holder.batch_execute(hold).await?;
    println!("before: {:.0}/s, p99 {:.1} ms", before.per_second, ms(before.p99));
    let (mut rates, mut slowest) = (Vec::new(), Vec::new());
    for minute in 1..=HELD.as_secs() / MINUTE.as_secs() {
        let held = life.window(MINUTE).await?;
        println!("held for {minute} min: {:.0}/s, p99 {:.1} ms", held.per_second, ms(held.p99));
        rates.push(held.per_second);
        slowest.push(ms(held.p99));
    }
    let oldest = "SELECT max(age(backend_xmin)) FROM pg_stat_activity
                  WHERE now() - xact_start > interval '9 minutes'";
    let age: f64 = database.sql(oldest).await?.trim().parse().context("no snapshot is held")?;
    verdict.note("transactions since the snapshot", age, "");
    drop(holder);
    // Only the second half counts, because the dead rows accumulate.
    let late = |figures: &[f64]| {
        let late = &figures[figures.len() / 2..];
        late.iter().sum::<f64>() / late.len() as f64
    };
    let after = sizes(database).await?;
    verdict.note("tables and indexes then", after.tables + after.indexes, " MB");
    verdict.at_least("speed to before", late(&rates) / before.per_second, 0.8, "");
    verdict.under("p99 to before", late(&slowest) / ms(before.p99), 1.5, "");
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
