//! Which of our crates may depend on which.
//!
//! A crate exists for the sake of a boundary, and the table below lists those boundaries. It
//! includes crates that are not written yet.

use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::tree::{Finding, Tree};

/// A crate, the crates of ours that it may use, and those that only its tests may use.
struct Rule {
    name: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
}

const RULES: &[Rule] = &[
    // Transcripts run on the memory engine.
    Rule { name: "driftq-core", uses: &[], tests_use: &["driftq-storage"] },
    Rule { name: "driftq-api", uses: &[], tests_use: &[] },
    Rule { name: "driftq-storage", uses: &["driftq-core"], tests_use: &[] },
    Rule {
        name: "driftq-server",
        uses: &["driftq-core", "driftq-storage", "driftq-api"],
        tests_use: &[],
    },
    Rule { name: "driftq-client", uses: &[], tests_use: &["driftq-testing"] },
    // It works without a DriftQ server. Its tests use it with all features.
    Rule { name: "driftq-ledger", uses: &[], tests_use: &["driftq-ledger"] },
    // A crate of its own, because a worker does not compile the server.
    Rule {
        name: "driftq-testing",
        uses: &["driftq-api", "driftq-client", "driftq-server"],
        tests_use: &[],
    },
    Rule {
        name: "driftq-cli",
        uses: &["driftq-server", "driftq-api", "driftq-client"],
        tests_use: &[],
    },
    Rule { name: "driftq-checker", uses: &[], tests_use: &[] },
    Rule {
        name: "driftq-sim",
        uses: &["driftq-core", "driftq-storage", "driftq-checker"],
        tests_use: &[],
    },
    // The PostgreSQL engine is benchmarked in process, and its failure cases are tested with the
    // harness.
    Rule {
        name: "driftq-e2e",
        uses: &[
            "driftq-checker",
            "driftq-api",
            "driftq-client",
            "driftq-core",
            "driftq-storage",
            "driftq-sim",
        ],
        tests_use: &[],
    },
    Rule { name: "xtask", uses: &[], tests_use: &[] },
];

/// A member of the workspace.
pub(crate) struct Member {
    name: String,
    manifest: String,
    uses: Vec<Use>,
}

/// A dependency in a manifest.
struct Use {
    name: String,
    in_tests_only: bool,
}

/// Returns the members of the workspace, from `cargo metadata`.
pub(crate) fn workspace(tree: &Tree) -> anyhow::Result<Vec<Member>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(&tree.root)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .output()
        .context("run cargo metadata")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata: {said}");
    let metadata = serde_json::from_slice(&output.stdout).context("parse cargo metadata")?;
    members(&metadata)
}

fn members(metadata: &Value) -> anyhow::Result<Vec<Member>> {
    let root = text(metadata, "workspace_root")?;
    let mut members = Vec::new();
    for package in list(metadata, "packages")? {
        let manifest = text(package, "manifest_path")?;
        let below_root = manifest.strip_prefix(root).unwrap_or(manifest);
        let mut uses = Vec::new();
        for dependency in list(package, "dependencies")? {
            uses.push(Use {
                name: text(dependency, "name")?.to_owned(),
                in_tests_only: dependency["kind"] == "dev",
            });
        }
        members.push(Member {
            name: text(package, "name")?.to_owned(),
            manifest: below_root.trim_start_matches(['/', '\\']).replace('\\', "/"),
            uses,
        });
    }
    Ok(members)
}

fn text<'a>(value: &'a Value, field: &str) -> anyhow::Result<&'a str> {
    value[field].as_str().with_context(|| format!("cargo metadata has no {field}"))
}

fn list<'a>(value: &'a Value, field: &str) -> anyhow::Result<&'a Vec<Value>> {
    value[field].as_array().with_context(|| format!("cargo metadata has no {field}"))
}

