//! `measure backlog|bloat|edge|growth|http|hostile|ledger|postgres DRIFTQ [ARGUMENT]`: what the server costs and what it bears, against a bar each.
//!
//! Sides that are compared run in one process of ours, in turns, so that a noisy machine is unkind to both.
//! Everything here is one thread: it shares the cores with what it measures.
#![expect(clippy::print_stdout, reason = "this is a program for people")]

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
mod postgres;
mod server;
mod single;
mod slow_headers;
mod verdict;
mod wire;

use std::process::ExitCode;

use anyhow::Context as _;

// What the server has: the bare handler must not win or lose by its allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str =
    "usage: measure backlog|bloat|edge|growth|http|hostile|ledger|postgres DRIFTQ [PART|SEED]";

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().context(USAGE)?;
    if what == "bare" {
        // As many threads as the server has.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(baseline_http::serve()).map(|()| ExitCode::SUCCESS);
    }
    let driftq = arguments.next().context(USAGE)?;
    // The part of `backlog`, the seed of `hostile`.
    let argument = arguments.next().filter(|argument| !argument.is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let verdict = runtime.block_on(async {
        match what.as_str() {
            "backlog" => backlog::run(&driftq, argument.as_deref()).await,
            "http" => single::run(&driftq).await,
            "bloat" => bloat::run(&driftq).await,
            "edge" => edge::run(&driftq).await,
            "growth" => growth::run(&driftq).await,
            "postgres" => postgres::run(&driftq).await,
            "ledger" => ledger::run(&driftq).await,
            "hostile" => {
                let seed =
                    argument.map(|seed| seed.parse()).transpose().context("SEED is a number")?;
                hostile::run(&driftq, seed.unwrap_or_else(|| fastrand::u64(..))).await
            }
            _ => anyhow::bail!(USAGE),
        }
    })?;
    Ok(verdict.say())
}
