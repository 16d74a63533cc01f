//! Seeded bugs: checks that the simulator still finds known defects.
//!
//! Each bug is a patch of a few lines against the product crates, stored next to the simulator and
//! applied to a copy of the tree. The unchanged workload must find it within a limited number of
//! seeds, through the checker and not through a panic, under the invariant named in the first line
//! of the patch.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use crate::copy::Copy;
use crate::tree::Tree;

/// Folder of the patches.
const BUGS: &str = "crates/sim/bugs";
/// Maximum number of seeds until a bug is found.
const SEEDS: &str = "500";
/// Minimum number of bugs that the tests must miss, which shows that the simulator is needed.
const INVISIBLE_MIN: usize = 6;
/// Maximum number of changed lines in a patch.
const LINES_MAX: usize = 10;

struct Bug {
    name: String,
    invariant: String,
    patch: String,
}

/// Runs the named bugs, or all, with the clean tree as a control, and reports which of them the
/// tests detect.
pub(crate) fn run(tree: &Tree, names: &[String]) -> anyhow::Result<ExitCode> {
    let bugs = match names {
        [part] if part.contains('/') => nth_part(bugs(tree, &[])?, part)?,
        names => bugs(tree, names)?,
    };
    let copy = Copy::make(tree)?;
    // The first part also runs the control and the tests.
    let is_full = names.is_empty() || names.first().is_some_and(|name| name.starts_with("1/"));
    if is_full {
        println!("the clean tree with the same seeds:");
        let status = sim(&copy, &["run", SEEDS, "1"])?.status()?;
        ensure!(status.success(), "the clean tree has a violation");
    }
    let (mut found, mut invisible) = (0, 0);
    println!(
        "{:<44} {:<22} {:<32} {:>8} {:>12}",
        "bug", "invariant", "found", "seconds", "just test"
    );
    for bug in &bugs {
        let began = Instant::now();
        copy.apply(&bug.patch, &[])?;
        let output = sim(&copy, &["find", &bug.invariant, SEEDS])?.output()?;
        let seconds = began.elapsed().as_secs();
        let said = String::from_utf8_lossy(&output.stdout);
        let said = said.lines().last().unwrap_or("no output").to_owned();
        found += usize::from(output.status.success());
        // The tests take longer than the simulator, so they run only until enough bugs are known to
        // pass them.
        let tests = match is_full && invisible < INVISIBLE_MIN {
            true if tests_pass(&copy)? => {
                invisible += 1;
                "passes"
            }
            true => "fails",
            false => "-",
        };
        let Bug { name, invariant, .. } = bug;
        println!("{name:<44} {invariant:<22} {said:<32} {seconds:>8} {tests:>12}");
        copy.apply(&bug.patch, &["--reverse"])?;
    }
    if is_full {
        println!("bugs that the tests do not detect: {invisible}, required {INVISIBLE_MIN}");
    }
    println!("bugs found {found} of {}", bugs.len());
    let is_good = found == bugs.len() && (!is_full || invisible >= INVISIBLE_MIN);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Selects the bugs of a part: `2/4` is the second of four.
fn nth_part(bugs: Vec<Bug>, part: &str) -> anyhow::Result<Vec<Bug>> {
    let numbers =
        part.split_once('/').and_then(|(n, parts)| Some((n.parse().ok()?, parts.parse().ok()?)));
    let Some((n @ 1.., parts)) = numbers.filter(|(n, parts): &(usize, usize)| n <= parts) else {
        bail!("{part} is not a part such as 2/4");
    };
    Ok(bugs
        .into_iter()
        .enumerate()
        .filter(|(at, _)| at % parts == n - 1)
        .map(|(_, bug)| bug)
        .collect())
}

fn bugs(tree: &Tree, names: &[String]) -> anyhow::Result<Vec<Bug>> {
    let mut bugs = Vec::new();
    for (path, patch) in tree.ending(".patch").filter(|(path, _)| path.starts_with(BUGS)) {
        let name = Path::new(path).file_stem().context("a patch has a name")?.to_string_lossy();
        let first = patch.lines().next().unwrap_or_default();
        let Some(invariant) = first.strip_prefix("invariant: ") else {
            bail!("{path}:1: begin with `invariant: NAME`, the invariant it breaks");
        };
        let is_change = |line: &&str| {
            (line.starts_with('+') || line.starts_with('-'))
                && !line.starts_with("+++")
                && !line.starts_with("---")
        };
        let lines = patch.lines().filter(is_change).count();
        ensure!(lines <= LINES_MAX, "{path}: {lines} changed lines, at most {LINES_MAX}");
        if names.is_empty() || names.iter().any(|wanted| *wanted == name) {
            let (name, invariant) = (name.into_owned(), invariant.to_owned());
            bugs.push(Bug { name, invariant, patch: patch.to_owned() });
        }
    }
    let known = |wanted: &&String| !bugs.iter().any(|bug| bug.name == **wanted);
    let unknown: Vec<&String> = names.iter().filter(known).collect();
    ensure!(unknown.is_empty(), "no such bug: {unknown:?}; see {BUGS}");
    Ok(bugs)
}

/// Builds the simulator of the copy and returns the command.
fn sim(copy: &Copy, arguments: &[&str]) -> anyhow::Result<Command> {
    let build = ["build", "--quiet", "--profile", "bugs", "-p", "driftq-sim", "--bin", "sim"];
    let status = copy.cargo(&build).status()?;
    ensure!(status.success(), "the tree does not compile with this patch");
    let mut sim = Command::new(copy.build.join("bugs").join("sim"));
    sim.args(arguments).env("RUST_BACKTRACE", "0");
    sim.stderr(std::process::Stdio::null());
    Ok(sim)
}

fn tests_pass(copy: &Copy) -> anyhow::Result<bool> {
    let mut tests = copy.cargo(&["nextest", "run", "--cargo-quiet", "-p", "driftq-core"]);
    tests.args(["-p", "driftq-storage", "--fail-fast"]);
    tests.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    Ok(tests.status()?.success())
}
