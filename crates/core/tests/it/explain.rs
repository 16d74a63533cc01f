//! An explanation states in one sentence where a message is, why, and what happens next.

use driftq_core::command::Explain;
use driftq_core::{Command, Lane, MessageId, ShardId, TopicId};
use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn a_message_is_explained_from_produce_to_ack() {
    check(expect![[r#"
        1s topic orders 1 retry=3,4s,8s => created
        1s produce orders m0 => stored 0:0
        1s produce orders m1 => stored 0:1
        1s explain orders 0:0 => orders 0:0 m0; none
        2s group orders/biller => created
        2s explain orders 0:1
            orders 0:1 m1; biller ready: not delivered yet, with 1 ahead of it; nothing is delivered: no consumer is connected [no_consumers]
        3s join a orders/biller credit=1
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 33s
        4s explain orders 0:0
            orders 0:0 m0; biller leased: attempt 1 of 3 is leased to a for 29.0 s more
        4s explain orders 0:1
            orders 0:1 m1; biller ready: not delivered yet, and next in line; nothing is delivered: every consumer is busy: no stream has room, and no receive waits [consumers_full]
        5s nack orders/biller 0:0.1 reason=timeout
            ok
            orders/biller 0:0 nacked, due 8.862s
            a gets orders/biller 0:1.1 "m1" spent 1 until 35s
        6s explain orders 0:0
            orders 0:0 m0; biller waiting: attempt 1 failed (timeout); attempt 2 of 3 is due in 2.8 s [consumers_full]
        7s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        9s explain orders 0:0
            a gets orders/biller 0:0.2 "m0" spent 2 until 38.862s after "timeout"
            orders 0:0 m0; biller leased: attempt 2 of 3 is leased to a for 29.8 s more
        10s release orders/biller 0:0.2 delay=2s
            ok
            orders/biller 0:0 returned, due 12s
        11s explain orders 0:0
            orders 0:0 m0; biller waiting: it was returned to the queue; attempt 2 of 3 is due in 1.0 s
        12s explain orders 0:0
            a gets orders/biller 0:0.3 "m0" spent 2 until 42s after "timeout"
            orders 0:0 m0; biller leased: attempt 2 of 3 is leased to a for 30.0 s more
        50s explain orders 0:0
            orders/biller 0:0 expired, due 43.351s
            a gets orders/biller 0:0.4 "m0" spent 3 until 73.351s after "ack_timeout"
            orders 0:0 m0; biller leased: attempt 3 of 3 is leased to a for 23.3 s more
        60s explain orders 0:0
            orders 0:0 m0; biller leased: attempt 3 of 3 is leased to a for 13.3 s more
        61s explain orders 0:1 => orders 0:1 m1; biller settled: settled
        62s explain orders 0:2 => refused: no such message
    "#]]);
}

#[test]
fn a_due_retry_explains_why_it_is_not_delivered() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller credit=2
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
        2s nack orders/biller 0:0.1 reason=boom delay=2s + nack orders/biller 0:1.1 delay=1h
            ok
            ok
            orders/biller 0:0 nacked, due 4s
            orders/biller 0:1 nacked, due 3602s
        3s pause orders/biller => ok
        5s explain orders 0:0
            orders 0:0 m0; biller waiting: attempt 1 failed (boom); attempt 2 of 20 is due now; nothing is delivered: paused by ops 2.0 s ago (test) [paused]
        5s explain orders 0:1
            orders 0:1 m1; biller waiting: attempt 1 failed (nack); attempt 2 of 20 is due in 59 min; nothing is delivered: paused by ops 2.0 s ago (test) [paused]
        5s produce orders m2 => stored 0:2
        65s explain orders 0:2
            orders 0:2 m2; biller ready: not delivered yet, and next in line; nothing is delivered: paused by ops 1 min ago (test) [paused]
        66s pause orders/biller until=2h => ok
        67s explain orders 0:0
            orders 0:0 m0; biller waiting: attempt 1 failed (boom); attempt 2 of 20 is due now; nothing is delivered: paused by ops 1 min ago (test), for 1.9 h more [paused]
        68s resume orders/biller
            ok
            a gets orders/biller 0:2.1 "m2" spent 1 until 98s
            a gets orders/biller 0:0.2 "m0" spent 2 until 98s after "boom"
        69s leave a => ok
        70s crash
        150s explain orders 0:2
            orders/biller 0:0 expired, due 98.695s
            orders/biller 0:2 expired, due 98.922s
            orders 0:2 m2; biller waiting: attempt 1 timed out; attempt 2 of 20 is due now; nothing is delivered: no consumer is connected [no_consumers]
        151s explain orders 0:0
            orders 0:0 m0; biller waiting: attempt 2 timed out; attempt 3 of 20 is due now; nothing is delivered: no consumer is connected [no_consumers]
    "#]]);
}

#[test]
fn a_dead_letter_is_explained_until_it_is_purged() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 deadline=1h => stored 0:0
        1s join a orders/biller + group orders/mailer
            joined
            created
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s bury orders/biller 0:0.1 reason="card declined"
            ok
            dead letter 0:0 rejected after 1 of biller, "card declined"
            orders/biller 0:0 dead
        5s explain orders 0:0
            orders 0:0 m0; biller dead: a dead letter for 3.0 s (rejected: card declined) [dead letter 0:0]; mailer ready: not delivered yet, and next in line; nothing is delivered: no consumer is connected [no_consumers]
        6s redrive orders 0:0
            redriven as 0:1
            a gets orders/biller 0:1.1 "m0" spent 1 until 36s redriven 1 times from 0:0
        7s explain orders 0:0
            orders 0:0 m0; biller dead: a dead letter for 5.0 s (rejected: card declined); redriven by ops as m_aaaacaab [dead letter 0:0]; mailer ready: not delivered yet, and next in line; nothing is delivered: no consumer is connected [no_consumers]
        7s explain orders 0:1
            orders 0:1 m0; biller leased: attempt 1 of 20 is leased to a for 29.0 s more; mailer settled: not for this group: it was redriven for biller
        8s join u dlq.orders/undertaker
            joined
            u gets dlq.orders/undertaker 0:0.1 "m0" spent 1 until 38s after "card declined"
        8s explain dlq.orders 0:0
            dlq.orders 0:0 m0 [a dead letter of group biller of orders for 6.0 s (rejected after 1 attempt: card declined); redriven by ops as m_aaaacaab]; undertaker leased: attempt 1 is leased to u for 30.0 s more
        9s explain dlq.orders 0:0
            dlq.orders 0:0 m0 [a dead letter of group biller of orders for 7.0 s (rejected after 1 attempt: card declined); redriven by ops as m_aaaacaab]; undertaker leased: attempt 1 is leased to u for 29.0 s more
        9s crash
        10s purge orders 0:0
            purged 1
            dlq.orders/undertaker 0:0 purged
            dead letter 0:0 is gone
        11s explain orders 0:0
            orders 0:0 m0; biller dead: dead-lettered, then purged or expired; mailer ready: not delivered yet, and next in line; nothing is delivered: no consumer is connected [no_consumers]
        12s explain dlq.orders 0:0 => refused: no such message
    "#]]);
}

#[test]
fn trimmed_messages_and_messages_not_for_a_group_are_explained() {
    check(expect![[r#"
        1s topic orders 1 retention=1s => created
        1s join a orders/biller lease=12h => joined
        1s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 43201s
        1s produce orders m1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 43201s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        60s group orders/late
            trim 0:0..1
            created
        60s explain orders 0:0
            orders 0:0 nothing left of it; biller trimmed: settled by every group and deleted; late trimmed: settled by every group and deleted
        60s explain orders 0:1
            orders 0:1 m1; biller leased: attempt 1 of 20 is leased to a for 11.9 h more; late settled: not for this group: the group started after it
        61s produce orders m2
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 43261s
        62s group orders/latest latest => created
        62s explain orders 0:2
            orders 0:2 m2; biller leased: attempt 1 of 20 is leased to a for 11.9 h more; late ready: not delivered yet, and next in line; nothing is delivered: no consumer is connected [no_consumers]; latest settled: not for this group: the group started after it
        63s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
            trim 0:0..2
        64s explain orders 0:1
            orders 0:1 nothing left of it; biller trimmed: settled by every group and deleted; late trimmed: settled by every group and deleted; latest trimmed: settled by every group and deleted
    "#]]);
}

#[test]
fn a_passed_deadline_is_explained() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 deadline=9s retry=-1 => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s nack orders/biller 0:0.1 delay=30s
            ok
            orders/biller 0:0 nacked, due 32s
        8s explain orders 0:0
            orders 0:0 m0; biller waiting: attempt 1 failed (nack); attempt 2 is due in 24.0 s
        10s explain orders 0:0
            orders 0:0 m0; biller waiting: attempt 1 failed (nack); its deadline has passed, so it becomes a dead letter
        33s explain orders 0:0
            dead letter 0:0 deadline after 1 of biller, "nack"
            orders/biller 0:0 dead
            orders 0:0 m0; biller dead: a dead letter for 1.0 s (deadline: nack) [dead letter 0:0]
    "#]]);
}

#[test]
fn a_group_whose_workers_are_busy_is_not_reported_as_stuck() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s group orders/biller => created
        2s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        3s join a orders/biller credit=1
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 33s
        4s explain orders/biller
            every consumer is busy: no stream has room, and no receive waits; 1 not delivered yet, 1 leased to consumers; the slowest is a: 1 leased, last seen 1.0 s ago, its first lease expires in 29.0 s
        30s explain orders/biller
            every consumer is busy: no stream has room, and no receive waits; 1 not delivered yet, 1 leased to consumers; the slowest is a: 1 leased, last seen 27.0 s ago, its first lease expires in 3.0 s
        31s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:1.1 "m1" spent 1 until 61s
        32s explain orders/biller
            everything was delivered; 1 leased to consumers; the slowest is a: 1 leased, usually holds a message for 26.6 s, last seen 1.0 s ago, its first lease expires in 29.0 s
        33s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        34s explain orders/biller => everything is settled
        35s leave a => ok
        90s explain orders/biller
            everything is settled; no consumer is connected; a was seen last, 55.0 s ago
    "#]]);
}

#[test]
fn a_group_explains_why_nothing_is_delivered() {
    check(expect![[r#"
        1s topic orders 2 max_in_flight=1 => created
        1s group orders/biller => created
        1s explain orders/biller => everything is settled; no consumer is connected
        2s produce orders m0 p=0 + produce orders m1 p=0
            stored 0:0
            stored 0:1
        2s explain orders/biller
            nothing is delivered: no consumer is connected; 2 not delivered yet
        3s pause orders/biller => ok
        123s explain orders/biller
            nothing is delivered: paused by ops 2 min ago (test); 2 not delivered yet
        124s resume orders/biller => ok
        125s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 155s
        126s explain orders/biller
            nothing is delivered: max_in_flight is reached; 1 not delivered yet, 1 leased to consumers; the slowest is a: 1 leased, last seen 1.0 s ago, its first lease expires in 29.0 s
        127s produce orders m2 p=1 + explain orders/biller
            stored 1:0
            messages are being delivered; 2 not delivered yet, 1 leased to consumers
            a gets orders/biller 1:0.1 "m2" spent 1 until 157s
        128s ack orders/biller 0:0.1 + ack orders/biller 1:0.1
            ok
            ok
            orders/biller 0:0 acked
            orders/biller 1:0 acked
            a gets orders/biller 0:1.1 "m1" spent 1 until 158s
        129s nack orders/biller 0:1.1 delay=1h
            ok
            orders/biller 0:1 nacked, due 3729s
        130s explain orders/biller
            everything was delivered; 1 waiting for a retry, the first is due in 59 min
        131s leave a => ok
        131s explain orders/biller
            nothing is delivered: no consumer is connected; 1 waiting for a retry; a was seen last, 0 ms ago
        3800s join a orders/biller credit=1
            joined
            a gets orders/biller 0:1.2 "m1" spent 2 until 3830s after "nack"
        3801s explain orders/biller
            everything was delivered; 1 leased to consumers; the slowest is a: 1 leased, last seen 1.0 s ago, its first lease expires in 29.0 s
        3802s ack orders/biller 0:1.2
            ok
            orders/biller 0:1 acked
        3803s explain orders/biller => everything is settled
        3804s explain orders/absent => refused: no such group
    "#]]);
}

/// The id contains the position of a message. It must not match another message stored at that
/// position.
#[test]
fn a_message_is_explained_by_its_id_in_its_own_namespace() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 1");
    world.play("1s produce orders m0");
    let id =
        MessageId { restore: 0, shard: ShardId(0), topic: TopicId(1), lane: Lane(0), offset: 0 };
    let mut ask = |namespace: &str, id| {
        let namespace = namespace.into();
        world.command(Command::Explain(Box::new(Explain::Id { namespace, id })))
    };
    assert_eq!(ask("default", id), "orders 0:0 m0; none");
    let missing = "refused: no such message";
    assert_eq!(ask("another", id), missing);
    assert_eq!(ask("default", MessageId { restore: 1, ..id }), missing);
    assert_eq!(ask("default", MessageId { topic: TopicId(9), ..id }), missing);
    assert_eq!(ask("default", MessageId { lane: Lane(1), ..id }), missing);
    assert_eq!(ask("default", MessageId { offset: 1, ..id }), missing);
}

#[test]
fn a_group_explains_which_consumer_to_look_at() {
    check(expect![[r#"
        1s topic orders 1 retry=-1,1s,1s => created
        1s produce orders m0 + produce orders m1 + produce orders m2 + produce orders m3
            stored 0:0
            stored 0:1
            stored 0:2
            stored 0:3
        1s join a orders/biller owner=w1 credit=1
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:1.1 "m1" spent 1 until 32s
        12s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
            a gets orders/biller 0:2.1 "m2" spent 1 until 42s
        13s join b orders/biller owner=w2 credit=1
            joined
            b gets orders/biller 0:3.1 "m3" spent 1 until 43s
        20s explain orders/biller
            everything was delivered; 2 leased to consumers; the slowest is w1: 1 leased, usually holds a message for 960 ms, last seen 8.0 s ago, its first lease expires in 22.0 s
        21s leave a => ok
        21s explain orders/biller
            everything was delivered; 2 leased to consumers; the slowest is w2: 1 leased, last seen 8.0 s ago, its first lease expires in 22.0 s
        22s leave b => ok
        30s explain orders/biller
            everything was delivered; 2 leased to consumers; the slowest is w1: 1 leased, usually holds a message for 960 ms, last seen 9.0 s ago, its first lease expires in 12.0 s
        45s explain orders/biller
            orders/biller 0:2 expired, due 42.922s
            orders/biller 0:3 expired, due 43.378s
            nothing is delivered: no consumer is connected; 2 waiting for a retry; w2 was seen last, 23.0 s ago
        700s explain orders/biller
            nothing is delivered: no consumer is connected; 2 waiting for a retry
    "#]]);
}

#[test]
fn a_group_explains_that_its_backlog_fills_a_partition() {
    check(expect![[r#"
        1s topic orders 2 max_messages=1 => created
        1s group orders/biller => created
        1s produce orders m0 p=1 => stored 1:0
        2s explain orders/biller
            nothing is delivered: no consumer is connected; 1 not delivered yet; partition 1 is full: produce requests to it get 429
        2s produce orders m1 p=1 => full: messages, held by biller
        3s produce orders m1 p=0 => stored 0:0
        3s explain orders/biller
            nothing is delivered: no consumer is connected; 2 not delivered yet; 2 partitions are full: produce requests to them get 429
        4s join a orders/biller credit=5
            joined
            a gets orders/biller 0:0.1 "m1" spent 1 until 34s
            a gets orders/biller 1:0.1 "m0" spent 1 until 34s
        5s ack orders/biller 0:0.1 + ack orders/biller 1:0.1
            ok
            ok
            orders/biller 0:0 acked
            orders/biller 1:0 acked
        6s explain orders/biller => everything is settled
    "#]]);
}

#[test]
fn a_group_whose_only_retry_is_due_names_what_stops_it() {
    check(expect![[r#"
        1s topic orders 1 => created
        2s join a orders/biller credit=1 => joined
        2s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
        3s leave a => ok
        4s nack orders/biller 0:0.1 reason=boom delay=1s
            ok
            orders/biller 0:0 nacked, due 5s
        4s explain orders/biller
            nothing is delivered: no consumer is connected; 1 waiting for a retry; a was seen last, 0 ms ago
        6s explain orders/biller
            nothing is delivered: no consumer is connected; 1 waiting for a retry; a was seen last, 2.0 s ago
        30s explain orders/biller
            nothing is delivered: no consumer is connected; 1 waiting for a retry; a was seen last, 26.0 s ago
    "#]]);
}
