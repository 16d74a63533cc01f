//! Files that are read again when they change: the certificate of the server and its API keys.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// Interval between two checks. SIGHUP checks at once.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A value that is read from files.
pub(crate) struct Reloaded<T> {
    /// What it is, for the log.
    name: &'static str,
    files: Vec<PathBuf>,
    read: fn(&[PathBuf]) -> Result<T, String>,
    current: RwLock<Arc<T>>,
    /// The hash of the files that the current value was read from, and why files that have changed
    /// since are invalid.
    seen: Mutex<(Option<blake3::Hash>, Option<String>)>,
}

impl<T> Reloaded<T> {
    /// Reads the files.
    pub(crate) fn start(
        name: &'static str,
        files: Vec<PathBuf>,
        read: fn(&[PathBuf]) -> Result<T, String>,
    ) -> Result<Arc<Reloaded<T>>, String> {
        // The hash comes first: a file that changes in between is read again.
        let seen = Mutex::new((hash(&files), None));
        let current = RwLock::new(Arc::new(read(&files)?));
        Ok(Arc::new(Reloaded { name, files, read, current, seen }))
    }

    pub(crate) fn current(&self) -> Arc<T> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks the files until the server stops.
    pub(crate) async fn run(self: Arc<Self>)
    where
        T: Send + Sync,
    {
        let mut asked = signal(SignalKind::hangup()).ok();
        loop {
            let hangup = async {
                match &mut asked {
                    Some(asked) => asked.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                _ = hangup => {}
            }
            self.look();
        }
    }

    /// Reads the files again if they have changed. If they are invalid, the last valid value is
    /// kept.
    pub(crate) fn look(&self) {
        let now = hash(&self.files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (good, last_error) = &mut *seen;
        if *good == now {
            *last_error = None;
            return;
        }
        // Invalid files are read at every check, because their mode may change and not their content.
        match (self.read)(&self.files) {
            Ok(value) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
                (*good, *last_error) = (now, None);
                tracing::info!("{} read again", self.name);
            }
            Err(why) if last_error.as_ref() == Some(&why) => {}
            Err(why) => {
                tracing::error!("{} not read again, the last one stays: {why}", self.name);
                *last_error = Some(why);
            }
        }
    }
}

/// The hash of the files, or `None` if one cannot be read.
fn hash(files: &[PathBuf]) -> Option<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    for file in files {
        let content = std::fs::read(file).ok()?;
        hasher.update(&(content.len() as u64).to_le_bytes()).update(&content);
    }
    Some(hasher.finalize())
}
