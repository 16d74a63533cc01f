//! No dependency cycle between folders of a crate, and none of more than three files.
//!
//! A file depends on the file that defines what it names. `pub use` is followed, and tests are
//! ignored. Method calls are not detected, so a type may be extended in files above the one that
//! defines it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use syn::visit::Visit;
use syn::{Attribute, Item, UseTree};

use crate::tree::{Finding, Tree};

/// The largest cycle of files that is allowed.
const FILES_MAX: usize = 3;

type Edges = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn check(tree: &Tree) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for files in crates(tree).values() {
        let edges = file_edges(tree, files)?;
        for cycle in cycles(&edges).into_iter().filter(|cycle| cycle.len() > FILES_MAX) {
            findings.push(finding("files", &cycle, &edges));
        }
        for (_, edges) in folder_edges(&edges) {
            for cycle in cycles(&edges).into_iter().filter(|cycle| has_folder(cycle, files)) {
                findings.push(finding("folders", &cycle, &edges));
            }
        }
    }
    Ok(findings)
}

fn finding(what: &str, cycle: &BTreeSet<String>, edges: &Edges) -> Finding {
    let members: Vec<&str> = cycle.iter().map(String::as_str).collect();
    let to = |from: &String| edges[from].intersection(cycle).cloned().collect::<Vec<_>>();
    let inside: Vec<String> = cycle
        .iter()
        .flat_map(|from| to(from).into_iter().map(move |to| format!("{from} -> {to}")))
        .collect();
    let first = members.first().copied().unwrap_or_default();
    Finding::new(
        first,
        1,
        format!("a dependency cycle of {} {what}: {}", members.len(), members.join(", ")),
        format!(
            "move the shared code below both sides; the dependencies are: {}",
            inside.join(", ")
        ),
    )
}

/// Files of a crate by their module path.
type Modules = BTreeMap<Vec<String>, String>;

/// All crates by their root folder: libraries, and programs with a folder of their own.
fn crates(tree: &Tree) -> BTreeMap<String, Modules> {
    let is_root = |path: &&str| path.ends_with("/lib.rs") || path.ends_with("/main.rs");
    let paths = || tree.ending(".rs").map(|(path, _)| path).filter(|path| !path.contains("tests/"));
    let roots: BTreeSet<&str> = paths()
        .filter(is_root)
        .filter_map(|path| path.rsplit_once('/'))
        .map(|(at, _)| at)
        .collect();
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for path in paths() {
        let root = roots
            .iter()
            .rfind(|root| path.strip_prefix(**root).is_some_and(|below| below.starts_with('/')));
        let Some(root) = root else { continue };
        let below = path[root.len() + 1..].trim_end_matches(".rs");
        // Each of these files is a crate.
        if below.starts_with("bin/") {
            continue;
        }
        let mut module: Vec<String> = below.split('/').map(str::to_owned).collect();
        if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            module.pop();
        }
        crates.entry((*root).to_owned()).or_default().insert(module, path.to_owned());
    }
    crates
}

/// The names of its crate that a file uses.
#[derive(Default)]
struct Names {
    /// Paths from the root of the crate.
    used: Vec<Vec<String>>,
    /// Re-exported names, and their paths.
    passed_on: BTreeMap<String, Vec<String>>,
    /// Test modules.
    tests: Vec<String>,
}

struct Reader<'a> {
    module: &'a [String],
    names: Names,
}

impl Reader<'_> {
    /// Returns the path from the root of the crate, if it is a path of this crate.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut at = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "super" => self.module.split_last()?.1.to_vec(),
            "self" => self.module.to_vec(),
            _ => return None,
        };
        for part in &path[1..] {
            match part.as_str() {
                "super" => drop(at.pop()),
                _ => at.push(part.clone()),
            }
        }
        Some(at)
    }

    fn use_tree(&mut self, before: &[String], tree: &UseTree, is_public: bool) {
        let with = |name: &str| [before, &[name.to_owned()]].concat();
        let (path, name) = match tree {
            UseTree::Path(path) => {
                return self.use_tree(&with(&path.ident.to_string()), &path.tree, is_public);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|item| self.use_tree(before, item, is_public));
            }
            UseTree::Name(name) if name.ident == "self" => {
                (before.to_vec(), before.last().cloned().unwrap_or_default())
            }
            UseTree::Name(name) => (with(&name.ident.to_string()), name.ident.to_string()),
            UseTree::Rename(rename) => (with(&rename.ident.to_string()), rename.rename.to_string()),
            UseTree::Glob(_) => (before.to_vec(), "*".to_owned()),
        };
        // `use child::Name` without `self` is also a path, if the child exists.
        let path = self.absolute(&path).unwrap_or_else(|| [self.module, &path].concat());
        if is_public {
            self.names.passed_on.insert(name, path);
        } else {
            self.names.used.push(path);
        }
    }
}

/// Whether it is compiled only for tests or fuzzing.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute.parse_args::<syn::Path>();
        attribute.path().is_ident("cfg")
            && condition.is_ok_and(|path| path.is_ident("test") || path.is_ident("fuzzing"))
    })
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Use(item) => {
                let is_public = !matches!(item.vis, syn::Visibility::Inherited);
                self.use_tree(&[], &item.tree, is_public);
            }
            Item::Mod(item) if is_test(&item.attrs) => {
                self.names.tests.push(item.ident.to_string());
            }
            _ => syn::visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if let Some(path) = self.absolute(&parts).filter(|_| parts.len() > 1) {
            self.names.used.push(path);
        }
        syn::visit::visit_path(self, path);
    }
}

