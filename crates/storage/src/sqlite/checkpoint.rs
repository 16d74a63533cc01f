//! Moving the WAL into the database, outside the committing path.
//!
//! A thread of its own copies what is committed whenever the WAL has grown, so that the writer waits for
//! the disk of the WAL only. Under a load that never pauses the copying ends a little behind, and the WAL
//! could not begin anew: when it is long and little is left, the writer itself copies that.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::directory::Directory;
use super::error::OpenError;
use super::schema;

/// Pages of the WAL (4 KiB each) after which the thread copies.
const COPY_AFTER_PAGES: u64 = 1_024;
/// Pages after which the writer lends a hand, as soon as the thread has left it little.
const LONG_PAGES: u64 = 12_288;
/// Pages that it copies while a commit waits: each may be at another end of the database.
const LITTLE_PAGES: u64 = 256;
/// Pages after which it copies whatever is left, or the WAL would outgrow the file that is kept for it.
const LONGEST_PAGES: u64 = 16_000;

/// The thread that copies. Dropped after all other connections it copies everything, and the WAL is gone.
pub(super) struct Checkpointer {
    wal: Option<Wal>,
    thread: Option<JoinHandle<()>>,
}

/// What the writer tells of the WAL.
#[derive(Clone)]
pub(super) struct Wal {
    seen: Arc<Mutex<WalProgress>>,
    /// Wakes the thread; it ends when the last of these is gone.
    wake: SyncSender<()>,
}

/// How long the WAL is.
#[derive(Default)]
struct WalProgress {
    /// How often it began anew.
    turn: u64,
    /// Pages in it after the last commit.
    length: u64,
    /// Pages of them that are in the database.
    copied: u64,
    /// The length at which the writer's last try ended: with an old snapshot open it can do nothing.
    tried: u64,
    /// The thread is at it.
    is_copying: bool,
}

impl WalProgress {
    /// After a commit.
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
            // It is not woken any more, so that it comes to an end.
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
    /// The thread is to copy.
    Wake,
    /// It copies itself.
    Copy,
}

fn locked(seen: &Mutex<WalProgress>) -> MutexGuard<'_, WalProgress> {
    // Nobody panics while it is held; if so, numbers are all there is to it.
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checkpointer {
    /// Watches what `writer` commits, and starts the thread that copies it.
    pub(super) fn start(
        writer: &mut Connection,
        directory: &Arc<Directory>,
        poison: Arc<OnceLock<String>>,
    ) -> Result<Checkpointer, OpenError> {
        let seen = Arc::new(Mutex::new(WalProgress::default()));
        let watched = seen.clone();
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            locked(&watched).committed(u64::try_from(pages).unwrap_or_default());
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
        Ok(Checkpointer { wal: Some(Wal { seen, wake }), thread })
    }

    pub(super) fn wal(&self) -> Wal {
        self.wal.clone().expect("it is there until it is dropped")
    }
}

impl Drop for Checkpointer {
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
        let next = locked(&self.seen).next();
        match next {
            Next::Nothing => {}
            // One that is still at work will be woken by the next.
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
        let copied = checkpoint(connection)?;
        let mut seen = locked(seen);
        seen.is_copying = false;
        // What began anew meanwhile has nothing of that.
        if seen.turn == turn {
            seen.copied = copied;
        }
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
