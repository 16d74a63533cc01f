//! The open connections: one that writes, several that read, and one that copies the WAL.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::checkpoint::{Checkpointer, Wal};
use super::directory::Directory;
use super::error::{OpenError, is_temporary};
use super::rewrite::rewrite_wal;
use super::schema;
use super::writing::Failed;
use crate::EngineError;

/// Number of threads that read.
const READERS: usize = 4;

/// Work for a thread with a connection.
type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// What a connection is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Read,
    Write,
}

/// The connections and their threads.
pub(super) struct Connections {
    /// The fields are dropped in this order, because the last connection must be able to write.
    reader: Threads,
    writer: Threads,
    checkpointer: Checkpointer,
    /// The first error. After it, every call fails.
    pub(super) failure: Arc<OnceLock<String>>,
}

impl Connections {
    /// Opens the other connections beside the one that writes.
    pub(super) fn start(
        mut writer: Connection,
        directory: &Arc<Directory>,
    ) -> Result<Connections, OpenError> {
        let readers = (0..READERS)
            .map(|_| schema::reader(&directory.database))
            .collect::<Result<Vec<_>, _>>()?;
        let failure = Arc::new(OnceLock::new());
        let checkpointer = Checkpointer::start(&mut writer, directory, failure.clone())?;
        let reader = Threads::start("read", readers, directory);
        let writer = Threads::start("write", vec![writer], directory);
        Ok(Connections { reader, writer, checkpointer, failure })
    }

    /// Opens a database that was closed after an error.
    pub(super) fn reopen(directory: &Arc<Directory>) -> Result<Connections, OpenError> {
        rewrite_wal(&directory.database).map_err(|error| directory.failed("write to", error))?;
        Connections::start(schema::writer(&directory.database)?, directory)
    }

    /// Runs `work` on a thread.
    pub(super) fn send<T: Send + 'static>(
        &self,
        role: Role,
        work: impl FnOnce(&mut Connection, &Wal) -> Result<T, Failed> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, EngineError>> {
        let (failure, wal) = (self.failure.clone(), self.checkpointer.wal());
        let (tell, told) = oneshot::channel();
        let job = move |connection: &mut Connection| {
            let done = match failure.get() {
                Some(first) => Err(EngineError::Unknown(first.clone())),
                None => work(connection, &wal).map_err(|failed| told_of(failed, &failure)),
            };
            // The caller may have dropped the receiver.
            let _gone = tell.send(done);
        };
        let threads = match role {
            Role::Read => &self.reader,
            Role::Write => &self.writer,
        };
        threads.send(Box::new(job));
        told
    }
}

fn told_of(failed: Failed, failure: &OnceLock<String>) -> EngineError {
    match failed {
        Failed::Fenced => EngineError::Fenced,
        Failed::Database(error) if is_temporary(&error) => EngineError::Unknown(error.to_string()),
        Failed::Database(error) => {
            EngineError::Unknown(failure.get_or_init(|| error.to_string()).clone())
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

    fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // If all threads have panicked, the job is dropped, and the caller gets an error.
            let _gone = jobs.send(job);
        }
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
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
