//! A produce request with a nonce can be sent again: within 15 minutes its messages are stored once.
//!
//! Of two shards, `receipts` and `refunds` are on the first and `orders` is on the second.

use driftq_core::command::{Produce, ProduceWithNonce, TopicName};
use driftq_core::limits::NONCE_BYTES;
use driftq_core::{Envelope, Text};
use expect_test::expect;

use crate::transcript::{check, check_on};

#[test]
fn a_repeated_request_gets_the_first_receipts_and_stores_nothing() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s request n1 messages="orders a; orders b key=user:1; orders c"
            stored 0:0; stored 1:0; stored 0:1
        2s request n1 messages="orders a; orders b key=user:1; orders c"
            stored 0:0 before; stored 1:0 before; stored 0:1 before
        3s crash
        4s request n1 messages="orders a; orders b key=user:1; orders c"
            stored 0:0 before; stored 1:0 before; stored 0:1 before
        5s request n2 messages="orders a; orders b key=user:1; orders c"
            stored 0:2; stored 1:1; stored 0:3
        6s view orders => orders 0..4 (4 bytes), 0..2 (14 bytes), dead 0, groups []
        7s rows record => record 2
    "#]]);
}

#[test]
fn a_nonce_is_remembered_for_15_minutes_to_the_millisecond() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s request n1 messages="orders a" => stored 0:0
        900999ms request n1 messages="orders a" => stored 0:0 before
        901s request n1 messages="orders a"
            expire to 901.001s
            stored 0:1
    "#]]);
}

#[test]
fn another_request_with_the_same_nonce_is_rejected() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s request n1 messages="orders a; orders b" => stored 0:0; stored 0:1
        2s request n1 messages="orders a; orders c"
            refused: this nonce was used for a different request; use a new nonce for each request
        2s request n1 messages="orders a"
            refused: this nonce was used for a different request; use a new nonce for each request
        2s request n1 messages="orders a; orders b; orders c"
            refused: this nonce was used for a different request; use a new nonce for each request
        2s request n1 messages="orders a; orders b labels=env:prod"
            refused: this nonce was used for a different request; use a new nonce for each request
        3s request n1 messages="orders a; orders b" => stored 0:0 before; stored 0:1 before
    "#]]);
}

#[test]
fn messages_that_were_rejected_are_decided_again() {
    check(expect![[r#"
        1s topic orders 1 max_messages=2 => created
        1s group orders/biller => created
        1s request n1 messages="orders a; nowhere b; orders c; orders d; orders e p=7"
            stored 0:0; refused: no such topic; stored 0:1; full: messages, held by biller; refused: envelope.partition_override: must be below 1, the number of partitions
        2s request n1 messages="orders a; nowhere b; orders c; orders d; orders e p=7"
            stored 0:0 before; refused: no such topic; stored 0:1 before; full: messages, held by biller; refused: envelope.partition_override: must be below 1, the number of partitions
        3s join a orders/biller credit=1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 33s
        4s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:1.1 "c" spent 1 until 34s
        5s request n1 messages="orders a; nowhere b; orders c; orders d; orders e p=7"
            stored 0:0 before; refused: no such topic; stored 0:1 before; stored 0:2; refused: envelope.partition_override: must be below 1, the number of partitions
        6s topic nowhere 1 => created
        7s request n1 messages="orders a; nowhere b; orders c; orders d; orders e p=7"
            stored 0:0 before; stored 0:0; stored 0:1 before; stored 0:2 before; refused: envelope.partition_override: must be below 1, the number of partitions
        8s request n1 messages="orders a; nowhere b; orders c; orders d; orders e p=7"
            stored 0:0 before; stored 0:0 before; stored 0:1 before; stored 0:2 before; refused: envelope.partition_override: must be below 1, the number of partitions
    "#]]);
}

#[test]
fn a_request_in_which_nothing_is_stored_leaves_no_record() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s request n1 messages="nowhere a" => refused: no such topic
        1s rows record => record 0
        2s request n1 messages="orders a" => stored 0:0
    "#]]);
}

#[test]
fn an_idempotency_key_decides_before_the_nonce() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders a idem=k => stored 0:0
        2s request n1 messages="orders a idem=k; orders b idem=k; orders c idem=l; orders c idem=l"
            stored 0:0 before; refused: this idempotency key was used for a different message: value differs; use a new key for new content; stored 0:1; stored 0:1 before
        3s request n1 messages="orders a idem=k; orders b idem=k; orders c idem=l; orders c idem=l"
            stored 0:0 before; refused: this idempotency key was used for a different message: value differs; use a new key for new content; stored 0:1 before; stored 0:1 before
        4s produce orders c idem=l => stored 0:1 before
        5s request n2 messages="orders a idem=k; orders x" => stored 0:0 before; stored 0:2
        6s request n2 messages="orders a idem=k; orders x" => stored 0:0 before; stored 0:2 before
    "#]]);
}

#[test]
fn a_message_for_another_shard_takes_the_nonce_with_it() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s request n1 messages="orders a; orders b to=receipts; orders c idem=k to=receipts; orders d"
                stored 0:0; goes on to receipts, for 1/1 until 604800s as [1] of n1; goes on to receipts, for 1/1 until 604800s; stored 0:1
            1s request n1 messages="orders a; orders b to=receipts; orders c idem=k to=receipts; orders d"
                stored 0:0 before; goes on to receipts, for 1/1 until 604801s as [1] of n1; goes on to receipts, for 1/1 until 604800s; stored 0:1 before
        "#]],
    );
    check_on(
        0,
        2,
        expect![[r#"
            0s topic receipts 1 => created
            0s request n1 at=1 messages="receipts b routed=1/1/9s" => stored 0:0 in receipts
            1s request n1 messages="receipts a" => stored 0:1
            2s request n1 at=1 messages="receipts b routed=1/1/9s" => stored 0:0 in receipts before
        "#]],
    );
}

#[test]
fn a_nonce_pins_what_the_router_decided() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s request n1 messages="orders a route=receipts; orders b route=orders/0; orders c route=nowhere; orders d must-route"
                goes on to receipts, for 1/1 until 604800s as [0] of n1; stored 0:0; goes on to nowhere, for 1/1 until 604800s as [2] of n1; refused: the router gave no decision that can be followed, and router.on_error is reject; nothing was stored
            1s request n1 messages="orders a route=refunds; orders b route=receipts; orders c route=receipts; orders d route=receipts"
                goes on to receipts, for 1/1 until 604801s as [0] of n1; stored 0:0 before; goes on to nowhere, for 1/1 until 604801s as [2] of n1; goes on to receipts, for 1/1 until 604801s as [3] of n1
            2s request n1 messages="orders a must-route; orders b must-route; orders c must-route; orders d must-route"
                goes on to receipts, for 1/1 until 604802s as [0] of n1; stored 0:0 before; goes on to nowhere, for 1/1 until 604802s as [2] of n1; goes on to receipts, for 1/1 until 604802s as [3] of n1
            2s crash
            3s request n1 messages="orders a; orders b; orders c; orders d"
                goes on to receipts, for 1/1 until 604803s as [0] of n1; stored 0:0 before; goes on to nowhere, for 1/1 until 604803s as [2] of n1; goes on to receipts, for 1/1 until 604803s as [3] of n1
            3s request n1 messages="orders a; orders b; orders c; orders e"
                refused: this nonce was used for a different request; use a new nonce for each request
            900s request n1 messages="orders a route=orders/0; orders b; orders c; orders d"
                goes on to receipts, for 1/1 until 605700s as [0] of n1; stored 0:0 before; goes on to nowhere, for 1/1 until 605700s as [2] of n1; goes on to receipts, for 1/1 until 605700s as [3] of n1
            901s request n1 messages="orders a route=refunds; orders b; orders c; orders d"
                expire to 901.001s
                goes on to refunds, for 1/1 until 605701s as [0] of n1; stored 0:1; stored 0:2; stored 0:3
        "#]],
    );
}

