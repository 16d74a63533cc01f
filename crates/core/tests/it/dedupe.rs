//! While it is kept, an idempotency key names one message per tenant and topic. Repeating the
//! message returns the first receipt; other content is rejected.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_repeated_key_gets_the_first_receipt_and_stores_nothing() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s produce orders pay key=user:1 idem=order-77 => stored 1:0
        2s produce orders pay key=user:1 idem=order-77 => stored 1:0 before
        3s crash
        4s produce orders pay key=user:1 idem=order-77 => stored 1:0 before
        5s view orders => orders 0..0 (0 bytes), 0..1 (9 bytes), dead 0, groups []
        6s rows record => record 1
    "#]]);
}

#[test]
fn the_same_key_with_other_content_is_rejected() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s produce orders pay key=a idem=order-77 run=r1 p=1 => stored 1:0
        2s produce orders other key=a idem=order-77 run=r1 p=1
            refused: this idempotency key was used for a different message: value differs; use a new key for new content
        3s produce orders pay key=b idem=order-77 run=r1 p=1
            refused: this idempotency key was used for a different message: key differs; use a new key for new content
        4s produce orders pay key=a idem=order-77 run=r2 p=1 => stored 1:0 before
        5s produce orders pay key=a idem=order-77 run=r1 p=0
            refused: this idempotency key was used for a different message: envelope.partition_override differs; use a new key for new content
        6s produce orders pay key=a idem=order-77 run=r1 p=1 retry=3 => stored 1:0 before
        7s produce orders pay key=a idem=order-77 run=r1 p=1 => stored 1:0 before
        8s view orders => orders 0..0 (0 bytes), 0..1 (4 bytes), dead 0, groups []
    "#]]);
}

#[test]
fn a_repeat_may_carry_another_deadline() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders pay idem=order-77 deadline=1h => stored 0:0
        2s produce orders pay idem=order-77 deadline=2h => stored 0:0 before
        3s produce orders pay idem=order-77 => stored 0:0 before
    "#]]);
}

#[test]
fn tenant_and_topic_are_part_of_the_identity() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s topic refunds 1 => created
        1s produce orders pay idem=k => stored 0:0
        1s produce orders pay idem=k tenant=acme => stored 0:1
        1s produce orders pay idem=k tenant=initech => stored 0:2
        1s produce refunds pay idem=k => stored 0:0
        2s produce orders other idem=k tenant=acme
            refused: this idempotency key was used for a different message: value differs; use a new key for new content
        2s produce orders pay idem=k tenant=acme => stored 0:1 before
        3s view orders => orders 0..3 (9 bytes), dead 0, groups []
    "#]]);
}

#[test]
fn the_key_belongs_to_the_requested_topic_not_to_the_routed_one() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s topic orders.eu 1 => created
        1s produce orders pay idem=k to=orders.eu => stored 0:0 in orders.eu
        2s produce orders pay idem=k to=orders.eu => stored 0:0 in orders.eu before
        3s produce orders.eu pay idem=k => stored 0:1
        4s produce orders pay idem=k
            refused: this idempotency key was used for a different message: envelope.target_topic differs; use a new key for new content
    "#]]);
}

#[test]
fn a_key_is_kept_for_dedupe_ttl_ms_to_the_millisecond() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=60s => created
        1000s produce orders pay idem=k => stored 0:0
        1059999ms produce orders pay idem=k => stored 0:0 before
        1059999ms produce orders other idem=k
            refused: this idempotency key was used for a different message: value differs; use a new key for new content
        1060s produce orders pay idem=k
            expire to 1060.001s
            stored 0:1
        1060001ms produce orders pay idem=k => stored 0:1 before
        1119999ms produce orders pay idem=k => stored 0:1 before
        1121s produce orders other idem=k
            expire to 1120.001s
            stored 0:2
    "#]]);
}

#[test]
fn a_repeat_does_not_renew_the_key() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=60s => created
        1000s produce orders pay idem=k => stored 0:0
        1050s produce orders pay idem=k => stored 0:0 before
        1060s produce orders pay idem=k
            expire to 1060.001s
            stored 0:1
    "#]]);
}

