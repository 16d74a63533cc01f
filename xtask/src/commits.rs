//! Subjects of commits are short enough for every log.

use crate::tree::{Finding, Tree, git};

/// The last commit before the rule.
const BEFORE: &str = "0c07d7a";
const SUBJECT_MAX: usize = 72;

pub(crate) fn check(tree: &Tree) -> anyhow::Result<Vec<Finding>> {
    // A shallow clone lacks the older commits. Then all that it has are checked.
    let base = git(&tree.root, &["merge-base", "--is-ancestor", BEFORE, "HEAD"]);
    let range = if base.is_ok() { format!("{BEFORE}..HEAD") } else { "HEAD".to_owned() };
    Ok(long_subjects(&git(&tree.root, &["log", "--format=%h %s", &range])?))
}

fn long_subjects(log: &str) -> Vec<Finding> {
    let subjects = log.lines().filter_map(|line| line.split_once(' '));
    let long = subjects.filter(|(_, subject)| subject.chars().count() > SUBJECT_MAX);
    let finding = |(commit, subject): (&str, &str)| {
        let wrong = format!("the subject has {} characters: {subject}", subject.chars().count());
        Finding::new(&format!("commit {commit}"), 1, wrong, format!("write at most {SUBJECT_MAX}"))
    };
    long.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    #[test]
    fn a_long_subject_is_found() {
        let log = format!("aaaaaaa core: short\nbbbbbbb {}\n", "x".repeat(73));
        let expected =
            format!("commit bbbbbbb:1: the subject has 73 characters: {}", "x".repeat(73));
        assert_eq!(report(&long_subjects(&log)), [expected]);
    }
}
