//! What the README promises, a test or a recipe shows: the last column of a table that says `shown by`
//! names some that exist.

use std::collections::BTreeSet;

use crate::tree::{Finding, Tree};

const README: &str = "README.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let text = tree.files.get(README).map_or("", String::as_str);
    let known = known(tree);
    let mut findings = Vec::new();
    let mut is_shown = false;
    for (index, line) in text.lines().enumerate() {
        let Some(cell) = last_cell(line) else {
            is_shown = false;
            continue;
        };
        if cell == "shown by" {
            is_shown = true;
        } else if is_shown && !cell.starts_with("--") {
            let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
            if names.is_empty() {
                let fix = "name a test, or a recipe as `just …`; without one it is not promised";
                findings.push(Finding::new(README, index + 1, "nothing shows this", fix));
            }
            for name in names.into_iter().filter(|name| !known.contains(*name)) {
                let fix = "name a test that exists, or a recipe as `just …`";
                let wrong = format!("`{name}` is neither a test nor a recipe");
                findings.push(Finding::new(README, index + 1, wrong, fix));
            }
        }
    }
    findings
}

fn last_cell(line: &str) -> Option<&str> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    row.rsplit('|').next().map(str::trim)
}

/// Tests by their names, recipes as `just NAME`.
fn known(tree: &Tree) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (_, text) in tree.ending(".rs") {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if line == "#[test]" || line == "#[tokio::test]" {
                is_test = true;
            } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
                known.extend(rest.split('(').next().map(str::to_owned));
                is_test = false;
            }
        }
    }
    for line in tree.files.get("justfile").map_or("", String::as_str).lines() {
        if line.starts_with(|c: char| c.is_ascii_lowercase()) && !line.contains(":=") {
            let name = line.split([':', ' ']).next().unwrap_or_default();
            known.insert(format!("just {name}"));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    #[test]
    fn a_promise_that_nothing_shows_is_found() {
        let readme = "| a | shown by |\n|---|---|\n| b | `holds` |\n| c | `just crash` |\n\
            | d | |\n| e | `lost` |\n| f | `just lost` |\n\n| g | other |\n| h | `lost` |\n";
        let rust = "#[test]\nfn holds() {}\nfn lost() {}\n";
        let files = [("README.md", readme), ("a.rs", rust), ("justfile", "crash N='1':\n    x\n")];
        assert_eq!(
            report(&check(&Tree::of(&files))),
            [
                "README.md:5: nothing shows this",
                "README.md:6: `lost` is neither a test nor a recipe",
                "README.md:7: `just lost` is neither a test nor a recipe",
            ]
        );
    }
}
