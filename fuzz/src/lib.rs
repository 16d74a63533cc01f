//! What the targets share: a bound on memory, and what must hold of every row that can be read.

use std::alloc::System;
use std::sync::Once;

use bytes::Bytes;
use cap::Cap;
use driftq_core::fuzzing::{Reread, reread};
use driftq_core::row::Row;
use driftq_core::verify;

/// The heap of the code under test; libFuzzer has its own.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// What one run may have at a time. Inputs have 4 KiB: whoever trusts a length they state asks for more.
const HEAP_BYTES_MAX: usize = 16 << 20;

/// Runs one input. More memory than that is a crash.
pub fn bounded(run: impl FnOnce()) {
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        // Who reports a panic needs memory of its own.
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _free = HEAP.set_limit(usize::MAX);
            report(panic);
        }));
    });
    // It only fails if more is taken already.
    let _taken = HEAP.set_limit(HEAP.allocated() + HEAP_BYTES_MAX);
    run();
    let _free = HEAP.set_limit(usize::MAX);
}

/// The first byte chooses among `count`, from `a` on; the rest is what is looked at.
pub fn choice(input: &[u8], count: usize) -> Option<(usize, &[u8])> {
    let (first, rest) = input.split_first()?;
    Some((usize::from(first.wrapping_sub(b'a')) % count, rest))
}

/// A packed body as the format says: version 1, the content, CRC-32C of both.
pub fn sealed(content: &[u8]) -> Bytes {
    let mut body = vec![1];
    body.extend_from_slice(content);
    let checksum = crc32c::crc32c(&body);
    body.extend_from_slice(&checksum.to_le_bytes());
    body.into()
}

/// Whether a packed body is whole, by the same words.
fn is_whole(body: &[u8]) -> bool {
    let Some((content, checksum)) = body.split_last_chunk::<4>() else { return false };
    content.first() == Some(&1) && crc32c::crc32c(content).to_le_bytes() == *checksum
}

/// What holds of a packed row: as [`check`], and no bit of it may be another.
pub fn check_packed(row: &Row, content: &[u8]) {
    let bare = Row { body: Bytes::copy_from_slice(content), ..row.clone() };
    assert_eq!(verify(&bare).is_ok(), is_whole(content), "whole or not");
    let whole = Row { body: sealed(content), ..row.clone() };
    assert_eq!(verify(&whole), Ok(()));
    let mut body = whole.body.to_vec();
    let bit = crc32c::crc32c(content) as usize % (8 * body.len());
    body[bit / 8] ^= 1 << (bit % 8);
    let damaged = Row { body: body.into(), ..row.clone() };
    assert!(verify(&damaged).is_err(), "bit {bit} is not noticed");
    assert!(reread(&damaged).is_err(), "bit {bit} is read");
    if let Some(again) = check(&whole) {
        let bytes: usize = again.iter().map(|row| row.body.len()).sum();
        let seals = 16 * again.len();
        assert!(bytes <= whole.body.len() + seals, "{bytes} bytes of {}", whole.body.len());
    }
}

/// A row that can be read says the same once it is packed and read again, and from then on has the same
/// bytes. Returns what it was packed into.
pub fn check(row: &Row) -> Option<Vec<Row>> {
    let Reread { message, again } = reread(row).ok()?;
    let mut messages = Vec::new();
    for row in &again {
        let read = reread(row).expect("what was packed can be read");
        assert_eq!(read.again, std::slice::from_ref(row), "packed twice, other bytes");
        messages.push(read.message);
    }
    // What was one row may be several: their lists are one list.
    let joined = messages.join(", ").replace("], [", ", ");
    if !again.is_empty() {
        assert_eq!(joined, message.replace("], [", ", "), "read again, it says something else");
    }
    Some(again)
}
