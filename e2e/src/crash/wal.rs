//! Forgets the tail of SQLite's WAL, as a disk does that said "flushed" and had not.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The file begins with its page size at 8 and its salt at 16; each frame with its salt at 8. Frames of
/// another salt are left from before the WAL began anew.
const HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// Where the index of the WAL says how many of its frames are in the database, or may be in part: a
/// checkpoint that was under way says it before it writes. Below that a cut tears the database.
const COPIED: u64 = 128;

/// Cuts the second half of what is in the WAL and not yet in the database.
pub(crate) fn drop_tail(data: &Path) -> anyhow::Result<()> {
    let path = data.join("driftq.db-wal");
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    if file.metadata()?.len() < HEADER {
        return Ok(());
    }
    let mut copied = [0; 4];
    File::open(data.join("driftq.db-shm"))?.read_exact_at(&mut copied, COPIED)?;
    let copied = u64::from(u32::from_ne_bytes(copied));
    let mut header = [0; HEADER as usize];
    file.read_exact_at(&mut header, 0)?;
    let page = u64::from(u32::from_be_bytes([header[8], header[9], header[10], header[11]]));
    let at = |frame: u64| HEADER + frame * (FRAME_HEADER + page);
    let mut frames = 0;
    let mut frame = [0; FRAME_HEADER as usize];
    while file.read_exact_at(&mut frame, at(frames)).is_ok() && frame[8..16] == header[16..24] {
        frames += 1;
    }
    file.set_len(at(frames.min(copied.midpoint(frames))))?;
    Ok(())
}
