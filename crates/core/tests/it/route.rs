//! Messages routed to a topic on another shard leave a pin on the source shard. The message is
//! stored once at the target, whatever the router answers later.
//!
//! Of two shards, `receipts` and `refunds` are on the first and `orders` is on the second.

use expect_test::expect;

use crate::transcript::check_on;

#[test]
fn a_keyed_message_for_another_shard_is_pinned() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a to=receipts => goes on to receipts, for 1/1 until 604800s
            0s produce orders a idem=k to=receipts seen=1 => goes on to receipts, for 1/1 until 604800s
            0s rows record => record 1
            1s produce orders a idem=k to=receipts => goes on to receipts, for 1/1 until 604800s
            2s produce orders a idem=k route=orders
                refused: this idempotency key was used for a different message: envelope.target_topic differs; use a new key for new content
            2s produce orders b idem=k to=refunds
                refused: this idempotency key was used for a different message: value differs; use a new key for new content
            2s crash
            3s produce orders a idem=k to=receipts seen=absent deadline=1s
                goes on to receipts, for 1/1 until 604800s
            4s effect produce/orders k => is asked of 0
        "#]],
    );
}

/// The target may have rejected the first content for good. It knows whether the key is in use; the
/// pin does not.
#[test]
fn other_content_of_a_pinned_key_follows_the_same_route() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a idem=k to=receipts => goes on to receipts, for 1/1 until 604800s
            1s produce orders b idem=k to=receipts => goes on to receipts, for 1/1 until 604800s
            1s produce orders b idem=k to=refunds
                refused: this idempotency key was used for a different message: value differs; use a new key for new content
            1s produce orders b idem=k
                refused: this idempotency key was used for a different message: value differs; use a new key for new content
            2s produce orders a idem=l route=receipts/0 => goes on to receipts, for 1/1 until 604802s
            2s produce orders b idem=l route=refunds => goes on to receipts, for 1/1 until 604802s
            2s produce orders b idem=l => goes on to receipts, for 1/1 until 604802s
            2s produce orders b idem=l to=refunds => goes on to receipts, for 1/1 until 604802s
            3s rows record => record 2
        "#]],
    );
}

#[test]
fn a_pin_overrides_a_router_that_answers_differently() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a idem=k route=receipts/0 => goes on to receipts, for 1/1 until 604800s
            1s produce orders a idem=k route=orders => goes on to receipts, for 1/1 until 604800s
            1s produce orders a idem=k route=refunds/3 => goes on to receipts, for 1/1 until 604800s
            1s produce orders a idem=l route=orders => stored 0:0
            2s produce orders a idem=l route=receipts => stored 0:0 before
        "#]],
    );
}

/// Before the router is asked, the shard looks for an earlier try.
#[test]
fn a_message_that_must_be_routed_waits_for_the_router_unless_it_is_known() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a idem=k must-route
                refused: the router gave no decision that can be followed, and router.on_error is reject; nothing was stored
            0s produce orders a to=receipts must-route
                refused: the router gave no decision that can be followed, and router.on_error is reject; nothing was stored
            0s produce nowhere a must-route => refused: no such topic
            0s rows record => record 0
            1s produce orders a idem=k must-route route=receipts
                goes on to receipts, for 1/1 until 604801s
            2s produce orders a idem=k must-route => goes on to receipts, for 1/1 until 604801s
            2s produce orders b idem=l must-route route=orders/0 => stored 0:0
            3s produce orders b idem=l must-route => stored 0:0 before
            3s produce orders c idem=l must-route
                refused: this idempotency key was used for a different message: value differs; use a new key for new content
            4s produce orders a idem=m to=receipts => goes on to receipts, for 1/1 until 604804s
            4s produce orders a idem=m to=receipts must-route
                goes on to receipts, for 1/1 until 604804s
        "#]],
    );
}

#[test]
fn a_decision_that_cannot_be_followed_does_not_count() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a route=nowhere => goes on to nowhere, for 1/1 until 604800s
            0s produce orders a route=dlq.orders => stored 0:0
            0s produce orders a route=orders/7 => stored 0:1
            0s produce orders a idem=k route=receipts seen=absent => stored 0:2
            0s produce orders a idem=l route=receipts/4 seen=4 => stored 0:3
            0s produce orders a to=receipts route=nowhere seen=absent
                goes on to receipts, for 1/1 until 604800s
            0s produce orders a to=receipts p=4 route=orders/7 seen=4
                goes on to receipts, for 1/1 until 604800s
            1s produce orders a idem=m route=receipts seen=absent must-route
                refused: the router gave no decision that can be followed, and router.on_error is reject; nothing was stored
            1s produce orders a route=nowhere must-route => goes on to nowhere, for 1/1 until 604801s
            1s produce nowhere a route=orders => refused: no such topic
            1s rows record => record 2
        "#]],
    );
}

/// A message that is wrong wherever it goes is not the router's fault.
#[test]
fn a_message_that_must_be_routed_is_rejected_for_its_own_faults() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce nowhere a route=orders must-route => refused: no such topic
            0s produce orders a p=9 route=orders/7 must-route
                refused: envelope.partition_override: must be below 1, the number of partitions
            0s produce orders a p=9 route=orders/0 must-route => stored 0:0
            0s produce orders a retry=5,9s,1s route=orders/7 must-route
                refused: envelope.retry_policy: backoff_ms must not exceed max_backoff_ms
            0s produce orders a route=orders/7 must-route
                refused: the router gave no decision that can be followed, and router.on_error is reject; nothing was stored
        "#]],
    );
}

