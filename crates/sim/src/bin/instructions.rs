//! Counts instructions per settled delivery with callgrind: a figure that does not depend on the
//! load of the machine.
//!
//! Two runs of different length are subtracted, so that setup is not counted. The figure must not
//! exceed the limit in `instructions.txt`. When it falls, lower the limit in the same change.
#![expect(clippy::print_stdout, reason = "command-line program")]

use std::path::Path;
use std::process::{Command, ExitCode};

const SHORT: u64 = 100;
const LONG: u64 = 400;
/// Tolerance: allocators and hashes differ slightly between builds.
const NOISE: f64 = 0.02;

fn main() -> ExitCode {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let Ok(ratchet) = text.trim().parse::<f64>() else {
        println!("instructions.txt does not contain a number");
        return ExitCode::FAILURE;
    };
    let (Some(short), Some(long)) = (count(SHORT), count(LONG)) else {
        println!(
            "bench_core under valgrind printed no count; build it with: cargo build --release"
        );
        return ExitCode::FAILURE;
    };
    let figure = (long.0 - short.0) as f64 / (long.1 - short.1) as f64;
    if figure < ratchet * (1.0 - NOISE) {
        println!("the count is below the limit; write {figure:.0} to instructions.txt");
    }
    println!("instructions per settled delivery: {figure:.0} (limit {ratchet:.0})");
    if figure <= ratchet * (1.0 + NOISE) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the instructions and settled deliveries of a run.
fn count(batches: u64) -> Option<(u64, u64)> {
    let bench = std::env::current_exe().ok()?.with_file_name("bench_core");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(bench)
        .arg(batches.to_string())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "))?.1;
    let told = String::from_utf8_lossy(&output.stdout);
    let settled = told.lines().find_map(|line| line.strip_prefix("settled "))?;
    Some((collected.trim().parse().ok()?, settled.trim().parse().ok()?))
}
