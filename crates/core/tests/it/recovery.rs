//! A shard is recovered from its rows alone: without reading a page, in any order of rows, and for
//! any number of batches, blocks and generations. The first row that differs from the one written
//! stops the recovery.

use driftq_core::row::{Key, Read, Row, Table, Write};
use driftq_core::{
    Damaged, Input, Output, Pipeline, PipelineConfig, Recovered, Recovery, SettingsPatch,
    ShardConfig, Ticket, Timestamp,
};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine, Memory, Ownership};

use crate::held::{Held, ack, join, produce, topic};
use crate::transcript::World;

/// The rows of a shard as an engine loads them.
fn loaded(engine: &Memory) -> (Ownership, Vec<Row>) {
    let (ownership, _) = wait(engine.claim(ShardConfig::default().shard)).expect("a claim");
    let mut rows = Vec::new();
    wait(engine.load(ownership, &mut |row| rows.push(row))).expect("a load");
    (ownership, rows)
}

/// Recovers from these rows. Also returns the reads it needed in addition.
fn recover(
    engine: &Memory,
    ownership: Ownership,
    rows: Vec<Row>,
) -> Result<(Recovered, Vec<Read>), Damaged> {
    let mut recovery = Recovery::new(ShardConfig::default());
    for row in rows {
        recovery.row(row)?;
    }
    recovery.loaded()?;
    let mut reads = Vec::new();
    while let Some(read) = recovery.next_read() {
        reads.push(read.clone());
        let answers = wait(engine.read(ownership, vec![read])).expect("a read");
        recovery.read(&answers[0])?;
    }
    Ok((recovery.finish(), reads))
}

fn begin(recovered: Recovered, ownership: Ownership, now: Timestamp) -> Pipeline {
    Pipeline::new(recovered, ownership.epoch, now, PipelineConfig::default())
}

/// A shard with many kinds of rows.
fn lived() -> World {
    let mut world = World::new(ShardConfig::default());
    for line in [
        "1000s topic orders 3 retention=0s retry=2,1s,1s",
        "1000s topic quiet 2",
        "1000s produce quiet never",
        "1000s produce orders m0 p=0 idem=k0 + produce orders m1 p=0 + produce orders m2 p=2",
        "1000s join a orders/biller lease=1h + join b orders/mailer credit=1 lease=1h",
        "1001s ack orders/biller 0:0.1 + nack orders/biller 0:1.1 delay=1h reason=x",
        "1002s bury orders/biller 2:0.1",
        "1003s pause orders/mailer + seek orders/mailer 0:0",
        "1004s group orders/gone",
        "1004s delete orders/gone",
        "1005s redrive orders 2:0",
    ] {
        world.play(line);
    }
    world
}

#[test]
fn a_recovery_reads_small_rows_and_blocks_and_no_page() {
    let world = lived();
    let (ownership, rows) = loaded(&world.engine);
    let is_small = |row: &Row| {
        !matches!(
            row.key.table(),
            Table::Page | Table::Block | Table::Note | Table::Record | Table::Dead
        )
    };
    assert!(rows.iter().all(is_small));
    let (_, reads) = recover(&world.engine, ownership, rows).expect("nothing is damaged");
    let (last, blocks) = reads.split_last().expect("something to read");
    assert!(!blocks.is_empty());
    for read in blocks {
        let Read::Range { from, to, .. } = read else { panic!("{read:?}") };
        assert_eq!((from.table(), to.table()), (Table::Block, Table::Block));
    }
    let Read::Range { from: Key::Audit { .. }, rows: 1, .. } = last else { panic!("{last:?}") };
}

