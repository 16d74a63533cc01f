//! The page of invariants, the enum of the checker and the seeded bugs agree.

use std::collections::BTreeMap;

use anyhow::Context;

use crate::tree::{Finding, Tree};

const PAGE: &str = "docs/invariants.md";
const ENUM: &str = "crates/checker/src/invariant.rs";
const CHECKER: &str = "crates/checker/src/";
const BUGS: &str = "crates/sim/bugs/";

pub(crate) fn check(tree: &Tree) -> anyhow::Result<Vec<Finding>> {
    let Some(source) = tree.files.get(ENUM) else {
        return Ok(Vec::new());
    };
    let page = tree.files.get(PAGE).map_or("", String::as_str);
    let sections = sections(page);
    let mut findings = Vec::new();
    let variants = variants(source)?;
    for (name, text) in &variants {
        let Some(section) = sections.get(name.as_str()) else {
            let fix = "add a section: what it requires, what checks it";
            findings.push(Finding::new(PAGE, 1, format!("`{name}` is missing"), fix));
            continue;
        };
        findings.extend(check_section(tree, name, section));
        let said = format!("{}: {}", section.number, section.text);
        if said != *text {
            let wrong = format!("the comment of `{name}` in {ENUM} says something else");
            findings.push(Finding::new(PAGE, section.line, wrong, "use one text in both"));
        }
    }
    for (name, section) in &sections {
        if !variants.contains_key(*name) {
            let wrong = format!("`{name}` is not an invariant");
            findings.push(Finding::new(PAGE, section.line, wrong, "delete its section"));
        }
    }
    for (path, bug, invariant) in bugs(tree) {
        let is_listed = sections.get(invariant).is_some_and(|section| section.bugs.contains(&bug));
        if !is_listed {
            let wrong = format!("the page does not list this bug under `{invariant}`");
            findings.push(Finding::new(path, 1, wrong, "add it to docs/invariants.md"));
        }
    }
    Ok(findings)
}

struct Section<'a> {
    line: usize,
    number: &'a str,
    /// What the invariant requires, without line breaks.
    text: String,
    files: Vec<&'a str>,
    bugs: Vec<&'a str>,
}

fn check_section(tree: &Tree, name: &str, section: &Section<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |wrong: String, fix: &str| {
        findings.push(Finding::new(PAGE, section.line, wrong, fix));
    };
    if section.files.is_empty() {
        find(format!("nothing checks `{name}`"), "name the files of the checker that check it");
    }
    for file in &section.files {
        let paths = [format!("{CHECKER}{file}.rs"), format!("{CHECKER}{file}/mod.rs")];
        let mut texts = paths.iter().filter_map(|path| tree.files.get(path));
        if !texts.any(|text| text.contains(name)) {
            find(format!("`{file}` does not check `{name}`"), "name a file that does");
        }
    }
    for bug in &section.bugs {
        let patch = tree.files.get(&format!("{BUGS}{bug}.patch"));
        if !patch.is_some_and(|patch| patch.starts_with(&format!("invariant: {name}\n"))) {
            find(format!("`{bug}` is not a seeded bug of `{name}`"), "move or delete it");
        }
    }
    findings
}

/// The sections of the page by name.
fn sections(page: &str) -> BTreeMap<&str, Section<'_>> {
    let mut sections = BTreeMap::new();
    let mut current = None;
    let mut list = "";
    for (index, line) in page.lines().enumerate() {
        if let Some(name) = line.strip_prefix("### ") {
            current = Some(name);
            let (text, files, bugs) = (String::new(), Vec::new(), Vec::new());
            sections.insert(name, Section { line: index + 1, number: "", text, files, bugs });
            continue;
        }
        if line.starts_with("## ") {
            current = None;
        }
        if let Some((label, _)) = line.strip_prefix("- ").and_then(|item| item.split_once(':')) {
            list = label;
        } else if !line.starts_with("  ") {
            list = "";
        }
        let section = current.and_then(|name| sections.get_mut(name));
        let names = line.split('`').skip(1).step_by(2);
        match (section, list) {
            (Some(section), "") => join(&mut section.text, line),
            (Some(section), "Number") => section.number = line.trim_start_matches("- Number: "),
            (Some(section), "Checked in") => section.files.extend(names),
            (Some(section), "Seeded bugs") => section.bugs.extend(names),
            _ => {}
        }
    }
    sections
}

fn join(text: &mut String, line: &str) {
    let line = line.trim();
    if !text.is_empty() && !line.is_empty() {
        text.push(' ');
    }
    text.push_str(line);
}

/// The variants of the enum, with their comments without line breaks.
fn variants(source: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let file = syn::parse_file(source).context(ENUM)?;
    let mut variants = BTreeMap::new();
    for item in file.items {
        let syn::Item::Enum(item) = item else { continue };
        for variant in item.variants {
            let mut text = String::new();
            for attribute in &variant.attrs {
                if let syn::Meta::NameValue(doc) = &attribute.meta
                    && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(line), .. }) =
                        &doc.value
                {
                    join(&mut text, &line.value());
                }
            }
            variants.insert(variant.ident.to_string(), text);
        }
    }
    Ok(variants)
}

/// The path, name and invariant of every seeded bug.
fn bugs(tree: &Tree) -> impl Iterator<Item = (&str, &str, &str)> {
    tree.ending(".patch").filter_map(|(path, patch)| {
        let bug = path.strip_prefix(BUGS)?.strip_suffix(".patch")?;
        let invariant = patch.lines().next()?.strip_prefix("invariant: ")?;
        Some((path, bug, invariant))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    #[test]
    fn disagreements_are_found() {
        let page = "### NoLoss\n\nNothing is\nlost.\n\n- Number: 1\n- Checked in: `outbox`,\n  `order`\n- Seeded bugs: `lost`, `gone`\n\n\
            ### Old\n\n- Checked in: `outbox`\n";
        let files = [
            (PAGE, page),
            (ENUM, "enum Invariant { /** 1: All is well. */ NoLoss, Pause }"),
            ("crates/checker/src/outbox.rs", "Invariant::NoLoss"),
            ("crates/checker/src/order.rs", ""),
            ("crates/sim/bugs/lost.patch", "invariant: NoLoss\n"),
            ("crates/sim/bugs/new.patch", "invariant: Pause\n"),
        ];
        assert_eq!(
            report(&check(&Tree::of(&files)).expect("the enum is Rust")),
            [
                "docs/invariants.md:1: `order` does not check `NoLoss`",
                "docs/invariants.md:1: `gone` is not a seeded bug of `NoLoss`",
                "docs/invariants.md:1: the comment of `NoLoss` in crates/checker/src/invariant.rs says something else",
                "docs/invariants.md:1: `Pause` is missing",
                "docs/invariants.md:11: `Old` is not an invariant",
                "crates/sim/bugs/new.patch:1: the page does not list this bug under `Pause`",
            ]
        );
    }
}
