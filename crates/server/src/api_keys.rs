//! The API keys that requests may carry.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Secret;
use crate::reloaded::Reloaded;
use crate::secret_file;

/// A shorter key could be guessed.
const CHARS_MIN: usize = 32;
/// A key with fewer different characters was typed, not generated.
const DIFFERENT_CHARS_MIN: usize = 8;
/// The current key and the previous one.
const KEYS_MAX: usize = 2;
/// Bytes of the file that are read.
const FILE_BYTES: u64 = 4_096;

/// The keys of a server.
#[derive(Clone, Default)]
pub struct ApiKeys(Source);

#[derive(Clone, Default)]
enum Source {
    /// Requests need no key.
    #[default]
    None,
    Fixed(blake3::Hash),
    File(Arc<Reloaded<Vec<blake3::Hash>>>),
}

impl ApiKeys {
    /// One key, which is not checked.
    pub(crate) fn fixed(key: &Secret) -> ApiKeys {
        ApiKeys(Source::Fixed(blake3::hash(key.reveal().as_bytes())))
    }

    /// The keys in a file.
    pub(crate) fn read(file: PathBuf) -> Result<ApiKeys, String> {
        Reloaded::start("API keys", vec![file], read).map(|keys| ApiKeys(Source::File(keys)))
    }

    /// Reads the file again when it changes, until the server stops.
    pub(crate) async fn run(self) {
        if let Source::File(keys) = self.0 {
            keys.run().await;
        }
    }

    /// Whether requests need a key.
    pub(crate) fn are_needed(&self) -> bool {
        !matches!(self.0, Source::None)
    }

    /// Whether a request may carry this key. Hashes are compared in constant time, so that the time
    /// reveals neither where two keys differ nor how long ours is.
    pub(crate) fn accept(&self, given: &[u8]) -> bool {
        let given = blake3::hash(given);
        match &self.0 {
            Source::None => true,
            Source::Fixed(key) => *key == given,
            Source::File(keys) => {
                keys.current().iter().fold(false, |found, key| found | (*key == given))
            }
        }
    }
}

/// Checks the file of a configuration.
pub(crate) fn check_file(file: &Path) -> Result<(), String> {
    read(&[file.to_owned()]).map(drop)
}

/// Why a key is too weak, if it is.
pub(crate) fn weakness(key: &str) -> Option<String> {
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        // A header cannot carry it.
        let why = "the API key has characters that are not printable ASCII, or a byte order mark";
        return Some(why.to_owned());
    }
    let mut characters: Vec<char> = key.chars().collect();
    let length = characters.len();
    characters.sort_unstable();
    characters.dedup();
    if length < CHARS_MIN {
        return Some(format!(
            "the API key has {length} characters and must have at least {CHARS_MIN}; generate one with: openssl rand -hex 32"
        ));
    }
    (characters.len() < DIFFERENT_CHARS_MIN).then(|| {
        let count = characters.len();
        format!("the API key has only {count} different characters; generate one with: openssl rand -hex 32")
    })
}

/// Reads the keys of a file: the current one in the first line, the previous one in the second.
fn read(files: &[PathBuf]) -> Result<Vec<blake3::Hash>, String> {
    let file = files.first().ok_or("no file")?;
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let mut text = String::new();
    secret_file::open(file)?
        .take(FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| wrong(&error))?;
    let keys: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if keys.is_empty() {
        return Err(wrong(&"the file has no API key"));
    }
    if keys.len() > KEYS_MAX {
        let why = format!(
            "the file has {} API keys; it may have the current and the previous one",
            keys.len()
        );
        return Err(wrong(&why));
    }
    match keys.iter().find_map(|key| weakness(key)) {
        Some(why) => Err(wrong(&why)),
        None => Ok(keys.iter().map(|key| blake3::hash(key.as_bytes())).collect()),
    }
}