#[test]
fn a_page_among_the_loaded_rows_is_rejected() {
    let world = lived();
    let (ownership, mut rows) = loaded(&world.engine);
    let key = Key::Page {
        topic: driftq_core::TopicId(1),
        lane: driftq_core::Lane(0),
        last: driftq_core::NUMBER_MAX,
    };
    let from = Key::Page { topic: driftq_core::TopicId(0), lane: driftq_core::Lane(0), last: 0 };
    let all =
        Read::Range { from, to: key, reverse: false, rows: 1, bytes: usize::MAX, bodies: true };
    rows.extend(wait(world.engine.read(ownership, vec![all])).expect("a read").remove(0));
    assert!(recover(&world.engine, ownership, rows).is_err());
}

#[test]
fn the_order_of_the_loaded_rows_does_not_matter() {
    let world = lived();
    let before = world.shard().image();
    let (ownership, rows) = loaded(&world.engine);
    for turn in 0..rows.len() {
        let mut rows = rows.clone();
        rows.rotate_left(turn);
        if turn % 2 == 1 {
            rows.reverse();
        }
        let (recovered, _) = recover(&world.engine, ownership, rows).expect("nothing is damaged");
        let pipeline = begin(recovered, ownership, Timestamp(0));
        assert_eq!(pipeline.shard().image(), before, "turned by {turn}");
        assert_eq!(pipeline.shard().violation(), None);
    }
}

#[test]
fn a_missing_or_damaged_head_is_detected() {
    let world = lived();
    let (ownership, rows) = loaded(&world.engine);
    let heads: Vec<usize> =
        (0..rows.len()).filter(|at| rows[*at].key.table() == Table::Head).collect();
    assert!(heads.len() > 3);
    for at in &heads[..heads.len() - 1] {
        let mut rows = rows.clone();
        rows.remove(*at);
        let recovered = recover(&world.engine, ownership, rows);
        assert!(recovered.is_err(), "without head {at} of {}", heads.len());
    }
    for at in heads {
        let mut rows = rows.clone();
        let mut body = rows[at].body.to_vec();
        body[1] ^= 0x40;
        rows[at].body = body.into();
        assert!(recover(&world.engine, ownership, rows).is_err(), "with head {at} damaged");
    }
}

#[test]
fn a_packed_row_with_one_wrong_byte_is_rejected() {
    let world = lived();
    let (ownership, rows) = loaded(&world.engine);
    let packed = |row: &Row| {
        matches!(row.key.table(), Table::Lane | Table::Cursor | Table::Mark | Table::Garbage)
    };
    for at in (0..rows.len()).filter(|at| packed(&rows[*at])) {
        let mut rows = rows.clone();
        let mut body = rows[at].body.to_vec();
        body[0] ^= 0x80;
        rows[at].body = body.into();
        assert!(recover(&world.engine, ownership, rows).is_err());
    }
}

#[test]
fn after_3000_batches_no_more_than_1100_heads_are_kept() {
    let mut world = World::new(ShardConfig::default());
    world.play("1s topic orders 3");
    world.play("1s topic rare 1");
    world.play("1s produce rare once");
    world.play("1s join a orders/biller credit=10");
    for batch in 0..3_000_u32 {
        world.play(&format!("2s produce orders m p={}", batch % 3));
        if batch % 500 == 0 {
            world.check();
        }
    }
    let heads = world.rows("head");
    assert!(heads <= 1_100, "{heads} heads");
    assert!(world.rows("lane") >= 4 && world.rows("cursor") >= 1, "the rest is checkpointed");
    world.check();
    world.play("3s crash");
    world.check();
    assert_eq!(world.ask("4s produce rare twice"), "stored 0:1");
}

