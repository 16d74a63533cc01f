//! A directory of a run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is gone when this is dropped.
pub struct Directory(PathBuf);

impl Directory {
    /// Makes one that nobody else has.
    pub fn make() -> anyhow::Result<Directory> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("driftq-e2e-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
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
