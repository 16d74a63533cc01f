//! The command line of the simulator: `sim run COUNT [FIRST|PART/PARTS]`, `sim one SEED`, `sim trace SEED
//! WORD…`, `sim find INVARIANT COUNT`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "command-line program")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use driftq_sim::{judge, run_many};

/// Maximum memory of one run, including its history and its check.
const RUN_MB_MAX: u64 = 400;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    match words.as_slice() {
        ["run", count] => run(number(count), Some(fresh_seed())),
        ["run", count, first] => match first.split_once('/') {
            Some((_, parts)) => run(part(number(count), number(parts)), Some(fresh_seed())),
            None => run(number(count), number(first)),
        },
        ["one", seed] => one(number(seed)),
        ["trace", seed, words @ ..] => trace(number(seed), words),
        ["find", invariant, count] => find(invariant, number(count)),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: sim run COUNT [FIRST]   runs COUNT seeds, starting at FIRST or at a new seed"
    );
    eprintln!("       sim run COUNT PART/PARTS  runs one part of COUNT new seeds");
    eprintln!("       sim one SEED            runs one seed and prints its violations");
    eprintln!("       sim trace SEED WORD…    prints the events of a run that contain every WORD");
    eprintln!(
        "       sim find INVARIANT COUNT  runs up to COUNT seeds, from 1, until one breaks INVARIANT"
    );
    ExitCode::from(2)
}

fn trace(seed: Option<u64>, words: &[&str]) -> ExitCode {
    let Some(seed) = seed else { return usage() };
    for event in &driftq_sim::run(seed, false).history {
        let text = format!("{event:?}");
        if words.iter().all(|word| text.contains(word)) {
            println!("{text}");
        }
    }
    ExitCode::SUCCESS
}

/// The seeds of one part. Every part begins at a new seed, so the parts differ.
fn part(count: Option<u64>, parts: Option<u64>) -> Option<u64> {
    count?.checked_div(parts?)
}

/// Returns a new seed, so that every run covers different states.
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1_000
}

fn run(count: Option<u64>, first: Option<u64>) -> ExitCode {
    let (Some(count), Some(first)) = (count, first) else {
        return usage();
    };
    println!("seeds {first} to {}", first + count - 1);
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let summary = run_many(first, count, threads, true, |verdict| {
        if let Some(violation) = verdict.report.violations.first() {
            println!("seed {}: {violation}", verdict.seed);
        }
        if let Some(panicked) = &verdict.panicked {
            println!("seed {}: panic: {panicked}", verdict.seed);
        }
        true
    });
    // Rare states need many seeds, so a short run is checked for violations only.
    let shortfalls = if count >= 100 { summary.shortfalls() } else { Vec::new() };
    for shortfall in &shortfalls {
        println!("{shortfall}");
    }
    // One seed with one node and one with several.
    let differs: Vec<u64> = (first..first + count.min(2)).filter(|seed| !repeats(*seed)).collect();
    for seed in &differs {
        println!("seed {seed} gives another history when it is run again");
    }
    println!("{:.1} s", began.elapsed().as_secs_f64());
    println!("{summary}");
    let (peak_mb, peak_mb_max) = (peak_memory_mb(), threads as u64 * RUN_MB_MAX);
    println!("peak memory {peak_mb} MB (limit {peak_mb_max} MB)");
    let is_good = summary.invalid.is_empty()
        && summary.violations.is_empty()
        && shortfalls.is_empty()
        && differs.is_empty()
        && peak_mb <= peak_mb_max;
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a seed gives the same history each time.
fn repeats(seed: u64) -> bool {
    let [first, second] = [(), ()].map(|()| format!("{:?}", driftq_sim::run(seed, true).history));
    first == second
}

/// The peak memory of this process, as reported by Linux; 0 on other systems.
fn peak_memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<u64>().ok());
    kb.unwrap_or(0) / 1024
}

/// Runs seeds until one breaks `invariant`. Prints every seed that breaks another invariant.
fn find(invariant: &str, count: Option<u64>) -> ExitCode {
    let Some(count) = count else { return usage() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let first_broken = Mutex::new(BTreeMap::<u64, BTreeSet<String>>::new());
    let panicked = Mutex::new(None::<(u64, String)>);
    run_many(1, count, threads, false, |verdict| {
        if let Some(message) = &verdict.panicked {
            *locked(&panicked) = Some((verdict.seed, message.clone()));
            return false;
        }
        let names = verdict.report.violations.iter().map(|violation| violation.invariant);
        let broken: BTreeSet<String> = names.map(|name| name.to_string()).collect();
        let is_found = broken.contains(invariant);
        if !broken.is_empty() {
            locked(&first_broken).insert(verdict.seed, broken);
        }
        !is_found
    });
    if let Some((seed, message)) = locked(&panicked).take() {
        println!("panic at seed {seed}: {message}");
        return ExitCode::FAILURE;
    }
    for (seed, broken) in &*locked(&first_broken) {
        let names: Vec<&str> = broken.iter().map(String::as_str).collect();
        println!("seed {seed} breaks {}", names.join(" "));
        if broken.contains(invariant) {
            return ExitCode::SUCCESS;
        }
    }
    println!("{invariant} holds in {count} seeds");
    ExitCode::FAILURE
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn one(seed: Option<u64>) -> ExitCode {
    let Some(seed) = seed else { return usage() };
    println!("seed {seed}");
    let verdict = judge(seed, true);
    println!("{:#?}", verdict.stats);
    if let Some(panicked) = &verdict.panicked {
        println!("panic: {panicked}");
    }
    let mut shown = std::collections::BTreeMap::new();
    for violation in &verdict.report.violations {
        let seen: &mut u32 = shown.entry(violation.invariant.to_string()).or_default();
        *seen += 1;
        if *seen <= 3 {
            println!("{violation}");
        }
    }
    println!(
        "{shown:?}, {} violations in {} events",
        verdict.report.violations.len(),
        verdict.report.counts.events
    );
    if verdict.report.is_clean() && verdict.panicked.is_none() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
