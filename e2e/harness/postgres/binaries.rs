//! Locates the PostgreSQL programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// Environment variable: a directory with `postgres` and `initdb`, searched before Debian's.
const DIRECTORY: &str = "DRIFTQ_POSTGRES_BIN";

/// Returns the directory with the programs of this version.
pub(crate) fn find(version: u32) -> anyhow::Result<PathBuf> {
    let given = std::env::var_os(DIRECTORY).map(PathBuf::from);
    let debian = PathBuf::from(format!("/usr/lib/postgresql/{version}/bin"));
    let mut found = given.into_iter().chain([debian]);
    found.find(|directory| version_of(directory) == Some(version)).with_context(|| {
        format!("PostgreSQL {version} not found; install postgresql-{version} or set {DIRECTORY}")
    })
}

/// Returns `psql` of the same directory. Embedded PostgreSQL packages have none, so any `psql` on
/// the path will do.
pub(crate) fn psql(directory: &Path) -> PathBuf {
    let own = directory.join("psql");
    if own.exists() { own } else { PathBuf::from("psql") }
}

/// The first number of `postgres (PostgreSQL) 15.14 (Debian …)`.
fn version_of(directory: &Path) -> Option<u32> {
    let said = Command::new(directory.join("postgres")).arg("--version").output().ok()?.stdout;
    let said = String::from_utf8(said).ok()?;
    let number = said.split_once("(PostgreSQL) ")?.1;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