#[test]
fn heads_stay_few_if_more_items_change_than_a_commit_checkpoints() {
    let mut held = Held::new();
    held.ask(topic(700, SettingsPatch::default())).expect("a topic");
    let everywhere = |held: &mut Held| {
        for partition in 0..700 {
            let envelope = driftq_core::Envelope {
                partition_override: Some(partition),
                ..driftq_core::Envelope::default()
            };
            held.arrive(crate::held::produce_with("m", envelope));
        }
        held.settle();
    };
    // All lanes have changed since one batch, and change again before they are checkpointed.
    everywhere(&mut held);
    for batch in 0..2_500 {
        held.ask(crate::held::view()).expect("a look");
        if batch == 500 {
            everywhere(&mut held);
        }
    }
    let heads = held.engine.count(ShardConfig::default().shard)[&Table::Head];
    assert!(heads <= 1_100, "{heads} heads");
    let before = held.pipeline.shard().image();
    held.crash();
    assert_eq!(held.pipeline.shard().image(), before);
}

#[test]
fn open_messages_in_several_blocks_are_recovered() {
    let mut world = World::new(ShardConfig::default());
    world.play("1s topic orders 2");
    let produces: Vec<String> =
        (0..1_000).map(|at| format!("produce orders m p={}", at % 2)).collect();
    world.play(&format!("1s {}", produces.join(" + ")));
    world.play("1s join a orders/biller credit=1000 lease=1h");
    let acks: Vec<String> = (0..500)
        .filter(|at| at % 7 != 0)
        .map(|at| format!("ack orders/biller 0:{at}.1 + nack orders/biller 1:{at}.1 delay=1h"))
        .collect();
    world.play(&format!("2s {}", acks.join(" + ")));
    world.check();
    world.play("3s crash");
    assert_eq!(world.shard().open_entries(), 72 + 500);
    assert_eq!(world.ask("4s ack orders/biller 0:497.1"), "ok");
    assert_eq!(world.ask("4s ack orders/biller 0:0.1"), "ok");
    world.check();
}

#[test]
fn more_blocks_than_one_read_returns_are_recovered() {
    let mut held = Held::new();
    let patch = SettingsPatch {
        max_in_flight: Some(100_000),
        max_open: Some(100_000),
        ..SettingsPatch::default()
    };
    held.ask(topic(1, patch)).expect("a topic");
    let messages = 128 * 258;
    for _ in 0..messages {
        held.arrive(produce("m"));
    }
    held.settle();
    for consumer in 1..=4 {
        held.arrive(join(consumer, "biller", 10_000, 3_600_000));
    }
    held.settle();
    assert_eq!(held.pipeline.shard().open_entries(), messages);
    assert_eq!(held.engine.count(ShardConfig::default().shard)[&Table::Block], 258);
    let before = held.pipeline.shard().image();
    let last = held.deliveries.last().expect("delivered").1.clone();
    let (ownership, rows) = loaded(&held.engine);
    let (recovered, reads) = recover(&held.engine, ownership, rows).expect("nothing is damaged");
    assert_eq!(reads.len(), 2 + 1, "256 blocks per read, and one read of the audit chains");
    let pipeline = begin(recovered, ownership, held.now);
    assert_eq!(pipeline.shard().image(), before);
    held.crash();
    held.ask(ack(&last.token)).expect("the last block is open like the first");
}

#[test]
fn a_recovery_starts_at_the_lowest_open_block() {
    let mut world = World::new(ShardConfig::default());
    world.play("1s topic orders 1");
    world.play(&format!("1s {}", vec!["produce orders m"; 600].join(" + ")));
    world.play("1s join a orders/biller credit=600 lease=1h");
    let acks: Vec<String> = (0..400).map(|at| format!("ack orders/biller 0:{at}.1")).collect();
    world.play(&format!("2s {}", acks.join(" + ")));
    let (ownership, rows) = loaded(&world.engine);
    let (_, reads) = recover(&world.engine, ownership, rows).expect("nothing is damaged");
    let [Read::Range { from: Key::Block { block, .. }, .. }, _audit] = &reads[..] else {
        panic!("{reads:?}")
    };
    assert_eq!(*block, 3);
}

