//! The file of exported effects: which lines it has, and what each must be, byte for byte.
//!
//! A head; for each chain its name, its records and its end; and a last line, which counts them and has
//! the hash of every byte before it. A chain begins with the hash of its name; a record's hash is that of the
//! hash before it and its text. So a line can be neither changed, nor dropped, nor moved.

use blake3::{Hash, Hasher};

/// The first line.
pub(crate) const HEAD: &str = r#"{"driftq":"effects","version":1}"#;

const CHAIN: &str = r#"{"chain":"#;
const RECORD: &str = r#"{"record":"#;
const HASH: &str = r#","hash":""#;
const HASH_CHARS: usize = 64;

/// What a line is, by how it looks.
pub(crate) enum Line<'a> {
    /// A chain begins: its name, as it is hashed.
    Chain(&'a str),
    /// A record's text, and its hash in hex.
    Record(&'a str, &'a str),
    /// Something else: the first line, the last one, or the end of a chain.
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

/// The name of a chain.
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

/// The hash a chain begins with.
pub(crate) fn root(name: &str) -> Hash {
    blake3::hash(name.as_bytes())
}

/// The hash of a record that follows another.
pub(crate) fn next(before: &Hash, text: &str) -> Hash {
    Hasher::new().update(before.as_bytes()).update(text.as_bytes()).finalize()
}
