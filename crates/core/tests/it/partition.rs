//! A message is stored in exactly one partition: the one it names, else the one of its key, else by
//! the topic's rule for unkeyed messages.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_key_decides_the_partition_as_v1_did() {
    check(expect![[r#"
        1s topic three 3 => created
        1s topic four 4 => created
        1s produce three a key=user:1 + produce four a key=user:1
            stored 1:0
            stored 3:0
        1s produce three b key=user:2 + produce four b key=user:2
            stored 0:0
            stored 2:0
        1s produce three c key=order-123 + produce four c key=order-123
            stored 1:1
            stored 2:1
    "#]]);
}

#[test]
fn an_explicit_partition_overrides_the_key() {
    check(expect![[r#"
        1s topic orders 3 => created
        1s produce orders a key=user:1 p=2 => stored 2:0
        1s produce orders a p=1 => stored 1:0
    "#]]);
}

#[test]
fn an_unknown_partition_is_rejected() {
    check(expect![[r#"
        1s topic orders 3 => created
        1s topic other 5 => created
        1s produce orders a p=3
            refused: envelope.partition_override: must be below 3, the number of partitions
        1s produce orders a p=4 to=other => stored 4:0 in other
        1s produce other a p=4 to=orders
            refused: envelope.partition_override: must be below 3, the number of partitions
        2s view orders => orders 0..0 (0 bytes), 0..0 (0 bytes), 0..0 (0 bytes), dead 0, groups []
    "#]]);
}

#[test]
fn unkeyed_messages_are_stored_in_partition_0() {
    check(expect![[r#"
        1s topic orders 3 => created
        1s produce orders a + produce orders b
            stored 0:0
            stored 0:1
        1s produce orders c key= => stored 0:2
    "#]]);
}

#[test]
fn unkeyed_messages_are_spread_over_partitions_if_configured() {
    check(expect![[r#"
        1s topic orders 3 spread => created
        1s produce orders a + produce orders b + produce orders c + produce orders d
            stored 0:0
            stored 0:1
            stored 0:2
            stored 0:3
        1s produce orders e key=user:2 => stored 0:4
        1s produce orders f p=0 => stored 0:5
        1s produce orders g => stored 1:0
    "#]]);
}

#[test]
fn unkeyed_messages_of_one_batch_are_stored_in_one_partition() {
    check(expect![[r#"
        1s topic orders 3 spread => created
        1s produce orders a + produce orders b + produce orders c
            stored 0:0
            stored 0:1
            stored 0:2
        1s produce orders d + produce orders e
            stored 1:0
            stored 1:1
        1s produce orders f => stored 2:0
        1s produce orders g => stored 0:3
    "#]]);
}

#[test]
fn a_rejected_message_does_not_advance_the_rotation() {
    check(expect![[r#"
        1s topic orders 3 spread max_bytes=5 => created
        1s produce orders a => stored 0:0
        1s produce orders toolong => refused: message must be at most 5 bytes (got 7)
        1s produce orders b => stored 1:0
    "#]]);
}
