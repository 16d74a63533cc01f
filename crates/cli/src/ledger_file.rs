//! The file format of exported effects. It fixes every byte of every line.
//!
//! 1. The first line is [`HEAD`].
//! 2. Each chain has a line with its name, one line per record, and a line that ends it.
//! 3. The last line has the number of chains and records, and the hash of all bytes before it.
//!
//! The first hash of a chain is the hash of its name. The hash of a record covers the previous hash
//! and the text of the record. So a changed, removed or moved line is detected.

use blake3::{Hash, Hasher};

/// The first line.
pub(crate) const HEAD: &str = r#"{"driftq":"effects","version":1}"#;

const CHAIN: &str = r#"{"chain":"#;
const RECORD: &str = r#"{"record":"#;
const HASH: &str = r#","hash":""#;
const HASH_CHARS: usize = 64;

/// The kind of a line, by its prefix and suffix.
pub(crate) enum Line<'a> {
    /// The begin of a chain: its name, as it is hashed.
    Chain(&'a str),
    /// A record: its text, and its hash in hex.
    Record(&'a str, &'a str),
    /// The first line, the last line, the end of a chain, or an invalid line.
    Other,
}

impl Line<'_> {
    pub(crate) fn of(line: &str) -> Line<'_> {
        let inside = |prefix| line.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('}'));
        if let Some(name) = inside(CHAIN) {
            return Line::Chain(name);
        }
        let record = inside(RECORD).and_then(|rest| {
            let rest = rest.strip_suffix('"')?;
            let (text, hash) = rest.split_at_checked(rest.len().checked_sub(HASH_CHARS)?)?;
            Some(Line::Record(text.strip_suffix(HASH)?, hash))
        });
        record.unwrap_or(Line::Other)
    }
}

/// Returns the name of a chain as it is written and hashed.
pub(crate) fn name(namespace: &str, shard: u32) -> String {
    format!(r#"{{"namespace":{},"shard":{shard}}}"#, serde_json::Value::from(namespace))
}

pub(crate) fn chain(name: &str) -> String {
    format!("{CHAIN}{name}}}")
}

pub(crate) fn record(text: &str, hash: &str) -> String {
    format!(r#"{RECORD}{text}{HASH}{hash}"}}"#)
}

pub(crate) fn end(seq: u64, hash: &str) -> String {
    format!(r#"{{"end":{{"seq":{seq},"hash":"{hash}"}}}}"#)
}

pub(crate) fn last(chains: usize, records: u64, all: &Hasher) -> String {
    format!(r#"{{"chains":{chains},"records":{records},"blake3":"{}"}}"#, all.finalize())
}

/// Returns the first hash of a chain.
pub(crate) fn root(name: &str) -> Hash {
    blake3::hash(name.as_bytes())
}

/// Returns the hash of a record that follows the hash `before`.
pub(crate) fn next(before: &Hash, text: &str) -> Hash {
    Hasher::new().update(before.as_bytes()).update(text.as_bytes()).finalize()
}
