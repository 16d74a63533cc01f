//! Measures how many deliveries per second one thread settles: core, packing, pipeline, memory
//! engine.
//!
//! `bench_core` measures; `bench_core BATCHES [first]` only runs BATCHES batches, for callgrind.
#![expect(clippy::print_stdout, reason = "command-line program")]

use std::process::ExitCode;
use std::time::Instant;

use driftq_sim::bench::{Bench, Order};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Deliveries settled per second: the required rate and the target.
const BAR: f64 = 200_000.0;
const WANTED: f64 = 300_000.0;
/// Leased deliveries. With those that wait for a retry, about 10 000 are open.
const LEASED: usize = 4_800;
const BATCHES: usize = 4_000;
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    if let Some(batches) = std::env::args().nth(1).and_then(|word| word.parse().ok()) {
        let is_first = std::env::args().nth(2).is_some_and(|word| word == "first");
        let order = if is_first { Order::First } else { Order::Random };
        let mut bench = Bench::new(order, LEASED);
        let before = bench.settled;
        (0..batches).for_each(|_| bench.batch());
        println!("settled {}", bench.settled - before);
        return ExitCode::SUCCESS;
    }
    // In random order, nearly every batch touches every block: the worst case.
    let at_random = best(Order::Random);
    let as_they_came = best(Order::First);
    println!("deliveries settled per second in random order: {at_random:.0}");
    println!(
        "deliveries settled per second: {as_they_came:.0} (required {BAR:.0}, target {WANTED:.0})"
    );
    if as_they_came >= BAR { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the best of several rounds, to exclude the load of other processes.
fn best(order: Order) -> f64 {
    (0..ROUNDS).map(|_| measure(order)).fold(0.0, f64::max)
}

fn measure(order: Order) -> f64 {
    let mut bench = Bench::new(order, LEASED);
    // Warms up until retries are due and trimming has started.
    (0..BATCHES / 2).for_each(|_| bench.batch());
    let (settled, commits) = (bench.settled, bench.commits);
    let began = Instant::now();
    (0..BATCHES).for_each(|_| bench.batch());
    let seconds = began.elapsed().as_secs_f64();
    let (settled, commits) = (bench.settled - settled, bench.commits - commits);
    let rate = settled as f64 / seconds;
    println!(
        "{order:?}: {rate:.0}/s, {} per commit, {} open",
        settled / commits,
        bench.open_entries()
    );
    rate
}