fn file_edges(tree: &Tree, files: &Modules) -> anyhow::Result<Edges> {
    let mut names: BTreeMap<&[String], Names> = BTreeMap::new();
    for (module, path) in files {
        let file = syn::parse_file(&tree.files[path]).with_context(|| format!("parse {path}"))?;
        let mut reader = Reader { module, names: Names::default() };
        reader.visit_file(&file);
        names.insert(module, reader.names);
    }
    let is_tested_with = |module: &[String]| {
        (1..=module.len()).any(|depth| {
            let above = names.get(&module[..depth - 1]);
            above.is_some_and(|above| above.tests.contains(&module[depth - 1]))
        })
    };
    let mut edges = Edges::new();
    for (module, path) in files.iter().filter(|(module, _)| !is_tested_with(module)) {
        for used in &names[module.as_slice()].used {
            if let Some(on) = defining(files, &names, used.clone()).filter(|on| *on != path) {
                edges.entry(path.clone()).or_default().insert(on.clone());
            }
        }
    }
    Ok(edges)
}

/// Returns the file that defines what a path names.
fn defining<'a>(
    files: &'a Modules,
    names: &BTreeMap<&[String], Names>,
    mut path: Vec<String>,
) -> Option<&'a String> {
    // Chains of `pub use` are short.
    for _ in 0..8 {
        let depth = (0..=path.len()).rev().find(|depth| files.contains_key(&path[..*depth]))?;
        let (module, rest) = path.split_at(depth);
        let from = rest.first().and_then(|name| names[module].passed_on.get(name));
        match from {
            Some(from) => path = [from.as_slice(), &rest[1..]].concat(),
            // A name found only in the root of the crate belongs to another crate.
            None if module.is_empty() && rest.is_empty() => return None,
            None => return files.get(module),
        }
    }
    None
}

/// Returns the dependencies inside each folder. A file and the folder of the same name are one
/// unit.
fn folder_edges(edges: &Edges) -> BTreeMap<String, Edges> {
    let mut by_folder: BTreeMap<String, Edges> = BTreeMap::new();
    for (from, to) in edges.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to))) {
        let (from, to): (Vec<&str>, Vec<&str>) = (units(from), units(to));
        let same = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
        if let (Some(_), Some(_)) = (from.get(same), to.get(same)) {
            let folder = from[..same].join("/");
            let unit = |of: &[&str]| of[..=same].join("/");
            by_folder.entry(folder).or_default().entry(unit(&from)).or_default().insert(unit(&to));
        }
    }
    by_folder
}

fn units(path: &str) -> Vec<&str> {
    path.trim_end_matches(".rs").trim_end_matches("/mod").split('/').collect()
}

fn has_folder(cycle: &BTreeSet<String>, files: &Modules) -> bool {
    let is_folder =
        |unit: &String| files.values().any(|path| path.starts_with(&format!("{unit}/")));
    cycle.iter().any(is_folder)
}

/// Returns the sets of two or more nodes that reach each other.
fn cycles(edges: &Edges) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        edges.keys().map(|from| (from, reach(edges, from))).collect();
    let mut cycles: Vec<BTreeSet<String>> = Vec::new();
    for (from, to) in &reached {
        let is_back = |to: &&&String| reached.get(*to).is_some_and(|back| back.contains(*from));
        let cycle: BTreeSet<String> = to.iter().filter(is_back).map(|to| (*to).clone()).collect();
        if cycle.len() > 1 && !cycles.contains(&cycle) {
            cycles.push(cycle);
        }
    }
    cycles
}

fn reach<'a>(edges: &'a Edges, from: &'a String) -> BTreeSet<&'a String> {
    let (mut reached, mut rest) = (BTreeSet::new(), vec![from]);
    while let Some(at) = rest.pop() {
        let new = edges.get(at).into_iter().flatten().filter(|to| reached.insert(*to));
        rest.extend(new.collect::<Vec<_>>());
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        report(&check(&Tree::of(files)).expect("the files are Rust"))
    }

    #[test]
    fn a_cycle_of_four_files_is_found_and_one_of_three_is_not() {
        let ring = |count: usize| {
            let next = |at: usize| format!("use crate::m{}::T;", (at + 1) % count);
            let files: Vec<_> =
                (0..count).map(|at| (format!("a/src/m{at}.rs"), next(at))).collect();
            let mut files: Vec<(&str, &str)> =
                files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
            files.push(("a/src/lib.rs", ""));
            found(&files)
        };
        assert_eq!(ring(3), [] as [&str; 0]);
        assert_eq!(
            ring(4),
            ["a/src/m0.rs:1: a dependency cycle of 4 files: \
              a/src/m0.rs, a/src/m1.rs, a/src/m2.rs, a/src/m3.rs"]
        );
    }

    #[test]
    fn a_cycle_between_folders_is_found_through_what_they_pass_on() {
        let files = [
            ("a/src/lib.rs", ""),
            ("a/src/x/mod.rs", "mod one; mod two; pub use one::One;"),
            ("a/src/x/one.rs", "pub struct One;"),
            ("a/src/x/two.rs", "fn two() { crate::y::f(); }"),
            ("a/src/y.rs", "use crate::x::One; pub fn f() {}"),
        ];
        assert_eq!(found(&files), ["a/src/x:1: a dependency cycle of 2 folders: a/src/x, a/src/y"]);
    }

    #[test]
    fn tests_and_methods_are_no_dependencies() {
        let files = [
            ("a/src/lib.rs", ""),
            ("a/src/x/one.rs", "use crate::y::Y; impl Y { fn f() {} }"),
            ("a/src/y.rs", "pub struct Y; #[cfg(test)] mod tests { use crate::x::one; }"),
        ];
        assert_eq!(found(&files), [] as [&str; 0]);
    }
}
