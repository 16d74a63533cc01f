//! A small file system in memory, which can be full.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

/// A mounted disk, unmounted on drop. Only what is written uses memory.
pub struct SmallDisk {
    at: PathBuf,
    /// Its size, as `mount` reads it.
    size: &'static str,
}

impl SmallDisk {
    /// Mounts an empty disk of a size such as `224m`. Requires root.
    pub fn mount(at: &Path, size: &'static str) -> anyhow::Result<SmallDisk> {
        std::fs::create_dir_all(at)?;
        let options = format!("size={size}");
        mount(&["-t", "tmpfs", "-o", &options, "driftq-small-disk"], at)?;
        Ok(SmallDisk { at: at.to_owned(), size })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Shrinks the disk to what is used, as if something else occupied the rest.
    pub fn fill(&self) -> anyhow::Result<()> {
        let fill = || {
            let used = rustix::fs::statvfs(&self.at)?;
            let bytes = (used.f_blocks - used.f_bfree) * used.f_frsize;
            mount(&["-o", &format!("remount,size={bytes}")], &self.at)
        };
        // A server may write between the two calls. Then the size is too small.
        fill().or_else(|_| fill())
    }

    /// Gives the disk its size again.
    pub fn free(&self) -> anyhow::Result<()> {
        mount(&["-o", &format!("remount,size={}", self.size)], &self.at)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: processes that still use it keep it until they exit.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

fn mount(arguments: &[&str], at: &Path) -> anyhow::Result<()> {
    let mounted = Command::new("mount").args(arguments).arg(at).status()?;
    ensure!(mounted.success(), "mounting a small disk requires root");
    Ok(())
}
