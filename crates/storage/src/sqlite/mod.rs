//! The SQLite engine: one file, one writer and several readers. For one node without other
//! services.
//!
//! 1. `synchronous=FULL` in WAL mode: a commit is flushed to disk before it returns.
//! 2. One thread writes. Several threads read, each from its own snapshot. One thread copies the
//!    WAL into the database, so that commits do not wait for it.
//! 3. **After an error, the connections are closed without a checkpoint, and the database is opened
//!    again as after a crash**, as soon as the disk allows. Until then every call fails. A flush is
//!    never repeated alone: the kernel may have dropped the pages that it could not write. See
//!    `rewrite`.

mod backup;
mod cells;
mod check;
mod checkpoint;
mod connections;
mod directory;
mod dump;
mod error;
mod reading;
mod rewrite;
#[cfg(feature = "postgres")]
pub(crate) mod rows;
mod schema;
mod space;
mod statements;
mod writing;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use driftq_core::row::{Read, Row, Write};
use driftq_core::{BatchNo, ShardId, Timestamp};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{Answer, Engine, EngineError, Identity, Ownership, StoredAct, wall_clock};
use checkpoint::Wal;
use connections::{Connections, Role};
use directory::Directory;
use rewrite::rewrite_wal;
use statements::All;
use writing::Failed;

pub use backup::{BackupError, back_up, restored};
pub use check::{Checked, check};
pub use dump::{dump, tables};
pub use error::OpenError;

/// The `meta` row that marks a directory as copied to a database.
const COPIED: &str = "copied";

/// The first wait before a database is opened again, and the longest.
const REOPEN_AFTER: Duration = Duration::from_millis(50);
const REOPEN_AFTER_MAX: Duration = Duration::from_secs(1);

/// The SQLite engine.
///
/// Dropping it waits until its threads have finished. Then the directory is unlocked.
pub struct Sqlite {
    state: Arc<Mutex<State>>,
    directory: Arc<Directory>,
    statements: Arc<All>,
    identity: Identity,
}

/// The connections of the engine, or why there are none.
enum State {
    Open(Connections),
    /// They failed, and are closed and opened again by this thread.
    Reopening(String, JoinHandle<()>),
    /// The engine was dropped.
    Ended,
}

impl Sqlite {
    /// Opens a data directory to serve it. Creates a missing one with `shards` shards, or 1 by
    /// default. Fails if another process uses the directory, if it has another number of shards, or
    /// if it was copied to a database.
    pub fn open(path: &Path, shards: Option<u32>) -> Result<Sqlite, OpenError> {
        Sqlite::start(path, shards, false)
    }

    /// Opens a data directory to copy it, even if it was copied before.
    pub(crate) fn open_to_copy(path: &Path) -> Result<Sqlite, OpenError> {
        Sqlite::start(path, None, true)
    }

    fn start(path: &Path, shards: Option<u32>, may_be_copied: bool) -> Result<Sqlite, OpenError> {
        let directory = Arc::new(Directory::lock(path)?);
        let database = &directory.database;
        rewrite_wal(database).map_err(|error| directory.failed("write to", error))?;
        let connection = schema::writer(database)?;
        let identity = identity(&connection, database, shards.unwrap_or(1))?;
        if shards.is_some_and(|shards| shards != identity.shards) {
            return Err(OpenError::Shards { path: path.to_owned(), stored: identity.shards });
        }
        if !may_be_copied && writing::meta(&connection, COPIED)?.is_some() {
            return Err(OpenError::Copied { directory: path.to_owned() });
        }
        let connections = Connections::start(connection, &directory)?;
        let state = Arc::new(Mutex::new(State::Open(connections)));
        Ok(Sqlite { state, directory, statements: Arc::new(All::new()), identity })
    }

