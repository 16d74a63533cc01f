//! Dead letters are kept for `dlq_retention_ms` of their topic and deleted in bounded steps.

use driftq_core::command::NackKind;
use driftq_core::limits::DEAD_DROPPED_MAX;
use driftq_core::{SettingsPatch, Timestamp};
use expect_test::expect;

use crate::held::{Held, join, nack, produce, topic};
use crate::transcript::check;

#[test]
fn dead_letters_are_deleted_after_dlq_retention_ms() {
    check(expect![[r#"
        100s topic orders 2 dlq_retention=80s => created
        100s produce orders m0 p=0 + produce orders m1 p=1 + produce orders m2 p=0
            stored 0:0
            stored 1:0
            stored 0:1
        100s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 3700s
            a gets orders/biller 0:1.1 "m2" spent 1 until 3700s
            a gets orders/biller 1:0.1 "m1" spent 1 until 3700s
        110s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        115s bury orders/biller 1:0.1
            ok
            dead letter 1:0 rejected after 1 of biller, "nack"
            orders/biller 1:0 dead
        150s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        189s dead orders
            0:1 rejected of biller at 150s "nack"; 1:0 rejected of biller at 115s "nack"; 0:0 rejected of biller at 110s "nack" (scanned 3, the end)
        191s dead orders
            dead letter 0:0 is gone
            0:1 rejected of biller at 150s "nack"; 1:0 rejected of biller at 115s "nack" (scanned 2, the end)
        201s dead orders
            dead letter 1:0 is gone
            0:1 rejected of biller at 150s "nack" (scanned 1, the end)
        201s view orders
            orders 0..2 (4 bytes), 0..1 (2 bytes), dead 1, groups ["biller"], changed dlq_retention_ms
        201s view dlq.orders
            dlq.orders (dead letters) 1..2 (2 bytes), 1..1 (0 bytes), dead 0, groups []
        300s dead orders
            dead letter 0:1 is gone
            none (scanned 0, the end)
        301s rows dead page => dead 0, page 2
    "#]]);
}

#[test]
fn setting_dlq_retention_ms_deletes_old_dead_letters_at_once() {
    check(expect![[r#"
        100s topic orders 1 => created
        100s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        100s join a orders/biller lease=12h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 43300s
            a gets orders/biller 0:1.1 "m1" spent 1 until 43300s
        110s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3000s crash
        4000s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        4001s dead orders
            0:1 rejected of biller at 4000s "nack"; 0:0 rejected of biller at 110s "nack" (scanned 2, the end)
        4002s patch orders dlq_retention=80s
            orders 0..2 (4 bytes), dead 2, groups ["biller"], changed dlq_retention_ms
            dead letter 0:0 is gone
        4002s dead orders => 0:1 rejected of biller at 4000s "nack" (scanned 1, the end)
        4010s patch orders reset=dlq_retention_ms
            orders 0..2 (4 bytes), dead 1, groups ["biller"]
        9000s dead orders
            trim 0:0..2
            0:1 rejected of biller at 4000s "nack" (scanned 1, the end)
        9001s patch orders dlq_retention=1h
            orders 2..2 (0 bytes), dead 1, groups ["biller"], changed dlq_retention_ms
            dead letter 0:1 is gone
        9001s dead orders => none (scanned 0, the end)
    "#]]);
}

#[test]
fn recovery_deletes_expired_dead_letters_and_redriven_ones() {
    check(expect![[r#"
        100s topic orders 1 dlq_retention=80s => created
        100s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        100s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 130s
            a gets orders/biller 0:1.1 "m1" spent 1 until 130s
        110s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        111s redrive orders 0:0
            redriven as 0:2
            a gets orders/biller 0:2.1 "m0" spent 1 until 141s redriven 1 times from 0:0
        112s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        113s view orders
            orders 0..3 (6 bytes), dead 1, groups ["biller"], changed dlq_retention_ms
        120s crash until 200s
            dead letter 0:0 is gone
            dead letter 0:1 is gone
        201s dead orders state=all => none (scanned 0, the end)
        201s view orders
            orders 0..3 (6 bytes), dead 0, groups ["biller"], changed dlq_retention_ms
        201s redrive orders 0:0 => refused: no such message
    "#]]);
}

#[test]
fn a_reader_of_dead_letters_skips_expired_ones() {
    check(expect![[r#"
        100s topic orders 1 dlq_retention=80s => created
        100s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        100s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 3700s
            a gets orders/biller 0:1.1 "m1" spent 1 until 3700s
            a gets orders/biller 0:2.1 "m2" spent 1 until 3700s
        110s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        110s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        150s bury orders/biller 0:2.1
            ok
            dead letter 0:2 rejected after 1 of biller, "nack"
            orders/biller 0:2 dead
        151s join u dlq.orders/undertaker credit=1 lease=1h
            joined
            u gets dlq.orders/undertaker 0:0.1 "m0" spent 1 until 3751s after "nack"
        151s group dlq.orders/late => created
        160s purge orders 0:1
            purged 1
            dead letter 0:1 is gone
        200s view dlq.orders/undertaker
            dlq.orders/undertaker 0:0 purged
            dead letter 0:0 is gone
            u gets dlq.orders/undertaker 0:2.1 "m2" spent 1 until 3790s after "nack"
            next 3 of 3, committed 1, backlog 1, leased 1, waiting 0, consumers_full
        200s view dlq.orders/late
            next 1 of 3, committed 0, backlog 2, leased 0, waiting 0, no_consumers
        201s join v dlq.orders/late
            joined
            v gets dlq.orders/late 0:2.1 "m2" spent 1 until 231s after "nack"
    "#]]);
}

#[test]
fn many_dead_letters_are_deleted_in_bounded_steps() {
    let mut held = Held::new();
    let patch = SettingsPatch { dlq_retention_ms: Some(Some(60_000)), ..Default::default() };
    held.ask(topic(1, patch)).expect("a topic");
    held.ask(join(1, "biller", 9, 43_200_000)).expect("joined");
    let count = DEAD_DROPPED_MAX * 2 + 5;
    for _ in 0..count {
        held.ask(produce("m")).expect("stored");
        let (_, delivery) = held.deliveries.remove(0);
        held.ask(nack(&delivery.token, NackKind::Final)).expect("dead");
    }
    held.now = Timestamp(120_000);
    let mut steps = Vec::new();
    for _ in 0..10 {
        held.turn();
        while !held.reads.is_empty() {
            held.finish_read();
        }
        held.turn();
        while let Some(commit) = held.commits.front() {
            let gone = commit.batch.changes.iter();
            let is_gone = |change: &&driftq_core::change::Change| {
                matches!(change, driftq_core::change::Change::DeadGone { .. })
            };
            steps.extend(Some(gone.filter(is_gone).count()).filter(|count| *count > 0));
            held.finish_commit();
        }
    }
    assert_eq!(steps, [DEAD_DROPPED_MAX, DEAD_DROPPED_MAX, 5]);
}
