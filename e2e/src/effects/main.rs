//! `effects BINARY`: a thousand orders are charged by workers that are killed at the worst moments.
//!
//! The provider decides who dies (see [`fate`]): for 200 orders the worker, when the charge is in the
//! provider's books and before it answers; for 100 after the answer, for 100 before the charge; for 50 the
//! answer comes too late, and for 50 the broker dies between charge and finish. Its file is the truth. Each
//! order has its fate once, and is then tried until it is settled. Four times:
//!
//! 1. The provider deduplicates by the downstream key, so doubt is answered with `retry`: exactly one charge
//!    an order.
//! 2. It does not, so doubt is parked, and a person looks each order up in its books and says so.
//! 3. It does not, and doubt is answered with `retry` all the same. Nobody can keep that from charging
//!    twice. What the ledger owes is that it says of which orders nobody knows: an order that is charged
//!    twice, and was neither in doubt nor resolved, fails the run.
//! 4. Without the ledger, as control: at least 200 orders are charged twice, and nobody is told.
//!
//! All of it are processes, killed with SIGKILL: workers, and the server on SQLite. The provider is none, for
//! it is not what is tested.
#![expect(clippy::print_stdout, reason = "this is a program for people")]

mod fleet;
mod operator;
mod provider;
mod queue;
mod run;
mod scenario;
mod worker;

use std::time::Instant;

use anyhow::{Context as _, ensure};
use driftq_e2e::directory::Directory;

use run::{Case, Outcome};
use scenario::ORDERS;

/// What the control must show, and the third run, for their listing to mean something.
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
    ensure!(unlisted == 0, "{unlisted} orders are charged twice and not listed");
    ensure!(retried.doubled >= DOUBLED_MIN, "only {} were there to be listed", retried.doubled);
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
