//! What an export says, and whether it can be true.
//!
//! Every chain is whole, from its first record to its tip, and no effect had two accepted outcomes. It does not
//! say who wrote the file: whoever can write all of it can hash all of it.

use std::collections::HashMap;
use std::io::{BufRead, Read as _};

use anyhow::Context as _;
use blake3::{Hash, Hasher};
use serde::Deserialize;
use serde_json::json;

use crate::ledger_file::{self, Line};

/// No line is longer.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Reads an export to its end, or to the first line that cannot be true.
pub(super) fn check(mut file: impl BufRead) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::default();
    let mut all = Hasher::new();
    let mut line = Vec::new();
    let mut is_over = false;
    for number in 1.. {
        line.clear();
        (&mut file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            anyhow::ensure!(is_over, "it ends before line {number}: the last lines are missing");
            break;
        }
        ledger.line = number;
        let read = if is_over {
            Err(anyhow::anyhow!("there is more after the last line"))
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

/// A chain, as far as it was read.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) name: Name,
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

/// What a record must say.
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

/// What is known of an effect: of one life of its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    fence: u64,
    /// The latest fence ended, and may be followed by another.
    has_failed: bool,
    /// It ended for good.
    is_over: bool,
    /// Where that was said.
    line: u64,
}

/// What the lines so far say.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    line: u64,
    pub(super) records: u64,
    pub(super) chains: Vec<Chain>,
    /// The last of them goes on.
    is_open: bool,
    /// By the hash of their names.
    pub(super) effects: HashMap<[u8; 16], Seen>,
}

impl Ledger {
    /// Takes one line. Whether it was the last.
    fn read(&mut self, line: &[u8], before: &Hasher) -> anyhow::Result<bool> {
        let line = line.strip_suffix(b"\n").context("it is cut short")?;
        let line = std::str::from_utf8(line).context("it is not text")?;
        match (Line::of(line), self.is_open) {
            _ if self.line == 1 => {
                anyhow::ensure!(line == ledger_file::HEAD, "this is no export of effects");
            }
            (Line::Chain(name), false) => self.begin(name)?,
            (Line::Record(text, hash), true) => self.record(text, hash)?,
            (Line::Other, true) => {
                let Chain { seq, hash, .. } = self.open()?;
                let end = ledger_file::end(*seq, &hash.to_hex());
                anyhow::ensure!(
                    line == end,
                    "the chain has {seq} records before this, and not this end"
                );
                self.is_open = false;
            }
            (Line::Other, false) => {
                let last = ledger_file::last(self.chains.len(), self.records, before);
                anyhow::ensure!(
                    line == last,
                    "the lines before this are not those that were written"
                );
                return Ok(true);
            }
            (Line::Chain(_), true) => anyhow::bail!("a chain begins where another has not ended"),
            (Line::Record(..), false) => anyhow::bail!("a record of no chain"),
        }
        Ok(false)
    }

    fn open(&mut self) -> anyhow::Result<&mut Chain> {
        self.chains.last_mut().context("there is no chain")
    }

    fn begin(&mut self, text: &str) -> anyhow::Result<()> {
        let name: Name = serde_json::from_str(text).context("this names no chain")?;
        let of = |name: &Name| (name.namespace.clone(), name.shard);
        let is_known = self.chains.iter().any(|chain| of(&chain.name) == of(&name));
        anyhow::ensure!(!is_known, "this chain was there before");
        self.chains.push(Chain { name, seq: 0, hash: ledger_file::root(text) });
        self.is_open = true;
        Ok(())
    }

    fn record(&mut self, text: &str, said: &str) -> anyhow::Result<()> {
        let chain = self.open()?;
        let hash = ledger_file::next(&chain.hash, text);
        anyhow::ensure!(
            hash.to_hex().as_str() == said,
            "the chain is broken: this hash is not that of this record after the one before"
        );
        let record: Record = serde_json::from_str(text).context("this is no record")?;
        chain.seq += 1;
        chain.hash = hash;
        let (seq, namespace) = (chain.seq, chain.name.namespace.clone());
        anyhow::ensure!(record.seq == seq, "record {} where {seq} should be", record.seq);
        self.records += 1;
        self.decide(&namespace, &record).with_context(|| {
            let Record { decision, scope, key, tenant, fence, .. } = &record;
            format!("{decision} of {scope} {key} of {tenant}, fence {fence}")
        })
    }

