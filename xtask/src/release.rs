//! `release-check`: the proofs that take too long for CI, as stages that can be resumed.
//!
//! 1. A stage is one recipe. Its output goes to `target/release-check/STAGE.log`.
//! 2. The verdict of a stage is stored with its commit and with the hashes of the product's sources. A later run skips a
//!    stage that passed for the same sources; a change of documents or tests does not repeat it.
//! 3. A stage that takes longer than [`STAGE_MAX`] is killed and has failed.
//! 4. The table at the end has every stage. The run fails unless all of them passed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::tree::{Tree, git};

const STAGE_MAX: Duration = Duration::from_secs(40 * 60);

/// Recipes with their arguments, the cheap ones first.
const STAGES: &[&str] = &[
    "deny",
    "contract memory",
    "contract postgres-15",
    "contract postgres-18",
    "old-data",
    "readme",
    "repro",
    "explain",
    "night",
    "browser",
    "demo-effects",
    "router",
    "sdk rust",
    "sdk python",
    "sdk typescript",
    "sdk-test python",
    "sdk-test typescript",
    "sdk-first python",
    "sdk-first typescript",
    "sdk-bugs rust",
    "sdk-bugs python",
    "sdk-bugs typescript",
    "sdk-block rust",
    "sdk-block python",
    "sdk-block typescript",
    "sdk-lost rust",
    "sdk-lost python",
    "sdk-lost typescript",
    "sdk-stop rust",
    "sdk-stop python",
    "sdk-stop typescript",
    "sdk-kill rust",
    "sdk-kill python",
    "sdk-kill typescript",
    "sdk-idle rust",
    "sdk-idle python",
    "sdk-idle typescript",
    "conform-self",
    "ledger-pg",
    "harness-selftest",
    "crash 50",
    "crash-effects 50",
    "bad-disk 50",
    "chaos 5",
    "failover 5",
    "fuzz 120",
    "sim 2000 1/2",
    "sim 2000 2/2",
    "bugs 1/4",
    "bugs 2/4",
    "bugs 3/4",
    "bugs 4/4",
    "small",
    "instructions",
    "bench-core",
    "recovery",
    "spread",
    "edge",
    "hostile",
    "bench-http",
    "bench-partitions",
    "bench-ledger",
    "bench-pg",
    "growth",
    "backlog sqlite-batches",
    "backlog sqlite-singles",
    "backlog postgres-batches",
    "backlog postgres-singles",
    "bloat",
];

/// What a verdict depends on.
const PRODUCT: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "crates/api/src",
    "crates/cli/src",
    "crates/core/src",
    "crates/server/src",
    "crates/storage/src",
];

/// Runs the stages that have not passed yet, all or those that begin with one of `names`.
pub(crate) fn run(tree: &Tree, names: &[String]) -> anyhow::Result<ExitCode> {
    let changed = git(&tree.root, &[&["status", "--porcelain", "--"], PRODUCT].concat())?;
    ensure!(
        changed.is_empty(),
        "commit these first, a verdict is stored with its commit:\n{changed}"
    );
    let commit = git(&tree.root, &["rev-parse", "--short=12", "HEAD"])?.trim().to_owned();
    let product = product(tree)?;
    let mut verdicts = Verdicts::read(tree)?;
    let is_chosen =
        |stage: &&str| names.is_empty() || names.iter().any(|name| stage.starts_with(&**name));
    let chosen: Vec<&str> = STAGES.iter().copied().filter(is_chosen).collect();
    ensure!(!chosen.is_empty(), "no stage begins with {names:?}; the stages are {STAGES:?}");
    for stage in &chosen {
        if verdicts.has_passed(stage, &product) {
            continue;
        }
        println!("== just {stage}");
        let verdict = run_stage(tree, stage)?;
        println!("   {verdict}");
        let stored = json!({ "commit": commit, "product": product, "verdict": verdict.verdict,
            "seconds": verdict.seconds, "last_line": verdict.last_line });
        verdicts.store(stage, stored)?;
    }
    verdicts.print(&product);
    let is_good = chosen.iter().all(|stage| verdicts.has_passed(stage, &product));
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The product's sources as committed, by the hashes of their folders.
fn product(tree: &Tree) -> anyhow::Result<String> {
    let mut hashes = Vec::new();
    for path in PRODUCT {
        let hash = git(&tree.root, &["rev-parse", "--short=8", &format!("HEAD:{path}")])?;
        hashes.push(hash.trim().to_owned());
    }
    Ok(hashes.join("-"))
}

fn folder(tree: &Tree) -> anyhow::Result<PathBuf> {
    let folder = tree.root.join("target/release-check");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

struct Outcome {
    verdict: &'static str,
    seconds: u64,
    last_line: String,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} after {} s: {}", self.verdict, self.seconds, self.last_line)
    }
}

