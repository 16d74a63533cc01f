//! Decision records are numbered from 0001 without a gap and have the three expected sections.

use crate::tree::{Finding, Tree};

const FOLDER: &str = "docs/decisions/";
const SECTIONS: &[&str] = &["## Context", "## Decision", "## Consequences"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut expected = 1;
    // Paths are sorted, so the numbers are too.
    for (path, text) in tree.texts().filter(|(path, _)| path.starts_with(FOLDER)) {
        let Some(number) = number(&path[FOLDER.len()..]) else {
            findings.push(Finding::new(
                path,
                1,
                "the name is not that of a decision record",
                "name it NNNN-title-in-words.md",
            ));
            continue;
        };
        if number != expected {
            findings.push(Finding::new(
                path,
                1,
                format!("has number {number:04} where {expected:04} is next"),
                "number records without gaps, each number once",
            ));
        }
        expected = number + 1;
        if !text.starts_with(&format!("# {number:04}: ")) {
            findings.push(Finding::new(
                path,
                1,
                "has a title without its number",
                format!("begin with `# {number:04}: `"),
            ));
        }
        for section in SECTIONS {
            if !text.lines().any(|line| line == *section) {
                findings.push(Finding::new(
                    path,
                    1,
                    format!("has no section `{section}`"),
                    "write context, decision and consequences, on one page",
                ));
            }
        }
    }
    findings
}

/// Returns the number in a name such as `0001-rows-not-commands.md`.
fn number(name: &str) -> Option<u32> {
    let (digits, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_title = !title.is_empty()
        && title.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    (digits.len() == 4 && is_title).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    fn record(number: u32) -> String {
        format!("# {number:04}: A\n\n{}\n", SECTIONS.join("\n\n"))
    }

    #[test]
    fn a_gap_and_a_number_given_twice_are_found() {
        let (one, three) = (record(1), record(3));
        let tree = Tree::of(&[
            ("docs/decisions/0001-a.md", &one),
            ("docs/decisions/0003-b.md", &three),
            ("docs/decisions/0003-c.md", &three),
        ]);
        assert_eq!(
            report(&check(&tree)),
            [
                "docs/decisions/0003-b.md:1: has number 0003 where 0002 is next",
                "docs/decisions/0003-c.md:1: has number 0003 where 0004 is next",
            ]
        );
    }

    #[test]
    fn a_name_without_a_number_is_found() {
        let tree = Tree::of(&[("docs/decisions/notes.md", ""), ("docs/decisions/1-a.md", "")]);
        assert_eq!(
            report(&check(&tree)),
            [
                "docs/decisions/1-a.md:1: the name is not that of a decision record",
                "docs/decisions/notes.md:1: the name is not that of a decision record",
            ]
        );
    }

    #[test]
    fn a_record_without_consequences_is_found() {
        let text = "# 0001: A\n\n## Context\n\n## Decision\n";
        let tree = Tree::of(&[("docs/decisions/0001-a.md", text)]);
        assert_eq!(
            report(&check(&tree)),
            ["docs/decisions/0001-a.md:1: has no section `## Consequences`"]
        );
    }

    #[test]
    fn a_title_without_its_number_is_found() {
        let text = record(1).replacen("0001", "0002", 1);
        let tree = Tree::of(&[("docs/decisions/0001-a.md", &text)]);
        assert_eq!(
            report(&check(&tree)),
            ["docs/decisions/0001-a.md:1: has a title without its number"]
        );
    }
}
