//! `bench backlog|bloat|edge|growth|http|hostile|ledger|partitions|postgres DRIFTQ [ARGUMENT]`: measures costs
//! and limits of the server, each against a required minimum or maximum.
//!
//! The sides of a comparison run in turns in the same run, so that noise of the machine affects
//! both. The benchmark itself is single-threaded, because it shares the cores with the server.
#![expect(clippy::print_stdout, reason = "command-line program")]

mod ask;
mod attack;
mod backlog;
mod bad;
mod baseline_http;
mod baseline_pg;
mod bloat;
mod browser;
mod edge;
mod good;
mod growth;
mod hoard;
mod hostile;
mod idle_consumers;
mod ledger;
mod lifecycle_load;
mod load;
mod mutate;
mod openapi;
mod partitions;
mod postgres;
mod server;
mod single;
mod slow_headers;
mod verdict;
mod wire;

use std::process::ExitCode;

use anyhow::Context as _;

// Same allocator as the server, so that the baseline handler has no advantage or disadvantage from
// it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: bench backlog|bloat|edge|growth|http|hostile|ledger|partitions|postgres DRIFTQ [PART|SEED]";

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().context(USAGE)?;
    if what == "bare" {
        // As many threads as the server.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(baseline_http::serve()).map(|()| ExitCode::SUCCESS);
    }
    let driftq = arguments.next().context(USAGE)?;
    // The part for `backlog`, the seed for `hostile`.
    let argument = arguments.next().filter(|argument| !argument.is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let verdict = runtime.block_on(async {
        match what.as_str() {
            "backlog" => backlog::run(&driftq, argument.as_deref()).await,
            "http" => single::run(&driftq).await,
            "bloat" => bloat::run(&driftq).await,
            "edge" => edge::run(&driftq).await,
            "growth" => growth::run(&driftq).await,
            "partitions" => partitions::run(&driftq).await,
            "postgres" => postgres::run(&driftq).await,
            "ledger" => ledger::run(&driftq).await,
            "hostile" => {
                let seed = argument
                    .map(|seed| seed.parse())
                    .transpose()
                    .context("SEED must be a number")?;
                hostile::run(&driftq, seed.unwrap_or_else(|| fastrand::u64(..))).await
            }
            _ => anyhow::bail!(USAGE),
        }
    })?;
    Ok(verdict.print())
}
