//! The data directory: locked by one process at a time, and private to its user.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::error::OpenError;

/// Mode bits that let the group or all users replace the database.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A data directory that this process has locked.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) database: PathBuf,
    /// Locked while the file is open. The system releases the lock however the process ends.
    _lock: File,
}

/// Returns the path of the database in a data directory.
pub(super) fn database(directory: &Path) -> PathBuf {
    directory.join("driftq.db")
}

impl Directory {
    /// Creates the directory if it does not exist, and locks it.
    pub(super) fn lock(path: &Path) -> Result<Directory, OpenError> {
        let failed = |what: &str| {
            let what = format!("{what} {}", path.display());
            move |error: io::Error| OpenError::Directory(what, error)
        };
        if path.is_file() {
            return Err(OpenError::NotADirectory(path.to_owned()));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create"))?;
        let mode = path.metadata().map_err(failed("read"))?.permissions().mode();
        if mode & WRITABLE_BY_OTHERS != 0 {
            return Err(OpenError::Writable { directory: path.to_owned(), mode: mode & 0o7777 });
        }
        let mut lock = private(&path.join("lock")).map_err(failed("write to"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                lock.read_to_string(&mut holder).map_err(failed("read"))?;
                return Err(OpenError::Locked {
                    directory: path.to_owned(),
                    pid: holder.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        lock.set_len(0).map_err(failed("write to"))?;
        writeln!(lock, "{}", std::process::id()).map_err(failed("write to"))?;
        let database = database(path);
        // SQLite creates its other files with the mode of this file.
        private(&database).map_err(failed("write to"))?;
        Ok(Directory { database, _lock: lock })
    }

    /// An error of this directory.
    pub(super) fn failed(&self, what: &str, error: io::Error) -> OpenError {
        let directory = self.database.parent().unwrap_or(&self.database);
        OpenError::Directory(format!("{what} {}", directory.display()), error)
    }
}

/// Creates a file that only this user can access. Fails if it exists.
pub(super) fn private_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}
