//! Opens a set with a server and compares its answers with what its clients hold.

mod deliveries;
mod effects;
mod leaks;
mod leases;
mod records;
mod views;

use std::path::Path;

use driftq_e2e::api::{Api, Reply};
use driftq_e2e::clock::Clock;
use serde_json::Value;

use crate::answers::Answers;
use crate::storage::{Engine, Storage};

/// Time from the kill to the check, by the clocks of server and database. Long leases are still
/// valid, and short lifetimes have expired.
const PAUSE_MS: u64 = 600_000;

/// The number of checks, and the failures.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) done: u64,
    pub(crate) failures: Vec<String>,
}

impl Checks {
    pub(crate) fn that(&mut self, is_so: bool, what: impl FnOnce() -> String) {
        self.done += 1;
        if !is_so {
            self.failures.push(what());
        }
    }

    /// Checks that a reply has this status and at least these fields.
    pub(crate) fn answered(&mut self, what: &str, reply: &Reply, status: u16, fields: &Value) {
        let is_so = reply.status == status && has(&reply.body, fields);
        self.that(is_so, || format!("{what}: {reply}, expected {status} {fields}"));
    }

    /// Checks that a value has at least these fields.
    pub(crate) fn reads(&mut self, what: &str, found: &Value, wanted: &Value) {
        self.that(has(found, wanted), || format!("{what}: got {found}, expected {wanted}"));
    }
}

/// Whether `found` contains everything in `wanted`. Objects may have additional fields.
fn has(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| has(found.get(name).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| has(found, wanted))
        }
        _ => found == wanted,
    }
}

/// Returns the checks, and how many there were when the set was created.
pub(crate) async fn run(driftq: &str, engine: Engine, set: &Path) -> anyhow::Result<(Checks, u64)> {
    let answers = Answers::read(set).await?;
    let clock = Clock::at(answers.killed_at_ms + PAUSE_MS)?;
    let storage = Storage::open(engine, set, clock).await?;
    let mut server = storage.start(driftq).await?;
    // With libfaketime, PostgreSQL occasionally reads the machine's time. A timeout then ends a
    // session of the server.
    let api = server.api()?.with_retries(3);
    let mut checks = Checks::default();
    let checked = all(driftq, &api, &answers, &storage, set, &mut checks).await;
    if checked.is_err() || !checks.failures.is_empty() {
        println!("the server's log:\n{}", server.log()?);
        println!("the database's log:\n{}", storage.log()?);
    }
    checked?;
    server.stop().await?;
    Ok((checks, answers.checks))
}

async fn all(
    driftq: &str,
    api: &Api,
    answers: &Answers,
    storage: &Storage,
    set: &Path,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    // First the leases that expire some seconds after the recovery.
    leases::in_grace(api, answers, checks).await?;
    views::run(api, answers, checks).await?;
    leases::run(api, answers, checks).await?;
    effects::run(api, answers, checks).await?;
    records::run(api, answers, checks).await?;
    records::export(driftq, api, storage, set, checks).await?;
    deliveries::run(api, answers, checks).await?;
    leaks::run(api, answers, checks).await?;
    Ok(())
}
