//! Heads, garbage, and checkpoints of lanes, cursors and marks.
#![no_main]

use driftq_core::row::{Columns, Key, MarkKind, Row};
use driftq_core::{BatchNo, Epoch, Generation, Lane, Timestamp, TopicId};
use driftq_fuzz::{bounded, check_packed, choice, sealed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bounded(|| {
    let head = Columns::Head { epoch: Epoch(2), now: Timestamp(3), clean: BatchNo(4) };
    let kinds = [
        (Key::Head { batch: BatchNo(7) }, head),
        (Key::Lane { topic: TopicId(300), lane: Lane(4) }, Columns::None),
        (Key::Cursor { generation: Generation(41), lane: Lane(4) }, Columns::None),
        (Key::Mark { kind: MarkKind::Expiry, id: 66 }, Columns::None),
        (Key::Garbage { id: 300 }, Columns::None),
    ];
    let Some((chosen, content)) = choice(input, kinds.len()) else { return };
    let (key, columns) = kinds[chosen].clone();
    check_packed(&Row { key, columns, body: sealed(content) }, content);
}));
