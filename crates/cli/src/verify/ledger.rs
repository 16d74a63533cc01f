//! Verification of an exported ledger.
//!
//! A valid export has every chain complete from its first record to its tip, and no effect with two
//! accepted outcomes. Verification does not prove who wrote the file: an attacker who can rewrite
//! the complete file can compute all its hashes.

use std::collections::HashMap;
use std::io::{BufRead, Read as _};

use anyhow::Context as _;
use blake3::{Hash, Hasher};
use serde::Deserialize;
use serde_json::json;

use crate::ledger_file::{self, Line};

/// Maximum length of a line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Reads an export to its end. Fails at the first invalid line.
pub(super) fn check(mut file: impl BufRead) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::default();
    let mut all = Hasher::new();
    let mut line = Vec::new();
    let mut is_over = false;
    for number in 1.. {
        line.clear();
        (&mut file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            anyhow::ensure!(is_over, "the file is truncated: it ends before line {number}");
            break;
        }
        ledger.line = number;
        let read = if is_over {
            Err(anyhow::anyhow!("unexpected data after the last line"))
        } else {
            ledger.read(&line, &all)
        };
        is_over = read.with_context(|| format!("line {number}"))?;
        all.update(&line);
    }
    Ok(ledger)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Name {
    pub(super) namespace: String,
    pub(super) shard: u32,
}

/// A chain, up to the last record that was read.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) name: Name,
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

/// The fields of a record that are verified.
#[derive(Debug, Deserialize)]
struct Record {
    seq: u64,
    decision: String,
    tenant: String,
    scope: String,
    topic: Option<u64>,
    key: String,
    born_ms: u64,
    fence: u64,
    state: Option<String>,
}

/// The state of an effect. A key that is used again after its expiry is another effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    fence: u64,
    /// The latest fence has failed, and a new fence may begin.
    has_failed: bool,
    /// The effect has a final outcome.
    is_over: bool,
    /// The line of its latest decision.
    line: u64,
}

/// The state after the lines read so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    line: u64,
    pub(super) records: u64,
    pub(super) chains: Vec<Chain>,
    /// Whether the last chain has not ended yet.
    is_open: bool,
    /// Effects by the hash of their identity.
    pub(super) effects: HashMap<[u8; 16], Seen>,
}

impl Ledger {
    /// Verifies one line. Returns whether it is the last line of an export.
    fn read(&mut self, line: &[u8], before: &Hasher) -> anyhow::Result<bool> {
        let line =
            line.strip_suffix(b"\n").context("the line has no end, or is longer than 64 KiB")?;
        let line = std::str::from_utf8(line).context("the line is not UTF-8")?;
        match (Line::of(line), self.is_open) {
            _ if self.line == 1 => {
                anyhow::ensure!(line == ledger_file::HEAD, "not an export of effects");
            }
            (Line::Chain(name), false) => self.begin(name)?,
            (Line::Record(text, hash), true) => self.record(text, hash)?,
            (Line::Other, true) => {
                let Chain { seq, hash, .. } = self.open()?;
                let end = ledger_file::end(*seq, &hash.to_hex());
                anyhow::ensure!(
                    line == end,
                    "the end of the chain does not match its {seq} records"
                );
                self.is_open = false;
            }
            (Line::Other, false) => {
                let last = ledger_file::last(self.chains.len(), self.records, before);
                anyhow::ensure!(
                    line == last,
                    "the lines before this one were changed: the checksum differs"
                );
                return Ok(true);
            }
            (Line::Chain(_), true) => anyhow::bail!("a chain begins before the previous one ends"),
            (Line::Record(..), false) => anyhow::bail!("a record outside a chain"),
        }
        Ok(false)
    }

    fn open(&mut self) -> anyhow::Result<&mut Chain> {
        self.chains.last_mut().context("no chain is open")
    }

    fn begin(&mut self, text: &str) -> anyhow::Result<()> {
        let name: Name = serde_json::from_str(text).context("invalid name of a chain")?;
        let of = |name: &Name| (name.namespace.clone(), name.shard);
        let is_known = self.chains.iter().any(|chain| of(&chain.name) == of(&name));
        anyhow::ensure!(!is_known, "duplicate chain");
        self.chains.push(Chain { name, seq: 0, hash: ledger_file::root(text) });
        self.is_open = true;
        Ok(())
    }

    fn record(&mut self, text: &str, print_result: &str) -> anyhow::Result<()> {
        let chain = self.open()?;
        let hash = ledger_file::next(&chain.hash, text);
        anyhow::ensure!(
            hash.to_hex().as_str() == print_result,
            "the chain is broken: the hash does not match this record and the previous hash"
        );
        let record: Record = serde_json::from_str(text).context("invalid record")?;
        chain.seq += 1;
        chain.hash = hash;
        let (seq, namespace) = (chain.seq, chain.name.namespace.clone());
        anyhow::ensure!(
            record.seq == seq,
            "record number {} out of order, expected {seq}",
            record.seq
        );
        self.records += 1;
        self.decide(&namespace, &record).with_context(|| {
            let Record { decision, scope, key, tenant, fence, .. } = &record;
            format!("{decision} of {scope} {key}, tenant {tenant}, fence {fence}")
        })
    }

