//! Names of modules, types and public functions: no word that a reader would not search for, and one
//! meaning per public type name in core and server.

use std::collections::BTreeMap;

use anyhow::Context;
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Visibility};

use crate::tree::{Finding, Tree};

/// Words that no name may contain, with a word to use instead.
const WORDS: &[(&str, &str)] = &[
    ("asked", "request"),
    ("around", "the noun it is about"),
    ("beside", "the noun it is about"),
    ("buried", "dead_letter"),
    ("bury", "dead_letter"),
    ("come", "the noun it is about"),
    ("comes", "the noun it is about"),
    ("given", "the noun it is about"),
    ("gone", "deleted, closed or missing"),
    ("hear", "receive"),
    ("heard", "received"),
    ("lapse", "expire"),
    ("looked", "the noun it is about"),
    ("nobody", "none or unknown"),
    ("said", "text or reply"),
    ("say", "print or set"),
    ("says", "message or reason"),
    ("shown", "view or text"),
    ("somebody", "another"),
    ("taken", "used, reserved or accepted"),
    ("tell", "send or report"),
    ("told", "received or reported"),
    ("who", "the noun it is about"),
    ("whole", "complete, all or valid"),
    ("wished", "target"),
];

/// Prepositions that are no names of modules and types.
const PREPOSITIONS: &[&str] = &["under", "since", "beside", "around", "over", "among", "beyond"];

/// Names that contain one of the words, with the reason why they may.
const ALLOWED: &[(&str, &str)] = &[];

pub(crate) fn check(tree: &Tree) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut types: BTreeMap<(String, String), Vec<(String, usize)>> = BTreeMap::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| !path.contains("tests")) {
        let file = syn::parse_file(text).with_context(|| path.to_owned())?;
        let mut names = Names::default();
        names.visit_file(&file);
        let module = path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        names.all.push((Kind::Module, module.to_owned()));
        for (kind, name) in names.all {
            let line = line_of(text, &name);
            findings.extend(judge(path, kind, &name, line));
            if kind == Kind::PublicType
                && let Some(of) =
                    ["core", "server"].iter().find(|of| path.starts_with(&format!("crates/{of}/")))
            {
                types.entry(((*of).to_owned(), name)).or_default().push((path.to_owned(), line));
            }
        }
    }
    for ((of, name), places) in types {
        if let [(first, _), .., (path, line)] = &places[..] {
            let wrong = format!("{of} has another public type `{name}`, in {first}");
            findings.push(Finding::new(path, *line, wrong, "give one of them a name of its own"));
        }
    }
    Ok(findings)
}

fn judge(path: &str, kind: Kind, name: &str, line: usize) -> Option<Finding> {
    if ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
        return None;
    }
    let parts = parts(name);
    let bad = WORDS.iter().find(|(word, _)| parts.iter().any(|part| part == word));
    if let Some((word, instead)) = bad {
        let fix = format!("use the word that a reader searches for: {instead}");
        return Some(Finding::new(path, line, format!("`{name}` contains `{word}`"), fix));
    }
    let is_preposition =
        kind != Kind::PublicFunction && PREPOSITIONS.contains(&&*name.to_lowercase());
    is_preposition.then(|| {
        let wrong = format!("`{name}` is a preposition");
        Finding::new(path, line, wrong, "name it after the noun it is about")
    })
}

/// The first line that declares `name`.
fn line_of(text: &str, name: &str) -> usize {
    let declares = |line: &str| {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let is_keyword =
            |word: &str| ["fn", "struct", "enum", "trait", "type", "mod"].contains(&word);
        words.windows(2).any(|pair| is_keyword(pair[0]) && pair[1] == name)
    };
    text.lines().position(declares).map_or(1, |index| index + 1)
}

/// The words of a name in either case, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for character in name.chars() {
        if character == '_' || character.is_uppercase() || parts.is_empty() {
            parts.push(String::new());
        }
        if character != '_'
            && let Some(last) = parts.last_mut()
        {
            last.extend(character.to_lowercase());
        }
    }
    parts
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Module,
    Type,
    PublicType,
    PublicFunction,
}

#[derive(Default)]
struct Names {
    all: Vec<(Kind, String)>,
}

impl Names {
    fn add(&mut self, kind: Kind, name: &Ident) {
        self.all.push((kind, name.to_string()));
    }

    fn add_type(&mut self, visibility: &Visibility, name: &Ident) {
        // `pub(crate)` counts: it is read in every module of the crate.
        let is_private = matches!(visibility, Visibility::Inherited);
        self.add(if is_private { Kind::Type } else { Kind::PublicType }, name);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::List(list) => {
            list.path.is_ident("cfg") && list.tokens.to_string().starts_with("test")
        }
        _ => false,
    };
    attributes.iter().any(is_test)
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            self.add(Kind::Module, &item.ident);
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add_type(&item.vis, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add_type(&item.vis, &item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add_type(&item.vis, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add_type(&item.vis, &item.ident);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !matches!(item.vis, Visibility::Inherited) {
            self.add(Kind::PublicFunction, &item.sig.ident);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !matches!(item.vis, Visibility::Inherited) {
            self.add(Kind::PublicFunction, &item.sig.ident);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    #[test]
    fn unclear_and_doubled_names_are_found() {
        let files = [
            (
                "crates/core/src/since.rs",
                "pub struct Asked; pub struct Lease; fn tell() {} pub fn tell_all() {}",
            ),
            (
                "crates/core/src/lease.rs",
                "pub(crate) struct Lease; #[cfg(test)] mod tests { pub fn told() {} }",
            ),
            ("crates/server/src/lease.rs", "pub struct Lease; pub fn hotel() {}"),
        ];
        assert_eq!(
            report(&check(&Tree::of(&files)).expect("the files are Rust")),
            [
                "crates/core/src/since.rs:1: `Asked` contains `asked`",
                "crates/core/src/since.rs:1: `tell_all` contains `tell`",
                "crates/core/src/since.rs:1: `since` is a preposition",
                "crates/core/src/since.rs:1: core has another public type `Lease`, in crates/core/src/lease.rs",
            ]
        );
    }
}
