//! Compatibility tests for data written by older releases.
//!
//! - `old-data make DRIFTQ DIRECTORY`: runs a server, kills it under load, and stores its rows
//!   together with what its clients hold.
//! - `old-data check DRIFTQ DIRECTORY…`: opens such sets with a server and compares its answers.
#![expect(clippy::print_stdout, reason = "command-line program")]

mod answers;
mod check;
mod make;
mod requests;
mod storage;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use check::Checks;
use storage::Engine;

const USAGE: &str = "usage: old-data make DRIFTQ DIRECTORY | old-data check DRIFTQ DIRECTORY...";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().context(USAGE)?;
    let driftq = arguments.next().context(USAGE)?;
    let sets: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    ensure!(!sets.is_empty(), USAGE);
    match what.as_str() {
        "make" => make_all(&driftq, &sets).await,
        "check" => check_all(&driftq, &sets).await,
        _ => anyhow::bail!(USAGE),
    }
}

async fn make_all(driftq: &str, sets: &[PathBuf]) -> anyhow::Result<()> {
    for set in sets {
        for engine in Engine::ALL {
            let directory = set.join(engine.name());
            ensure!(
                !directory.exists(),
                "{} exists; sets are never rewritten",
                directory.display()
            );
            std::fs::create_dir_all(&directory)?;
            make::run(driftq, engine, &directory).await.with_context(|| label(set, engine))?;
        }
    }
    Ok(())
}

/// Checks both engines of a set at the same time, because most of the run is spent waiting for
/// leases to expire.
async fn check_all(driftq: &str, sets: &[PathBuf]) -> anyhow::Result<()> {
    let began = Instant::now();
    let (mut done, mut failed) = (0, 0);
    for set in sets {
        let opened = Engine::ALL.map(|engine| {
            let (driftq, directory) = (driftq.to_owned(), set.join(engine.name()));
            tokio::spawn(async move { check::run(&driftq, engine, &directory).await })
        });
        for (engine, checks) in Engine::ALL.into_iter().zip(opened) {
            let (checks, wanted) = checks.await?.with_context(|| label(set, engine))?;
            failed += report(&label(set, engine), &checks, wanted);
            done += checks.done;
        }
    }
    let took = began.elapsed().as_secs_f64();
    println!("old-data: {done} checks, {failed} failed, {took:.1} s");
    ensure!(failed == 0, "the server does not read old data correctly");
    Ok(())
}

/// Prints the failures and returns their number. A set that runs fewer checks than when it was
/// created also fails.
fn report(set: &str, checks: &Checks, wanted: u64) -> usize {
    for failure in &checks.failures {
        println!("{set}: {failure}");
    }
    let is_short = checks.done < wanted;
    if is_short {
        println!("{set}: only {} checks ran; its own binary ran {wanted}", checks.done);
    }
    println!("{set}: {} checks, {} failed", checks.done, checks.failures.len());
    checks.failures.len() + usize::from(is_short)
}

fn label(set: &Path, engine: Engine) -> String {
    format!("{}/{}", set.display(), engine.name())
}
