//! Writes the WAL again before a starting process reads it.
//!
//! 1. If a flush fails, the kernel may mark the pages as written although they are not. They can
//!    still be read, until the kernel evicts them or the machine stops. A later flush succeeds and
//!    does not write them.
//! 2. The last process may have ended after such a flush. The commit that was being flushed would
//!    then look complete here, and so would every commit after it. After a power failure, all of them
//!    would be gone.
//! 3. Therefore a starting process reads the WAL, writes the same bytes to the same place, and
//!    flushes them. SQLite then checks the checksums of bytes that are on the disk.
//!
//! 4. The pages of the database file that a checkpoint could not flush are still in the WAL: it
//!    starts anew only after a checkpoint has flushed everything. A process that opens the database
//!    copies the WAL from its beginning, and so writes these pages again. SQLite counts the pages
//!    that it copied, and does not copy them again while the database is open. That is why a failed
//!    database is closed, and closed without a checkpoint.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;

/// Writes the WAL of a database again and flushes it. No other process may use the database.
pub(super) fn rewrite_wal(database: &Path) -> io::Result<()> {
    let mut wal = database.as_os_str().to_owned();
    wal.push("-wal");
    let wal = match OpenOptions::new().read(true).write(true).open(&wal) {
        Ok(wal) => wal,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        match wal.read_at(&mut piece, at)? {
            0 => break,
            bytes => {
                wal.write_all_at(&piece[..bytes], at)?;
                at += bytes as u64;
            }
        }
    }
    wal.sync_all()
}
