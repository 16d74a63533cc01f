//! A copy of the tree for seeded bugs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tree::Tree;

/// A copy of the tree that can be patched. Its build directory is kept between runs.
pub(crate) struct Copy {
    pub(crate) at: PathBuf,
    pub(crate) build: PathBuf,
}

impl Copy {
    pub(crate) fn make(tree: &Tree) -> anyhow::Result<Copy> {
        let work = tree.root.join("target").join("bugs");
        let (at, build) = (work.join("tree"), work.join("build"));
        if at.exists() {
            std::fs::remove_dir_all(&at)?;
        }
        for (path, text) in tree.texts() {
            let target = at.join(path);
            std::fs::create_dir_all(target.parent().context("a file has a folder")?)?;
            std::fs::write(target, text)?;
        }
        // Without a repository of its own, git would use the one above and patch nothing.
        let status = Command::new("git").args(["init", "--quiet"]).arg(&at).status()?;
        ensure!(status.success(), "git init failed");
        Ok(Copy { at, build })
    }

    pub(crate) fn apply(&self, patch: &str, options: &[&str]) -> anyhow::Result<()> {
        let file = self.at.join("bug.patch");
        std::fs::write(&file, patch)?;
        let mut git = Command::new("git");
        let status = git.current_dir(&self.at).arg("apply").args(options).arg(&file).status()?;
        ensure!(status.success(), "the patch does not apply; update it");
        Ok(())
    }

    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.at).env("CARGO_TARGET_DIR", &self.build).args(arguments);
        cargo.env("RUST_BACKTRACE", "0");
        // CI turns it off, but here most of the tree stays as it is from bug to bug.
        cargo.env_remove("CARGO_INCREMENTAL");
        cargo
    }
}
