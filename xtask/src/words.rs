//! Marks of unfinished work, and names without meaning.

use crate::tree::{Finding, Tree};

/// Marks of unfinished work. Split, so that the rule does not find this list.
const MARKS: &[&str] = &[concat!("FIX", "ME"), concat!("XX", "X")];

/// Names of files, folders and modules that fit any content.
const NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "types", "manager", "impl", "v2"];

const NAME_FIX: &str = "name it after the noun or verb it is about";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        if let Some(name) = path.split('/').map(stem).find(|name| NAMES.contains(name)) {
            findings.push(Finding::new(path, 1, format!("`{name}` fits any content"), NAME_FIX));
        }
        for (index, line) in text.lines().enumerate() {
            if let Some(mark) = words(line).find(|word| MARKS.contains(word)) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("`{mark}` marks unfinished work"),
                    "finish it, or describe the limitation in a sentence",
                ));
            }
            if path.ends_with(".rs")
                && let Some(name) = module(line).filter(|name| NAMES.contains(name))
            {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("module `{name}` fits any content"),
                    NAME_FIX,
                ));
            }
        }
    }
    findings
}

/// Returns a file or folder name up to its first dot. Names that begin with a dot have none.
fn stem(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Returns the module that a line of Rust declares.
fn module(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("//") {
        return None;
    }
    let mut words = words(line).skip_while(|word| *word != "mod").skip(1);
    words.next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    #[test]
    fn a_mark_of_unfinished_work_is_found() {
        let text = format!("fn a() {{}}\n// {}: later\n", MARKS[0]);
        let findings = check(&Tree::of(&[("src/a.rs", &text)]));
        assert_eq!(
            report(&findings),
            [format!("src/a.rs:2: `{}` marks unfinished work", MARKS[0])]
        );
    }

    #[test]
    fn a_mark_inside_a_longer_word_is_not_meant() {
        let text = format!("mktemp name.{0}{0}\n", MARKS[1]);
        assert_eq!(check(&Tree::of(&[("run", &text)])), []);
    }

    #[test]
    fn a_file_or_folder_that_fits_any_content_is_found() {
        let files = [("src/utils.rs", ""), ("common/mod.rs", ""), ("src/commons.rs", "")];
        assert_eq!(
            report(&check(&Tree::of(&files))),
            [
                "common/mod.rs:1: `common` fits any content",
                "src/utils.rs:1: `utils` fits any content",
            ]
        );
    }

    #[test]
    fn a_module_that_fits_any_content_is_found() {
        let text = format!("//! x\npub(crate) mod {}{{}}\n// mod {};\n", NAMES[1], NAMES[1]);
        assert_eq!(
            report(&check(&Tree::of(&[("src/a.rs", &text)]))),
            ["src/a.rs:2: module `utils` fits any content"]
        );
    }
}
