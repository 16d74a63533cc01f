//! `sdk BINARY SCENARIOS [NAME] -- AGENT…`: runs the scenarios of the SDKs against an agent. Each has
//! a server, a faulty connection, a provider and a clock of its own. [`load`] has the other form.
#![expect(clippy::print_stdout, reason = "command-line program")]

mod agent;
mod expect;
mod http1;
mod load;
mod provider;
mod proxy;
mod run;
mod scenario;
mod server;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use driftq_e2e::directory::Directory;
use futures_util::StreamExt as _;

const SCENARIOS_MIN: usize = 60;
/// Scenarios that run at a time.
const AT_A_TIME: usize = 4;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: sdk BINARY SCENARIOS [NAME] -- AGENT…";
    let at = arguments.iter().position(|argument| argument == "--").context(usage)?;
    let (own, agent) = (&arguments[..at], &arguments[at + 1..]);
    if let [load, what, binary, count @ ..] = own
        && load == "load"
    {
        let count = count.first().map(|count| count.parse()).transpose()?;
        println!("{}", load::run(what, binary, count, agent).await?);
        return Ok(());
    }
    let (binary, directory, part) = match own {
        [binary, directory] => (binary, directory, ""),
        [binary, directory, part] => (binary, directory, &**part),
        _ => bail!(usage),
    };
    let mut scenarios = scenario::read(Path::new(directory))?;
    scenarios.retain(|scenario| scenario.name.contains(part));
    ensure!(!scenarios.is_empty(), "no scenario contains {part}");
    let logs = Directory::make()?;
    let began = Instant::now();
    // Most of the time, a scenario waits.
    let runs = futures_util::stream::iter(scenarios.iter().enumerate());
    let mut runs = runs
        .map(async |(number, scenario)| {
            let began = Instant::now();
            let log: PathBuf = logs.path().join(format!("{number}.log"));
            let ended = run::run(scenario, binary, agent, log.clone()).await;
            (&*scenario.name, ended, began.elapsed().as_millis(), log)
        })
        .buffer_unordered(AT_A_TIME);
    let mut failed = Vec::new();
    while let Some((name, ended, ms, log)) = runs.next().await {
        match ended {
            Ok(()) => println!("ok     {ms:>6} ms  {name}"),
            Err(error) => {
                println!("FAILED {ms:>6} ms  {name}\n       {error:#}");
                println!("{}", std::fs::read_to_string(&log).unwrap_or_default());
                failed.push(name);
            }
        }
    }
    let (all, seconds) = (scenarios.len(), began.elapsed().as_secs());
    ensure!(all >= SCENARIOS_MIN || !part.is_empty(), "{all} scenarios, at least {SCENARIOS_MIN}");
    ensure!(failed.is_empty(), "{} of {all} scenarios failed: {}", failed.len(), failed.join("; "));
    println!("{all} of {all} scenarios, {seconds} s");
    Ok(())
}
