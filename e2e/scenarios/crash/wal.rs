//! Truncates SQLite's WAL, like a disk that reported a flush without doing it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The WAL file header has the page size at offset 8 and the salt at offset 16. Each frame has its
/// salt at offset 8. Frames with another salt remain from before the WAL was reset.
const HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// Offset in the WAL index of the number of frames that a checkpoint has copied to the database, or
/// may have copied in part: a checkpoint stores it before it writes. A cut below that would corrupt
/// the database.
const COPIED: u64 = 128;

/// Removes the second half of the frames that are not yet in the database.
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
