//! Checkpoints: copying the WAL into the database outside of commits.
//!
//! A separate thread copies committed pages when the WAL has grown, so that the writer waits only
//! for the flush of the WAL. Under a load that never pauses, the thread stays a little behind, and
//! the WAL could never restart. So when the WAL is long and few pages are left, the writer copies
//! them itself.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::directory::Directory;
use super::error::{OpenError, is_temporary};
use super::schema;

/// Length of the WAL in pages of 4 KiB after which the thread copies.
const COPY_AFTER_PAGES: u64 = 1_024;
/// Length in pages after which the writer copies, once at most [`LITTLE_PAGES`] are left.
const LONG_PAGES: u64 = 12_288;
/// Maximum number of pages that the writer copies while a commit waits. Each page may be a random
/// write.
const LITTLE_PAGES: u64 = 256;
/// Length in pages after which the writer copies all pages that are left. Otherwise the WAL would
/// outgrow `schema::WAL_BYTES_KEPT`.
const LONGEST_PAGES: u64 = 16_000;

/// The thread that copies. It must be dropped after all other connections: then closing its
/// connection copies everything and deletes the WAL.
pub(super) struct Checkpointer {
    wal: Option<Wal>,
    thread: Option<JoinHandle<()>>,
}

/// The writer's handle to the checkpointer.
#[derive(Clone)]
pub(super) struct Wal {
    seen: Arc<Mutex<WalProgress>>,
    /// Wakes the thread. The thread ends when the last sender is dropped.
    wake: SyncSender<()>,
}

/// The length of the WAL, and how much of it is copied.
#[derive(Default)]
struct WalProgress {
    /// How often the WAL has restarted.
    turn: u64,
    /// Pages in the WAL after the last commit.
    length: u64,
    /// Pages of the WAL that are copied to the database.
    copied: u64,
    /// The length at the writer's last attempt to copy. An open old snapshot can prevent copying.
    tried: u64,
    /// Whether the thread is copying.
    is_copying: bool,
}

impl WalProgress {
    /// Records the length after a commit. A shorter WAL has restarted.
    fn committed(&mut self, length: u64) {
        if length < self.length {
            *self = WalProgress {
                turn: self.turn + 1,
                is_copying: self.is_copying,
                ..WalProgress::default()
            };
        }
        self.length = length;
    }

    fn next(&self) -> Next {
        let left = self.length.saturating_sub(self.copied);
        let since_tried = self.length.saturating_sub(self.tried);
        match since_tried >= LONG_PAGES {
            // The thread is not woken again, so that its current copy ends and the writer can take
            // over.
            true if self.is_copying => Next::Nothing,
            true if left <= LITTLE_PAGES || since_tried >= LONGEST_PAGES => Next::Copy,
            true => Next::Wake,
            false if left >= COPY_AFTER_PAGES => Next::Wake,
            false => Next::Nothing,
        }
    }
}

/// What the writer does after a commit.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    /// Wakes the thread.
    Wake,
    /// Copies pages itself.
    Copy,
}

fn locked(seen: &Mutex<WalProgress>) -> MutexGuard<'_, WalProgress> {
    // No code panics while it holds the lock. Even then, the numbers would be usable.
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checkpointer {
    /// Observes the commits of `writer`, and starts the thread that copies them.
    pub(super) fn start(
        writer: &mut Connection,
        directory: &Arc<Directory>,
        failure: Arc<OnceLock<String>>,
    ) -> Result<Checkpointer, OpenError> {
        let seen = Arc::new(Mutex::new(WalProgress::default()));
        let watched = seen.clone();
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            locked(&watched).committed(u64::try_from(pages).unwrap_or_default());
            Ok(())
        }))?;
        let connection = schema::writer(&directory.database)?;
        // This connection only copies pages, so it needs no large cache.
        connection.pragma_update(None, "cache_size", -1_024)?;
        let (wake, woken) = sync_channel(1);
        let work = {
            let (seen, locked) = (seen.clone(), directory.clone());
            move || {
                let _locked = locked;
                while let Err(error) = copy(&connection, &seen, &woken) {
                    if !is_temporary(&error) {
                        failure.get_or_init(|| format!("checkpoint: {error}"));
                        // This connection must be the last one that is closed.
                        while woken.recv().is_ok() {}
                    }
                }
                if failure.get().is_some() {
                    keep_wal(&connection);
                }
            }
        };
        let named = thread::Builder::new().name("sqlite-checkpoint".to_owned());
        let thread = Some(named.spawn(work).expect("a thread can be started"));
        Ok(Checkpointer { wal: Some(Wal { seen, wake }), thread })
    }

    pub(super) fn wal(&self) -> Wal {
        self.wal.clone().expect("`wal` is `Some` until the drop")
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wal = None;
        if let Some(thread) = self.thread.take() {
            // A panicked thread has ended as well.
            let _ended = thread.join();
        }
    }
}

