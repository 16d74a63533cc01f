//! `explain DRIFTQ`: compares what `explain` reports with the truth, on a real server.
//!
//! Each [`state::State`] is arranged on a topic of its own, and the scenario knows its cause because
//! it created it. An explanation must report this cause and name what is to be looked at. Any other
//! cause in its text is a false cause and fails the run.
#![expect(clippy::print_stdout, reason = "command-line program")]

mod arrange;
mod cause;
mod client;
mod state;

use std::time::Instant;

use anyhow::{Context as _, ensure};
use driftq_e2e::directory::Directory;
use driftq_e2e::server::Launch;

use crate::client::Client;
use crate::state::State;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let driftq = std::env::args().nth(1).context("usage: explain DRIFTQ")?;
    let began = Instant::now();
    let directory = Directory::make()?;
    let server = Launch::sqlite(&driftq, &directory.path().join("data"), &[]).start().await?;
    server.ready().await?;
    let client = Client { driftq, api: server.api()? };
    let states = arrange::all(&client).await?;
    let (mut explanations, mut false_causes, mut missing) = (0, 0, 0);
    for state in &states {
        for text in &state.explanations {
            let verdict = state.truth.judge(text);
            explanations += 1;
            false_causes += verdict.false_causes.len();
            missing += verdict.missing.len();
            if !verdict.is_right() {
                println!("{}: {text}\n    {verdict:?}", state.name);
            }
        }
        let last = state.explanations.last().context("a state is explained")?;
        println!("{}: {last}", state.name);
    }
    let unnoticed = exchange_truths(&states);
    let (count, took) = (states.len(), began.elapsed().as_secs());
    println!(
        "explain: {count} states, {explanations} explanations, {false_causes} false causes, \
         {missing} missing, {unnoticed} exchanged truths unnoticed, {took} s"
    );
    ensure!(false_causes + missing == 0, "an explanation differs from the truth");
    ensure!(unnoticed == 0, "the comparison accepts the truth of another state");
    Ok(())
}

/// The control: gives each state the truth of the next one. Returns how many are still accepted.
fn exchange_truths(states: &[State]) -> usize {
    let mut truths: Vec<_> = states.iter().map(|state| state.truth.clone()).collect();
    truths.rotate_left(1);
    let accepted = states.iter().zip(truths).filter(|(state, truth)| {
        state.explanations.iter().all(|text| truth.judge(text).is_right())
    });
    accepted.count()
}