/// The pin of the first one is not stored yet when the second one is decided.
#[test]
fn one_key_in_one_request_goes_one_way() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s request n1 messages="orders a idem=k route=receipts; orders a idem=k route=refunds; orders a idem=k route=orders/0; orders b idem=k route=orders/0"
                goes on to receipts, for 1/1 until 604800s; goes on to receipts, for 1/1 until 604800s; goes on to receipts, for 1/1 until 604800s; refused: this idempotency key was used for a different message: value differs; use a new key for new content
            1s request n1 messages="orders a idem=k; orders a idem=k; orders a idem=k; orders b idem=k"
                goes on to receipts, for 1/1 until 604800s; goes on to receipts, for 1/1 until 604800s; goes on to receipts, for 1/1 until 604800s; refused: this idempotency key was used for a different message: value differs; use a new key for new content
            1s request n2 messages="orders a idem=l route=orders/0; orders a idem=l route=receipts"
                stored 0:0; stored 0:0 before
        "#]],
    );
}

#[test]
fn a_deadline_that_has_passed_does_not_hide_the_receipt() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s request n1 messages="orders a deadline=5s" => stored 0:0
        9s request n1 messages="orders a deadline=5s" => stored 0:0 before
        9s request n2 messages="orders a deadline=5s" => refused: the deadline has passed
    "#]]);
}

#[test]
fn a_nonce_has_1_to_64_characters() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s request 64bytes messages="orders a" => stored 0:0
        1s request 65bytes messages="orders a" => refused: nonce: must be 1 to 64 characters
    "#]]);
}

fn message(topic: &str, bytes: usize) -> Produce {
    Produce {
        topic: TopicName { namespace: "default".into(), topic: topic.into() },
        key: "".into(),
        value: vec![b'x'; bytes].into(),
        envelope: Envelope::default(),
        routing: None,
        needs_routing: false,
        trace: None,
        seen: None,
        routed: None,
    }
}

fn places(messages: Vec<Produce>) -> Vec<Vec<u32>> {
    let nonce: Text = "n".into();
    let messages = (0..).zip(messages).collect();
    let parts = ProduceWithNonce::parts(&nonce, messages, 2);
    parts.into_iter().map(|part| part.places).collect()
}

#[test]
fn a_request_is_divided_by_shard_and_by_size() {
    let topics = ["orders", "receipts", "orders", "refunds"];
    let mixed = topics.map(|topic| message(topic, 1)).to_vec();
    assert_eq!(places(mixed), [vec![0, 2], vec![1, 3]]);
    let many = vec![message("orders", 1); 201];
    assert_eq!(places(many).iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 1]);
    let sizes = [NONCE_BYTES / 2, NONCE_BYTES / 2, 1, NONCE_BYTES * 2, 1];
    let large = sizes.map(|bytes| message("orders", bytes)).to_vec();
    assert_eq!(places(large), [vec![0, 1], vec![2], vec![3], vec![4]]);
}