fn run_stage(tree: &Tree, stage: &str) -> anyhow::Result<Outcome> {
    let path = folder(tree)?.join(format!("{}.log", stage.replace([' ', '/'], "-")));
    let log = File::create(&path)?;
    let began = Instant::now();
    let mut just = Command::new("just");
    just.current_dir(&tree.root).args(stage.split(' ')).stdin(Stdio::null());
    // A group of its own, so that everything the stage started can be ended with it.
    just.stdout(log.try_clone()?).stderr(log).process_group(0);
    let mut child = just.spawn().context("run just")?;
    let status = wait(&mut child, began)?;
    let verdict = match status {
        Some(status) if status.success() => "passed",
        Some(_) => "failed",
        None => "too slow",
    };
    let output = fs::read(&path)?;
    let output = String::from_utf8_lossy(&output);
    let last_line = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let last_line = last_line.trim().to_owned();
    Ok(Outcome { verdict, seconds: began.elapsed().as_secs(), last_line })
}

/// The status of a stage, or none if it was killed.
fn wait(child: &mut Child, began: Instant) -> anyhow::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > STAGE_MAX {
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-TERM", "--", &group]).status()?;
            std::thread::sleep(Duration::from_secs(10));
            Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The last verdict of each stage.
struct Verdicts {
    file: PathBuf,
    stages: BTreeMap<String, Value>,
}

impl Verdicts {
    fn read(tree: &Tree) -> anyhow::Result<Verdicts> {
        let file = folder(tree)?.join("verdicts.json");
        let stages = match fs::read(&file) {
            Ok(text) => {
                serde_json::from_slice(&text).with_context(|| file.display().to_string())?
            }
            Err(_) => BTreeMap::new(),
        };
        Ok(Verdicts { file, stages })
    }

    fn store(&mut self, stage: &str, verdict: Value) -> anyhow::Result<()> {
        self.stages.insert(stage.to_owned(), verdict);
        fs::write(&self.file, serde_json::to_vec_pretty(&self.stages)?)?;
        Ok(())
    }

    fn has_passed(&self, stage: &str, product: &str) -> bool {
        let stored = self.stages.get(stage);
        stored.is_some_and(|stored| stored["verdict"] == "passed" && stored["product"] == product)
    }

    fn print(&self, product: &str) {
        println!("{:<26} {:<9} {:>7}  {:<13} last line", "stage", "verdict", "seconds", "commit");
        for stage in STAGES {
            let Some(stored) = self.stages.get(*stage) else {
                println!("{stage:<26} not run");
                continue;
            };
            let text = |name: &str| stored[name].as_str().unwrap_or_default();
            let mut commit = text("commit").to_owned();
            if stored["product"] != product {
                commit += " (old)";
            }
            let (verdict, seconds) = (text("verdict"), stored["seconds"].to_string());
            println!("{stage:<26} {verdict:<9} {seconds:>7}  {commit:<13} {}", text("last_line"));
        }
    }
}
