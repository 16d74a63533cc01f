//! Records expire at their time. Their rows are deleted some time later, never before.

use driftq_core::row::Read;
use driftq_core::{SettingsPatch, Timestamp};
use driftq_storage::Engine as _;
use driftq_storage::conformance::wait;
use expect_test::expect;

use crate::held::{Held, keyed, topic};
use crate::transcript::{World, check};

#[test]
fn idempotency_keys_are_deleted_after_they_expire() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=60s => created
        1000s produce orders m0 idem=k0 + produce orders m1 idem=k1
            stored 0:0
            stored 0:1
        1010s produce orders m2 idem=k2 => stored 0:2
        1059s rows record => record 3
        1081s rows record
            expire to 1060.001s
            expire to 1070.001s
            record 0
        1200s rows record => record 0
        1300s produce orders m0 idem=k0 => stored 0:3
        1300s rows record => record 1
    "#]]);
}

#[test]
fn tombstones_are_deleted_after_they_expire() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=60s => created
        1000s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
            a gets orders/biller 0:1.1 "m1" spent 1 until 1030s
            a gets orders/biller 0:2.1 "m2" spent 1 until 1030s
        1001s ack orders/biller 0:0.1 + bury orders/biller 0:1.1 + nack orders/biller 0:2.1 delay=1s
            ok
            ok
            ok
            orders/biller 0:0 acked
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
            orders/biller 0:2 nacked, due 1002s
        1003s ack orders/biller 0:2.2
            a gets orders/biller 0:2.2 "m2" spent 2 until 1032s after "nack"
            ok
            orders/biller 0:2 acked
        1004s rows record => record 2
        23h rows record
            trim 0:0..3
            record 2
        30h rows record
            expire to 87401.001s
            expire to 87411.001s
            record 0
        31h crash
        32h ack orders/biller 0:2.2 => stale: gone
        32h ack orders/biller 0:1.1 => stale: gone
        32h ack orders/biller 0:0.1 => stale: gone
    "#]]);
}

#[test]
fn expiry_continues_after_a_crash() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=60s => created
        1000s produce orders m0 idem=k0 => stored 0:0
        1001s crash until 2000s
        2011s rows record
            expire to 2010.001s
            record 0
        2012s produce orders m0 idem=k0 => stored 0:1
    "#]]);
}

#[test]
fn a_reused_key_is_not_deleted_with_the_bucket_of_its_first_use() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=60s => created
        1000s produce orders m0 idem=k0 => stored 0:0
        1060s produce orders m0 idem=k0
            expire to 1060.001s
            stored 0:1
        1110s rows record => record 1
        1111s produce orders m0 idem=k0 => stored 0:1 before
        1200s rows record
            expire to 1120.001s
            record 0
    "#]]);
}

#[test]
fn records_with_different_ttls_are_deleted_each_after_its_own() {
    let mut world = World::new(Default::default());
    world.play("1000000s topic short 1 dedupe=60s");
    world.play("1000000s topic middle 1 dedupe=1h");
    world.play("1000000s topic long 1 dedupe=7d");
    for topic in ["short", "middle", "long"] {
        world.play(&format!("1000000s produce {topic} m idem=k"));
    }
    let left = |world: &mut World, at: u64| {
        world.play(&format!("{at}s wait"));
        world.rows("record")
    };
    assert_eq!(left(&mut world, 1_000_059), 3);
    assert_eq!(left(&mut world, 1_000_070), 2, "within ten seconds if records expire often");
    assert_eq!(left(&mut world, 1_003_599), 2);
    assert_eq!(left(&mut world, 1_004_200), 1, "within ten minutes if records expire rarely");
    assert_eq!(left(&mut world, 1_604_799), 1);
    assert_eq!(left(&mut world, 1_605_400), 0);
    assert_eq!(
        world.shard().next_deadline(driftq_core::Timestamp(0)),
        None,
        "nothing is left to do"
    );
    world.check();
}

#[test]
fn a_commit_deletes_a_bounded_number_of_expired_records() {
    let mut world = World::new(Default::default());
    world.play("1000000s topic orders 1 dedupe=1h");
    for second in 0..2_500 {
        world.play(&format!("{}s produce orders m idem={second}", 1_000_000 + second));
    }
    world.play("1002500s crash until 1100000s");
    assert_eq!(world.rows("record"), 2_500);
    let shown = world.play("1100010s wait");
    let expired = shown.iter().filter(|line| line.starts_with("expire"));
    assert_eq!(
        expired.collect::<Vec<_>>(),
        ["expire to 1004599s", "expire to 1005598s", "expire to 1100010.001s",]
    );
    assert_eq!(world.rows("record"), 0);
    world.check();
}

/// A read for expired records that began before the record was stored returns after it expired.
#[test]
fn a_record_that_expires_during_a_read_for_expired_ones_is_deleted() {
    let mut held = Held::new();
    let patch = SettingsPatch {
        dedupe_ttl_ms: Some(60_000),
        effect_ttl_ms: Some(60_000),
        ..SettingsPatch::default()
    };
    held.ask(topic(1, patch)).expect("a topic");
    held.turn_at(10_000);
    held.look();
    held.arrive(keyed("m0", "k0"));
    held.turn();
    assert_eq!(held.reads.len(), 2, "the expired records and the key");
    held.reads.rotate_left(1);
    held.finish_read();
    held.turn();
    held.finish_commit();
    let stored = Read::Ending { from: 0, rows: 9 };
    let count = |held: &Held| {
        let rows = wait(held.engine.read(held.ownership, vec![stored.clone()]));
        rows.expect("memory does not fail")[0].len()
    };
    assert_eq!(count(&held), 1);
    held.now = Timestamp(200_000);
    held.settle();
    assert_eq!(count(&held), 0);
    assert_eq!(held.pipeline.next_deadline(), None, "nothing is left to do");
}

#[test]
fn records_that_expire_in_the_same_millisecond_are_deleted_together() {
    let mut world = World::new(Default::default());
    world.play("1000000s topic orders 1 dedupe=60s");
    for key in 0..1_200 {
        world.play(&format!("1000000s produce orders m idem={key}"));
    }
    let shown = world.play("1000070s wait");
    assert_eq!(shown.iter().filter(|line| line.starts_with("expire")).count(), 1, "{shown:?}");
    assert_eq!(world.rows("record"), 0);
    world.check();
}
