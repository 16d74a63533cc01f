//! Maintenance tasks of the repository, run with `cargo run -p xtask -- TASK`:
//!
//! - `tidy` checks rules that no compiler checks.
//! - `bugs` checks that the simulator finds seeded bugs.
//! - `sdk-bugs` checks that the scenarios find seeded bugs of the SDK.
//! - `readme` runs the commands in the documents.
//! - `small` checks the size and the start of a binary.
//! - `release-check` runs the proofs that take too long for CI.
//!
//! One file per rule. Each rule takes the files and returns findings. A finding names the place,
//! the problem and the fix. The same run is a test, so `just test` fails where `just tidy` does.

#![expect(clippy::print_stdout, reason = "findings are this program's output")]

mod bugs;
mod commits;
mod copy;
mod cycles;
mod decisions;
mod edges;
mod invariants;
mod links;
mod names;
mod phrases;
mod proofs;
mod readme;
mod release;
mod sdk_bugs;
mod traces;
mod tree;
mod words;

use std::process::ExitCode;

use tree::{Finding, Tree};

const USAGE: &str = "usage: cargo run -p xtask -- tidy | bugs [NAME…|PART/PARTS] | sdk-bugs LANGUAGE [NAME…] | readme [BINARY] | small BINARY | release-check [STAGE…]";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let tree = Tree::read()?;
    match arguments.split_first() {
        Some((verb, [])) if verb == "tidy" => report(&tree),
        Some((verb, binary)) if verb == "readme" && binary.len() < 2 => {
            readme::run(&tree, binary.first())
        }
        Some((verb, [binary])) if verb == "small" => readme::small(&tree, binary),
        Some((verb, names)) if verb == "bugs" => bugs::run(&tree, names),
        Some((verb, names)) if verb == "sdk-bugs" => sdk_bugs::run(&tree, names),
        Some((verb, names)) if verb == "release-check" => release::run(&tree, names),
        Some(_) | None => anyhow::bail!(USAGE),
    }
}

fn report(tree: &Tree) -> anyhow::Result<ExitCode> {
    let findings = tidy(tree)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.files.len(), findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Everything that is wrong with the tree, in the order of the rules.
fn tidy(tree: &Tree) -> anyhow::Result<Vec<Finding>> {
    let mut findings = edges::check(tree, &edges::workspace(tree)?);
    findings.extend(words::check(tree));
    findings.extend(links::check(tree));
    findings.extend(proofs::check(tree));
    findings.extend(traces::check(tree));
    findings.extend(decisions::check(tree));
    findings.extend(cycles::check(tree)?);
    findings.extend(invariants::check(tree)?);
    findings.extend(names::check(tree)?);
    findings.extend(phrases::check(tree));
    findings.extend(commits::check(tree)?);
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let tree = Tree::read().expect("the files of the repository");
        let findings = tidy(&tree).expect("the rules can be applied");
        let report: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(report.is_empty(), "\n{}", report.join("\n"));
    }
}