#[test]
fn a_rejected_route_pins_no_key() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            1s produce nowhere a idem=k to=receipts => refused: no such topic
            1s produce orders a idem=k to=receipts seen=absent => refused: no such topic
            1s produce orders a idem=k to=receipts p=4 seen=4
                refused: envelope.partition_override: must be below 4, the number of partitions
            1s produce orders a idem=k to=dlq.receipts seen=1
                refused: topic: must not be a dead-letter topic
            1s produce orders a idem=k to=receipts deadline=1s => refused: the deadline has passed
            1s produce orders 2000000bytes idem=k to=receipts
                refused: value must be at most 1048576 bytes (got 2000000)
            1s rows record => record 0
            1s produce orders b idem=k => stored 0:0
        "#]],
    );
}

#[test]
fn a_pin_expires_with_its_key() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 dedupe=60s => created
            0s produce orders a idem=k to=receipts => goes on to receipts, for 1/1 until 60s
            59s produce orders a idem=k to=orders
                refused: this idempotency key was used for a different message: envelope.target_topic differs; use a new key for new content
            59s produce orders a idem=k to=receipts => goes on to receipts, for 1/1 until 60s
            60s produce orders a idem=k to=orders
                expire to 60.001s
                stored 0:0
        "#]],
    );
}

#[test]
fn a_routed_message_is_stored_once() {
    check_on(
        0,
        2,
        expect![[r#"
            0s topic receipts 2 => created
            0s produce receipts a idem=k to=receipts routed=1/1/9s => stored 0:0 in receipts
            1s produce receipts a idem=k to=receipts routed=1/1/9s => stored 0:0 in receipts before
            1s produce receipts b idem=k to=receipts routed=1/1/9s
                refused: this idempotency key was used for a different message: value differs; use a new key for new content
            1s produce receipts a idem=k to=receipts routed=1/2/9s => stored 0:1 in receipts
            1s produce receipts a idem=k to=receipts routed=2/1/9s => stored 0:2 in receipts
            1s produce receipts a idem=k => stored 0:3
            2s produce receipts a routed=1/1/9s => stored 0:4 in receipts
            3s produce gone a idem=k routed=1/1/9s
                refused: this idempotency key was used for a different message: envelope.target_topic differs; use a new key for new content
            9s produce receipts a idem=k to=receipts routed=1/1/18s => stored 0:5 in receipts
        "#]],
    );
}

#[test]
fn the_target_uses_the_expiry_of_the_pin_not_its_own_clock() {
    check_on(
        0,
        2,
        expect![[r#"
            0s topic receipts 1 => created
            0s produce receipts a idem=k routed=1/1/60s => stored 0:0 in receipts
            61s produce receipts a idem=k routed=1/1/60s => stored 0:0 in receipts before
            62s produce receipts a idem=k routed=1/1/122s => stored 0:1 in receipts
            63s produce receipts a idem=k routed=1/1/60s => stored 0:0 in receipts before
            64s produce receipts a idem=k routed=1/1/122s => stored 0:1 in receipts before
            65s produce receipts b idem=l routed=1/1/50s => stored 0:2 in receipts
            66s produce receipts b idem=l routed=1/1/50s => stored 0:2 in receipts before
            600s rows record => record 3
            2000s rows record
                expire to 660.001s
                expire to 670.001s
                expire to 722.001s
                record 0
        "#]],
    );
}

#[test]
fn messages_of_a_commit_are_pinned_and_queued_together() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            0s produce orders a => stored 0:0
            0s join a orders/biller lease=10s credit=1 owner=w1
                joined
                a gets orders/biller 0:0.1 "a" spent 1 until 10s
            1s commit orders/biller 0:0.1 produce="orders r idem=k to=receipts; orders s idem=k to=receipts"
                refused: produce[1]: this idempotency key was used for a different message: value differs; use a new key for new content
            1s commit orders/biller 0:0.1 produce="orders r idem=k to=receipts; orders r idem=k to=receipts; orders t to=refunds"
                committed, orders queued, orders queued, orders queued
                outbox 0: 0 receipts "r"
                outbox 0: 1 receipts "r"
                outbox 0: 2 refunds "t"
                orders/biller 0:0 acked
                sends to 0: 3 from 0
            2s produce orders r idem=k route=orders
                refused: this idempotency key was used for a different message: envelope.target_topic differs; use a new key for new content
            2s produce orders r idem=k to=receipts => goes on to receipts, for 1/1 until 604801s
        "#]],
    );
}

#[test]
fn an_arriving_message_can_be_forwarded_to_another_shard() {
    check_on(
        1,
        2,
        expect![[r#"
            0s topic orders 1 => created
            1s arrive 0 from=0 messages="orders a idem=k to=receipts; orders b; orders c idem=l"
                arrived through 3
                outbox 0: 0 receipts "a"
                sends to 0: 1 from 0
            1s arrive 0 from=0 messages="orders a idem=k to=receipts; orders b; orders c idem=l"
                arrived through 3
            2s arrived 0 through=0 refused="no such topic"
                ok
                dead letter 0:0 undeliverable after 0 of , "no such topic"
            3s dead orders values => 0:0 undeliverable of  at 2s "no such topic" a (scanned 1, the end)
        "#]],
    );
}
