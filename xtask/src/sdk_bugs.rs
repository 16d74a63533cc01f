//! Seeded bugs of the SDKs: checks that the scenarios still find known mistakes.
//!
//! Each bug is a patch against the SDK, applied to a copy of the tree. The agent of the patched SDK
//! must fail the scenario named in the first line of the patch.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};

use crate::copy::Copy;
use crate::tree::Tree;

/// Minimum number of bugs of each SDK.
const BUGS_MIN: usize = 18;

/// Runs the named bugs of the SDK of a language, or all, against the server and the runner in
/// `target/debug`.
pub(crate) fn run(tree: &Tree, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let (language, names) = arguments.split_first().context("name a language")?;
    let bugs = format!("sdks/{language}/bugs/");
    let copy = Copy::make(tree)?;
    let (mut found, mut tried) = (0, 0);
    for (path, patch) in tree.ending(".patch").filter(|(path, _)| path.starts_with(&bugs)) {
        let name = Path::new(path).file_stem().context("a patch has a name")?.to_string_lossy();
        if !names.is_empty() && !names.iter().any(|wanted| *wanted == name) {
            continue;
        }
        let first = patch.lines().next().unwrap_or_default();
        let Some(scenario) = first.strip_prefix("scenario: ") else {
            bail!("{path}:1: begin with `scenario: NAME`, the scenario that it fails");
        };
        copy.apply(patch, &[])?;
        let agent = agent(tree, &copy, language).with_context(|| name.to_string())?;
        let is_found = fails(tree, scenario, &agent)?;
        copy.apply(patch, &["--reverse"])?;
        println!("{:<8} {name}", if is_found { "found" } else { "MISSED" });
        found += usize::from(is_found);
        tried += 1;
    }
    ensure!(!names.is_empty() || tried >= BUGS_MIN, "{tried} bugs, at least {BUGS_MIN}");
    println!("bugs of the SDK for {language} found {found} of {tried}");
    Ok(if tried > 0 && found == tried { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the agent of the patched SDK, and returns its command.
fn agent(tree: &Tree, copy: &Copy, language: &str) -> anyhow::Result<Vec<String>> {
    let text = |path: &Path| path.display().to_string();
    match language {
        "rust" => {
            let build = ["build", "--quiet", "-p", "driftq-client", "--example", "agent"];
            ensure!(copy.cargo(&build).status()?.success(), "it does not compile");
            Ok(vec![text(&copy.build.join("debug/examples/agent"))])
        }
        "python" => Ok(vec!["python3".to_owned(), text(&copy.at.join("sdks/python/agent.py"))]),
        "typescript" => {
            let sdk = copy.at.join("sdks/typescript");
            let modules = sdk.join("node_modules");
            if !modules.exists() {
                std::os::unix::fs::symlink(
                    tree.root.join("sdks/typescript/node_modules"),
                    modules,
                )?;
            }
            let mut npm = Command::new("npm");
            let build = npm.current_dir(&sdk).args(["run", "--silent", "build:agent"]);
            ensure!(build.status()?.success(), "it does not compile");
            Ok(vec!["node".to_owned(), text(&sdk.join("dist-agent/agent.js"))])
        }
        _ => bail!("no SDK for {language}; use rust, python or typescript"),
    }
}

/// Whether the agent fails the scenario.
fn fails(tree: &Tree, scenario: &str, agent: &[String]) -> anyhow::Result<bool> {
    let debug = tree.root.join("target/debug");
    let output = Command::new(debug.join("sdk"))
        .arg(debug.join("driftq"))
        .arg(tree.root.join("sdks/scenarios"))
        .args([scenario, "--"])
        .args(agent)
        .env("RUST_BACKTRACE", "0")
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    // A scenario that is not there fails too, but without this line.
    Ok(said.lines().any(|line| line.starts_with("FAILED") && line.ends_with(scenario)))
}
