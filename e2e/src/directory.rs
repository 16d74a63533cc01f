//! A directory of a run.

use std::path::{Path, PathBuf};

/// A directory that is gone when this is dropped.
pub struct Directory(PathBuf);

impl Directory {
    /// Makes one that no other process has.
    pub fn make() -> anyhow::Result<Directory> {
        let path = std::env::temp_dir().join(format!("driftq-e2e-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Directory(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What cannot be removed is in the system's own place for that.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}
