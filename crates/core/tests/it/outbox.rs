//! Messages that commits produce for other shards are in flight, stored once at the target, or
//! returned.
//!
//! Of two shards, `receipts` is on the first and `orders` on the second.

use expect_test::expect;

use crate::transcript::check_on;

#[test]
fn a_commit_stores_messages_for_another_shard_in_the_outbox() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a + produce orders b
                stored 0:0
                stored 0:1
            0s join a orders/biller lease=10s credit=2 owner=w1
                joined
                a gets orders/biller 0:0.1 "a" spent 1 until 10s
                a gets orders/biller 0:1.1 "b" spent 1 until 10s
            1s commit orders/biller 0:0.1 produce="receipts r; receipts s; orders t"
                committed, receipts queued, receipts queued, orders 0:2
                outbox 0: 0 receipts "r"
                outbox 0: 1 receipts "s"
                orders/biller 0:0 acked
                a gets orders/biller 0:2.1 "t" spent 1 until 11s
                sends to 0: 2 from 0
            1s commit orders/biller 0:0.1 produce="receipts r; receipts s; orders t"
                committed before, receipts queued, receipts queued, orders 0:2
            2s commit orders/biller 0:1.1 produce="receipts u"
                committed, receipts queued
                outbox 0: 2 receipts "u"
                orders/biller 0:1 acked
            2s rows outbox => outbox 3
            3s wait => sends to 0: 3 from 0
            4s arrived 0 through=1
                ok
                sends to 0: 2 from 1
            4s arrived 0 through=3 => ok
            4s arrived 0 through=3 => ok
            4s rows outbox => outbox 0
            20s wait
                orders/biller 0:2 expired, due 11.922s
                a gets orders/biller 0:2.2 "t" spent 2 until 21.922s after "ack_timeout"
        "#]],
    );
}

#[test]
fn outbox_messages_are_resent_after_a_crash_and_without_a_reply() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a => stored 0:0
            0s join a orders/biller lease=10s credit=2 owner=w1
                joined
                a gets orders/biller 0:0.1 "a" spent 1 until 10s
            1s commit orders/biller 0:0.1 produce="receipts r"
                committed, receipts queued
                outbox 0: 0 receipts "r"
                orders/biller 0:0 acked
                sends to 0: 1 from 0
            2s crash => sends to 0: 1 from 0
            2s wait
            4s wait => sends to 0: 1 from 0
            5s arrived 0 through=1 => ok
            9s wait
            10s rows outbox => outbox 0
        "#]],
    );
}

#[test]
fn a_message_rejected_by_the_target_is_dead_lettered_at_the_source() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a run=r1 => stored 0:0
            0s join a orders/biller lease=10s credit=2 owner=w1
                joined
                a gets orders/biller 0:0.1 "a" spent 1 until 10s
            1s commit orders/biller 0:0.1 produce="receipts r; receipts s; receipts t"
                committed, receipts queued, receipts queued, receipts queued
                outbox 0: 0 receipts "r"
                outbox 0: 1 receipts "s"
                outbox 0: 2 receipts "t"
                orders/biller 0:0 acked
                sends to 0: 3 from 0
            2s arrived 0 through=1 refused="no such topic"
                ok
                dead letter 0:0 undeliverable after 0 of biller, "no such topic"
                sends to 0: 1 from 2
            3s rows outbox => outbox 1
            3s dead orders values
                0:0 undeliverable of biller at 2s "no such topic" s (scanned 1, the end)
            4s arrived 0 through=3
                sends to 0: 1 from 2
                ok
            4s rows outbox => outbox 0
        "#]],
    );
}

