//! Every administrative act that changes something is recorded, in the commit that performs it.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn every_act_is_recorded_with_its_counts() {
    check(expect![[r#"
        0s act topic orders 2 lease=60s => created
        1s act group orders/biller => created
        1s act patch orders lease=30s
            orders 0..0 (0 bytes), 0..0 (0 bytes), dead 0, groups ["biller"], changed lease_ms
        2s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        3s join a orders/biller credit=1
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 33s
        4s leave a => ok
        5s act pause orders/biller until=1h => ok
        5s act seek orders/biller latest
            moved [(0, 1, 3), (1, 0, 0)] redelivers 0 skips 2 dropped 1
            sweep blocks 3 0:0..1
            sweep cursor 3 0
            sweep blocks 3 1:0..0
            sweep cursor 3 1
        6s act resume orders/biller => ok
        7s act delete orders/biller
            deleted with backlog 0, open 0
            sweep blocks 6 1:0..0
            sweep cursor 6 1
            sweep blocks 5 0:3..3
            sweep cursor 5 0
        8s act delete orders
            deleted 3 messages, 0 dead letters
            sweep pages topic 1 0:0..3
            sweep lane topic 1 0
            sweep pages topic 1 1:0..0
            sweep lane topic 1 1
            sweep dead letters topic 1 0..4096
            sweep the last pointers topic 1
        9s audit 1..9 of=default/acts
            #1 create_topic orders act-1 ops test r-1 {"partitions":2} {"lease_ms":"60000"} 0eb07536; #2 create_group orders biller act-1 ops test r-1 {"start":"earliest"} 9f04d052; #3 patch_topic orders act-1 ops test r-1 {"lease_ms":"30000"} 5511e3e1; #4 pause_group orders biller act-1 ops test r-1 {"until_ms":"3600000"} b5a2d046; #5 seek_group orders biller act-1 ops test r-1 {"dropped_open":1,"redelivers":0,"skips":2} {"to":"latest"} 92a67095; #6 resume_group orders biller act-1 ops test r-1 4b243863; #7 delete_group orders biller act-1 ops test r-1 {"backlog":0,"open":0} ac05b13e; #8 delete_topic orders act-1 ops test r-1 {"dead_letters":0,"messages":3} c66e1097 (next 9)
        9s audit 1..9 => none (the end)
        10s crash
        10s chain of=default/acts => 8 records, tip c66e1097
    "#]]);
}

#[test]
fn acts_that_change_nothing_are_not_recorded() {
    check(expect![[r#"
        0s act topic orders 1 => created
        0s act topic orders 1 => exists
        1s act group orders/biller => created
        1s act group orders/biller => exists
        1s act patch orders => orders 0..0 (0 bytes), dead 0, groups ["biller"]
        2s act resume orders/biller => ok
        2s act seek orders/biller latest dry => moved [(0, 0, 0)] redelivers 0 skips 0 dropped 0
        3s act delete orders/none => refused: no such group
        9s audit 1..9 of=default/acts
            #1 create_topic orders act-1 ops test r-1 {"partitions":1} f97e9712; #2 create_group orders biller act-1 ops test r-1 {"start":"earliest"} 4d309a32 (next 3)
    "#]]);
}

#[test]
fn dead_letters_and_effects_are_recorded_too() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s group orders/biller => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        2s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
            a gets orders/biller 0:1.1 "m1" spent 1 until 32s
        3s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        4s dead orders
            0:1 rejected of biller at 3s "nack"; 0:0 rejected of biller at 3s "nack" (scanned 2, the end)
        5s act redrive orders 0:0
            redriven as 0:2
            a gets orders/biller 0:2.1 "m0" spent 1 until 35s redriven 1 times from 0:0
        5s act redrive orders 0:0 => redriven as 0:2 before
        6s act purge orders 0:1
            purged 1
            dead letter 0:1 is gone
        6s act purge orders 0:1 => purged 0
        7s begin op/charge k on=park owner=w1 => EXECUTE: op/charge k.1 IN_PROGRESS until 37s
        40s act resolve op/charge k.1 as=succeeded
            orders/biller 0:2 expired, due 35.922s
            a gets orders/biller 0:2.2 "m0" spent 2 until 65.922s after "ack_timeout" redriven 1 times from 0:0
            op/charge k.1 SUCCEEDED, kept until 604840s; Succeeded by ops: looked
        50s audit 1..9 of=default/acts
            #1 redrive orders act-1 ops test r-1 {"id":"m_aaaakaaa","new":"m_aaaacaac"} 684283d2; #2 purge orders act-1 ops test r-1 {"dead_letters":1} {"ids":"m_aaaakaab"} 70ac6ebd; #3 resolve_effect act-1 ops test r-1 {"as":"succeeded","fence":"1","key":"k","scope":"op/charge","tenant":"default"} 17eb39a1 (next 4)
        50s audit 1..9
            #1 begin op/charge k.1 by w1 05f4f5cc; #2 resolve op/charge k.1 SUCCEEDED by ops f493a64b (next 3)
    "#]]);
}

#[test]
fn nothing_is_recorded_that_an_older_node_cannot_read() {
    check(expect![[r#"
        0s format 1
        0s act topic orders 1 => created
        1s chain of=default/acts => 0 records, tip d1df529e
        1s format 2
        2s act delete orders
            deleted 0 messages, 0 dead letters
            sweep pages topic 1 0:0..0
            sweep lane topic 1 0
            sweep dead letters topic 1 0..4096
            sweep the last pointers topic 1
        3s chain of=default/acts => 1 records, tip b0a7818a
    "#]]);
}
