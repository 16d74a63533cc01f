//! Moving the WAL into the database, outside the committing path.
//!
//! A thread of its own copies what is committed whenever the WAL has grown, so that the writer waits for
//! the disk of the WAL only. Under a load that never pauses the copying ends a little behind, and the WAL
//! could not begin anew: when it is long, the writer itself copies the little that is left.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use rusqlite::Connection;

use super::{OpenError, schema};

/// Bytes of rows after which the thread copies.
const COPY_AFTER_BYTES: u64 = 4 << 20;
/// Pages of the WAL (4 KiB each) after which the writer lends a hand.
const LONG_PAGES: u64 = 32_768;

/// How long the WAL is.
#[derive(Clone)]
pub(super) struct Wal {
    seen: Arc<Seen>,
    /// Wakes the thread; it ends when the last of these is gone.
    wake: SyncSender<()>,
}

#[derive(Default)]
struct Seen {
    /// Bytes written since the thread was woken.
    bytes: AtomicU64,
    /// Pages in the WAL that a checkpoint left there.
    pages: AtomicU64,
    /// Pages at which the writer's last try ended: with an old snapshot open it can do nothing.
    tried: AtomicU64,
}

impl Seen {
    fn checkpoint(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (length, copied) = checkpoint(connection)?;
        // Copied to its end, it begins anew with the next commit.
        let pages = if copied == length { 0 } else { length };
        self.pages.store(pages, Ordering::Relaxed);
        Ok(())
    }
}

impl Wal {
    /// Starts the thread that copies.
    pub(super) fn start(database: &Path, poison: Arc<OnceLock<String>>) -> Result<Wal, OpenError> {
        let connection = schema::writer(database)?;
        let (wake, woken) = sync_channel(1);
        let seen = Arc::new(Seen::default());
        let work = {
            let seen = seen.clone();
            move || {
                if let Err(error) = copy(&connection, &seen, &woken) {
                    poison.get_or_init(|| format!("checkpoint: {error}"));
                }
            }
        };
        let named = thread::Builder::new().name("sqlite-checkpoint".to_owned());
        named.spawn(work).expect("the system has threads");
        Ok(Wal { seen, wake })
    }

    /// The writer has committed so many bytes more.
    pub(super) fn grew(&self, connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
        let Seen { bytes: written, pages, tried } = &*self.seen;
        if written.fetch_add(bytes, Ordering::Relaxed) + bytes >= COPY_AFTER_BYTES {
            written.store(0, Ordering::Relaxed);
            // One that is still at work will be woken by the next.
            let _busy = self.wake.try_send(());
        }
        let length = pages.load(Ordering::Relaxed);
        if length >= tried.load(Ordering::Relaxed) + LONG_PAGES {
            self.seen.checkpoint(connection)?;
            tried.store(pages.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Ok(())
    }
}

fn copy(connection: &Connection, seen: &Seen, woken: &Receiver<()>) -> rusqlite::Result<()> {
    while woken.recv().is_ok() {
        seen.checkpoint(connection)?;
    }
    Ok(())
}

/// Pages in the WAL, and how many of them are in the database now. Waits for nobody.
fn checkpoint(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get(1)?, row.get(2)?)))
}
