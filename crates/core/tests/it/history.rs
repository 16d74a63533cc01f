//! The history of messages is kept if their topic asks for it, until they are trimmed.

use driftq_core::ShardConfig;
use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn the_history_of_a_message_covers_produce_to_settle() {
    check(expect![[r#"
        0s topic orders 1 history retry=3,1s,1s => created
        0s produce orders a => stored 0:0
        0s produce orders b => stored 0:1
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s extend orders/biller 0:0.1 for=20s => extended until 11s
        2s nack orders/biller 0:0.1 reason="card declined"
            ok
            orders/biller 0:0 nacked, due 2.342s
            a gets orders/biller 0:1.1 "b" spent 1 until 12s
        2s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        3s wait => a gets orders/biller 0:0.2 "a" spent 2 until 12.342s after "card declined"
        4s release orders/biller 0:0.2
            ok
            orders/biller 0:0 returned, due 4s
            a gets orders/biller 0:0.3 "a" spent 2 until 14s after "card declined"
        5s crash
        5s join b orders/biller lease=10s credit=1 owner=w2 => joined
        5s wait
        40s wait
            orders/biller 0:0 expired, due 15.463s
            b gets orders/biller 0:0.4 "a" spent 3 until 25.463s after "ack_timeout"
            dead letter 0:0 exhausted after 3 of biller, "ack_timeout"
            orders/biller 0:0 dead
        41s explain orders 0:0
            orders 0:0 a; biller dead: a dead letter for 15.5 s (exhausted: ack_timeout) [dead letter 0:0]; history: 0s biller delivered 1 to w1; 1s biller extended 1; 2s biller nacked 1 "card declined"; 2.342s biller delivered 2 to w1; 4s biller returned 2; 4s biller delivered 3 to w1; 15s biller expired 3; 15.463s biller delivered 4 to w2; 25.463s biller dead 4
        60s wait
        61s explain orders 0:0
            orders 0:0 a; biller dead: a dead letter for 35.5 s (exhausted: ack_timeout) [dead letter 0:0]; history: 0s biller delivered 1 to w1; 1s biller extended 1; 2s biller nacked 1 "card declined"; 2.342s biller delivered 2 to w1; 4s biller returned 2; 4s biller delivered 3 to w1; 15s biller expired 3; 15.463s biller delivered 4 to w2; 25.463s biller dead 4
        61s explain orders 0:1
            orders 0:1 b; biller settled: settled; history: 2s biller delivered 1 to w1; 2s biller acked 1
        61s rows history => history 10
    "#]]);
}

#[test]
fn history_is_kept_only_if_the_topic_enables_it() {
    check(expect![[r#"
        0s topic orders 1 retention=60s => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=9 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        1s explain orders 0:0 => orders 0:0 a; biller settled: settled
        2s patch orders history
            orders 0..1 (1 bytes), dead 0, groups ["biller"], changed retention_ms history
        2s produce orders b
            stored 0:1
            a gets orders/biller 0:1.1 "b" spent 1 until 12s
        3s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        3s explain orders 0:1
            orders 0:1 b; biller settled: settled; history: 2s biller delivered 1 to w1; 3s biller acked 1
        4s patch orders reset=history
            orders 0..2 (2 bytes), dead 0, groups ["biller"], changed retention_ms history
        4s produce orders c
            stored 0:2
            a gets orders/biller 0:2.1 "c" spent 1 until 14s
        5s ack orders/biller 0:2.1
            ok
            orders/biller 0:2 acked
        5s explain orders 0:1 => orders 0:1 b; biller settled: settled
        5s rows history => history 2
    "#]]);
}

#[test]
fn history_is_deleted_with_its_topic() {
    check(expect![[r#"
        0s topic orders 1 history => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=9 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        1s rows history => history 2
        2s delete orders
            deleted 1 messages, 0 dead letters
            sweep pages topic 1 0:0..1
            sweep lane topic 1 0
            a is dismissed
            sweep blocks 3 0:1..1
            sweep cursor 3 0
            sweep dead letters topic 1 0..4096
            sweep the last pointers topic 1
        3s rows history => history 0
    "#]]);
}

/// Two blocks of 128 messages. A block is deleted when its last message is trimmed, open ones
/// included.
#[test]
fn history_is_deleted_with_its_messages() {
    let mut world = World::new(ShardConfig::default());
    world.ask("0s topic orders 1 history retention=60s lease=1h");
    world.ask("0s join a orders/biller credit=200 owner=w1");
    for offset in 0..130 {
        world.ask("1s produce orders m");
        if offset != 5 {
            world.ask(&format!("1s ack orders/biller 0:{offset}.1"));
        }
    }
    let before = world.rows("history");
    world.play("240s wait");
    assert_eq!(world.rows("history"), before, "message 5 is open");
    world.ask("250s ack orders/biller 0:5.1");
    world.play("500s wait");
    assert_eq!((before, world.rows("history")), (259, 4));
}
