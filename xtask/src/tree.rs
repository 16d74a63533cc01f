//! The files of the repository, and the findings of rules.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// The files of the repository: tracked ones, and new ones that git does not ignore.
#[derive(Default)]
pub(crate) struct Tree {
    /// The root of the repository.
    pub(crate) root: PathBuf,
    /// Paths below the root, with `/`, and their texts. The text is empty if the file is not text.
    pub(crate) files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository of the current directory.
    pub(crate) fn read() -> anyhow::Result<Tree> {
        let here = PathBuf::from(".");
        let root = PathBuf::from(git(&here, &["rev-parse", "--show-toplevel"])?.trim_end());
        let listed = git(&root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut files = BTreeMap::new();
        for path in listed.split_terminator('\0') {
            let full = root.join(path);
            // A file that was deleted and not yet staged is still listed.
            if full.is_file() {
                let bytes = std::fs::read(&full).with_context(|| format!("read {path}"))?;
                files.insert(path.to_owned(), String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(Tree { root, files })
    }

    /// Returns the paths and texts of files whose path ends with `suffix`.
    pub(crate) fn ending(&self, suffix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(path, _)| path.ends_with(suffix))
    }

    /// Returns the paths and texts of all files.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Whether a path is a file, or a folder that contains one.
    pub(crate) fn has(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.files.contains_key(path)
            || path.is_empty()
            || self.files.range(below.clone()..).next().is_some_and(|(p, _)| p.starts_with(&below))
    }

    /// Creates a tree from paths and texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Tree { root: PathBuf::new(), files: files.iter().map(own).collect() }
    }
}

pub(crate) fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git")
        .current_dir(directory)
        .args(arguments)
        .output()
        .context("git is needed to list files")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {said}", arguments.join(" "));
    String::from_utf8(output.stdout).context("a path is not UTF-8")
}

/// One problem.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    wrong: String,
    fix: String,
}

impl Finding {
    /// `line` counts from 1.
    pub(crate) fn new(
        path: &str,
        line: usize,
        wrong: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding { path: path.to_owned(), line, wrong: wrong.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, line, wrong, fix } = self;
        write!(f, "{path}:{line}: {wrong}\n    {fix}")
    }
}

/// Formats findings for comparison.
#[cfg(test)]
pub(crate) fn report(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|f| format!("{}:{}: {}", f.path, f.line, f.wrong)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_when_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/a/b.md", "")]);
        assert!(tree.has("docs"));
        assert!(tree.has("docs/a"));
        assert!(tree.has("docs/a/b.md"));
        assert!(!tree.has("doc"));
        assert!(!tree.has("docs/a/b"));
    }

    #[test]
    fn a_finding_names_place_fault_and_remedy() {
        let finding = Finding::new("a.md", 3, "is wrong", "do right");
        assert_eq!(finding.to_string(), "a.md:3: is wrong\n    do right");
    }
}
