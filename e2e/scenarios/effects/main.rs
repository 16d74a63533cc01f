//! `effects BINARY`: a thousand orders are charged by workers that are killed at the worst moments.
//!
//! The provider decides which process dies (see [`scenario`]). Its file of charges is the ground
//! truth.
//!
//! - 200 orders: the worker dies after the charge is recorded and before the provider answers.
//! - 100 orders: the worker dies after the answer.
//! - 100 orders: the worker dies before the charge.
//! - 50 orders: the answer arrives too late.
//! - 50 orders: the broker dies between charge and finish.
//!
//! Each order meets its scenario once and is then retried until it is settled. There are four runs:
//!
//! 1. The provider deduplicates by the downstream key, so doubt is resolved with `retry`: exactly
//!    one charge per order.
//! 2. It does not deduplicate, so effects in doubt are parked, and an operator looks each order up
//!    in the provider's books and resolves it.
//! 3. It does not deduplicate, and doubt is resolved with `retry` all the same. Nothing can prevent
//!    double charges then, but the ledger must list every order whose outcome is unknown. An order
//!    that is charged twice and was neither in doubt nor resolved fails the run.
//! 4. Without the ledger, as a control: at least 200 orders are charged twice, and none is
//!    reported.
//!
//! The workers and the server (on SQLite) are processes, killed with SIGKILL. The provider runs in
//! this process, because it is not under test.
#![expect(clippy::print_stdout, reason = "command-line program")]

mod fleet;
mod operator;
mod order;
mod provider;
mod run;
mod scenario;
mod worker;

use std::time::Instant;

use anyhow::{Context as _, ensure};
use driftq_e2e::directory::Directory;

use run::{Case, Outcome};
use scenario::ORDERS;

/// Minimum of double charges in the control and in the third run. With fewer, listing them would
/// prove nothing.
const DOUBLED_MIN: usize = 200;

const CASES: [Case; 4] = [
    Case { name: "deduplicates, on doubt retry", deduplicates: true, on_doubt: Some("retry") },
    Case { name: "does not, park and look", deduplicates: false, on_doubt: Some("park") },
    Case { name: "does not, on doubt retry", deduplicates: false, on_doubt: Some("retry") },
    Case { name: "does not, ledger off", deduplicates: false, on_doubt: None },
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    const USAGE: &str = "usage: effects BINARY";
    let mut arguments = std::env::args().skip(1);
    let binary = arguments.next().context(USAGE)?;
    if binary == "worker" {
        let job = arguments.next().context(USAGE)?;
        return worker::work(serde_json::from_str(&job)?).await;
    }
    let began = Instant::now();
    let directory = Directory::make()?;
    let mut outcomes = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        let ended = run::run(&binary, &directory.path().join(number.to_string()), case).await;
        let outcome = ended.with_context(|| format!("the provider {}", case.name))?;
        if number == 0 {
            println!("{}", HEAD.join("\n"));
        }
        println!("{}", row(case, &outcome));
        outcomes.push(outcome);
    }
    let [first, parked, retried, control] =
        <[Outcome; 4]>::try_from(outcomes).ok().context("four")?;
    ensure!(first.charges == ORDERS, "a provider that deduplicates charged {}", first.charges);
    let unlisted = first.unlisted + parked.unlisted + retried.unlisted;
    ensure!(unlisted == 0, "{unlisted} orders were charged twice and not listed");
    ensure!(retried.doubled >= DOUBLED_MIN, "only {} orders were charged twice", retried.doubled);
    ensure!(control.doubled >= DOUBLED_MIN, "the control shows {} doubles", control.doubled);
    println!(
        "effects: {} charges for {ORDERS} orders; charged twice and not listed 0, without the ledger {}; {} s",
        first.charges,
        control.unlisted,
        began.elapsed().as_secs()
    );
    Ok(())
}

const HEAD: [&str; 2] = [
    "                                                 charged    not       in               killed",
    "the provider                    orders  charges    twice  listed    doubt  resolved  workers  broker",
];

fn row(case: &Case, outcome: &Outcome) -> String {
    let Outcome { charges, doubled, unlisted, in_doubt, resolved, workers_killed, broker_killed } =
        outcome;
    format!(
        "{:<30}{ORDERS:>8}{charges:>9}{doubled:>9}{unlisted:>8}{in_doubt:>9}{resolved:>10}{workers_killed:>9}{broker_killed:>8}",
        case.name
    )
}
