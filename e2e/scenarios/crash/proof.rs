//! Exports the ledger with the real binary. The export must contain what the clients saw, and every
//! modified copy must be rejected.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use driftq_checker::history::{Decision, Event, Name, Op, Reply, Right, What};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

/// Number of copies with one flipped bit, one dropped line, and two swapped lines.
const FLIPPED: usize = 64;
const DROPPED: usize = 16;
const SWAPPED: usize = 16;
/// Exit code of `verify` for an invalid file.
const EXIT_INVALID: i32 = 1;
/// Time limit of the binary for one file.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The result of the checks.
pub(crate) struct Proof {
    pub(crate) decisions: usize,
    pub(crate) outcomes: usize,
    /// Decisions that clients saw.
    pub(crate) acknowledged_decisions: usize,
    pub(crate) bytes: usize,
    /// Modified copies that were rejected.
    pub(crate) refused: usize,
    /// Duration of the export, of its verification, and of the checks of all copies.
    pub(crate) export: Duration,
    pub(crate) verify: Duration,
    pub(crate) copies: Duration,
}

/// Decision, scope, key, fence.
type Which = (Name, Name, Name, u64);

/// Decisions, with the hash of the outcome if there is one.
type Decisions = BTreeMap<Which, Option<String>>;

/// Returns the decisions that were acknowledged to clients.
pub(crate) fn acknowledged_decisions(events: &[Event]) -> Decisions {
    let which = |decision: &str, right: &Right| {
        (decision.into(), right.effect.scope.clone(), right.effect.key.clone(), right.fence)
    };
    let (mut asked, mut acknowledged_decisions) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        match &event.what {
            What::Invoked { call, op: Op::Finish { right, outcome, .. } } => {
                asked.insert(*call, (which("finish", right), Some(outcome_hash(outcome))));
            }
            What::Done { call, reply: Reply::Ok } => {
                acknowledged_decisions.extend(asked.remove(call));
            }
            What::Done { reply: Reply::Began { decision, right, .. }, .. }
                if *decision == Decision::Execute =>
            {
                acknowledged_decisions.insert(which("begin", right), None);
            }
            _ => {}
        }
    }
    acknowledged_decisions
}

/// Hashes an outcome as the reference specifies.
fn outcome_hash(result: &str) -> String {
    let result = Value::from(result);
    let outcome = format!(r#"{{"code":0,"result":{{"json":{result}}},"error":""}}"#);
    blake3::hash(outcome.as_bytes()).to_string()
}

/// Exports from the server at `url`, and verifies the export and modified copies of it in
/// `directory`.
pub(crate) async fn run(
    binary: &str,
    url: &str,
    directory: &Path,
    acknowledged_decisions: &Decisions,
    orders: usize,
) -> anyhow::Result<Proof> {
    let files = Files { binary, path: directory.join("effects.ndjson") };
    let began = Instant::now();
    let file = files.export(url).await?;
    let export = began.elapsed();
    let (whole, verify) = files.verify(&file).await?;
    anyhow::ensure!(whole.status.success(), "an export is invalid: {}", said(&whole));
    let exported = decisions(&file)?;
    let outcomes = exported.values().flatten().count();
    let shown: Value = serde_json::from_slice(&whole.stdout)?;
    let counts = json!({ "decisions": exported.len(), "effects": orders });
    for count in ["decisions", "effects"] {
        let (shown, wanted) = (&shown[count], &counts[count]);
        anyhow::ensure!(shown == wanted, "verify counts {shown} {count}, expected {wanted}");
    }
    anyhow::ensure!(outcomes == orders, "{outcomes} outcomes of {orders} orders");
    for (which, outcome) in acknowledged_decisions {
        let there = exported.get(which).with_context(|| format!("not exported: {which:?}"))?;
        anyhow::ensure!(there == outcome, "exported with a different outcome: {which:?}");
    }
    let began = Instant::now();
    let refused = files.refuses_changed(&file).await?;
    let (decisions, acknowledged_decisions, bytes) =
        (exported.len(), acknowledged_decisions.len(), file.len());
    let copies = began.elapsed();
    Ok(Proof {
        decisions,
        outcomes,
        acknowledged_decisions,
        bytes,
        refused,
        export,
        verify,
        copies,
    })
}

/// Returns the decisions of an export. Fails if one occurs twice.
fn decisions(file: &[u8]) -> anyhow::Result<Decisions> {
    #[derive(Deserialize)]
    struct Line {
        record: Option<Record>,
    }
    #[derive(Deserialize)]
    struct Record {
        decision: Name,
        scope: Name,
        key: Name,
        fence: u64,
        outcome: Option<String>,
    }
    let mut decisions = BTreeMap::new();
    for line in serde_json::Deserializer::from_slice(file).into_iter::<Line>() {
        if let Some(Record { decision, scope, key, fence, outcome }) = line?.record {
            let which = (decision, scope, key, fence);
            let before = decisions.insert(which.clone(), outcome);
            anyhow::ensure!(before.is_none(), "exported twice: {which:?}");
        }
    }
    Ok(decisions)
}

/// The binary, and the file that it verifies.
struct Files<'a> {
    binary: &'a str,
    path: PathBuf,
}

