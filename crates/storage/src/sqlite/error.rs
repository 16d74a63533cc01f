//! Errors of opening a data directory.

use std::path::PathBuf;

/// Whether the call may be repeated on the same connections: another process held a lock, or there
/// was no memory.
pub(super) fn is_temporary(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, OutOfMemory};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked | OutOfMemory))
}

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names describe the fields")]
pub enum OpenError {
    #[error("cannot {0}: {1}")]
    Directory(String, #[source] std::io::Error),
    #[error("{} is a file; set --data to a directory", .0.display())]
    NotADirectory(PathBuf),
    #[error("{} is in use by process {pid}; stop it, or set --data to another directory", directory.display())]
    Locked { directory: PathBuf, pid: String },
    #[error("other users can write to {0} (mode {mode:04o}); run `chmod go-w {0}`, or set --data to a new directory inside it", directory.display())]
    Writable { directory: PathBuf, mode: u32 },
    #[error("{} is not a DriftQ database; set --data to another directory", .0.display())]
    Foreign(PathBuf),
    #[error("{} contains no DriftQ database; set --data to the data directory of a server", .0.display())]
    Missing(PathBuf),
    #[error("{} has format {version}, but this driftq supports {known}; use a newer driftq", path.display())]
    Newer { path: PathBuf, version: i32, known: i32 },
    #[error("{} is damaged: {why}; restore it from a backup", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{} has {stored} shards, which cannot be changed; remove storage.shards", path.display())]
    Shards { path: PathBuf, stored: u32 },
    #[error(
        "{0} was copied to a database; start servers on the database. To go back, delete the database and run \
         `driftq mark-restored --data {0}`; everything that the database accepted since the copy is then lost",
        directory.display()
    )]
    Copied { directory: PathBuf },
    #[error("the database cannot be opened: {0}")]
    Database(#[from] rusqlite::Error),
}
