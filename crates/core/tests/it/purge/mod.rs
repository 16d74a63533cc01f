//! A purged dead letter is removed once, and readers of dead letters skip the hole.

mod property;
mod together;

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_purged_dead_letter_no_longer_exists() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        2s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        3s rows dead page => dead 2, page 3
        3s purge orders 0:0
            purged 1
            dead letter 0:0 is gone
        3s rows dead page => dead 1, page 2
        4s dead orders state=all => 0:1 rejected of biller at 2s "nack" (scanned 1, the end)
        4s peek dlq.orders 0 => 0:1 m1 (scanned 1, the end)
        4s redrive orders 0:0 => refused: no such message
        4s purge orders 0:0 => purged 0
        4s view orders => orders 0..2 (4 bytes), dead 1, groups ["biller"]
        5s crash
        6s redrive orders 0:0 => refused: no such message
        6s purge orders 0:0 => purged 0
        6s purge orders 0:1 0:1
            purged 1
            dead letter 0:1 is gone
        6s view orders => orders 0..2 (4 bytes), dead 0, groups ["biller"]
        6s view dlq.orders => dlq.orders (dead letters) 2..2 (0 bytes), dead 0, groups []
        6s peek dlq.orders 0 => none (scanned 0, the end)
    "#]]);
}

#[test]
fn a_redriven_dead_letter_is_not_counted_twice() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        2s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        3s view orders => orders 0..2 (4 bytes), dead 2, groups ["biller"]
        3s redrive orders 0:0
            redriven as 0:2
            a gets orders/biller 0:2.1 "m0" spent 1 until 33s redriven 1 times from 0:0
        3s view orders => orders 0..3 (6 bytes), dead 1, groups ["biller"]
        4s purge orders 0:0
            purged 1
            dead letter 0:0 is gone
        4s view orders => orders 0..3 (6 bytes), dead 1, groups ["biller"]
        5s purge orders 0:1
            purged 1
            dead letter 0:1 is gone
        5s view orders => orders 0..3 (6 bytes), dead 0, groups ["biller"]
    "#]]);
}

#[test]
fn commands_in_the_batch_of_a_purge_are_decided_before_or_after_it() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s purge orders 0:0 + purge orders 0:0 + dead orders + redrive orders 0:0
            purged 1
            purged 0
            refused: no such message
            none (scanned 0, the end)
            dead letter 0:0 is gone
        4s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        5s crash
        6s purge orders 0:1 + dead orders values + redrive orders 0:1 + peek dlq.orders 0
            0:1 m1 (scanned 1, the end)
            purged 1
            none (scanned 0, the end)
            refused: no such message
            dead letter 0:1 is gone
        6s rows dead page => dead 0, page 1
    "#]]);
}

#[test]
fn a_reader_of_dead_letters_skips_holes() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1 + produce orders m2 + produce orders m3 + produce orders m4
            stored 0:0
            stored 0:1
            stored 0:2
            stored 0:3
            stored 0:4
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
            a gets orders/biller 0:3.1 "m3" spent 1 until 31s
            a gets orders/biller 0:4.1 "m4" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        2s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        2s bury orders/biller 0:2.1
            ok
            dead letter 0:2 rejected after 1 of biller, "nack"
            orders/biller 0:2 dead
        2s bury orders/biller 0:3.1
            ok
            dead letter 0:3 rejected after 1 of biller, "nack"
            orders/biller 0:3 dead
        2s bury orders/biller 0:4.1
            ok
            dead letter 0:4 rejected after 1 of biller, "nack"
            orders/biller 0:4 dead
        3s group dlq.orders/undertaker => created
        3s purge orders 0:1 0:3
            purged 2
            dead letter 0:1 is gone
            dead letter 0:3 is gone
        4s view dlq.orders/undertaker
            next 0 of 5, committed -1, backlog 5, leased 0, waiting 0, no_consumers
        4s join u dlq.orders/undertaker credit=1
            joined
            u gets dlq.orders/undertaker 0:0.1 "m0" spent 1 until 34s after "nack"
        5s ack dlq.orders/undertaker 0:0.1
            ok
            dlq.orders/undertaker 0:0 acked
            u gets dlq.orders/undertaker 0:2.1 "m2" spent 1 until 35s after "nack"
        6s crash
        7s join u dlq.orders/undertaker credit=1
            joined
            u gets dlq.orders/undertaker 0:4.1 "m4" spent 1 until 37s after "nack"
        40s ack dlq.orders/undertaker 0:2.1
            dlq.orders/undertaker 0:2 expired, due 635s
            dlq.orders/undertaker 0:4 expired, due 637s
            ok
            dlq.orders/undertaker 0:2 acked
        41s view dlq.orders/undertaker
            next 5 of 5, committed 3, backlog 1, leased 0, waiting 1 (first 637s), nothing_new
    "#]]);
}

