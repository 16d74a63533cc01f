//! A copy of a data directory's database, taken while it is in use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::error::OpenError;
use super::{COPIED, Directory, directory, read_identity, schema};
use crate::{Identity, wall_clock};

/// A backup was not made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum BackupError {
    #[error("{} is there already: name a file that is not", .0.display())]
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

/// Writes everything that is committed now into a new file, one moment of it, while the server runs on.
///
/// The copy is a storage of its own: whoever starts from it goes back in time, so its restore generation
/// is higher, and no id or token of after the copy is taken for one of it.
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
        // Half a backup is worse than none. What went wrong first is what is told.
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

/// Invalidates all tokens and ids issued before. A directory that was copied to a database may be served after this.
fn begin_again(connection: &Connection, path: &Path) -> Result<Identity, OpenError> {
    let mut identity = read_identity(connection, path)?;
    identity.begin_again(wall_clock());
    let text = serde_json::to_string(&identity).expect("plain fields");
    connection.execute("UPDATE meta SET value = ?1 WHERE name = 'identity'", [text])?;
    connection.execute("DELETE FROM meta WHERE name = ?1", [COPIED])?;
    Ok(identity)
}

/// Says that a data directory was put back from a copy that `back_up` did not make. Returns its restore
/// generation.
pub fn restored(data: &Path) -> Result<u32, OpenError> {
    let database = directory::database(data);
    if !database.exists() {
        return Err(OpenError::Missing(data.to_owned()));
    }
    let _locked = Directory::lock(data)?;
    let mut connection = schema::writer(&database)?;
    let putting = connection.transaction()?;
    let identity = begin_again(&putting, &database)?;
    let least = identity.least_epoch().cast_signed();
    putting.execute("UPDATE shard SET epoch = max(epoch + 1, ?1)", [least])?;
    putting.commit()?;
    Ok(identity.restore)
}

/// Until file and name are on the disk.
fn sync(copy: &File, to: &Path) -> io::Result<()> {
    copy.sync_all()?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
