//! Seeded bugs of the SDKs: checks that the scenarios still find known mistakes.
//!
//! Each bug is a patch against the SDK, applied to a copy of the tree. The agent of the patched SDK
//! must fail the scenario named in the first line of the patch.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};

use crate::copy::Copy;
use crate::tree::Tree;

/// Folder of the patches.
const BUGS: &str = "sdks/rust/bugs";
/// Minimum number of bugs.
const BUGS_MIN: usize = 18;

/// Runs the named bugs, or all, against the server and the runner in `target/debug`.
pub(crate) fn run(tree: &Tree, names: &[String]) -> anyhow::Result<ExitCode> {
    let copy = Copy::make(tree)?;
    let (mut found, mut tried) = (0, 0);
    for (path, patch) in tree.ending(".patch").filter(|(path, _)| path.starts_with(BUGS)) {
        let name = Path::new(path).file_stem().context("a patch has a name")?.to_string_lossy();
        if !names.is_empty() && !names.iter().any(|wanted| *wanted == name) {
            continue;
        }
        let first = patch.lines().next().unwrap_or_default();
        let Some(scenario) = first.strip_prefix("scenario: ") else {
            bail!("{path}:1: begin with `scenario: NAME`, the scenario that it fails");
        };
        copy.apply(patch, &[])?;
        let build = ["build", "--quiet", "-p", "driftq-client", "--example", "agent"];
        ensure!(copy.cargo(&build).status()?.success(), "{name} does not compile");
        copy.apply(patch, &["--reverse"])?;
        let debug = tree.root.join("target/debug");
        let output = Command::new(debug.join("sdk"))
            .arg(debug.join("driftq"))
            .arg(tree.root.join("sdks/scenarios"))
            .args([scenario, "--"])
            .arg(copy.build.join("debug/examples/agent"))
            .env("RUST_BACKTRACE", "0")
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        // A scenario that is not there fails too, but without this line.
        let is_found =
            said.lines().any(|line| line.starts_with("FAILED") && line.ends_with(scenario));
        let why = said.lines().nth(1).unwrap_or_default().trim();
        let why: String = why.chars().take(100).collect();
        println!("{:<8} {name}: {why}", if is_found { "found" } else { "MISSED" });
        found += usize::from(is_found);
        tried += 1;
    }
    ensure!(!names.is_empty() || tried >= BUGS_MIN, "{tried} bugs, at least {BUGS_MIN}");
    println!("bugs found {found} of {tried}");
    Ok(if tried > 0 && found == tried { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