pub(crate) fn check(tree: &Tree, members: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in members {
        let Some(rule) = RULES.iter().find(|rule| rule.name == member.name) else {
            findings.push(Finding::new(
                &member.manifest,
                line_of(tree, &member.manifest, "name", false),
                format!("crate {} is not in the table of crate edges", member.name),
                "make it a module, or add it to ARCHITECTURE.md and xtask/src/edges.rs",
            ));
            continue;
        };
        for used in &member.uses {
            let is_ours = members.iter().any(|other| other.name == used.name);
            let is_allowed = rule.uses.contains(&used.name.as_str())
                || (used.in_tests_only && rule.tests_use.contains(&used.name.as_str()));
            if is_ours && !is_allowed {
                let place = if used.in_tests_only { " in its tests" } else { "" };
                findings.push(Finding::new(
                    &member.manifest,
                    line_of(tree, &member.manifest, &used.name, used.in_tests_only),
                    format!("{} may not use {}{place}", member.name, used.name),
                    "move the code to a crate that may be used; the table is in xtask/src/edges.rs",
                ));
            }
        }
    }
    findings
}

/// Returns the line of a manifest that contains `name`, in or outside of a section for tests, or 1.
fn line_of(tree: &Tree, manifest: &str, name: &str, in_tests_only: bool) -> usize {
    let text = tree.files.get(manifest).map_or("", String::as_str);
    let mut is_in_section = !in_tests_only;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            is_in_section = line.contains("dev-dependencies") == in_tests_only;
        } else if is_in_section
            && line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
        {
            return index + 1;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    fn member(name: &str, uses: &[(&str, bool)]) -> Member {
        let own = |(name, in_tests_only): &(&str, bool)| Use {
            name: (*name).to_owned(),
            in_tests_only: *in_tests_only,
        };
        Member {
            name: name.to_owned(),
            manifest: format!("{name}/Cargo.toml"),
            uses: uses.iter().map(own).collect(),
        }
    }

    #[test]
    fn a_core_that_uses_an_engine_is_found() {
        let manifest = "[package]\nname = \"driftq-core\"\n\n[dev-dependencies]\n\
            driftq-storage.workspace = true\n\n[dependencies]\ndriftq-storage.workspace = true\n";
        let tree = Tree::of(&[("driftq-core/Cargo.toml", manifest)]);
        let members = [
            member("driftq-core", &[("driftq-storage", false), ("serde", false)]),
            member("driftq-storage", &[("driftq-core", false)]),
        ];
        assert_eq!(
            report(&check(&tree, &members)),
            ["driftq-core/Cargo.toml:8: driftq-core may not use driftq-storage"]
        );
    }

    #[test]
    fn tests_of_the_core_may_use_an_engine_and_nothing_else() {
        let tree = Tree::default();
        let members = [
            member("driftq-core", &[("driftq-storage", true), ("driftq-checker", true)]),
            member("driftq-storage", &[]),
            member("driftq-checker", &[]),
        ];
        assert_eq!(
            report(&check(&tree, &members)),
            ["driftq-core/Cargo.toml:1: driftq-core may not use driftq-checker in its tests"]
        );
    }

    #[test]
    fn a_crate_nobody_decided_on_is_found() {
        let tree = Tree::default();
        assert_eq!(
            report(&check(&tree, &[member("driftq-misc", &[])])),
            ["driftq-misc/Cargo.toml:1: crate driftq-misc is not in the table of crate edges"]
        );
    }

    #[test]
    fn members_are_read_from_what_cargo_says() {
        let metadata = serde_json::json!({
            "workspace_root": "/somewhere",
            "packages": [{
                "name": "driftq-sim",
                "manifest_path": "/somewhere/crates/sim/Cargo.toml",
                "dependencies": [
                    { "name": "driftq-core", "kind": null },
                    { "name": "proptest", "kind": "dev" },
                ],
            }],
        });
        let members = members(&metadata).expect("well formed");
        assert_eq!(members.len(), 1);
        assert_eq!(members[0].manifest, "crates/sim/Cargo.toml");
        assert!(!members[0].uses[0].in_tests_only);
        assert!(members[0].uses[1].in_tests_only);
        assert!(super::members(&serde_json::json!({})).is_err());
    }

    #[test]
    fn the_table_names_only_crates_it_has() {
        for rule in RULES {
            for used in rule.uses.iter().chain(rule.tests_use) {
                assert!(RULES.iter().any(|other| other.name == *used), "{used}");
            }
        }
    }
}
