//! Golden bytes of rows that only the shard encodes: a stored idempotency key and a tombstone. A
//! change here changes the format on disk.

use driftq_core::command::NackKind;
use driftq_core::row::{Columns, Key, RecordKind, Row};
use driftq_core::{Command, PipelineConfig, SettingsPatch, Timestamp};
use expect_test::{Expect, expect};

use crate::held::{Held, ack, join, keyed, nack, produce, topic};

/// Formats bytes as hex, 32 per line.
fn hex(body: &[u8]) -> String {
    let digits = |chunk: &[u8]| chunk.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    body.chunks(32).map(|chunk| digits(chunk) + "\n").collect()
}

/// The only stored record of a kind.
fn record(held: &Held, kind: RecordKind) -> Row {
    let mut rows = held.engine.records(held.ownership.shard);
    rows.retain(|row| matches!(row.key, Key::Record { kind: of, .. } if of == kind));
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn check(row: &Row, golden: &Expect) {
    let Columns::Record { expires, bucket } = row.columns else { panic!("{row:?}") };
    let Key::Record { hash, .. } = row.key else { panic!("{row:?}") };
    let columns = format!("{}expires {expires} bucket {:x}\n", hex(&hash), bucket);
    golden.assert_eq(&(columns + &hex(&row.body)));
}

/// Changes each byte of the record in turn. The next read must report every change.
fn check_damage(held: &Held, ask: &Command, length: usize) {
    for at in 0..length {
        let engine = held.engine.snapshot();
        let mut held = Held::over(engine, held.now, PipelineConfig::default());
        held.arrive(ask.clone());
        held.turn();
        held.finish_read_with(|rows| {
            let row = &mut rows[0][0];
            let mut body = row.body.to_vec();
            body[at] ^= 0x20;
            row.body = body.into();
        });
        held.turn();
        assert!(!held.damaged.is_empty(), "a change of byte {at} was not detected");
    }
}

fn begun() -> Held {
    let mut held = Held::new();
    held.turn_at(1_800_000_000_000);
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held
}

#[test]
fn golden_bytes_of_an_idempotency_key() {
    let mut held = begun();
    held.ask(keyed("pay 12", "order-77")).expect("stored");
    let row = record(&held, RecordKind::Dedupe);
    check(
        &row,
        &expect![[r#"
            75961224c87db4b7e7626046e92d8f74
            expires 1800604800.000s bucket 1a33c68d400
            02010764656661756c74086f726465722d37379b334edda5e81c47380ab12093
            bafdee00000100000000000080a8a3e3b3345153884051535153d74e5393
        "#]],
    );
    assert!(matches!(row.columns, Columns::Record { expires: Timestamp(1_800_604_800_000), .. }));
    check_damage(&held, &keyed("pay 12", "order-77"), row.body.len());
    assert!(held.ask(keyed("pay 12", "order-77")).is_ok());
    assert!(held.ask(keyed("pay 13", "order-77")).is_err());
}

#[test]
fn golden_bytes_of_a_tombstone() {
    let mut held = begun();
    held.ask(produce("hello")).expect("stored");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    let (_, delivery) = held.deliveries.remove(0);
    held.ask(nack(&delivery.token, NackKind::Final)).expect("dead-lettered");
    let row = record(&held, RecordKind::Tombstone);
    check(
        &row,
        &expect![[r#"
            0617b9713f90d80f5e34b74c2aa05af0
            expires 1800604800.000s bucket 1a33c68d400
            01020300000101010680a8a3e3b334c85db3ba
        "#]],
    );
    check_damage(&held, &ack(&delivery.token), row.body.len());
    assert_eq!(crate::transcript::reply(&held.ask(ack(&delivery.token))), "stale: dead");
}

#[test]
fn golden_bytes_of_an_ack_by_a_later_attempt() {
    let mut held = begun();
    held.ask(produce("hello")).expect("stored");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    let (_, first) = held.deliveries.remove(0);
    held.ask(nack(&first.token, NackKind::Release)).expect("released");
    let (_, second) = held.deliveries.remove(0);
    held.ask(ack(&second.token)).expect("acked");
    check(
        &record(&held, RecordKind::Tombstone),
        &expect![[r#"
            0617b9713f90d80f5e34b74c2aa05af0
            expires 1800604800.000s bucket 1a33c68d400
            0102030000020080a8a3e3b3346c7b95b4
        "#]],
    );
}
