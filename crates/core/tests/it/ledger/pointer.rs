//! Pointers are set in the commit of the message that produced the data they point to.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_pointer_is_set_by_a_commit_and_moved_by_a_later_attempt() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a => stored 0:0
        0s produce orders b => stored 0:1
        0s join a orders/biller lease=10s credit=2 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
            a gets orders/biller 0:1.1 "b" spent 1 until 10s
        1s commit orders/biller 0:0.1 nack pointers="ledger 7 dt=1 s3://x"
            refused: pointers: are allowed only with ack, or with a nack that has dead_letter
        1s commit orders/biller 0:0.1 final pointers="ledger 7 dt=1 s3://x sum=1; ledger 7 dt=2 s3://y"
            committed
            points ledger 7 dt=1 to s3://x
            points ledger 7 dt=2 to s3://y
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        1s commit orders/biller 0:0.1 final pointers="ledger 7 dt=1 s3://x sum=1; ledger 7 dt=2 s3://y"
            committed before
        1s commit orders/biller 0:0.1 final pointers="ledger 7 dt=1 s3://x sum=1"
            refused: this delivery is already committed with different content
        2s pointer orders ledger 7 dt=1 => ledger 7 dt=1: s3://x sum 1, by biller 0.1 at 1s
        2s pointer orders ledger 8 dt=1 => refused: no such pointer
        2s redrive orders 0:0
            redriven as 0:2
            a gets orders/biller 0:2.1 "a" spent 1 until 12s redriven 1 times from 0:0
        3s commit orders/biller 0:2.1 pointers="ledger 7 dt=1 s3://x2; ledger 7 dt=2 s3://y"
            committed
            points ledger 7 dt=1 to s3://x2
            orders/biller 0:2 acked
        3s pointers orders ledger 7
            ledger 7 dt=1: s3://x2, by biller 0.1 at 3s; ledger 7 dt=2: s3://y, by biller 0.1 at 1s (the end)
        4s crash
        4s pointers orders ledger 7
            ledger 7 dt=1: s3://x2, by biller 0.1 at 3s; ledger 7 dt=2: s3://y, by biller 0.1 at 1s (the end)
        5s delete orders
            deleted 3 messages, 0 dead letters
            sweep pages topic 1 0:0..3
            sweep lane topic 1 0
            sweep pages topic 5 0:0..1
            sweep lane topic 5 0
            sweep blocks 3 0:1..3
            sweep cursor 3 0
            sweep dead letters topic 1 0..4096
            sweep dead letters topic 5 0..4096
            sweep the last pointers topic 1
            sweep the last pointers topic 5
        6s rows pointer => pointer 0
        9s rows pointer => pointer 0
    "#]]);
}

#[test]
fn moving_a_pointer_of_another_message_requires_replace() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a => stored 0:0
        0s produce orders b => stored 0:1
        0s produce orders c => stored 0:2
        0s join a orders/biller lease=10s credit=3 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
            a gets orders/biller 0:1.1 "b" spent 1 until 10s
            a gets orders/biller 0:2.1 "c" spent 1 until 10s
        0s join b orders/other lease=10s credit=3 owner=w2
            joined
            b gets orders/other 0:0.1 "a" spent 1 until 10s
            b gets orders/other 0:1.1 "b" spent 1 until 10s
            b gets orders/other 0:2.1 "c" spent 1 until 10s
        1s commit orders/biller 0:0.1 pointers="ledger 7 dt=1 s3://x"
            committed
            points ledger 7 dt=1 to s3://x
            orders/biller 0:0 acked
        1s commit orders/biller 0:1.1 produce="orders d" pointers="ledger 7 dt=2 s3://z; ledger 7 dt=1 s3://y"
            refused: pointers[1]: another message set this pointer to a different value; send replace to overwrite it
        1s commit orders/other 0:0.1 pointers="ledger 7 dt=1 s3://z"
            refused: pointers[0]: another message set this pointer to a different value; send replace to overwrite it
        1s commit orders/other 0:0.1 pointers="ledger 7 dt=1 s3://x"
            committed
            orders/other 0:0 acked
        2s commit orders/biller 0:1.1 pointers="ledger 7 dt=1 s3://y replace"
            committed
            points ledger 7 dt=1 to s3://y
            orders/biller 0:1 acked
        3s commit orders/biller 0:2.1 pointers="ledger 7 dt=1 s3://w; ledger 7 dt=1 s3://w"
            refused: pointers[1]: partition_key: is set twice
        4s pointers orders ledger 7 => ledger 7 dt=1: s3://y, by biller 1.1 at 2s (the end)
    "#]]);
}

#[test]
fn pointers_are_listed_in_pages_by_partition_key() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=3 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s commit orders/biller 0:0.1 pointers="l 7 c s3://c; l 7 a/2 s3://a2; l 7 a s3://a; l 7 é s3://e; l 8 b s3://b"
            committed
            points l 7 c to s3://c
            points l 7 a/2 to s3://a2
            points l 7 a to s3://a
            points l 7 é to s3://e
            points l 8 b to s3://b
            orders/biller 0:0 acked
        2s pointers orders l 7 limit=2
            l 7 a: s3://a, by biller 0.1 at 1s; l 7 a/2: s3://a2, by biller 0.1 at 1s (more)
        2s pointers orders l 7 after=a/2 limit=9
            l 7 c: s3://c, by biller 0.1 at 1s; l 7 é: s3://e, by biller 0.1 at 1s (the end)
        2s pointers orders none 7 => none (the end)
        2s pointers nowhere l 7 => refused: no such topic
    "#]]);
}

#[test]
fn pointer_names_have_length_limits() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=3 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s commit orders/biller 0:0.1 pointers="l 7 256bytes s3://c"
            refused: pointers[0]: partition_key: must be 1 to 255 bytes without control characters
        1s commit orders/biller 0:0.1 pointers="l 256bytes k s3://c"
            refused: pointers[0]: version: must be 1 to 255 bytes without control characters
        1s commit orders/biller 0:0.1 pointers="l 7 k 2049bytes"
            refused: pointers[0]: location: must be 1 to 2048 bytes
        1s commit orders/biller 0:0.1 pointers="l 7 k s3://c sum=256bytes"
            refused: pointers[0]: checksum: must be at most 255 bytes
        1s commit orders/biller 0:0.1 pointers="255bytes 255bytes 255bytes 2048bytes sum=255bytes"
            committed
            points xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
            orders/biller 0:0 acked
    "#]]);
}
