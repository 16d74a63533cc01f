//! Relative links in documents must lead to a file of the repository and, if named, to a heading in
//! it.

use crate::tree::{Finding, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, target) in links(text) {
            if let Some(wrong) = fault(tree, path, target) {
                findings.push(Finding::new(
                    path,
                    line,
                    format!("link `{target}` {wrong}"),
                    "correct the link, or add its target in the same change",
                ));
            }
        }
    }
    findings
}

/// Returns why a link in the document `from` is broken, if it is.
fn fault(tree: &Tree, from: &str, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        from.to_owned()
    } else {
        match resolve(from, file) {
            Some(path) => path,
            None => return Some("leaves the repository"),
        }
    };
    if !tree.has(&path) {
        return Some("does not lead to a file of the repository");
    }
    let text = tree.files.get(&path).map_or("", String::as_str);
    if path.ends_with(".md") && !heading.is_empty() && !anchors(text).any(|a| a == heading) {
        return Some("does not lead to a heading");
    }
    None
}

/// Returns the path below the root to which `target` refers in a document at `from`.
fn resolve(from: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns the lines outside code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_fence && !is_code).then_some((index + 1, line))
    })
}

/// Returns link targets with their lines: `[text](target)` and `[name]: target`, outside code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        // Every second piece is between backticks, so it is code.
        for piece in line.split('`').step_by(2) {
            for rest in piece.split("](").skip(1) {
                links.push((number, first(rest)));
            }
        }
        if line.starts_with('[')
            && let Some((_, target)) = line.split_once("]: ")
        {
            links.push((number, first(target)));
        }
    }
    links
}

/// Returns the target without its closing parenthesis or title.
fn first(text: &str) -> &str {
    text.split([')', ' ']).next().unwrap_or(text)
}

/// Returns the anchors of all headings.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let heading = line.trim_start_matches('#').trim();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    #[test]
    fn a_link_to_a_missing_file_is_found() {
        let text = "# A\n\nSee [b](b.md), [`c`](../c.md) and\n[d].\n\n[d]: d/\n";
        let tree = Tree::of(&[("docs/a.md", text), ("docs/d/e.md", "")]);
        assert_eq!(
            report(&check(&tree)),
            [
                "docs/a.md:3: link `b.md` does not lead to a file of the repository",
                "docs/a.md:3: link `../c.md` does not lead to a file of the repository",
            ]
        );
    }

    #[test]
    fn a_link_to_a_missing_heading_is_found() {
        let text = "# One, two\n[a](#one-two) [b](#three) [c](b.md#four)\n";
        let tree = Tree::of(&[("a.md", text), ("b.md", "## Five\n")]);
        assert_eq!(
            report(&check(&tree)),
            [
                "a.md:2: link `#three` does not lead to a heading",
                "a.md:2: link `b.md#four` does not lead to a heading"
            ]
        );
    }

    #[test]
    fn a_link_out_of_the_repository_is_found() {
        let tree = Tree::of(&[("docs/a.md", "[a](../../b.md) [c](/etc/d)\n")]);
        assert_eq!(
            report(&check(&tree)),
            [
                "docs/a.md:1: link `../../b.md` leaves the repository",
                "docs/a.md:1: link `/etc/d` leaves the repository",
            ]
        );
    }

    #[test]
    fn code_and_the_web_are_not_looked_at() {
        let text = "`[a](b.md)` [c](https://example.com/d)\n```\n[e](f.md)\n```\n";
        assert_eq!(check(&Tree::of(&[("a.md", text)])), []);
    }
}
