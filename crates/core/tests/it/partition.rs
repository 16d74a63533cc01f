//! A message goes to exactly one partition: the one it names, else that of its key, else by the topic's
//! rule for messages without a key.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_key_decides_the_partition_as_v1_did() {
    check(expect![[r#"
        1s topic three 3
            created
        1s topic four 4
            created
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
fn a_partition_that_is_named_wins_over_the_key() {
    check(expect![[r#"
        1s topic orders 3
            created
        1s produce orders a key=user:1 p=2
            stored 2:0
        1s produce orders a p=1
            stored 1:0
    "#]]);
}

#[test]
fn a_partition_that_does_not_exist_is_refused() {
    check(expect![[r#"
        1s topic orders 3
            created
        1s topic other 5
            created
        1s produce orders a p=3
            refused: envelope.partition_override: there are 3 partitions
        1s produce orders a p=4 to=other
            stored 4:0 in other
        1s produce other a p=4 to=orders
            refused: envelope.partition_override: there are 3 partitions
        2s view orders
            orders 0..0 (0 bytes), 0..0 (0 bytes), 0..0 (0 bytes), dead 0, groups []
    "#]]);
}

#[test]
fn messages_without_a_key_go_to_partition_0() {
    check(expect![[r#"
        1s topic orders 3
            created
        1s produce orders a + produce orders b
            stored 0:0
            stored 0:1
        1s produce orders c key=
            stored 0:2
    "#]]);
}

#[test]
fn messages_without_a_key_go_around_where_the_topic_says_so() {
    check(expect![[r#"
        1s topic orders 3 spread
            created
        1s produce orders a + produce orders b + produce orders c + produce orders d
            stored 0:0
            stored 1:0
            stored 2:0
            stored 0:1
        1s produce orders e key=user:2
            stored 0:2
        1s produce orders f p=0
            stored 0:3
        1s produce orders g
            stored 1:1
    "#]]);
}

#[test]
fn a_refused_message_does_not_use_up_a_turn() {
    check(expect![[r#"
        1s topic orders 3 spread max_bytes=5
            created
        1s produce orders a
            stored 0:0
        1s produce orders toolong
            refused: value has 7 bytes, at most 5 fit
        1s produce orders b
            stored 1:0
    "#]]);
}
