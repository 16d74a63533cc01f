//! Labels and headers of messages: delivered as produced, and not part of deduplication.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn labels_and_headers_are_delivered_as_they_were_produced() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a + produce orders b labels=model:large,region:eu headers=type:json
            stored 0:0
            stored 0:1
        0s join a orders/biller lease=10s credit=9
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
            a gets orders/biller 0:1.1 "b" spent 1 until 10s labels {"model": "large", "region": "eu"} headers {"type": "json"}
    "#]]);
}

#[test]
fn labels_and_headers_survive_a_dead_letter_and_a_redrive() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a labels=model:large headers=type:json => stored 0:0
        0s join a orders/biller lease=10s credit=9
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s labels {"model": "large"} headers {"type": "json"}
        1s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        1s join d dlq.orders/care lease=10s credit=9
            joined
            d gets dlq.orders/care 0:0.1 "a" spent 1 until 11s after "nack" labels {"model": "large"} headers {"type": "json"}
        2s redrive orders 0:0
            redriven as 0:1
            a gets orders/biller 0:1.1 "a" spent 1 until 12s redriven 1 times from 0:0 labels {"model": "large"} headers {"type": "json"}
    "#]]);
}

#[test]
fn labels_and_headers_count_as_bytes_of_the_message() {
    check(expect![[r#"
        0s topic orders 1 max_bytes=40 => created
        0s produce orders a labels=model:large headers=type:json + produce orders b
            stored 0:0
            stored 0:1
        0s produce orders c labels=region:eu-central-1 => stored 0:2
        0s join a orders/biller lease=10s bytes=10
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s labels {"model": "large"} headers {"type": "json"}
        0s produce orders d labels=model:large => full: bytes, held by biller
        1s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:1.1 "b" spent 1 until 11s
    "#]]);
}

#[test]
fn labels_and_headers_are_not_part_of_deduplication() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a idem=k labels=model:large => stored 0:0
        1s produce orders a idem=k labels=model:small headers=type:json => stored 0:0 before
        2s produce orders b idem=k labels=model:large
            refused: this idempotency key was used for a different message: value differs; use a new key for new content
    "#]]);
}

#[test]
fn a_commit_repeated_with_other_labels_is_another_commit() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s commit orders/biller 0:0.1 produce="orders b labels=model:large"
            committed, orders 0:1
            orders/biller 0:0 acked
            a gets orders/biller 0:1.1 "b" spent 1 until 11s labels {"model": "large"} headers {}
        2s commit orders/biller 0:0.1 produce="orders b labels=model:large"
            committed before, orders 0:1
        3s commit orders/biller 0:0.1 produce="orders b labels=model:small"
            refused: this delivery is already committed with different content
    "#]]);
}

#[test]
fn labels_and_headers_beyond_the_limits_are_rejected() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a labels=a:1,b:2,c:3,d:4,e:5,f:6,g:7,h:8,i:9,j:1,k:2,l:3,m:4,n:5,o:6,p:7
            stored 0:0
        0s produce orders a labels=a:1,b:2,c:3,d:4,e:5,f:6,g:7,h:8,i:9,j:1,k:2,l:3,m:4,n:5,o:6,p:7,q:8
            refused: envelope.labels: at most 16 are allowed (got 17)
        0s produce orders a labels=:x
            refused: envelope.labels: a name must have at least 1 byte and no control characters
    "#]]);
}

#[test]
fn a_missing_max_attempts_is_that_of_the_topic() {
    check(expect![[r#"
        0s topic orders 1 retry=2,1s,1s => created
        0s produce orders a retry=,5s,5s => stored 0:0
        0s join a orders/biller lease=10s credit=1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s nack orders/biller 0:0.1
            ok
            orders/biller 0:0 nacked, due 4.128s
        10s nack orders/biller 0:0.2
            a gets orders/biller 0:0.2 "a" spent 2 until 14.128s after "nack"
            ok
            dead letter 0:0 exhausted after 2 of biller, "nack"
            orders/biller 0:0 dead
    "#]]);
}