    /// Returns the identity of the storage.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Runs `work` on a thread.
    fn ask<T: Send + 'static>(
        &self,
        role: Role,
        work: impl FnOnce(&mut Connection, &All, &Wal) -> Result<T, Failed> + Send + 'static,
    ) -> Answer<'_, T> {
        let told = self.send(role, work);
        Box::pin(async move {
            let ended = || EngineError::Unknown("the engine has stopped".to_owned());
            told?.await.unwrap_or_else(|_| Err(ended()))
        })
    }

    fn send<T: Send + 'static>(
        &self,
        role: Role,
        work: impl FnOnce(&mut Connection, &All, &Wal) -> Result<T, Failed> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, EngineError>>, EngineError> {
        let mut state = locked(&self.state);
        if let State::Open(connections) = &*state
            && let Some(why) = connections.failure.get().cloned()
        {
            self.reopen(&mut state, why);
        }
        match &*state {
            State::Open(connections) => {
                let statements = self.statements.clone();
                Ok(connections
                    .send(role, move |connection, wal| work(connection, &statements, wal)))
            }
            State::Reopening(why, _) => Err(EngineError::Unknown(why.clone())),
            State::Ended => Err(EngineError::Unknown("the engine has stopped".to_owned())),
        }
    }

    /// Closes the connections, and opens the database again as soon as possible.
    fn reopen(&self, state: &mut MutexGuard<'_, State>, why: String) {
        let (shared, directory) = (Arc::downgrade(&self.state), self.directory.clone());
        let failed = std::mem::replace(&mut **state, State::Ended);
        let reopen = move || {
            drop(failed);
            let mut wait = REOPEN_AFTER;
            // The engine may be dropped meanwhile.
            while let Some(state) = shared.upgrade() {
                match Connections::reopen(&directory) {
                    Ok(connections) => {
                        let mut state = locked(&state);
                        if let State::Reopening(..) = &*state {
                            *state = State::Open(connections);
                        }
                        return;
                    }
                    Err(error) => {
                        if let State::Reopening(why, _) = &mut *locked(&state) {
                            *why = error.to_string();
                        } else {
                            return;
                        }
                    }
                }
                drop(state);
                thread::sleep(wait);
                wait = REOPEN_AFTER_MAX.min(wait * 2);
            }
        };
        let named = thread::Builder::new().name("sqlite-reopen".to_owned());
        let handle = named.spawn(reopen).expect("a thread can be started");
        **state = State::Reopening(why, handle);
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut *locked(&self.state), State::Ended);
        if let State::Reopening(_, handle) = state {
            // A panicked thread has ended as well.
            let _ended = handle.join();
        }
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // No code panics while it holds the lock.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the identity of the storage. Creates one in a new storage.
fn identity(connection: &Connection, path: &Path, shards: u32) -> Result<Identity, OpenError> {
    let new =
        serde_json::to_string(&Identity::random(shards)).expect("an identity serializes to JSON");
    connection.execute(
        "INSERT INTO meta (name, value) VALUES ('identity', ?1) ON CONFLICT DO NOTHING",
        [new],
    )?;
    read_identity(connection, path)
}

fn read_identity(connection: &Connection, path: &Path) -> Result<Identity, OpenError> {
    let damaged = |why: String| OpenError::Damaged { path: path.to_owned(), why };
    let stored: String =
        connection
            .query_row("SELECT value FROM meta WHERE name = 'identity'", [], |row| row.get(0))?;
    let identity: Identity =
        serde_json::from_str(&stored).map_err(|error| damaged(format!("identity: {error}")))?;
    identity.token_keys().ok_or_else(|| damaged("identity: no token keys".to_owned()))?;
    Ok(identity)
}

impl Engine for Sqlite {
    fn claim(&self, shard: ShardId) -> Answer<'_, (Ownership, Timestamp)> {
        self.ask(Role::Write, move |connection, _, _| {
            Ok((writing::claim(connection, shard)?, wall_clock()))
        })
    }

    fn load<'a>(
        &'a self,
        ownership: Ownership,
        each: &'a mut (dyn FnMut(Row) + Send),
    ) -> Answer<'a, ()> {
        let rows = self.ask(Role::Read, move |connection, statements, _| {
            reading::load(connection, statements, ownership)
        });
        Box::pin(async move {
            rows.await?.into_iter().for_each(each);
            Ok(())
        })
    }

    fn read(&self, ownership: Ownership, reads: Vec<Read>) -> Answer<'_, Vec<Vec<Row>>> {
        self.ask(Role::Read, move |connection, statements, _| {
            reading::read(connection, statements, ownership, &reads)
        })
    }

    fn commit(
        &self,
        ownership: Ownership,
        batch: BatchNo,
        writes: Vec<Write>,
    ) -> Answer<'_, Timestamp> {
        self.ask(Role::Write, move |connection, statements, wal| {
            writing::commit(connection, statements, ownership, batch, &writes)?;
            wal.grew(connection)?;
            Ok(wall_clock())
        })
    }

    fn room(&self) -> Answer<'_, Option<u64>> {
        let database = self.directory.database.clone();
        let room =
            self.ask(Role::Read, move |connection, _, _| Ok(space::room(connection, &database)));
        // A failure to read the free space is not an error of the database, and does not
        // close it.
        let unknown = |error: std::io::Error| EngineError::Unknown(error.to_string());
        Box::pin(async move { room.await?.map(Some).map_err(unknown) })
    }

    fn meta(&self, name: &'static str) -> Answer<'_, Option<String>> {
        self.ask(Role::Read, move |connection, _, _| Ok(writing::meta(connection, name)?))
    }

    fn put_meta(&self, name: &'static str, text: String, act: Option<String>) -> Answer<'_, ()> {
        self.ask(Role::Write, move |connection, _, _| {
            Ok(writing::put_meta(connection, name, &text, act.as_deref())?)
        })
    }

    fn acts(&self, below: u64, limit: u32) -> Answer<'_, Vec<StoredAct>> {
        self.ask(Role::Read, move |connection, _, _| Ok(writing::acts(connection, below, limit)?))
    }
}
