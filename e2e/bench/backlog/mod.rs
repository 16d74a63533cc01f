//! The cost of a long backlog in memory, restart time and speed, for each engine, filled in batches
//! and one by one.
//!
//! Two servers, one with a long and one with a short backlog, take turns. Some thousand messages
//! are produced, then the same number is consumed and acked, so the backlogs stay constant. Acked
//! messages are trimmed in the same window.

mod part;
mod queue;

use driftq_e2e::postgres::Cluster;
use driftq_e2e::usage::{Memory, memory};

use crate::postgres::another;
use crate::server::Side;
use crate::verdict::{Verdict, median};
use part::{Engine, Fill, Part, parts};
use queue::{Queue, Window};

const ROUNDS: usize = 7;
/// Rounds that do not count, in which caches fill and query plans are created.
const WARM_UP: usize = 1;
const MEMORY_MAX: f64 = 300.0;
const SPEED_MIN: f64 = 0.8;
/// Half of the acked messages, because the last ones of a window are trimmed after it.
const TRIMMED_MIN: f64 = 0.5;
/// The default for a new storage on PostgreSQL.
const SHARDS: u32 = 64;

/// Measures one part, or all parts.
pub(crate) async fn run(driftq: &str, part: Option<&str>) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new("backlog");
    for part in parts(part)? {
        println!("== {}", part.name);
        match part.engine {
            Engine::Sqlite => {
                let side = Side::Sqlite(driftq.to_owned());
                measure(part, [side.clone(), side], &mut verdict).await?;
            }
            Engine::Postgres => {
                let database = Cluster::start(15).await?;
                let side = |url| Side::Postgres { driftq: driftq.to_owned(), url, shards: SHARDS };
                let short = side(another(&database, "short").await?);
                let long = side(another(&database, "long").await?);
                measure(part, [short, long], &mut verdict).await?;
            }
        }
    }
    Ok(verdict)
}

/// Compares a short and a long backlog, each on its own server.
async fn measure(part: &Part, sides: [Side; 2], verdict: &mut Verdict) -> anyhow::Result<()> {
    let fill = part.fill;
    let [short, long] = sides;
    let short = Queue::start(short, fill, fill.short).await?;
    let mut long = Queue::start(long, fill, fill.long).await?;
    let loaded = memory(long.server.pid()?)?;
    print_memory("loaded", loaded);
    let restart = long.restart().await?.as_secs_f64();
    println!("ready {restart:.2} s after a kill and restart");

    let first_offsets = long.first_offsets().await?;
    let (mut produced, mut consumed, mut trimmed) = (Vec::new(), Vec::new(), 0);
    for round in 0..WARM_UP + ROUNDS {
        // The order may matter, so the sides alternate.
        let (at_short, at_long) = if round % 2 == 0 {
            let first = short.window().await?;
            (first, long.window().await?)
        } else {
            let first = long.window().await?;
            (short.window().await?, first)
        };
        print_round(round, &fill, &at_short, &at_long);
        if round >= WARM_UP {
            produced.push(at_short.produce.as_secs_f64() / at_long.produce.as_secs_f64());
            consumed.push(at_short.consume.as_secs_f64() / at_long.consume.as_secs_f64());
            trimmed += at_long.trimmed;
        }
    }
    let end = memory(long.server.pid()?)?;
    print_memory("at the end", end);
    println!(
        "first offsets of the long one: {first_offsets:?}, at the end {:?}",
        long.first_offsets().await?
    );

    let name = |figure: &str| format!("{} {figure}", part.name);
    verdict.under(&name("memory"), loaded.peak.max(end.peak), MEMORY_MAX, " MB");
    verdict.under(&name("restart"), restart, part.restart_max, " s");
    verdict.at_least(&name("produce"), median(produced), SPEED_MIN, "");
    verdict.at_least(&name("consume"), median(consumed), SPEED_MIN, "");
    let trimmed = trimmed as f64 / (ROUNDS as u64 * fill.window()) as f64;
    verdict.at_least(
        &name("trimmed inside the windows"),
        trimmed,
        TRIMMED_MIN,
        " of the acked messages",
    );
    for side in [&short, &long] {
        let waiting = side.waiting().await?;
        let backlog = side.backlog;
        verdict.must(name(&format!("backlog {waiting} of {backlog}")), waiting == backlog);
    }
    Ok(())
}

fn print_memory(when: &str, memory: Memory) {
    println!("{when}: {:.0} MB resident, {:.0} MB at most", memory.resident, memory.peak);
}

fn print_round(round: usize, fill: &Fill, at_short: &Window, at_long: &Window) {
    let [short, long] = [at_short, at_long]
        .map(|at| [at.produce, at.consume].map(|took| fill.window() as f64 / took.as_secs_f64()));
    println!(
        "round {round}: produce {:.0}/s against {:.0}/s: {:.2}, \
         consume {:.0}/s against {:.0}/s: {:.2}, trimmed {}",
        long[0],
        short[0],
        long[0] / short[0],
        long[1],
        short[1],
        long[1] / short[1],
        at_long.trimmed,
    );
}
