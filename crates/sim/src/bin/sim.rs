//! `sim run COUNT [FIRST]`, `sim one SEED`: the simulator from the command line.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for people")]

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use driftq_sim::{Verdict, judge, run_many};

/// The allocator the server will have.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    match words.as_slice() {
        ["run", count] => run(number(count), Some(fresh_seed())),
        ["run", count, first] => run(number(count), number(first)),
        ["one", seed] => one(number(seed)),
        ["find", invariant, count] => find(invariant, number(count)),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: sim run COUNT [FIRST]   runs COUNT seeds, fresh ones unless FIRST is given");
    eprintln!("       sim one SEED            runs one seed and prints what it breaks");
    eprintln!("       sim find INVARIANT COUNT  runs seeds from 1 on until one breaks something");
    ExitCode::from(2)
}

/// Seeds nobody has seen, so that every run looks somewhere else.
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
    // Rare states need many seeds: a short run is judged by its violations alone.
    let shortfalls = if count >= 100 { summary.shortfalls() } else { Vec::new() };
    for shortfall in &shortfalls {
        println!("{shortfall}");
    }
    println!("{:.1} s", began.elapsed().as_secs_f64());
    println!("{summary}");
    let is_good =
        summary.invalid.is_empty() && summary.violations.is_empty() && shortfalls.is_empty();
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs seeds until one breaks something. Good only if that is `invariant`, as the checker says it.
fn find(invariant: &str, count: Option<u64>) -> ExitCode {
    let Some(count) = count else { return usage() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let is_broken = |verdict: &Verdict| !verdict.report.is_clean() || verdict.panicked.is_some();
    let first_broken = Mutex::new(None::<Verdict>);
    run_many(1, count, threads, false, |verdict| {
        let mut first = first_broken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if is_broken(verdict) && first.as_ref().is_none_or(|first| verdict.seed < first.seed) {
            *first = Some(judge(verdict.seed, false));
        }
        !is_broken(verdict)
    });
    let first = first_broken.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(verdict) = first else {
        println!("nothing in {count} seeds");
        return ExitCode::FAILURE;
    };
    let seed = verdict.seed;
    if let Some(panicked) = &verdict.panicked {
        println!("panic at seed {seed}: {panicked}");
        return ExitCode::FAILURE;
    }
    let broken: BTreeSet<String> =
        verdict.report.violations.iter().map(|violation| violation.invariant.to_string()).collect();
    let broken: Vec<String> = broken.into_iter().collect();
    println!("seed {seed} breaks {}", broken.join(" "));
    if broken.iter().any(|name| name == invariant) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
