//! A temporary directory for one run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is deleted on drop.
pub struct Directory(PathBuf);

impl Directory {
    /// Creates a directory with a unique name.
    pub fn make() -> anyhow::Result<Directory> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("driftq-e2e-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Directory(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // If the removal fails, the rest stays in the system's temporary directory.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}
