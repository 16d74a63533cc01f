//! Phrases that have to be read twice, in comments, in texts of the programs and in documents.
//!
//! `docs/style.md` says what to write instead. Decision records and the older part of the changelog are history
//! and stay as they are.

use crate::tree::{Finding, Tree};

/// Phrases in lower case, compared word by word.
const PHRASES: &[&str] = &[
    "are told",
    "as of before",
    "be told",
    "been told",
    "come again",
    "comes again",
    "go away",
    "goes away",
    "is at work",
    "is told",
    "like of before",
    "nobody",
    "of before",
    "so many",
    "somebody",
    "that which",
    "was told",
    "were told",
    "whoever",
];

/// Phrases that must not begin a sentence, where they replace its subject.
const OPENINGS: &[&str] = &[
    "what came",
    "what comes",
    "what had",
    "what has",
    "what is",
    "what nobody",
    "what was",
    "what were",
    "who is",
    "who was",
    "who dies",
    "who has",
    "who sleeps",
    "who listens",
];

/// Where a phrase may stand: the end of a path, a part of the line, and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[];

/// History, and files that are generated or have a syntax of their own.
const SKIPPED: &[&str] = &[
    "docs/decisions/",
    "docs/reference/openapi.json",
    "xtask/src/phrases.rs",
    "xtask/src/names.rs",
    "docs/style.md",
];

const FIX: &str = "name the subject and use the words of docs/style.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        if SKIPPED.iter().any(|skipped| path.starts_with(skipped)) {
            continue;
        }
        let lines = match path.rsplit('.').next() {
            Some("rs") => rust_prose(text),
            Some("md") => document_prose(path, text),
            _ => continue,
        };
        for (line, prose) in lines {
            let is_allowed =
                |(end, part, _): &(&str, &str, &str)| path.ends_with(end) && prose.contains(part);
            if let Some(phrase) = unclear(&prose)
                && !ALLOWED.iter().any(is_allowed)
            {
                let wrong = format!("`{phrase}` has to be read twice: {}", prose.trim());
                findings.push(Finding::new(path, line, wrong, FIX));
            }
        }
    }
    findings
}

/// The first unclear phrase of a line.
fn unclear(prose: &str) -> Option<&'static str> {
    let lower = prose.to_lowercase();
    let anywhere = PHRASES.iter().find(|phrase| find_words(&lower, phrase).next().is_some());
    let begins_sentence = |at: usize| {
        let before = lower[..at].trim_end();
        before.is_empty() || before.ends_with(['.', ':', ';'])
    };
    let opening = || {
        // A question may begin so.
        let is_question = lower.trim_end().ends_with('?');
        OPENINGS
            .iter()
            .find(|phrase| !is_question && find_words(&lower, phrase).any(begins_sentence))
    };
    anywhere.or_else(opening).copied()
}

/// Where `phrase` stands in `text` as whole words.
fn find_words<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(phrase).map(|(at, _)| at).filter(move |at| {
        !text[..*at].ends_with(is_word) && !text[at + phrase.len()..].starts_with(is_word)
    })
}

/// The lines of a document outside code blocks.
fn document_prose(path: &str, text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut prose = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if path == "CHANGELOG.md" && line.starts_with("## [0") {
            break;
        }
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose.push((
                index + 1,
                line.trim_start_matches(['-', '|', '#', '>', ' ', '*']).to_owned(),
            ));
        }
    }
    prose
}

/// Comments and string literals of Rust, with their lines.
fn rust_prose(text: &str) -> Vec<(usize, String)> {
    let mut prose = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, content) = token(rest, first);
        if let Some(content) = content {
            for (index, part) in content.lines().enumerate() {
                prose.push((line + index, part.to_owned()));
            }
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    prose
}

/// The length of the token at the beginning of `rest`, and its prose if it is a comment or a string.
fn token(rest: &str, first: char) -> (usize, Option<&str>) {
    if let Some(comment) = rest.strip_prefix("//") {
        let end = comment.find('\n').unwrap_or(comment.len());
        return (end + 2, Some(comment[..end].trim_start_matches(['/', '!', ' '])));
    }
    if first == '\'' {
        // A character, or a lifetime, which has no end.
        let escaped = rest.strip_prefix("'\\").and_then(|rest| rest.get(1..)?.find('\''));
        let short = rest.char_indices().nth(2).filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1);
        return (escaped.map(|at| at + 4).or(short).unwrap_or(1), None);
    }
    if first == '"' {
        let mut is_escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                '"' if !is_escaped => return (at + 1, Some(&rest[1..at])),
                c => is_escaped = c == '\\' && !is_escaped,
            }
        }
    }
    let hashes = rest.strip_prefix('r').map(|raw| raw.len() - raw.trim_start_matches('#').len());
    if let Some(hashes) = hashes
        && rest[1 + hashes..].starts_with('"')
    {
        let end = format!("\"{}", "#".repeat(hashes));
        let begin = hashes + 2;
        let length = rest[begin..].find(&end).unwrap_or(rest.len() - begin);
        return (begin + length + end.len(), Some(&rest[begin..begin + length]));
    }
    // A word as one token, so that no `r` inside of it begins a raw string.
    let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (word.max(first.len_utf8()), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    #[test]
    fn unclear_phrases_are_found_in_comments_texts_and_documents() {
        let rust = "/// The lease ends.\n// Nobody renews it.\nlet nobody = r#\"so many\"#; let c = '\"'; x(\"is told\\\"\");\n\
            /// What is stored? And what is not. What is\n";
        let page = "A page. Whoever reads it\n```\nnobody\n```\n";
        let files = [("a.rs", rust), ("b.md", page), ("c.toml", "nobody")];
        assert_eq!(
            report(&check(&Tree::of(&files))),
            [
                "a.rs:2: `nobody` has to be read twice: Nobody renews it.",
                "a.rs:3: `so many` has to be read twice: so many",
                "a.rs:3: `is told` has to be read twice: is told\\\"",
                "a.rs:4: `what is` has to be read twice: What is stored? And what is not. What is",
                "b.md:1: `whoever` has to be read twice: A page. Whoever reads it",
            ]
        );
    }
}
