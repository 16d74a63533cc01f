//! Errors of opening a data directory.

use std::path::PathBuf;

/// A data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum OpenError {
    #[error("cannot {0}: {1}")]
    Directory(String, #[source] std::io::Error),
    #[error("{} is in use by process {pid}: stop it first, or give --data another directory", directory.display())]
    Locked { directory: PathBuf, pid: String },
    #[error("other users can write to {0} (mode {mode:04o}): run `chmod go-w {0}`, or give --data a directory in it, which is then made", directory.display())]
    Writable { directory: PathBuf, mode: u32 },
    #[error("{} is not a database of DriftQ: give --data another directory", .0.display())]
    Foreign(PathBuf),
    #[error("{} holds no database: give --data the directory of a server", .0.display())]
    Missing(PathBuf),
    #[error("{} has format {version}, this driftq knows {known}: use a newer driftq", path.display())]
    Newer { path: PathBuf, version: i32, known: i32 },
    #[error("{} does not hold what it should: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{} has {stored} shards and keeps their number: leave storage.shards out", path.display())]
    Shards { path: PathBuf, stored: u32 },
    #[error(
        "{0} was copied to a database: serve that. To go back, delete the database and run `driftq mark-restored --data {0}`; \
         what the database accepted is then lost",
        directory.display()
    )]
    Copied { directory: PathBuf },
    #[error("the database cannot be opened: {0}")]
    Database(#[from] rusqlite::Error),
}