#[test]
fn rows_of_an_older_generation_are_ignored_before_they_are_deleted() {
    for commits in 1..6 {
        let mut world = World::new(ShardConfig::default());
        world.play("1s topic orders 8");
        for partition in 0..8 {
            world.play(&format!("1s produce orders m p={partition}"));
        }
        world.play("1s join a orders/biller lease=1h");
        world.play("2s leave a");
        world.play_partly("3s seek orders/biller latest", commits);
        assert_eq!(world.shard().open_entries(), 0, "after {commits} commits");
        world.play("4s wait");
        assert_eq!((world.rows("block"), world.rows("garbage")), (0, 0));
        world.check();
    }
}

#[test]
fn time_does_not_go_below_the_last_stored_batch() {
    let mut held = Held::new();
    held.turn_at(100_000);
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    let (ownership, rows) = loaded(&held.engine);
    let (recovered, _) = recover(&held.engine, ownership, rows).expect("nothing is damaged");
    assert_eq!(recovered.now, Timestamp(100_000));
    // The authority clock is behind.
    let mut pipeline = begin(recovered, ownership, Timestamp(5_000));
    let mut outputs = Vec::new();
    pipeline.on(Timestamp(5_001), Input::Arrived(Ticket(1), produce("m")), &mut outputs);
    pipeline.turn(Timestamp(5_002), &mut outputs);
    let [Output::StartCommit(batch, _)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(batch.now, Timestamp(100_000));
}

#[test]
fn a_message_keeps_its_id_through_a_restore_from_a_backup() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    let Ok(driftq_core::Reply::Produced(receipt)) = held.ask(produce("m")) else {
        panic!("it is stored")
    };
    let restored = ShardConfig { restore: 1, ..ShardConfig::default() };
    let engine = held.engine.snapshot();
    let mut held = Held::of(restored, engine, held.now, PipelineConfig::default());
    held.ask(join(1, "biller", 1, 30_000)).expect("joined");
    let (_, delivery) = held.deliveries.remove(0);
    assert_eq!(delivery.id, receipt.id, "its effects are known under this name");
}

#[test]
fn a_busy_shard_recovers_from_a_crash_after_any_commit() {
    // Every commit, with the state of the shard when the commit was decided.
    let mut held = Held::new();
    let mut commits: Vec<Vec<Write>> = Vec::new();
    let mut images = Vec::new();
    let mut record = |held: &mut Held| {
        for _ in 0..100 {
            held.turn();
            while !held.reads.is_empty() {
                held.finish_read();
            }
            while !held.commits.is_empty() {
                commits.push(held.commits[0].writes.clone());
                held.finish_commit();
                images.push((held.commits.is_empty()).then(|| held.pipeline.shard().image()));
            }
        }
    };
    held.arrive(topic(2, SettingsPatch { retention_ms: Some(0), ..SettingsPatch::default() }));
    record(&mut held);
    held.arrive(join(1, "biller", 3, 10_000));
    record(&mut held);
    for second in 1..30 {
        held.now = Timestamp(second * 1_000);
        held.arrive(produce("m"));
        record(&mut held);
        if second % 2 == 0
            && let Some((_, delivery)) = held.deliveries.pop()
        {
            held.arrive(ack(&delivery.token));
            record(&mut held);
        }
    }
    let engine = Memory::new(|| Timestamp(0));
    let mut compared = 0;
    for (at, (writes, image)) in commits.into_iter().zip(images).enumerate() {
        let (ownership, rows) = loaded(&engine);
        let (recovered, _) = recover(&engine, ownership, rows).expect("nothing is damaged");
        wait(engine.commit(ownership, recovered.last.next(), writes)).expect("it is next");
        let (ownership, rows) = loaded(&engine);
        let (recovered, _) = recover(&engine, ownership, rows).expect("nothing is damaged");
        let pipeline = begin(recovered, ownership, Timestamp(0));
        assert_eq!(pipeline.shard().violation(), None, "after commit {at}");
        if let Some(image) = image {
            assert_eq!(pipeline.shard().image(), image, "after commit {at}");
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared} commits");
}
