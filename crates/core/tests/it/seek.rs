//! A seek moves cursors of a group. Each moved cursor starts a new generation in which attempts
//! start at 1 and older tokens are stale.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_seek_to_earliest_moves_to_the_earliest_message_kept() {
    check(expect![[r#"
        1000s topic orders 1 retention=80s => created
        1000s produce orders m0 => stored 0:0
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
        1000s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        1200s produce orders m1
            trim 0:0..1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 1230s
        1200s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        1201s leave a => ok
        1202s seek orders/biller earliest
            moved [(0, 2, 1)] redelivers 1 skips 0 dropped 0
            sweep blocks 3 0:2..2
            sweep cursor 3 0
        1203s join b orders/biller
            joined
            b gets orders/biller 0:1.1 "m1" spent 1 until 1233s
    "#]]);
}

#[test]
fn a_seek_to_latest_skips_the_backlog() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s group orders/biller => created
        2s seek orders/biller latest
            moved [(0, 0, 2)] redelivers 0 skips 2 dropped 0
            sweep blocks 3 0:0..0
            sweep cursor 3 0
        3s join a orders/biller => joined
        4s produce orders m2
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 34s
        5s view orders/biller
            next 3 of 3, committed 1, backlog 1, leased 1, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_seek_of_one_partition_leaves_the_others() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s produce orders m0 p=0 + produce orders m1 p=0 + produce orders n0 p=1
            stored 0:0
            stored 0:1
            stored 1:0
        1s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 3601s
            a gets orders/biller 0:1.1 "m1" spent 1 until 3601s
            a gets orders/biller 1:0.1 "n0" spent 1 until 3601s
        2s leave a => ok
        3s seek orders/biller 0:1
            moved [(0, 2, 1)] redelivers 1 skips 0 dropped 2
            sweep blocks 3 0:0..2
            sweep cursor 3 0
        4s ack orders/biller 0:0.1 => stale: generation
        5s ack orders/biller 1:0.1
            ok
            orders/biller 1:0 acked
        6s crash
        7s view orders/biller
            next 1 of 2, committed 0, backlog 1, leased 0, waiting 0, no_consumers; next 1 of 1, committed 0, backlog 0, leased 0, waiting 0, no_consumers
        8s join b orders/biller
            joined
            b gets orders/biller 0:1.1 "m1" spent 1 until 38s
        9s seek orders/biller 7:0 => refused: the group has consumers: pause it first
    "#]]);
}

#[test]
fn open_messages_are_dropped_and_their_tokens_are_stale_by_generation() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 3601s
            a gets orders/biller 0:1.1 "m1" spent 1 until 3601s
            a gets orders/biller 0:2.1 "m2" spent 1 until 3601s
        2s ack orders/biller 0:0.1 + nack orders/biller 0:1.1 delay=1h reason=x + leave a
            ok
            ok
            ok
            orders/biller 0:0 acked
            orders/biller 0:1 nacked, due 3602s
        3s seek orders/biller earliest
            moved [(0, 3, 0)] redelivers 3 skips 0 dropped 2
            sweep blocks 3 0:1..3
            sweep cursor 3 0
        4s rows block note => block 0, note 0
        4s ack orders/biller 0:0.1 => stale: generation
        4s nack orders/biller 0:1.1 => stale: generation
        4s extend orders/biller 0:2.1 => stale: generation
        5s join b orders/biller
            joined
            b gets orders/biller 0:0.1 "m0" spent 1 until 35s
            b gets orders/biller 0:1.1 "m1" spent 1 until 35s
            b gets orders/biller 0:2.1 "m2" spent 1 until 35s
        6s giveback orders/biller 0:2.1
            ok
            orders/biller 0:2 returned, due 6s
            b gets orders/biller 0:2.2 "m2" spent 1 until 36s
        7s view orders/biller
            next 3 of 3, committed -1, backlog 3, leased 3, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_token_issued_before_a_seek_does_not_settle_the_next_attempt() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 3601s
        1s keep orders/biller 0:0.1 as old
        2s pause orders/biller => ok
        2s seek orders/biller earliest
            moved [(0, 1, 0)] redelivers 1 skips 0 dropped 1
            sweep blocks 3 0:0..1
            sweep cursor 3 0
        3s resume orders/biller
            ok
            a gets orders/biller 0:0.1 "m0" spent 1 until 3603s
        4s ack token=old => stale: generation
        4s nack token=old => stale: generation
        4s extend token=old => stale: generation
        5s giveback token=old => ok
        6s view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
        7s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        8s ack token=old => stale: generation
    "#]]);
}