    /// Rejects a decision that the ledger could not have accepted after the earlier ones.
    fn decide(&mut self, namespace: &str, record: &Record) -> anyhow::Result<()> {
        let Record { decision, fence, .. } = record;
        let (line, fence) = (self.line, *fence);
        let before = self.effects.get(&identity(namespace, record)).copied();
        if let Some(Seen { is_over: true, line, .. }) = before {
            anyhow::bail!("the effect already has an outcome, in line {line}");
        }
        let seen = match (decision.as_str(), record.state.as_deref()) {
            ("begin", None) => {
                if let Some(Seen { fence: latest, line, .. }) = before {
                    anyhow::ensure!(
                        fence > latest,
                        "the fence must be greater than {latest}, in line {line}"
                    );
                }
                Seen { fence, has_failed: false, is_over: false, line }
            }
            ("finish" | "resolve", Some(state)) => {
                // An effect that began before the ledger was recorded has no earlier decision.
                if let Some(Seen { fence: latest, has_failed, line, .. }) = before {
                    anyhow::ensure!(
                        fence == latest,
                        "the latest fence is {latest}, in line {line}"
                    );
                    anyhow::ensure!(
                        !has_failed,
                        "this fence already has an outcome, in line {line}"
                    );
                }
                match state {
                    "SUCCEEDED" | "FAILED_FINAL" => {
                        Seen { fence, has_failed: false, is_over: true, line }
                    }
                    "FAILED_RETRYABLE" => Seen { fence, has_failed: true, is_over: false, line },
                    "IN_DOUBT" => Seen { fence, has_failed: false, is_over: false, line },
                    _ => anyhow::bail!("unknown outcome {state}"),
                }
            }
            _ => anyhow::bail!(
                "unknown decision; verify with the driftq version that exported the file"
            ),
        };
        self.effects.insert(identity(namespace, record), seen);
        Ok(())
    }
}

