//! Backup of a data directory's database while it is in use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use driftq_core::command::{Act, StorageAct};
use rusqlite::Connection;

use super::error::OpenError;
use super::rewrite::rewrite_wal;
use super::writing::put_act;
use super::{COPIED, Directory, directory, read_identity, schema};
use crate::{Identity, wall_clock};

/// Why a backup failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names describe the fields")]
pub enum BackupError {
    #[error("{} already exists; choose another file", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl From<rusqlite::Error> for BackupError {
    fn from(error: rusqlite::Error) -> BackupError {
        BackupError::Open(error.into())
    }
}

/// Writes a snapshot of the committed rows to a new file. The server may keep running.
///
/// A server that starts on the copy goes back in time. So the copy has a new restore generation,
/// and ids and tokens issued after the copy are invalid in it.
pub fn back_up(data: &Path, to: &Path) -> Result<(), BackupError> {
    let database = directory::database(data);
    let source = schema::reader(&database)?;
    let failed = |error| BackupError::File { path: to.to_owned(), error };
    let copy = directory::private_new(to).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            BackupError::Exists(to.to_owned())
        } else {
            failed(error)
        }
    })?;
    let made = fill(&source, to).and_then(|()| sync(&copy, to).map_err(failed));
    if made.is_err() {
        // A partial backup must not be mistaken for a complete one. The first error is the one
        // returned.
        let _left = std::fs::remove_file(to);
    }
    made
}

fn fill(source: &Connection, to: &Path) -> Result<(), BackupError> {
    source.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    let copy = Connection::open(to)?;
    begin_again(&copy, to)?;
    Ok(())
}

/// Starts a new restore generation, which invalidates all tokens and ids issued before. Also
/// removes the mark of a directory that was copied to a database, so that it can be served again.
fn begin_again(connection: &Connection, path: &Path) -> Result<Identity, OpenError> {
    let mut identity = read_identity(connection, path)?;
    identity.begin_again(wall_clock());
    let text = serde_json::to_string(&identity).expect("an identity serializes to JSON");
    connection.execute("UPDATE meta SET value = ?1 WHERE name = 'identity'", [text])?;
    connection.execute("DELETE FROM meta WHERE name = ?1", [COPIED])?;
    Ok(identity)
}

/// Marks a data directory as restored from a copy that was not created by `back_up`. Returns its
/// new restore generation. Records `act`.
pub fn restored(data: &Path, act: &Act) -> Result<u32, OpenError> {
    let database = directory::database(data);
    if !database.exists() {
        return Err(OpenError::Missing(data.to_owned()));
    }
    let locked = Directory::lock(data)?;
    rewrite_wal(&database).map_err(|error| locked.failed("write to", error))?;
    let mut connection = schema::writer(&database)?;
    let putting = connection.transaction()?;
    let identity = begin_again(&putting, &database)?;
    let least = identity.least_epoch().cast_signed();
    putting.execute("UPDATE shard SET epoch = max(epoch + 1, ?1)", [least])?;
    let done = StorageAct::MarkRestored { restore: identity.restore };
    put_act(&putting, &done.record(wall_clock(), act))?;
    putting.commit()?;
    Ok(identity.restore)
}

/// Flushes the file and its directory entry to disk.
fn sync(copy: &File, to: &Path) -> io::Result<()> {
    copy.sync_all()?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