#[test]
fn a_reader_at_a_hole_up_to_the_end_receives_later_dead_letters() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        2s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        3s join u dlq.orders/undertaker credit=1
            joined
            u gets dlq.orders/undertaker 0:0.1 "m0" spent 1 until 33s after "nack"
        4s crash
        5s purge orders 0:1
            purged 1
            dead letter 0:1 is gone
        6s join u dlq.orders/undertaker credit=2 => joined
        40s ack dlq.orders/undertaker 0:0.1
            orders/biller 0:2 expired, due 31.922s
            dlq.orders/undertaker 0:0 expired, due 633s
            ok
            dlq.orders/undertaker 0:0 acked
        41s view dlq.orders/undertaker
            next 2 of 2, committed 1, backlog 0, leased 0, waiting 0, nothing_new
        41s join a orders/biller
            joined
            a gets orders/biller 0:2.2 "m2" spent 2 until 71s after "ack_timeout"
        42s bury orders/biller 0:2.2
            ok
            dead letter 0:2 rejected after 2 of biller, "nack"
            orders/biller 0:2 dead
            u gets dlq.orders/undertaker 0:2.1 "m2" spent 2 until 72s after "nack"
        43s ack dlq.orders/undertaker 0:2.1
            ok
            dlq.orders/undertaker 0:2 acked
        44s view dlq.orders/undertaker
            next 3 of 3, committed 2, backlog 0, leased 0, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_lane_starts_after_its_lowest_purged_dead_letters() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders mm1 + produce orders mmm2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "mm1" spent 1 until 31s
            a gets orders/biller 0:2.1 "mmm2" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        2s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        2s bury orders/biller 0:2.1
            ok
            dead letter 0:2 rejected after 1 of biller, "nack"
            orders/biller 0:2 dead
        3s group dlq.orders/undertaker => created
        3s purge orders 0:1
            purged 1
            dead letter 0:1 is gone
        3s view dlq.orders
            dlq.orders (dead letters) 0..3 (9 bytes), dead 0, groups ["undertaker"]
        3s purge orders 0:0
            purged 1
            dead letter 0:0 is gone
        3s view dlq.orders
            dlq.orders (dead letters) 1..3 (7 bytes), dead 0, groups ["undertaker"]
        3s view dlq.orders/undertaker
            next 1 of 3, committed 0, backlog 2, leased 0, waiting 0, no_consumers
        4s crash
        5s join u dlq.orders/undertaker
            joined
            u gets dlq.orders/undertaker 0:2.1 "mmm2" spent 1 until 35s after "nack"
        6s group dlq.orders/late => created
        6s join v dlq.orders/late
            joined
            v gets dlq.orders/late 0:2.1 "mmm2" spent 1 until 36s after "nack"
    "#]]);
}

#[test]
fn a_purge_ends_open_deliveries_of_the_dead_letter() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        2s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        2s bury orders/biller 0:2.1
            ok
            dead letter 0:2 rejected after 1 of biller, "nack"
            orders/biller 0:2 dead
        3s join u dlq.orders/undertaker credit=2
            joined
            u gets dlq.orders/undertaker 0:0.1 "m0" spent 1 until 33s after "nack"
            u gets dlq.orders/undertaker 0:1.1 "m1" spent 1 until 33s after "nack"
        4s nack dlq.orders/undertaker 0:1.1 reason=later
            ok
            dlq.orders/undertaker 0:1 nacked, due 604s
            u gets dlq.orders/undertaker 0:2.1 "m2" spent 1 until 34s after "nack"
        4s rows note => note 1
        5s purge orders 0:0 0:1
            purged 2
            dlq.orders/undertaker 0:0 purged
            dead letter 0:0 is gone
            dlq.orders/undertaker 0:1 purged
            dead letter 0:1 is gone
        5s rows note page => note 0, page 2
        6s ack dlq.orders/undertaker 0:0.1 => ok
        6s extend dlq.orders/undertaker 0:0.1 => stale: settled
        6s nack dlq.orders/undertaker 0:1.1 => stale: settled
        7s view dlq.orders/undertaker
            next 3 of 3, committed 1, backlog 1, leased 1, waiting 0, nothing_new
        30m wait
            dlq.orders/undertaker 0:2 expired, due 634s
            u gets dlq.orders/undertaker 0:2.2 "m2" spent 1 until 664s after "nack"
            dlq.orders/undertaker 0:2 expired, due 1264s
            u gets dlq.orders/undertaker 0:2.3 "m2" spent 1 until 1294s after "nack"
            dlq.orders/undertaker 0:2 expired, due 1894s
        31m view dlq.orders/undertaker
            next 3 of 3, committed 1, backlog 1, leased 0, waiting 1 (first 1894s), nothing_new
    "#]]);
}

#[test]
fn an_ack_by_an_earlier_attempt_is_stale_after_a_purge() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s join u dlq.orders/undertaker credit=2
            joined
            u gets dlq.orders/undertaker 0:0.1 "m0" spent 1 until 33s after "nack"
        4s release dlq.orders/undertaker 0:0.1
            ok
            dlq.orders/undertaker 0:0 returned, due 4s
            u gets dlq.orders/undertaker 0:0.2 "m0" spent 1 until 34s after "nack"
        6s purge orders 0:0
            purged 1
            dlq.orders/undertaker 0:0 purged
            dead letter 0:0 is gone
        7s ack dlq.orders/undertaker 0:0.1 => stale: settled
        7s ack dlq.orders/undertaker 0:0.2 => ok
    "#]]);
}
