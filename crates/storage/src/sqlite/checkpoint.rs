//! Moving the WAL into the database, outside the committing path.
//!
//! A thread of its own copies what is committed whenever the WAL has grown, so that the writer waits for
//! the disk of the WAL only. Under a load that never pauses the copying ends a little behind, and the WAL
//! could not begin anew: when it is long, the writer itself copies the little that is left.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::directory::Directory;
use super::{OpenError, schema};

/// Pages of the WAL (4 KiB each) after which the thread copies.
const COPY_AFTER_PAGES: u64 = 1_024;
/// Pages after which the writer lends a hand.
const LONG_PAGES: u64 = 16_384;

/// The thread that copies. Dropped after all other connections it copies everything, and the WAL is gone.
pub(super) struct Copier {
    wal: Option<Wal>,
    thread: Option<JoinHandle<()>>,
}

/// How long the WAL is.
#[derive(Clone)]
pub(super) struct Wal {
    seen: Arc<Seen>,
    /// Wakes the thread; it ends when the last of these is gone.
    wake: SyncSender<()>,
}

#[derive(Default)]
struct Seen {
    /// Pages in the WAL after the last commit.
    length: AtomicU64,
    /// Pages of them that are in the database.
    copied: AtomicU64,
    /// The length at which the writer's last try ended: with an old snapshot open it can do nothing.
    tried: AtomicU64,
    /// The thread is at it.
    is_copying: AtomicBool,
}

impl Copier {
    /// Watches what `writer` commits, and starts the thread that copies it.
    pub(super) fn start(
        writer: &mut Connection,
        directory: &Arc<Directory>,
        poison: Arc<OnceLock<String>>,
    ) -> Result<Copier, OpenError> {
        let seen = Arc::new(Seen::default());
        let watched = seen.clone();
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            let pages = u64::try_from(pages).unwrap_or_default();
            // Shorter than before: it began anew.
            if watched.length.swap(pages, Ordering::Relaxed) > pages {
                watched.copied.store(0, Ordering::Relaxed);
                watched.tried.store(0, Ordering::Relaxed);
            }
            Ok(())
        }))?;
        let connection = schema::writer(&directory.database)?;
        // It copies pages and keeps none.
        connection.pragma_update(None, "cache_size", -1_024)?;
        let (wake, woken) = sync_channel(1);
        let work = {
            let (seen, locked) = (seen.clone(), directory.clone());
            move || {
                let _locked = locked;
                if let Err(error) = copy(&connection, &seen, &woken) {
                    poison.get_or_init(|| format!("checkpoint: {error}"));
                }
            }
        };
        let named = thread::Builder::new().name("sqlite-checkpoint".to_owned());
        let thread = Some(named.spawn(work).expect("the system has threads"));
        Ok(Copier { wal: Some(Wal { seen, wake }), thread })
    }

    pub(super) fn wal(&self) -> Wal {
        self.wal.clone().expect("it is there until it is dropped")
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.wal = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing left to wait for.
            let _ended = thread.join();
        }
    }
}

impl Wal {
    /// The writer has committed.
    pub(super) fn grew(&self, writer: &Connection) -> rusqlite::Result<()> {
        let Seen { length, copied, tried, is_copying } = &*self.seen;
        let pages = length.load(Ordering::Relaxed);
        if pages >= tried.load(Ordering::Relaxed) + LONG_PAGES {
            // The thread is not woken any more, so that it comes to an end.
            if !is_copying.load(Ordering::Relaxed) {
                copied.store(checkpoint(writer)?, Ordering::Relaxed);
                tried.store(pages, Ordering::Relaxed);
            }
        } else if pages >= copied.load(Ordering::Relaxed) + COPY_AFTER_PAGES {
            // One that is still at work will be woken by the next.
            let _busy = self.wake.try_send(());
        }
        Ok(())
    }
}

fn copy(connection: &Connection, seen: &Seen, woken: &Receiver<()>) -> rusqlite::Result<()> {
    while woken.recv().is_ok() {
        seen.is_copying.store(true, Ordering::Relaxed);
        let copied = checkpoint(connection);
        seen.is_copying.store(false, Ordering::Relaxed);
        seen.copied.store(copied?, Ordering::Relaxed);
    }
    Ok(())
}

/// Copies what no reader stands in the way of, and says how many pages of the WAL are in the database
/// then. Waits for nobody: while another does the same it does nothing.
fn checkpoint(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        // Nothing was done: −1.
        Ok(u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default())
    })
}