/// Returns the identity of an effect. It includes `born_ms`, which differs when a key is used again
/// after its expiry.
fn identity(namespace: &str, record: &Record) -> [u8; 16] {
    let Record { tenant, scope, topic, key, born_ms, .. } = record;
    let name = json!([namespace, tenant, scope, topic, key, born_ms]).to_string();
    let hash = blake3::hash(name.as_bytes());
    std::array::from_fn(|at| hash.as_bytes()[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An export of a real server. Exports of this format must stay readable.
    const EXPORTED: &[u8] = include_bytes!("../../tests/it/effects.ndjson");

    fn lines(file: &[u8]) -> Vec<&[u8]> {
        file.split_inclusive(|byte| *byte == b'\n').collect()
    }

    #[test]
    fn an_export_of_this_format_is_whole() {
        let ledger = check(EXPORTED).unwrap();
        assert_eq!((ledger.records, ledger.effects.len(), ledger.chains.len()), (5, 2, 1));
    }

    #[test]
    fn no_bit_can_be_another() {
        for at in 0..EXPORTED.len() {
            for bit in 0..8 {
                let mut flipped = EXPORTED.to_vec();
                flipped[at] ^= 1 << bit;
                assert!(check(&*flipped).is_err(), "bit {bit} of byte {at} is not noticed");
            }
        }
    }

    #[test]
    fn no_line_can_be_dropped_doubled_or_moved() {
        let lines = lines(EXPORTED);
        for at in 0..lines.len() {
            let mut dropped = lines.clone();
            dropped.remove(at);
            assert!(check(&*dropped.concat()).is_err(), "line {} is not missed", at + 1);
            let mut doubled = lines.clone();
            doubled.insert(at, lines[at]);
            assert!(check(&*doubled.concat()).is_err(), "line {} may come twice", at + 1);
            for other in 0..at {
                let mut swapped = lines.clone();
                swapped.swap(at, other);
                let swapped = swapped.concat();
                assert!(check(&*swapped).is_err(), "lines {} and {} change", other + 1, at + 1);
            }
        }
    }

    #[test]
    fn no_part_is_the_whole() {
        for length in 0..EXPORTED.len() {
            assert!(check(&EXPORTED[..length]).is_err(), "the first {length} bytes");
            assert!(
                check(&EXPORTED[EXPORTED.len() - length..]).is_err(),
                "the last {length} bytes"
            );
        }
    }

    #[test]
    fn a_record_too_short_for_its_hash_is_none() {
        for line in [r#"{"record":"}"#, r#"{"record":{},"hash":"ab"}"#] {
            let file = format!("{}\n{line}\n", ledger_file::HEAD);
            let told = format!("{:#}", check(file.as_bytes()).unwrap_err());
            assert_eq!(
                told,
                "line 2: the lines before this one were changed: the checksum differs"
            );
        }
    }

    /// Returns a file with valid hashes, one record per `decision key.fence STATE`.
    fn forged(records: &[&str]) -> String {
        let name = ledger_file::name("default", 0);
        let (mut hash, mut seq) = (ledger_file::root(&name), 0);
        let mut lines = vec![ledger_file::HEAD.to_owned(), ledger_file::chain(&name)];
        for record in records {
            let mut words = record.split(' ');
            let decision = words.next().unwrap();
            let (key, fence) = words.next().unwrap().split_once('.').unwrap();
            let (key, born) = key.split_once('@').unwrap_or((key, "1"));
            let state =
                words.next().map(|state| format!(r#","state":"{state}""#)).unwrap_or_default();
            seq += 1;
            let text = format!(
                r#"{{"seq":{seq},"at_ms":1,"decision":"{decision}","tenant":"t","scope":"op/a","key":"{key}","born_ms":{born},"fence":{fence}{state}}}"#
            );
            hash = ledger_file::next(&hash, &text);
            lines.push(ledger_file::record(&text, &hash.to_hex()));
        }
        lines.push(ledger_file::end(seq, &hash.to_hex()));
        let all: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let last = ledger_file::last(1, seq, Hasher::new().update(all.as_bytes()));
        format!("{all}{last}\n")
    }

    fn print_result(records: &[&str]) -> String {
        match check(forged(records).as_bytes()) {
            Ok(ledger) => format!("{} effects", ledger.effects.len()),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn what_a_ledger_may_accept() {
        assert_eq!(print_result(&[]), "0 effects");
        let story = [
            "begin k.1",
            "begin k.2",
            "finish k.2 IN_DOUBT",
            "finish k.2 FAILED_RETRYABLE",
            "begin k.5",
            "finish k.5 IN_DOUBT",
            "resolve k.5 FAILED_FINAL",
            "begin k@2.1",
            "finish k@2.1 SUCCEEDED",
            "finish from-before.4 SUCCEEDED",
        ];
        assert_eq!(print_result(&story), "3 effects");
    }

    #[test]
    fn what_no_ledger_may_accept_is_found_however_well_it_is_hashed() {
        let told = [
            print_result(&["begin k.1", "finish k.1 SUCCEEDED", "finish k.1 FAILED_FINAL"]),
            print_result(&["begin k.1", "finish k.1 SUCCEEDED", "finish k.1 SUCCEEDED"]),
            print_result(&["begin k.1", "finish k.1 FAILED_FINAL", "begin k.2"]),
            print_result(&["begin k.1", "finish k.1 SUCCEEDED", "resolve k.1 FAILED_FINAL"]),
            print_result(&["begin k.1", "finish k.1 FAILED_RETRYABLE", "finish k.1 SUCCEEDED"]),
            print_result(&["begin k.1", "begin k.2", "finish k.1 SUCCEEDED"]),
            print_result(&["begin k.2", "begin k.2"]),
            print_result(&["begin k.2", "begin k.1"]),
            print_result(&["begin k.1", "finish k.2 SUCCEEDED"]),
            print_result(&["begin k.1", "finish k.1 DONE"]),
            print_result(&["begin k.1", "finish k.1"]),
            print_result(&["forget k.1"]),
        ];
        expect_test::expect![[r#"
            line 5: finish of op/a k, tenant t, fence 1: the effect already has an outcome, in line 4
            line 5: finish of op/a k, tenant t, fence 1: the effect already has an outcome, in line 4
            line 5: begin of op/a k, tenant t, fence 2: the effect already has an outcome, in line 4
            line 5: resolve of op/a k, tenant t, fence 1: the effect already has an outcome, in line 4
            line 5: finish of op/a k, tenant t, fence 1: this fence already has an outcome, in line 4
            line 5: finish of op/a k, tenant t, fence 1: the latest fence is 2, in line 4
            line 4: begin of op/a k, tenant t, fence 2: the fence must be greater than 2, in line 3
            line 4: begin of op/a k, tenant t, fence 1: the fence must be greater than 2, in line 3
            line 4: finish of op/a k, tenant t, fence 2: the latest fence is 1, in line 3
            line 4: finish of op/a k, tenant t, fence 1: unknown outcome DONE
            line 4: finish of op/a k, tenant t, fence 1: unknown decision; verify with the driftq version that exported the file
            line 3: forget of op/a k, tenant t, fence 1: unknown decision; verify with the driftq version that exported the file"#]]
        .assert_eq(&told.join("\n"));
    }

    #[test]
    fn what_is_no_export_is_said_to_be_none() {
        for file in ["", "\n", "hello\n", "{}\n", "\u{feff}{}\n"] {
            assert!(check(file.as_bytes()).is_err(), "{file:?}");
        }
        let long = vec![b'x'; 1 << 20];
        let print_result = format!("{:#}", check(&*long).unwrap_err());
        assert_eq!(print_result, "line 1: the line has no end, or is longer than 64 KiB");
    }
}
