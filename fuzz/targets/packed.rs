//! Machine-readable rows: heads, garbage, checkpoints, outbox, histories, audit chains, records.
#![no_main]

use driftq_core::row::{Columns, Key, MarkKind, RecordKind};
use driftq_core::{BatchNo, Epoch, Generation, Lane, ShardId, Timestamp, TopicId};
use driftq_fuzz::{bounded, check_packed, choice};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bounded(|| {
    let head = Columns::Head { epoch: Epoch(2), now: Timestamp(3), clean: BatchNo(4) };
    let record = Columns::Record { expires: Timestamp(5), bucket: 6 };
    let (topic, hash) = (TopicId(300), [8; 16]);
    let kinds = [
        (Key::Head { batch: BatchNo(7) }, head),
        (Key::Lane { topic, lane: Lane(4) }, Columns::None),
        (Key::Cursor { generation: Generation(41), lane: Lane(4) }, Columns::None),
        (Key::Mark { kind: MarkKind::Expiry, id: 66 }, Columns::None),
        (Key::Garbage { id: 300 }, Columns::None),
        (Key::Outbox { target: ShardId(2), seq: 9 }, Columns::None),
        (Key::History { topic, lane: Lane(4), block: 3, batch: BatchNo(7) }, Columns::None),
        (Key::Audit { namespace: hash, last: 43 }, Columns::None),
        (Key::Record { kind: RecordKind::Dedupe, hash }, record.clone()),
        (Key::Record { kind: RecordKind::Pin, hash }, record.clone()),
        (Key::Record { kind: RecordKind::Tombstone, hash }, record.clone()),
        (Key::Record { kind: RecordKind::Commit, hash }, record.clone()),
        (Key::Record { kind: RecordKind::Routed, hash }, record),
    ];
    let Some((chosen, content)) = choice(input, kinds.len()) else { return };
    let (key, columns) = kinds[chosen].clone();
    check_packed(&key, &columns, content);
}));
