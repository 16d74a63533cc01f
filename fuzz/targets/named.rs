//! Human-readable rows: topics, groups, dead letters, effects and pointers as JSON, owners and
//! notes as text.
#![no_main]

use bytes::Bytes;
use driftq_core::row::{Columns, Key, RecordKind, Row};
use driftq_core::{Generation, GroupId, Lane, OwnerId, Timestamp, TopicId, verify};
use driftq_fuzz::{bounded, check, choice};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bounded(|| {
    let name = || "orders".into();
    let topic = Columns::Topic { namespace: "default".into(), name: name(), kind: "topic".into() };
    let dead = Columns::Dead {
        lane: Lane(4),
        offset: 2,
        group: "biller".into(),
        reason: "final".into(),
        at: Timestamp(5),
        state: "dead".into(),
    };
    let effect = Columns::Record { expires: Timestamp(5), bucket: 6 };
    let pointer =
        Key::Pointer { topic: TopicId(300), dataset: [8; 16], partition_key: "p0".into() };
    let kinds = [
        (Key::Topic { topic: TopicId(300) }, topic),
        (Key::Group { group: GroupId(40) }, Columns::Group { topic: TopicId(300), name: name() }),
        (Key::Dead { topic: TopicId(301), seq: 9 }, dead),
        (Key::Owner { owner: OwnerId(17) }, Columns::None),
        (Key::Note { generation: Generation(41), lane: Lane(4), offset: 880 }, Columns::None),
        (Key::Record { kind: RecordKind::Effect, hash: [8; 16] }, effect),
        (pointer, Columns::None),
    ];
    let Some((chosen, content)) = choice(input, kinds.len()) else { return };
    let (key, columns) = kinds[chosen].clone();
    let row = Row { key, columns, body: Bytes::copy_from_slice(content) };
    assert_eq!(verify(&row).is_ok(), std::str::from_utf8(content).is_ok(), "text or not");
    check(&row);
    if row.columns != Columns::None {
        let bare = Row { columns: Columns::None, ..row };
        assert!(driftq_core::fuzzing::reread(&bare).is_err(), "a row without columns is accepted");
    }
}));
