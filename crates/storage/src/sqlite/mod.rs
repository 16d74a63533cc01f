//! The SQLite engine: one file, one writer and several readers. For one node without other
//! services.
//!
//! 1. `synchronous=FULL` in WAL mode: a commit is flushed to disk before it returns.
//! 2. One thread writes. Several threads read, each from its own snapshot. One thread copies the
//!    WAL into the database, so that commits do not wait for it.
//! 3. **After the first error of the database, every later call fails with the same error.** After
//!    a failed write or flush, the state of the disk is unknown. A restart recovers.

mod backup;
mod cells;
mod check;
mod checkpoint;
mod directory;
mod dump;
mod error;
mod reading;
#[cfg(feature = "postgres")]
pub(crate) mod rows;
mod schema;
mod space;
mod statements;
mod writing;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};

use driftq_core::row::{Read, Row, Write};
use driftq_core::{BatchNo, ShardId, Timestamp};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{Answer, Engine, EngineError, Identity, Ownership, StoredAct, wall_clock};
use checkpoint::Checkpointer;
use directory::Directory;
use statements::All;
use writing::Failed;

pub use backup::{BackupError, back_up, restored};
pub use check::{Checked, check};
pub use dump::{dump, tables};
pub use error::OpenError;

/// Number of threads that read.
const READERS: usize = 4;

/// The `meta` row that marks a directory as copied to a database.
const COPIED: &str = "copied";

/// Work for a thread with a connection.
type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The SQLite engine.
///
/// Dropping it waits until its threads have finished. Then the directory is unlocked.
pub struct Sqlite {
    /// The fields are dropped in this order, because the last connection must be able to write.
    reader: Threads,
    writer: Threads,
    checkpointer: Checkpointer,
    statements: Arc<All>,
    identity: Identity,
    /// The first error of the database.
    poison: Arc<OnceLock<String>>,
    database: PathBuf,
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
        let database = directory.database.clone();
        let mut connection = schema::writer(&database)?;
        let identity = identity(&connection, &database, shards.unwrap_or(1))?;
        if shards.is_some_and(|shards| shards != identity.shards) {
            return Err(OpenError::Shards { path: path.to_owned(), stored: identity.shards });
        }
        if !may_be_copied && writing::meta(&connection, COPIED)?.is_some() {
            return Err(OpenError::Copied { directory: path.to_owned() });
        }
        let readers =
            (0..READERS).map(|_| schema::reader(&database)).collect::<Result<Vec<_>, _>>()?;
        let poison = Arc::new(OnceLock::new());
        let checkpointer = Checkpointer::start(&mut connection, &directory, poison.clone())?;
        Ok(Sqlite {
            reader: Threads::start("read", readers, &directory),
            writer: Threads::start("write", vec![connection], &directory),
            checkpointer,
            statements: Arc::new(All::new()),
            identity,
            poison,
            database,
        })
    }

    /// Returns the identity of the storage.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Runs `work` on one of `threads`.
    fn ask<T: Send + 'static>(
        &self,
        threads: &Threads,
        work: impl FnOnce(&mut Connection, &All) -> Result<T, Failed> + Send + 'static,
    ) -> Answer<'_, T> {
        let (poison, statements) = (self.poison.clone(), self.statements.clone());
        let (tell, told) = oneshot::channel();
        let job = move |connection: &mut Connection| {
            let done = match poison.get() {
                Some(first) => Err(EngineError::Unknown(first.clone())),
                None => work(connection, &statements).map_err(|failed| told_of(failed, &poison)),
            };
            // The caller may have dropped the receiver.
            let _gone = tell.send(done);
        };
        let is_sent = threads.send(Box::new(job));
        Box::pin(async move {
            let stopped = || EngineError::Unknown("the engine has stopped".to_owned());
            if !is_sent {
                return Err(stopped());
            }
            told.await.unwrap_or_else(|_| Err(stopped()))
        })
    }
}

fn told_of(failed: Failed, poison: &OnceLock<String>) -> EngineError {
    match failed {
        Failed::Fenced => EngineError::Fenced,
        Failed::Database(error) => {
            EngineError::Unknown(poison.get_or_init(|| error.to_string()).clone())
        }
    }
}

/// Threads that run jobs, with one connection each, until they are dropped. The directory stays
/// locked until the last of them ends.
struct Threads {
    jobs: Option<Sender<Job>>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(name: &str, connections: Vec<Connection>, directory: &Arc<Directory>) -> Threads {
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        let start = |mut connection: Connection| {
            let (queue, locked) = (queue.clone(), directory.clone());
            let work = move || {
                let _locked = locked;
                while let Some(job) = next(&queue) {
                    job(&mut connection);
                }
            };
            let named = thread::Builder::new().name(format!("sqlite-{name}"));
            named.spawn(work).expect("a thread can be started")
        };
        let handles = connections.into_iter().map(start).collect();
        Threads { jobs: Some(jobs), handles }
    }

    fn send(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.jobs = None;
        for handle in self.handles.drain(..) {
            // A panicked thread has ended as well.
            let _ended = handle.join();
        }
    }
}

fn next(queue: &Mutex<Receiver<Job>>) -> Option<Job> {
    queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv().ok()
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
        self.ask(&self.writer, move |connection, _| {
            Ok((writing::claim(connection, shard)?, wall_clock()))
        })
    }

    fn load<'a>(
        &'a self,
        ownership: Ownership,
        each: &'a mut (dyn FnMut(Row) + Send),
    ) -> Answer<'a, ()> {
        let rows = self.ask(&self.reader, move |connection, statements| {
            reading::load(connection, statements, ownership)
        });
        Box::pin(async move {
            rows.await?.into_iter().for_each(each);
            Ok(())
        })
    }

    fn read(&self, ownership: Ownership, reads: Vec<Read>) -> Answer<'_, Vec<Vec<Row>>> {
        self.ask(&self.reader, move |connection, statements| {
            reading::read(connection, statements, ownership, &reads)
        })
    }

    fn commit(
        &self,
        ownership: Ownership,
        batch: BatchNo,
        writes: Vec<Write>,
    ) -> Answer<'_, Timestamp> {
        let wal = self.checkpointer.wal();
        self.ask(&self.writer, move |connection, statements| {
            writing::commit(connection, statements, ownership, batch, &writes)?;
            wal.grew(connection)?;
            Ok(wall_clock())
        })
    }

    fn room(&self) -> Answer<'_, Option<u64>> {
        let database = self.database.clone();
        let room =
            self.ask(&self.reader, move |connection, _| Ok(space::room(connection, &database)));
        // A failure to read the free space is not an error of the database, so it does not poison
        // it.
        let unknown = |error: std::io::Error| EngineError::Unknown(error.to_string());
        Box::pin(async move { room.await?.map(Some).map_err(unknown) })
    }

    fn meta(&self, name: &'static str) -> Answer<'_, Option<String>> {
        self.ask(&self.reader, move |connection, _| Ok(writing::meta(connection, name)?))
    }

    fn put_meta(&self, name: &'static str, text: String, act: Option<String>) -> Answer<'_, ()> {
        self.ask(&self.writer, move |connection, _| {
            Ok(writing::put_meta(connection, name, &text, act.as_deref())?)
        })
    }

    fn acts(&self, below: u64, limit: u32) -> Answer<'_, Vec<StoredAct>> {
        self.ask(&self.reader, move |connection, _| Ok(writing::acts(connection, below, limit)?))
    }
}
