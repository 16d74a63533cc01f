//! Exports of the ledger: arbitrary bytes are rejected without a panic. Even with correct hashes,
//! no flipped bit and no moved or missing line is accepted.
#![no_main]

use blake3::Hasher;
use driftq_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cli/src/verify/ledger.rs"]
mod ledger;
#[path = "../../crates/cli/src/ledger_file.rs"]
mod ledger_file;

fuzz_target!(|input: &[u8]| bounded(|| {
    let _refused = ledger::check(input);
    let Ok(text) = std::str::from_utf8(input) else { return };
    let file = forged(text);
    let Ok(read) = ledger::check(file.as_bytes()) else { return };
    let records: u64 = read.chains.iter().map(|chain| chain.seq).sum();
    assert_eq!(read.records, records, "every record belongs to a chain");
    assert!(read.effects.len() as u64 <= records, "every effect has a record");
    for chain in &read.chains {
        assert!(chain.name.namespace.len() <= input.len(), "the name is from the input");
        assert!(file.contains(&*chain.hash.to_hex()), "the tip is in the file");
    }
    let place = crc32c::crc32c(input) as usize;
    let mut flipped = file.clone().into_bytes();
    let bit = place % (8 * flipped.len());
    flipped[bit / 8] ^= 1 << (bit % 8);
    assert!(ledger::check(&*flipped).is_err(), "bit {bit} is not detected");
    let mut lines: Vec<&str> = file.split_inclusive('\n').collect();
    let at = place % (lines.len() - 1);
    lines.swap(at, at + 1);
    assert!(ledger::check(lines.concat().as_bytes()).is_err(), "moving line {at} is accepted");
    lines.remove(at);
    assert!(ledger::check(lines.concat().as_bytes()).is_err(), "a missing line is accepted");
}));

/// Builds an export with correct hashes: a line `shard N` begins a chain, and every other line is a
/// record of it.
fn forged(text: &str) -> String {
    let mut lines = vec![ledger_file::HEAD.to_owned()];
    let mut open: Option<(u64, blake3::Hash)> = None;
    let (mut chains, mut records) = (0, 0);
    for line in text.lines() {
        if let Some(shard) = line.strip_prefix("shard ").and_then(|shard| shard.parse().ok()) {
            lines.extend(open.map(|(seq, hash)| ledger_file::end(seq, &hash.to_hex())));
            let name = ledger_file::name("default", shard);
            lines.push(ledger_file::chain(&name));
            open = Some((0, ledger_file::root(&name)));
            chains += 1;
        } else if let Some((seq, hash)) = &mut open {
            *hash = ledger_file::next(hash, line);
            lines.push(ledger_file::record(line, &hash.to_hex()));
            (*seq, records) = (*seq + 1, records + 1);
        }
    }
    lines.extend(open.map(|(seq, hash)| ledger_file::end(seq, &hash.to_hex())));
    let all: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let last = ledger_file::last(chains, records, Hasher::new().update(all.as_bytes()));
    format!("{all}{last}\n")
}
