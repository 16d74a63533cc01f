//! Pages of messages: arbitrary content with a valid checksum and the number of messages given by
//! the key.
#![no_main]

use driftq_core::row::{Columns, Key, Row};
use driftq_core::{Lane, NUMBER_MAX, Timestamp, TopicId};
use driftq_fuzz::{bounded, check_packed, sealed};
use libfuzzer_sys::fuzz_target;

const BASE: u64 = 128;

fuzz_target!(|content: &[u8]| bounded(|| {
    let begin = postcard::take_from_bytes::<(u64, u64)>(content);
    let Ok(((bytes_before, count), _)) = begin else { return };
    // No row has a greater number.
    if bytes_before > NUMBER_MAX / 2 || count > NUMBER_MAX - BASE {
        return;
    }
    let key = |last| Key::Page { topic: TopicId(300), lane: Lane(4), last };
    let columns = Columns::Page { base: BASE, bytes: 0, at: Timestamp(1_800_000_000_002) };
    check_packed(&key(BASE + count - 1), &columns, content);
    for version in [1, 2] {
        let body = sealed(version, content);
        let other = Row { key: key(BASE + count), columns: columns.clone(), body };
        assert!(driftq_core::fuzzing::reread(&other).is_err(), "the count differs from the key");
    }
}));