#[test]
fn a_message_sent_twice_is_stored_once() {
    check_on(
        0,
        2,
        expect![[r#"
            0s topic receipts 1 max_messages=1 => created
            1s arrive 1 from=0 messages="receipts r; receipts s" => arrived through 2
            2s arrive 1 from=0 messages="receipts r; receipts s" => arrived through 2
            3s arrive 1 from=0 messages="receipts r; receipts s; receipts t" => arrived through 3
            4s crash
            5s arrive 1 from=1 messages="receipts s; receipts t" => arrived through 3
            6s arrive 1 from=3 messages="receipts u" => arrived through 4
            7s view receipts => receipts 0..4 (4 bytes), dead 0, groups [], changed max_backlog_messages
        "#]],
    );
}

#[test]
fn a_window_ends_at_the_first_rejected_message() {
    check_on(
        0,
        2,
        expect![[r#"
            0s topic receipts 1 => created
            0s produce receipts taken idem=k => stored 0:0
            1s arrive 1 from=0 messages="receipts r; receipts other idem=k; receipts s"
                arrived through 1, then refused: this idempotency key was used for a different message: value differs; use a new key for new content
            1s arrive 1 from=0 messages="receipts r; receipts other idem=k; receipts s"
                arrived through 1, then refused: it was refused before
            2s arrive 1 from=2 messages="receipts s; receipts taken idem=k; receipts t"
                arrived through 5
            3s view receipts => receipts 0..4 (8 bytes), dead 0, groups []
        "#]],
    );
}

#[test]
fn a_deadline_that_passed_in_the_outbox_applies_at_delivery() {
    check_on(
        0,
        2,
        expect![[r#"
            0s topic receipts 1 => created
            0s join a receipts/g lease=10s => joined
            10s arrive 1 from=0 messages="receipts r deadline=5s"
                arrived through 1
                dead letter 0:0 deadline after 0 of g, ""
        "#]],
    );
}

#[test]
fn a_rejected_message_stays_rejected_after_its_topic_is_created() {
    check_on(
        0,
        2,
        expect![[r#"
            0s arrive 1 from=0 messages="receipts r; receipts s"
                arrived through 0, then refused: no such topic
            1s topic receipts 1 => created
            2s arrive 1 from=0 messages="receipts r; receipts s"
                arrived through 0, then refused: it was refused before
            3s arrive 1 from=1 messages="receipts s" => arrived through 2
            4s view receipts => receipts 0..1 (1 bytes), dead 0, groups []
        "#]],
    );
}

#[test]
fn an_undeliverable_message_is_not_redriven_to_the_source_topic() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a => stored 0:0
            0s join a orders/biller lease=10s credit=2 owner=w1
                joined
                a gets orders/biller 0:0.1 "a" spent 1 until 10s
            1s commit orders/biller 0:0.1 produce="receipts r seen=absent"
                refused: produce[0]: no such topic
            1s commit orders/biller 0:0.1 produce="receipts r"
                committed, receipts queued
                outbox 0: 0 receipts "r"
                orders/biller 0:0 acked
                sends to 0: 1 from 0
            1s commit orders/biller 0:0.1 produce="receipts r seen=absent"
                committed before, receipts queued
            2s arrived 0 through=0 refused="no such topic"
                ok
                dead letter 0:0 undeliverable after 0 of biller, "no such topic"
            3s redrive orders 0:0
                refused: it was sent to another topic, which rejected it; produce it to that topic again
        "#]],
    );
}

#[test]
fn a_commit_that_produces_an_undeliverable_message_is_rejected() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a => stored 0:0
            0s join a orders/biller lease=10s credit=1 owner=w1
                joined
                a gets orders/biller 0:0.1 "a" spent 1 until 10s
            1s commit orders/biller 0:0.1 produce="dlq.receipts r"
                refused: produce[0]: topic: must not be a dead-letter topic
            1s commit orders/biller 0:0.1 produce="receipts r retry=1001,1s,1s"
                refused: produce[0]: envelope.retry_policy: max_attempts must be between 1 and 1000, or -1
            1s commit orders/biller 0:0.1 produce="receipts r to=missing"
                refused: produce[0]: no such topic
        "#]],
    );
}

#[test]
fn an_undeliverable_message_of_a_dead_letter_joins_the_same_dlq() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a => stored 0:0
            0s join a orders/biller lease=10s credit=1 owner=w1
                joined
                a gets orders/biller 0:0.1 "a" spent 1 until 10s
            1s bury orders/biller 0:0.1
                ok
                dead letter 0:0 rejected after 1 of biller, "nack"
                orders/biller 0:0 dead
            2s join b dlq.orders/ops lease=10s credit=1 owner=w2
                joined
                b gets dlq.orders/ops 0:0.1 "a" spent 1 until 12s after "nack"
            3s commit dlq.orders/ops 0:0.1 produce="receipts r"
                committed, receipts queued
                outbox 0: 0 receipts "r"
                dlq.orders/ops 0:0 acked
                sends to 0: 1 from 0
            4s arrived 0 through=0 refused="no such topic"
                ok
                dead letter 0:1 undeliverable after 0 of ops, "no such topic"
                b gets dlq.orders/ops 0:1.1 "r" spent 0 until 14s after "no such topic"
            4s topics default
                dlq.orders (dead letters) 0..2 (2 bytes), dead 0, groups ["ops"]; orders 0..1 (1 bytes), dead 2, groups ["biller"]
        "#]],
    );
}

/// No topic has accepted its key as new, so an outcome stored under the key applies to it.
#[test]
fn an_undeliverable_message_does_not_start_a_new_effect_of_its_key() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a => stored 0:0
            0s produce orders b => stored 0:1
            0s join a orders/biller lease=10s credit=2 owner=w1
                joined
                a gets orders/biller 0:0.1 "a" spent 1 until 10s
                a gets orders/biller 0:1.1 "b" spent 1 until 10s
            1s commit orders/biller 0:0.1 produce="receipts r idem=k"
                committed, receipts queued
                outbox 0: 0 receipts "r"
                orders/biller 0:0 acked
                sends to 0: 1 from 0
            2s arrived 0 through=0 refused="no such topic"
                ok
                dead letter 0:0 undeliverable after 0 of biller, "no such topic"
            3s join u dlq.orders/undertaker credit=2
                joined
                u gets dlq.orders/undertaker 0:0.1 "r" spent 0 until 33s after "no such topic"
            3s begin-under dlq.orders/undertaker 0:0.1 key=k on=park
                EXECUTE: effect/dlq.orders/undertaker k.1 IN_PROGRESS until 33s
            4s finish effect/dlq.orders/undertaker k.1 succeeded result=1
                effect/dlq.orders/undertaker k.1 SUCCEEDED result 1
            5s ack dlq.orders/undertaker 0:0.1
                ok
                dlq.orders/undertaker 0:0 acked
            6s commit orders/biller 0:1.1 produce="receipts s idem=k"
                committed, receipts queued
                outbox 0: 1 receipts "s"
                orders/biller 0:1 acked
                sends to 0: 1 from 1
            7s arrived 0 through=1 refused="no such topic"
                ok
                dead letter 0:1 undeliverable after 0 of biller, "no such topic"
                u gets dlq.orders/undertaker 0:1.1 "s" spent 0 until 37s after "no such topic"
            8s begin-under dlq.orders/undertaker 0:1.1 key=k on=park
                REPLAY: effect/dlq.orders/undertaker k.1 SUCCEEDED result 1
        "#]],
    );
}

#[test]
fn labels_and_headers_travel_to_another_shard() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a => stored 0:0
            0s join a orders/biller lease=10s credit=1
                joined
                a gets orders/biller 0:0.1 "a" spent 1 until 10s
            1s commit orders/biller 0:0.1 produce="receipts r labels=model:large headers=type:json"
                committed, receipts queued
                outbox 0: 0 receipts "r"
                orders/biller 0:0 acked
                sends to 0: 1 from 0 labels {"model": "large"} headers {"type": "json"}
            2s crash => sends to 0: 1 from 0 labels {"model": "large"} headers {"type": "json"}
        "#]],
    );
}
