//! `postmaster.pid`: what a PostgreSQL says of itself in its data directory.

use std::path::Path;
use std::process::Command;

/// Its lines, as far as they are of use.
pub(crate) struct PidFile {
    /// The postmaster that wrote it, which may be gone.
    pub(crate) id: u32,
    pub(crate) is_ready: bool,
    /// The id of a segment of shared memory.
    shared_memory: Option<String>,
}

impl PidFile {
    pub(crate) fn read(data: &Path) -> Option<PidFile> {
        let file = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let lines: Vec<_> = file.lines().map(str::trim).collect();
        Some(PidFile {
            id: lines.first()?.parse().ok()?,
            is_ready: lines.get(7) == Some(&"ready"),
            // Its key stands before it.
            shared_memory: lines
                .get(6)
                .and_then(|line| line.split_whitespace().nth(1))
                .map(str::to_owned),
        })
    }
}

/// A postmaster that was killed leaves a segment of shared memory, which no directory takes along.
pub(crate) fn remove_shared_memory(data: &Path) {
    if let Some(id) = PidFile::read(data).and_then(|file| file.shared_memory) {
        let _removed = Command::new("ipcrm").args(["-m", &id]).output();
    }
}
