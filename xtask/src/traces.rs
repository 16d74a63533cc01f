//! No line may reveal the machine on which it was written, by a path or by a host that only that
//! machine can reach.
//!
//! Paths are a list of forbidden ones. Hosts are a list of allowed ones.

use crate::tree::{Finding, Tree};

/// Paths that exist on one machine only. Split, so that the rule does not find this list.
const PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("../sha", "red"),
];

/// Hosts that anyone can reach, and names that are local or reserved.
const HOSTS: &[&str] = &[
    "127.0.0.1",
    "[::1]",
    "choosealicense.com",
    "crates.io",
    "docs.rs",
    "example.com",
    "github.com",
    "keepachangelog.com",
    "localhost",
    "nexte.st",
    "rustup.rs",
    "semver.org",
    "www.apache.org",
    "www.w3.org",
    "www.postgresql.org",
    "www.sqlite.org",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        for (index, line) in text.lines().enumerate() {
            if let Some(found) = PATHS.iter().find(|machine| names(line, machine)) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("`{found}` is a path on one machine"),
                    "write the path below the root of the repository, or describe it",
                ));
            }
            if let Some(host) = hosts(line).find(|host| !is_known(host)) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("host `{host}` is not a known public host"),
                    "remove it, or add a public host to HOSTS in xtask/src/traces.rs",
                ));
            }
        }
    }
    findings
}

/// Names below `example` are reserved for documentation (RFC 2606).
fn is_known(host: &str) -> bool {
    HOSTS.contains(&host) || host.ends_with(".example")
}

/// Whether `path` begins somewhere in the line, not in the middle of a longer path.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}".contains(c)))
}

/// The hosts of the web addresses in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    ["http://", "https://"]
        .into_iter()
        .flat_map(move |scheme| {
            line.split(scheme).skip(1).map(|rest| {
                let end = |c: char| !c.is_alphanumeric() && !".-_@[]:".contains(c);
                let authority = rest.split(end).next().unwrap_or("");
                let host = authority.rsplit('@').next().unwrap_or(authority);
                if host.starts_with('[') {
                    host.split_inclusive(']').next().unwrap_or(host)
                } else {
                    host.split([':', ']']).next().unwrap_or(host).trim_end_matches('.')
                }
            })
        })
        .filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::report;

    #[test]
    fn a_path_of_one_machine_is_found() {
        for path in PATHS {
            let text = format!("one\nsee {path}x for more\n");
            assert_eq!(
                report(&check(&Tree::of(&[("a.toml", &text)]))),
                [format!("a.toml:2: `{path}` is a path on one machine")]
            );
        }
    }

    #[test]
    fn a_longer_path_is_not_meant() {
        for path in PATHS {
            let text = format!("docs{path}x ${{root}}{path}y\n");
            assert_eq!(check(&Tree::of(&[("a.toml", &text)])), []);
        }
    }

    #[test]
    fn a_host_that_only_one_machine_reaches_is_found() {
        let text = concat!("index = \"http", "s://user@mirror.internal:8080/simple\"\n");
        assert_eq!(
            report(&check(&Tree::of(&[("pip.conf", text)]))),
            ["pip.conf:1: host `mirror.internal` is not a known public host"]
        );
    }

    #[test]
    fn known_hosts_may_stand_in_any_place() {
        let text =
            "<https://crates.io>, (https://docs.rs/x). http://[::1]:80/ http://localhost:1\n";
        assert_eq!(check(&Tree::of(&[("a.md", text)])), []);
    }
}
