//! Every accepted decision of the ledger is recorded in the audit chain, in the commit that accepts
//! it.

use driftq_core::command::{Begin, BeginOf, EffectQuery};
use driftq_core::effect::Scope;
use driftq_core::{Command, OnDoubt, ShardConfig};
use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn accepted_decisions_are_recorded_and_rejected_ones_are_not() {
    check(expect![[r#"
        0s chain => 0 records, tip 81033e12
        0s begin op/charge k on=probe owner=w1 request=a nonce=n
            EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        1s begin op/charge k on=probe owner=w1 request=a nonce=n
            EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        1s begin op/charge k on=probe owner=w2 request=b
            refused: this key was used for a different request; use a new key for a new request
        1s begin op/charge k on=probe owner=w2 request=a
            IN_PROGRESS: fence 1 of "w1", ask in 29000ms
        1s extend-effect op/charge k.1 => extended until 31s
        2s finish op/charge k.1 succeeded result=1
            op/charge k.1 SUCCEEDED result 1, kept until 604802s
        2s finish op/charge k.1 succeeded result=1
            as before: op/charge k.1 SUCCEEDED result 1, kept until 604802s
        3s finish op/charge k.1 failed
            refused: this fence is already finished with a different outcome
        3s begin op/charge k on=probe owner=w2 request=a
            REPLAY: op/charge k.1 SUCCEEDED result 1, kept until 604802s
        3s again op/charge none => refused: no such effect
        4s chain => 2 records, tip 9f4fe3f8
        5s audit 1..2
            #1 begin op/charge k.1 by w1 fa7b2c30; #2 finish op/charge k.1 SUCCEEDED by w1 9f4fe3f8 (the end)
        6s crash
        7s chain => 2 records, tip 9f4fe3f8
        7s audit 1..2
            #1 begin op/charge k.1 by w1 fa7b2c30; #2 finish op/charge k.1 SUCCEEDED by w1 9f4fe3f8 (the end)
    "#]]);
}

#[test]
fn doubt_failures_and_resolutions_are_recorded() {
    check(expect![[r#"
        0s begin op/charge k on=probe owner=w1 lease=10s
            EXECUTE: op/charge k.1 IN_PROGRESS until 10s
        11s begin op/charge k on=probe owner=w2 lease=10s
            probe: op/charge k.2 IN_PROGRESS until 21s; fence 1 of "w1" began 0s in doubt since 10s, lease_expired
        12s finish op/charge k.1 succeeded
            refused: fence 1 is not current: the effect is IN_PROGRESS at fence 2
        12s finish op/charge k.2 unknown
            op/charge k.2 IN_DOUBT; fence 2 of "w2" began 11s in doubt since 12s, reported
            op/charge k.2 in doubt: reported
        13s resolve op/charge k.2 as=retry by=ops
            op/charge k.2 FAILED_RETRYABLE, kept until 604813s; Retry by ops: looked
        13s resolve op/charge k.2 as=retry by=ops
            refused: the effect is FAILED_RETRYABLE; only an effect in doubt can be resolved
        14s begin op/charge k on=probe owner=w3
            RETRYABLE: op/charge k.2 FAILED_RETRYABLE, kept until 604813s; Retry by ops: looked
        14s again op/charge k owner=w3 => EXECUTE: op/charge k.3 IN_PROGRESS until 44s
        15s finish op/charge k.3 retryable => op/charge k.3 FAILED_RETRYABLE, kept until 604815s
        16s again op/charge k owner=w4 => EXECUTE: op/charge k.4 IN_PROGRESS until 46s
        17s finish op/charge k.4 failed => op/charge k.4 FAILED_FINAL, kept until 604817s
        18s audit 1..9
            #1 begin op/charge k.1 by w1 b3d7f032; #2 begin op/charge k.2 by w2 df8c59e1; #3 finish op/charge k.2 IN_DOUBT by w2 6e9206b5; #4 resolve op/charge k.2 FAILED_RETRYABLE by ops 67823179; #5 begin op/charge k.3 by w3 25a2ec35; #6 finish op/charge k.3 FAILED_RETRYABLE by w3 cf5fbbe0; #7 begin op/charge k.4 by w4 e3139aa1; #8 finish op/charge k.4 FAILED_FINAL by w4 1d9cd0c7 (next 9)
    "#]]);
}

#[test]
fn a_commit_is_recorded_as_one_decision_per_outcome() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a idem=own => stored 0:0
        0s produce orders b => stored 0:1
        0s produce orders c => stored 0:2
        0s join a orders/biller lease=60s credit=3 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 60s
            a gets orders/biller 0:1.1 "b" spent 1 until 60s
            a gets orders/biller 0:2.1 "c" spent 1 until 60s
        1s begin-under orders/biller 0:0.1 key=x on=park
            EXECUTE: effect/orders/biller x.1 IN_PROGRESS until 60s
        1s begin-under orders/biller 0:0.1 key=y on=park
            EXECUTE: effect/orders/biller y.1 IN_PROGRESS until 60s
        2s commit orders/biller 0:0.1 effects="effect/orders/biller x.1 succeeded" result=1
            refused: effects are not finished: y
        3s commit orders/biller 0:0.1 effects="effect/orders/biller x.1 succeeded; effect/orders/biller y.1 failed" result=1
            committed
            orders/biller 0:0 acked
        3s commit orders/biller 0:0.1 effects="effect/orders/biller x.1 succeeded; effect/orders/biller y.1 failed" result=1
            committed before
        4s begin-under orders/biller 0:1.1 key=z on=retry
            EXECUTE: effect/orders/biller z.1 IN_PROGRESS until 60s
        5s commit orders/biller 0:1.1 nack effects="effect/orders/biller z.1 retryable"
            committed
            orders/biller 0:1 nacked, due 5.999s
        6s begin-under orders/biller 0:2.1 on=retry
            a gets orders/biller 0:1.2 "b" spent 2 until 65.999s after "nack"
            EXECUTE: effect/orders/biller m_aaaacaac.1 IN_PROGRESS until 60s
        7s commit orders/biller 0:2.1 result=2
            committed
            orders/biller 0:2 acked
        8s chain => 10 records, tip 9b9b5410
        8s audit 1..20
            #1 begin effect/orders/biller x.1 by w1 under m_aaaacaaa.1 3fb96926; #2 begin effect/orders/biller y.1 by w1 under m_aaaacaaa.1 c51df3e4; #3 finish effect/orders/biller x.1 SUCCEEDED by w1 under m_aaaacaaa.1 6c5be6b7; #4 finish effect/orders/biller y.1 FAILED_FINAL by w1 under m_aaaacaaa.1 93641736; #5 begin effect/orders/biller own.1 by w1 under m_aaaacaaa.1 0effda40; #6 finish effect/orders/biller own.1 SUCCEEDED by w1 under m_aaaacaaa.1 d84f81c6; #7 begin effect/orders/biller z.1 by w1 under m_aaaacaab.1 17df3b1b; #8 finish effect/orders/biller z.1 FAILED_RETRYABLE by w1 under m_aaaacaab.1 16deb4f0; #9 begin effect/orders/biller m_aaaacaac.1 by w1 under m_aaaacaac.1 645c8445; #10 finish effect/orders/biller m_aaaacaac.1 SUCCEEDED by w1 under m_aaaacaac.1 9b9b5410 (next 11)
        8s audit 3..5
            #3 finish effect/orders/biller x.1 SUCCEEDED by w1 under m_aaaacaaa.1 6c5be6b7; #4 finish effect/orders/biller y.1 FAILED_FINAL by w1 under m_aaaacaaa.1 93641736; #5 begin effect/orders/biller own.1 by w1 under m_aaaacaaa.1 0effda40 (the end)
    "#]]);
}

#[test]
fn the_result_after_an_attempt_in_doubt_belongs_to_the_next_owner() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders a idem=own => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 on=retry
            EXECUTE: effect/orders/biller own.1 IN_PROGRESS until 10s
        2s nack orders/biller 0:0.1
            ok
            effect/orders/biller own.1 in doubt: abandoned
            orders/biller 0:0 nacked, due 2.342s
        2s leave a => ok
        4s join b orders/biller lease=10s credit=1 owner=w2
            joined
            b gets orders/biller 0:0.2 "a" spent 2 until 14s after "nack"
        5s commit orders/biller 0:0.2 result=2
            committed
            orders/biller 0:0 acked
        6s audit 1..9
            #1 begin effect/orders/biller own.1 by w1 under m_aaaacaaa.1 7ae66515; #2 begin effect/orders/biller own.2 by w2 under m_aaaacaaa.2 01de832e; #3 finish effect/orders/biller own.2 SUCCEEDED by w2 under m_aaaacaaa.2 a1962e8c (next 4)
        6s effect effect/orders/biller own
            effect/orders/biller own.2 SUCCEEDED result 2, kept until 604805s; fence 1 of "w1" began 1s in doubt since 2s, abandoned
    "#]]);
}

#[test]
fn decisions_of_one_batch_are_chained_in_order() {
    check(expect![[r#"
        0s begin op/a k on=park + begin op/b k on=park + begin op/a k on=park + chain + audit 1..9
            0 records, tip 81033e12
            none (the end)
            EXECUTE: op/a k.1 IN_PROGRESS until 30s
            EXECUTE: op/b k.1 IN_PROGRESS until 30s
            IN_PROGRESS: fence 1 of "", ask in 30000ms
        1s chain + audit 1..9 + finish op/a k.1 failed + finish op/b k.1 failed
            2 records, tip 5ed46629
            op/b k.1 FAILED_FINAL, kept until 604801s
            op/a k.1 FAILED_FINAL, kept until 604801s
            #1 begin op/a k.1 734654b7; #2 begin op/b k.1 5ed46629 (next 3)
        2s chain => 4 records, tip 406f51b4
        2s audit 1..4
            #1 begin op/a k.1 734654b7; #2 begin op/b k.1 5ed46629; #3 finish op/b k.1 FAILED_FINAL f7c8cf9b; #4 finish op/a k.1 FAILED_FINAL 406f51b4 (the end)
        3s rows audit => audit 2
        4s crash
        5s chain => 4 records, tip 406f51b4
    "#]]);
}

/// Namespaces are isolated, and each has its own chain.
#[test]
fn each_namespace_has_its_own_chain() {
    let begin = |namespace: &str| {
        let name = EffectQuery {
            namespace: namespace.into(),
            tenant: "".into(),
            scope: Scope::Op("a".into()),
            key: "k".into(),
        };
        Command::Begin(Box::new(Begin {
            of: BeginOf::Scope { name, lease_ms: None, again: false },
            request: None,
            on_doubt: Some(OnDoubt::Park),
            ttl_ms: None,
            window_ms: None,
            owner: None,
            nonce: None,
        }))
    };
    let mut world = World::new(ShardConfig::default());
    for namespace in ["acme", "default", "zoo"] {
        world.command(begin(namespace));
        world.check();
    }
    let tips = ["acme", "default", "zoo", "none"].map(|of| world.ask(&format!("1s chain of={of}")));
    expect![[r#"
        [
            "1 records, tip 60d57768",
            "1 records, tip 734654b7",
            "1 records, tip d26a761d",
            "0 records, tip 40cfc6ac",
        ]
    "#]]
    .assert_debug_eq(&tips);
    world.play("2s crash");
    let after =
        ["acme", "default", "zoo", "none"].map(|of| world.ask(&format!("3s chain of={of}")));
    assert_eq!(after, tips);
}

/// A commit that is lost loses its records, and their numbers are reused.
#[test]
fn a_lost_commit_leaves_no_record() {
    let mut world = World::new(ShardConfig::default());
    world.play("0s begin op/a k on=park");
    let before = world.ask("0s chain");
    world.play_partly("1s finish op/a k.1 succeeded", 0);
    assert_eq!(world.ask("2s chain"), before);
    world.play("3s finish op/a k.1 failed");
    assert!(world.ask("3s audit 2..2").contains("FAILED_FINAL"));
}

/// Slices have a bounded length and are contiguous.
#[test]
fn a_long_chain_is_read_in_slices() {
    let mut world = World::new(ShardConfig::default());
    let begins: Vec<String> = (0..600).map(|key| format!("begin op/a k{key} on=park")).collect();
    world.play(&format!("0s {}", begins.join(" + ")));
    for key in 0..400 {
        world.play(&format!("1s begin op/b k{key} on=park"));
    }
    world.check();
    assert_eq!(world.rows("audit"), 3 + 400, "at most 256 records in a row");
    let (mut next, mut slices) = (1, 0);
    loop {
        let said = world.ask(&format!("2s audit {next}..1000"));
        let first = said.split(' ').next().expect("a record");
        assert_eq!(first, format!("#{next}"), "slices follow each other");
        slices += 1;
        let Some((_, on)) = said.split_once("(next ") else { break };
        next = on.trim_end_matches(')').parse().expect("a number");
    }
    assert!((2..10).contains(&slices), "{slices} slices");
}

/// Version 2 of the rows has the message and the attempt. An older node reads version 1 only.
#[test]
fn records_of_a_delivery_name_its_message_and_attempt() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a + produce orders b
            stored 0:0
            stored 0:1
        0s join a orders/biller lease=10s credit=9
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
            a gets orders/biller 0:1.1 "b" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=probe
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s format 1
        2s finish effect/orders/biller k.1 succeeded => effect/orders/biller k.1 SUCCEEDED
        3s begin-under orders/biller 0:1.1 key=l on=probe
            EXECUTE: effect/orders/biller l.1 IN_PROGRESS until 10s
        4s format 2
        5s finish effect/orders/biller l.1 succeeded => effect/orders/biller l.1 SUCCEEDED
        6s crash
        7s audit 1..4
            #1 begin effect/orders/biller k.1 by a under m_aaaacaaa.1 cf638f90; #2 finish effect/orders/biller k.1 SUCCEEDED by a d5531fcb; #3 begin effect/orders/biller l.1 by a 6dddd8d4; #4 finish effect/orders/biller l.1 SUCCEEDED by a under m_aaaacaab.1 9497c427 (the end)
    "#]]);
}