    /// Whether the decision could have been accepted after all before it.
    fn decide(&mut self, namespace: &str, record: &Record) -> anyhow::Result<()> {
        let Record { decision, fence, .. } = record;
        let (line, fence) = (self.line, *fence);
        let before = self.effects.get(&identity(namespace, record)).copied();
        if let Some(Seen { is_over: true, line, .. }) = before {
            anyhow::bail!("it had its outcome in line {line}");
        }
        let seen = match (decision.as_str(), record.state.as_deref()) {
            ("begin", None) => {
                if let Some(Seen { fence: latest, line, .. }) = before {
                    anyhow::ensure!(fence > latest, "fence {latest} was there, in line {line}");
                }
                Seen { fence, has_failed: false, is_over: false, line }
            }
            ("finish" | "resolve", Some(state)) => {
                // What was begun before decisions were written down is not there.
                if let Some(Seen { fence: latest, has_failed, line, .. }) = before {
                    anyhow::ensure!(fence == latest, "the latest is {latest}, in line {line}");
                    anyhow::ensure!(!has_failed, "this fence had its outcome in line {line}");
                }
                match state {
                    "SUCCEEDED" | "FAILED_FINAL" => {
                        Seen { fence, has_failed: false, is_over: true, line }
                    }
                    "FAILED_RETRYABLE" => Seen { fence, has_failed: true, is_over: false, line },
                    "IN_DOUBT" => Seen { fence, has_failed: false, is_over: false, line },
                    _ => anyhow::bail!("{state} is no outcome"),
                }
            }
            _ => anyhow::bail!("this driftq knows no such decision"),
        };
        self.effects.insert(identity(namespace, record), seen);
        Ok(())
    }
}

/// Names one life of a key.
fn identity(namespace: &str, record: &Record) -> [u8; 16] {
    let Record { tenant, scope, topic, key, born_ms, .. } = record;
    let name = json!([namespace, tenant, scope, topic, key, born_ms]).to_string();
    let hash = blake3::hash(name.as_bytes());
    std::array::from_fn(|at| hash.as_bytes()[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a server exported its ledger: files of this format stay readable.
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
            assert_eq!(told, "line 2: the lines before this are not those that were written");
        }
    }

    /// What somebody would write who can hash: `decision key.fence STATE`, one a record.
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

    fn said(records: &[&str]) -> String {
        match check(forged(records).as_bytes()) {
            Ok(ledger) => format!("{} effects", ledger.effects.len()),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn what_a_ledger_may_accept() {
        assert_eq!(said(&[]), "0 effects");
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
        assert_eq!(said(&story), "3 effects");
    }

    #[test]
    fn what_no_ledger_may_accept_is_found_however_well_it_is_hashed() {
        let told = [
            said(&["begin k.1", "finish k.1 SUCCEEDED", "finish k.1 FAILED_FINAL"]),
            said(&["begin k.1", "finish k.1 SUCCEEDED", "finish k.1 SUCCEEDED"]),
            said(&["begin k.1", "finish k.1 FAILED_FINAL", "begin k.2"]),
            said(&["begin k.1", "finish k.1 SUCCEEDED", "resolve k.1 FAILED_FINAL"]),
            said(&["begin k.1", "finish k.1 FAILED_RETRYABLE", "finish k.1 SUCCEEDED"]),
            said(&["begin k.1", "begin k.2", "finish k.1 SUCCEEDED"]),
            said(&["begin k.2", "begin k.2"]),
            said(&["begin k.2", "begin k.1"]),
            said(&["begin k.1", "finish k.2 SUCCEEDED"]),
            said(&["begin k.1", "finish k.1 DONE"]),
            said(&["begin k.1", "finish k.1"]),
            said(&["forget k.1"]),
        ];
        expect_test::expect![[r#"
            line 5: finish of op/a k of t, fence 1: it had its outcome in line 4
            line 5: finish of op/a k of t, fence 1: it had its outcome in line 4
            line 5: begin of op/a k of t, fence 2: it had its outcome in line 4
            line 5: resolve of op/a k of t, fence 1: it had its outcome in line 4
            line 5: finish of op/a k of t, fence 1: this fence had its outcome in line 4
            line 5: finish of op/a k of t, fence 1: the latest is 2, in line 4
            line 4: begin of op/a k of t, fence 2: fence 2 was there, in line 3
            line 4: begin of op/a k of t, fence 1: fence 2 was there, in line 3
            line 4: finish of op/a k of t, fence 2: the latest is 1, in line 3
            line 4: finish of op/a k of t, fence 1: DONE is no outcome
            line 4: finish of op/a k of t, fence 1: this driftq knows no such decision
            line 3: forget of op/a k of t, fence 1: this driftq knows no such decision"#]]
        .assert_eq(&told.join("\n"));
    }

    #[test]
    fn what_is_no_export_is_said_to_be_none() {
        for file in ["", "\n", "hello\n", "{}\n", "\u{feff}{}\n"] {
            assert!(check(file.as_bytes()).is_err(), "{file:?}");
        }
        let long = vec![b'x'; 1 << 20];
        let said = format!("{:#}", check(&*long).unwrap_err());
        assert_eq!(said, "line 1: it is cut short");
    }
}