impl Files<'_> {
    async fn run(&self, command: &mut Command) -> anyhow::Result<Output> {
        let output = command.kill_on_drop(true).output();
        let output = tokio::time::timeout(TIMEOUT, output).await;
        output.with_context(|| format!("{command:?} takes too long"))?.context("cannot run it")
    }

    async fn export(&self, url: &str) -> anyhow::Result<Vec<u8>> {
        let mut command = Command::new(self.binary);
        let output = self.run(command.args(["export", "--effects", "--url", url])).await?;
        anyhow::ensure!(output.status.success(), "export failed: {}", said(&output));
        Ok(output.stdout)
    }

    async fn verify(&self, file: &[u8]) -> anyhow::Result<(Output, Duration)> {
        std::fs::write(&self.path, file)?;
        let began = Instant::now();
        let mut command = Command::new(self.binary);
        let output = self.run(command.arg("verify").arg(&self.path).args(["-o", "json"])).await?;
        Ok((output, began.elapsed()))
    }

    /// Flips a bit, drops a line, or swaps two lines. `verify` must reject every copy. Returns the
    /// number of copies.
    async fn refuses_changed(&self, file: &[u8]) -> anyhow::Result<usize> {
        let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
        for _ in 0..FLIPPED {
            let (at, bit) = (fastrand::usize(..file.len()), fastrand::u32(..8));
            let mut flipped = file.to_vec();
            flipped[at] ^= 1 << bit;
            let line = file[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            let what = format!("bit {bit} of byte {at} was flipped");
            self.refuses(&flipped, line, &what).await?;
        }
        for at in ends_and_others(DROPPED, lines.len()) {
            let mut dropped = lines.clone();
            dropped.remove(at);
            let what = format!("line {} of {} was dropped", at + 1, lines.len());
            self.refuses(&dropped.concat(), at + 1, &what).await?;
        }
        for at in ends_and_others(SWAPPED, lines.len() - 1) {
            let mut swapped = lines.clone();
            swapped.swap(at, at + 1);
            let what = format!("line {} of {} was swapped with the next", at + 1, lines.len());
            self.refuses(&swapped.concat(), at + 1, &what).await?;
        }
        Ok(FLIPPED + DROPPED + SWAPPED)
    }

    async fn refuses(&self, file: &[u8], line: usize, what: &str) -> anyhow::Result<()> {
        let (output, _) = self.verify(file).await?;
        let said = said(&output);
        anyhow::ensure!(output.status.code() == Some(EXIT_INVALID), "{what}, but verify: {said}");
        // If the name of a chain is modified, the error is detected at its first record.
        let names = |line: usize| {
            said.contains(&format!("line {line}:"))
                || said.ends_with(&format!("before line {line}"))
        };
        let is_named = names(line) || names(line + 1);
        anyhow::ensure!(is_named, "{what}, but verify names another line: {said}");
        Ok(())
    }
}

/// Returns the first index, the last, and some in between.
fn ends_and_others(count: usize, below: usize) -> impl Iterator<Item = usize> {
    let others = std::iter::repeat_with(move || fastrand::usize(..below));
    [0, below - 1].into_iter().chain(others).take(count)
}

fn said(output: &Output) -> String {
    format!("{}, {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
}