#[test]
fn a_dry_run_reports_the_seek_and_changes_nothing() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s produce orders m0 p=0 + produce orders m1 p=0 + produce orders n0 p=1
            stored 0:0
            stored 0:1
            stored 1:0
        1s join a orders/biller credit=2 lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 3601s
            a gets orders/biller 0:1.1 "m1" spent 1 until 3601s
        2s ack orders/biller 0:0.1 + leave a
            ok
            ok
            orders/biller 0:0 acked
        3s seek orders/biller earliest dry
            moved [(0, 2, 0), (1, 0, 0)] redelivers 2 skips 0 dropped 1
        3s seek orders/biller latest dry
            moved [(0, 2, 2), (1, 0, 1)] redelivers 0 skips 1 dropped 1
        3s seek orders/biller 0:1 dry => moved [(0, 2, 1)] redelivers 1 skips 0 dropped 1
        4s view orders/biller
            next 2 of 2, committed 0, backlog 1, leased 1, waiting 0, consumers_full; next 0 of 1, committed -1, backlog 1, leased 0, waiting 0, consumers_full
        5s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
    "#]]);
}

#[test]
fn a_group_with_consumers_must_be_paused_first() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        3s seek orders/biller earliest => refused: the group has consumers: pause it first
        4s pause orders/biller => ok
        5s seek orders/biller earliest
            moved [(0, 1, 0)] redelivers 1 skips 0 dropped 0
            sweep blocks 3 0:1..1
            sweep cursor 3 0
        6s resume orders/biller
            ok
            a gets orders/biller 0:0.1 "m0" spent 1 until 36s
        7s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn an_ended_pause_does_not_permit_a_seek() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller => joined
        2s pause orders/biller until=10s => ok
        20s seek orders/biller earliest => refused: the group has consumers: pause it first
    "#]]);
}

#[test]
fn an_offset_is_clamped_to_the_messages_kept() {
    check(expect![[r#"
        1000s topic orders 1 retention=80s => created
        1000s produce orders m0 => stored 0:0
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
        1000s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        1200s produce orders m1
            trim 0:0..1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 1230s
        1200s ack orders/biller 0:1.1 + leave a
            ok
            ok
            orders/biller 0:1 acked
        1201s seek orders/biller 0:0
            moved [(0, 2, 1)] redelivers 1 skips 0 dropped 0
            sweep blocks 3 0:2..2
            sweep cursor 3 0
        1202s seek orders/biller 0:9999
            moved [(0, 1, 2)] redelivers 0 skips 1 dropped 0
            sweep blocks 5 0:1..1
            sweep cursor 5 0
        1203s seek orders/biller 0:1
            moved [(0, 2, 1)] redelivers 1 skips 0 dropped 0
            sweep blocks 6 0:2..2
            sweep cursor 6 0
    "#]]);
}

#[test]
fn dropped_deliveries_free_the_prefetch_of_their_consumer() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller credit=1 lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 3601s
        2s pause orders/biller => ok
        3s seek orders/biller 0:1
            moved [(0, 1, 1)] redelivers 0 skips 0 dropped 1
            sweep blocks 3 0:0..1
            sweep cursor 3 0
        4s resume orders/biller
            ok
            a gets orders/biller 0:1.1 "m1" spent 1 until 3604s
    "#]]);
}

#[test]
fn a_seek_survives_a_crash_and_its_sweep_completes() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s produce orders m0 p=0 + produce orders n0 p=1
            stored 0:0
            stored 1:0
        1s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 3601s
            a gets orders/biller 1:0.1 "n0" spent 1 until 3601s
        2s leave a => ok
        3s seek orders/biller earliest
            moved [(0, 1, 0), (1, 1, 0)] redelivers 2 skips 0 dropped 2
            sweep blocks 3 0:0..1
            sweep cursor 3 0
            sweep blocks 3 1:0..1
            sweep cursor 3 1
        3s rows block cursor garbage => block 0, cursor 0, garbage 0
        4s crash
        5s join b orders/biller
            joined
            b gets orders/biller 0:0.1 "m0" spent 1 until 35s
            b gets orders/biller 1:0.1 "n0" spent 1 until 35s
        6s crash
        7s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        8s ack orders/biller 1:0.1
            ok
            orders/biller 1:0 acked
    "#]]);
}

#[test]
fn an_unknown_group_or_partition_is_rejected() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s seek orders/biller earliest => refused: no such group
        1s seek nowhere/biller earliest => refused: no such topic
        1s group orders/biller => created
        1s seek orders/biller 2:0 => refused: partition: does not exist in this topic
    "#]]);
}
