//! Processes that read another time from the system clock, through `libfaketime`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

/// A wall clock that runs at normal speed, so many milliseconds ahead of or behind the machine's.
#[derive(Debug, Clone)]
pub struct Clock {
    library: PathBuf,
    offset_ms: i64,
}

impl Clock {
    /// A clock that reads this Unix time in milliseconds now.
    pub fn at(unix_ms: u64) -> anyhow::Result<Clock> {
        let offset_ms = i64::try_from(unix_ms)? - i64::try_from(now_ms()?)?;
        Ok(Clock { library: library()?, offset_ms })
    }

    /// Environment variables under which a process reads this clock.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let (sign, ms) =
            (if self.offset_ms < 0 { '-' } else { '+' }, self.offset_ms.unsigned_abs());
        vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME", format!("{sign}{}.{:03}", ms / 1_000, ms % 1_000)),
            // Timers and file times stay those of the machine.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ]
    }
}

/// The machine's time in Unix milliseconds.
pub fn now_ms() -> anyhow::Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

/// Debian's `libfaketime` for programs with threads.
fn library() -> anyhow::Result<PathBuf> {
    let directories = std::fs::read_dir("/usr/lib")?.filter_map(Result::ok);
    let mut files = directories.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    files.find(|file| file.exists()).context("there is no libfaketime: install faketime")
}