impl Wal {
    /// Wakes the thread or copies pages after a commit of `writer`, if needed.
    pub(super) fn grew(&self, writer: &Connection) -> rusqlite::Result<()> {
        let next = locked(&self.seen).next();
        match next {
            Next::Nothing => {}
            // If the channel is full, the thread has a wakeup pending.
            Next::Wake => drop(self.wake.try_send(())),
            Next::Copy => {
                let copied = checkpoint(writer)?;
                let mut seen = locked(&self.seen);
                (seen.copied, seen.tried) = (copied, seen.length);
            }
        }
        Ok(())
    }
}

fn copy(
    connection: &Connection,
    seen: &Mutex<WalProgress>,
    woken: &Receiver<()>,
) -> rusqlite::Result<()> {
    while woken.recv().is_ok() {
        let turn = {
            let mut seen = locked(seen);
            seen.is_copying = true;
            seen.turn
        };
        let copied = checkpoint(connection);
        let mut seen = locked(seen);
        seen.is_copying = false;
        let copied = copied?;
        // If the WAL has restarted meanwhile, none of its pages are copied.
        if seen.turn == turn {
            seen.copied = copied;
        }
    }
    Ok(())
}

/// Closes the last connection without copying the WAL. The pages that an earlier copy could not flush
/// would not be copied again, and the WAL that has them would be deleted.
fn keep_wal(connection: &Connection) {
    // It only sets a flag of the connection.
    let _set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}

/// Copies all pages that no reader blocks. Returns how many pages of the WAL are in the database
/// then. Does not wait: if another connection is copying, it does nothing.
fn checkpoint(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        // −1 if nothing was done.
        Ok(u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(length: u64, copied: u64) -> WalProgress {
        WalProgress { length, copied, ..WalProgress::default() }
    }

    #[test]
    fn the_writer_copies_only_what_is_little() {
        assert_eq!(seen(1_023, 0).next(), Next::Nothing);
        assert_eq!(seen(1_024, 0).next(), Next::Wake);
        assert_eq!(seen(LONG_PAGES, LONG_PAGES - 257).next(), Next::Wake);
        assert_eq!(seen(LONG_PAGES, LONG_PAGES - 256).next(), Next::Copy);
        let at_it = WalProgress { is_copying: true, ..seen(LONG_PAGES, LONG_PAGES - 256) };
        assert_eq!(at_it.next(), Next::Nothing);
    }

    #[test]
    fn it_copies_whatever_is_left_before_the_wal_outgrows_its_file() {
        assert_eq!(seen(LONGEST_PAGES, 0).next(), Next::Copy);
        let frame = 4_096 + 24;
        assert!(LONGEST_PAGES * frame < schema::WAL_BYTES_KEPT as u64);
    }

    #[test]
    fn with_an_old_snapshot_open_it_tries_once_in_a_while() {
        let tried = WalProgress { tried: LONGEST_PAGES, ..seen(LONGEST_PAGES + 1, 10) };
        assert_eq!(tried.next(), Next::Wake);
        let again = WalProgress { length: 2 * LONGEST_PAGES, ..tried };
        assert_eq!(again.next(), Next::Copy);
    }

    #[test]
    fn a_wal_that_begins_anew_has_nothing_copied() {
        let mut one = WalProgress { tried: 9, is_copying: true, ..seen(20_000, 20_000) };
        one.committed(1_500);
        assert_eq!((one.turn, one.copied, one.tried, one.is_copying), (1, 0, 0, true));
        assert_eq!(one.next(), Next::Wake);
    }
}
