//! Every guarantee in docs/guarantees.md has evidence: the last column of a table headed `shown by`
//! names tests or recipes that exist.

use std::collections::BTreeSet;

use crate::tree::{Finding, Tree};

const PAGE: &str = "docs/guarantees.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let text = tree.files.get(PAGE).map_or("", String::as_str);
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
                let fix = "name a test, or a recipe as `just …`, or delete the guarantee";
                findings.push(Finding::new(PAGE, index + 1, "no evidence is named", fix));
            }
            for name in names.into_iter().filter(|name| !known.contains(*name)) {
                let fix = "name a test that exists, or a recipe as `just …`";
                let wrong = format!("`{name}` is neither a test nor a recipe");
                findings.push(Finding::new(PAGE, index + 1, wrong, fix));
            }
        }
    }
    findings
}

fn last_cell(line: &str) -> Option<&str> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    row.rsplit('|').next().map(str::trim)
}

/// Returns tests by their names, and recipes as `just NAME`.
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
        let page = "| a | shown by |\n|---|---|\n| b | `holds` |\n| c | `just crash` |\n\
            | d | |\n| e | `lost` |\n| f | `just lost` |\n\n| g | other |\n| h | `lost` |\n";
        let rust = "#[test]\nfn holds() {}\nfn lost() {}\n";
        let files =
            [("docs/guarantees.md", page), ("a.rs", rust), ("justfile", "crash N='1':\n    x\n")];
        assert_eq!(
            report(&check(&Tree::of(&files))),
            [
                "docs/guarantees.md:5: no evidence is named",
                "docs/guarantees.md:6: `lost` is neither a test nor a recipe",
                "docs/guarantees.md:7: `just lost` is neither a test nor a recipe",
            ]
        );
    }
}