#[test]
fn a_recreated_topic_has_no_keys_of_the_old_one() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders pay idem=k => stored 0:0
        2s delete orders
            deleted 1 messages, 0 dead letters
            sweep pages topic 1 0:0..1
            sweep lane topic 1 0
            sweep dead letters topic 1 0..4096
            sweep the last pointers topic 1
        3s topic orders 1 => created
        4s produce orders other idem=k => stored 0:0
        5s produce orders other idem=k => stored 0:0 before
    "#]]);
}

#[test]
fn a_repeat_is_answered_after_its_deadline_and_on_a_full_topic() {
    check(expect![[r#"
        1s topic orders 1 max_messages=1 => created
        1s produce orders pay idem=k deadline=10s => stored 0:0
        2s produce orders more => full: messages
        20s produce orders pay idem=k deadline=10s => stored 0:0 before
        21s produce orders other idem=new deadline=10s => refused: the deadline has passed
        22s produce orders other idem=new => full: messages
    "#]]);
}

#[test]
fn a_repeat_is_answered_after_the_message_is_settled_and_trimmed() {
    check(expect![[r#"
        1s topic orders 1 retention=0s => created
        1s produce orders pay idem=k => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "pay" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            trim 0:0..1
        10s rows page => page 0
        11s produce orders pay idem=k => stored 0:0 before
    "#]]);
}

#[test]
fn a_rejected_message_does_not_store_its_key() {
    check(expect![[r#"
        1s topic orders 1 max_messages=1 => created
        1s produce orders m0 => stored 0:0
        2s produce orders pay idem=k => full: messages
        2s produce orders pay idem=k deadline=1s => refused: the deadline has passed
        2s produce orders pay idem=k p=7
            refused: envelope.partition_override: must be below 1, the number of partitions
        3s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 33s
        4s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        5s produce orders pay idem=k
            stored 0:1
            a gets orders/biller 0:1.1 "pay" spent 1 until 35s
    "#]]);
}

#[test]
fn the_same_key_twice_in_one_batch_is_stored_once() {
    check(expect![[r#"
        1s topic orders 1 => created
        2s produce orders pay idem=k + produce orders pay idem=k + produce orders other idem=k
            stored 0:0
            stored 0:0 before
            refused: this idempotency key was used for a different message: value differs; use a new key for new content
        3s view orders => orders 0..1 (3 bytes), dead 0, groups []
    "#]]);
}

#[test]
fn content_is_what_a_receiver_gets_and_where() {
    check(expect![[r#"
        0s topic orders 2 => created
        1s produce orders pay key=a idem=k1 run=r1 step=s1 => stored 0:0
        2s produce orders pay key=a idem=k1 run=r2 step=s2 retry=3 labels=a:1 => stored 0:0 before
        2s produce orders pay key=b idem=k1 run=r1 step=s1
            refused: this idempotency key was used for a different message: key differs; use a new key for new content
        2s produce orders more key=a idem=k1 run=r1 step=s1
            refused: this idempotency key was used for a different message: value differs; use a new key for new content
        2s produce orders pay key=a idem=k1 run=r1 step=s1 p=1
            refused: this idempotency key was used for a different message: envelope.partition_override differs; use a new key for new content
        3s crash
        4s produce orders pay key=a idem=k1 => stored 0:0 before
    "#]]);
}

#[test]
fn a_topic_may_compare_keys_alone() {
    check(expect![[r#"
        0s topic orders 2 compare=key => created
        1s produce orders pay key=a idem=k1 => stored 0:0
        2s produce orders other key=b idem=k1 p=1 => stored 0:0 before
        3s patch orders compare=content
            orders 0..1 (4 bytes), 0..0 (0 bytes), dead 0, groups [], changed dedupe_compare
        4s produce orders other key=b idem=k1 p=1
            refused: this idempotency key was used for a different message: key differs; use a new key for new content
        5s produce orders pay key=a idem=k1 => stored 0:0 before
    "#]]);
}

/// A row of an earlier release has more in its fingerprint.
#[test]
fn a_record_of_an_earlier_release_is_compared_as_that_release_did() {
    check(expect![[r#"
        0s format 1
        0s topic orders 1 => created
        1s produce orders pay idem=k1 run=r1 => stored 0:0
        2s format 2
        3s produce orders pay idem=k1 run=r1 => stored 0:0 before
        3s produce orders pay idem=k1 run=r2
            refused: this idempotency key was used for a different message; use a new key for new content
        4s produce orders pay idem=k2 run=r1 => stored 0:1
        4s produce orders pay idem=k2 run=r2 => stored 0:1 before
    "#]]);
}
