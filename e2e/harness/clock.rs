//! Sets the system clock that a process sees, through `libfaketime`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

/// A wall clock that runs at normal speed, ahead of or behind the machine's.
#[derive(Debug, Clone)]
pub struct Clock {
    library: PathBuf,
    offset: Offset,
}

#[derive(Debug, Clone)]
enum Offset {
    /// In `libfaketime` syntax.
    Fixed(String),
    /// A file that contains the offset.
    File(PathBuf),
}

impl Clock {
    /// A clock that reads this Unix time in milliseconds now.
    pub fn at(unix_ms: u64) -> anyhow::Result<Clock> {
        let offset_ms = i64::try_from(unix_ms)? - i64::try_from(now_ms()?)?;
        Ok(Clock { library: library()?, offset: Offset::Fixed(written(offset_ms)) })
    }

    /// Returns the machine's clock. `set` changes it, and a running process sees the change at
    /// once.
    pub fn in_file(file: PathBuf) -> anyhow::Result<Clock> {
        let clock = Clock { library: library()?, offset: Offset::File(file) };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets a file-based clock to `ahead_ms` milliseconds ahead of the machine's clock.
    pub fn set(&self, ahead_ms: i64) -> anyhow::Result<()> {
        let Offset::File(file) = &self.offset else { anyhow::bail!("this clock has no file") };
        // Rename, so that no process reads a half-written file.
        let new = file.with_extension("new");
        std::fs::write(&new, written(ahead_ms))?;
        Ok(std::fs::rename(new, file)?)
    }

    /// Environment variables under which a process reads this clock.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        // A signal handler that reads the clock while the library is reading it gets the machine's
        // time. In PostgreSQL a timeout then ends a session at once. Caching the parsed offset
        // makes this rarer.
        let (offset, no_cache) = match &self.offset {
            Offset::Fixed(offset) => (("FAKETIME", offset.clone()), "0"),
            Offset::File(file) => (("FAKETIME_TIMESTAMP_FILE", file.display().to_string()), "1"),
        };
        vec![
            offset,
            ("FAKETIME_NO_CACHE", no_cache.to_owned()),
            ("LD_PRELOAD", self.library.display().to_string()),
            // Timers and file times are not faked.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ]
    }
}

fn written(offset_ms: i64) -> String {
    let (sign, ms) = (if offset_ms < 0 { '-' } else { '+' }, offset_ms.unsigned_abs());
    format!("{sign}{}.{:03}", ms / 1_000, ms % 1_000)
}

/// The machine's time in Unix milliseconds.
pub fn now_ms() -> anyhow::Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

/// Debian's `libfaketime` for multithreaded programs.
fn library() -> anyhow::Result<PathBuf> {
    let directories = std::fs::read_dir("/usr/lib")?.filter_map(Result::ok);
    let mut files = directories.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    files.find(|file| file.exists()).context("libfaketime not found; install faketime")
}
