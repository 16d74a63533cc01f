//! `postmaster.pid`: the status file that PostgreSQL writes to its data directory.

use std::path::Path;
use std::process::Command;

/// The lines in use.
pub(crate) struct PidFile {
    /// The postmaster that wrote the file. It may have exited since.
    pub(crate) id: u32,
    pub(crate) is_ready: bool,
    /// The id of its shared memory segment.
    shared_memory: Option<String>,
}

impl PidFile {
    pub(crate) fn read(data: &Path) -> Option<PidFile> {
        let file = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let lines: Vec<_> = file.lines().map(str::trim).collect();
        Some(PidFile {
            id: lines.first()?.parse().ok()?,
            is_ready: lines.get(7) == Some(&"ready"),
            // The line is the key and the id.
            shared_memory: lines
                .get(6)
                .and_then(|line| line.split_whitespace().nth(1))
                .map(str::to_owned),
        })
    }
}

/// Removes the shared memory segment that a killed postmaster leaves behind. Deleting its directory
/// does not.
pub(crate) fn remove_shared_memory(data: &Path) {
    if let Some(id) = PidFile::read(data).and_then(|file| file.shared_memory) {
        let _removed = Command::new("ipcrm").args(["-m", &id]).output();
    }
}
