//! Shared by all targets: a memory limit, and the checks that every readable row must pass.

use std::alloc::System;
use std::ops::RangeInclusive;
use std::sync::Once;

use bytes::Bytes;
use cap::Cap;
use driftq_core::fuzzing::{RoundTrip, reread};
use driftq_core::row::{Columns, Key, Row, Table};
use driftq_core::verify;

/// The heap of the code under test. libFuzzer has its own.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// Memory limit of one run. Inputs have at most 4 KiB, so code that trusts a length field exceeds
/// it.
const HEAP_BYTES_MAX: usize = 16 << 20;

/// Runs one input. Exceeding the memory limit is a crash.
pub fn bounded(run: impl FnOnce()) {
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        // Reporting a panic needs memory.
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _free = HEAP.set_limit(usize::MAX);
            report(panic);
        }));
    });
    // Fails only if more is allocated already.
    let _taken = HEAP.set_limit(HEAP.allocated() + HEAP_BYTES_MAX);
    run();
    let _free = HEAP.set_limit(usize::MAX);
}

/// Splits the input: the first byte chooses among `count`, starting at `a`, and the rest is the
/// content.
pub fn choice(input: &[u8], count: usize) -> Option<(usize, &[u8])> {
    let (first, rest) = input.split_first()?;
    Some((usize::from(first.wrapping_sub(b'a')) % count, rest))
}

/// Returns a packed body with this content: the version, the content, and the CRC-32C of both.
pub fn sealed(version: u8, content: &[u8]) -> Bytes {
    let mut body = vec![version];
    body.extend_from_slice(content);
    let checksum = crc32c::crc32c(&body);
    body.extend_from_slice(&checksum.to_le_bytes());
    body.into()
}

/// The versions of the packed rows of a table.
fn versions(row: &Row) -> RangeInclusive<u8> {
    match row.key.table() {
        Table::Page | Table::Outbox | Table::Audit => 1..=2,
        _ => 1..=1,
    }
}

/// Whether a packed body is valid by the same definition.
fn is_whole(row: &Row) -> bool {
    let Some((content, checksum)) = row.body.split_last_chunk::<4>() else { return false };
    content.first().is_some_and(|version| versions(row).contains(version))
        && crc32c::crc32c(content).to_le_bytes() == *checksum
}

/// Checks a packed row in every version: like [`check`], and every flipped bit must be detected.
pub fn check_packed(key: &Key, columns: &Columns, content: &[u8]) {
    let with = |body| Row { key: key.clone(), columns: columns.clone(), body };
    let bare = with(Bytes::copy_from_slice(content));
    assert_eq!(verify(&bare).is_ok(), is_whole(&bare), "valid or not");
    for version in versions(&bare) {
        check_version(&with(sealed(version, content)), content);
    }
}

fn check_version(whole: &Row, content: &[u8]) {
    assert_eq!(verify(whole), Ok(()));
    let mut body = whole.body.to_vec();
    let bit = crc32c::crc32c(content) as usize % (8 * body.len());
    body[bit / 8] ^= 1 << (bit % 8);
    let damaged = Row { body: body.into(), ..whole.clone() };
    assert!(verify(&damaged).is_err(), "bit {bit} is not detected");
    assert!(reread(&damaged).is_err(), "bit {bit} is accepted");
    if let Some(again) = check(whole) {
        let bytes: usize = again.iter().map(|row| row.body.len()).sum();
        let seals = 16 * again.len();
        assert!(bytes <= whole.body.len() + seals, "{bytes} bytes of {}", whole.body.len());
    }
}

/// Checks that a readable row has the same content after it is packed and read again, and stable
/// bytes from then on. Returns the rows it was packed into.
pub fn check(row: &Row) -> Option<Vec<Row>> {
    let RoundTrip { message, again } = reread(row).ok()?;
    let mut messages = Vec::new();
    for row in &again {
        let read = reread(row).expect("packed rows can be read");
        assert_eq!(read.again, std::slice::from_ref(row), "packing is not stable");
        messages.push(read.message);
    }
    // One row may become several. Their lists are joined.
    let joined = messages.join(", ").replace("], [", ", ");
    if !again.is_empty() {
        assert_eq!(joined, message.replace("], [", ", "), "the content changed");
    }
    Some(again)
}
