//! A lease expires at its end and not before. A renewal moves the end, and a recovery grants a
//! grace period. A delivery that is given back does not count as an attempt.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn an_expired_lease_is_redelivered_and_its_worker_is_rejected() {
    check(expect![[r#"
        0s topic orders 1 retry=3,1s,8s => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        10s wait => orders/biller 0:0 expired, due 10.342s
        12s ack orders/biller 0:0.1
            a gets orders/biller 0:0.2 "hello" spent 2 until 20.342s after "ack_timeout"
            stale: leased, attempt 2 is current
        13s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
        14s ack orders/biller 0:0.2 => ok
    "#]]);
}

#[test]
fn a_lease_is_valid_to_its_last_millisecond() {
    check(expect![[r#"
        1s topic orders 1 retry=3,1m,1m => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller lease=10s
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 11s
        10999ms view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
        11s view orders/biller
            orders/biller 0:0 expired, due 34.201s
            next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 34.201s), nothing_new
    "#]]);
}

#[test]
fn the_lease_length_comes_from_the_consumer_or_the_topic() {
    check(expect![[r#"
        1s topic orders 1 lease=7s => created
        1s join a orders/biller + join b orders/biller lease=250ms
            joined
            joined
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
            a gets orders/biller 0:0.1 "m0" spent 1 until 8s
            b gets orders/biller 0:1.1 "m1" spent 1 until 1.250s
        2s view orders/biller
            orders/biller 0:1 expired, due 2.249s
            next 2 of 2, committed -1, backlog 2, leased 1, waiting 1 (first 2.249s), nothing_new
    "#]]);
}

#[test]
fn an_extended_lease_ends_when_the_extension_ends() {
    check(expect![[r#"
        1s topic orders 1 retry=3,1m,1m => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller lease=10s
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 11s
        9s extend orders/biller 0:0.1 => extended until 19s
        18s extend orders/biller 0:0.1 lease=1m => extended until 78s
        70s view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
        78s view orders/biller
            orders/biller 0:0 expired, due 101.201s
            next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 101.201s), nothing_new
        79s extend orders/biller 0:0.1 => stale: waiting
    "#]]);
}

#[test]
fn an_extension_may_make_a_lease_shorter() {
    check(expect![[r#"
        100s topic orders 1 retry=3,1m,1m => created
        100s produce orders hello => stored 0:0
        100s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 3700s
        102s extend orders/biller 0:0.1 lease=1s => extended until 103s
        102999ms view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
        103s view orders/biller
            orders/biller 0:0 expired, due 126.201s
            next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 126.201s), nothing_new
    "#]]);
}

#[test]
fn an_extension_survives_a_crash() {
    check(expect![[r#"
        1s topic orders 1 retry=3,1m,1m => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller lease=10s
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 11s
        2s extend orders/biller 0:0.1 lease=1h => extended until 3602s
        3s crash
        3601s view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, consumers_full
        3602s view orders/biller
            orders/biller 0:0 expired, due 3625.201s
            next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 3625.201s), no_consumers
    "#]]);
}

#[test]
fn an_extended_lease_still_counts_in_the_prefetch_of_its_consumer() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller credit=1
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s extend orders/biller 0:0.1 => extended until 32s
        3s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:1.1 "m1" spent 1 until 33s
    "#]]);
}

#[test]
fn a_late_ack_of_the_current_attempt_is_accepted() {
    check(expect![[r#"
        1s topic orders 1 retry=3,1m,1m => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller lease=10s
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 11s
        20s ack orders/biller 0:0.1
            orders/biller 0:0 expired, due 34.201s
            ok
            orders/biller 0:0 acked
        21s view orders/biller
            next 1 of 1, committed 0, backlog 0, leased 0, waiting 0, nothing_new
        1h view orders/biller
            next 1 of 1, committed 0, backlog 0, leased 0, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_late_nack_changes_only_the_reason() {
    check(expect![[r#"
        1s topic orders 1 retry=3,1m,1m => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller lease=10s
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 11s
        12s nack orders/biller 0:0.1 reason="card declined" delay=1h
            orders/biller 0:0 expired, due 34.201s
            ok
            orders/biller 0:0 expired, due 34.201s
        13s bury orders/biller 0:0.1
            ok
            orders/biller 0:0 expired, due 34.201s
        14s nack orders/biller 0:0.1 reason="the bank is closed"
            ok
            orders/biller 0:0 expired, due 34.201s
        15s release orders/biller 0:0.1 => ok
        90s wait
            a gets orders/biller 0:0.2 "hello" spent 2 until 44.201s after "the bank is closed"
            orders/biller 0:0 expired, due 92.839s
    "#]]);
}

#[test]
fn a_late_nack_without_a_reason_replaces_the_error_of_a_staged_retry() {
    check(expect![[r#"
        100s topic orders 1 retry=9,1m,1m lease=10s => created
        100s produce orders hello => stored 0:0
        100s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 110s
        111s nack orders/biller 0:0.1 reason="card declined"
            orders/biller 0:0 expired, due 133.201s
            ok
            orders/biller 0:0 expired, due 133.201s
        112s nack orders/biller 0:0.1
            ok
            orders/biller 0:0 expired, due 133.201s
        134s wait => a gets orders/biller 0:0.2 "hello" spent 2 until 143.201s after "nack"
    "#]]);
}

#[test]
fn no_lease_ends_before_ten_seconds_after_a_recovery() {
    check(expect![[r#"
        1s topic orders 1 retry=3,1m,1m => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller lease=30s credit=2 + join b orders/biller lease=2s credit=1
            joined
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            b gets orders/biller 0:1.1 "m1" spent 1 until 3s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s crash until 60s
        61999ms view orders/biller
            next 3 of 3, committed -1, backlog 3, leased 3, waiting 0, consumers_full
        62s view orders/biller
            orders/biller 0:1 expired, due 91.075s
            next 3 of 3, committed -1, backlog 3, leased 2, waiting 1 (first 91.075s), consumers_full
        69999ms ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        70s view orders/biller
            orders/biller 0:2 expired, due 121.419s
            next 3 of 3, committed 0, backlog 2, leased 0, waiting 2 (first 91.075s), no_consumers
    "#]]);
}

#[test]
fn the_grace_period_restarts_with_every_recovery() {
    check(expect![[r#"
        1s topic orders 1 retry=3,1m,1m => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller lease=30s
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s crash until 60s
        65s crash
        74999ms view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, consumers_full
        75s view orders/biller
            orders/biller 0:0 expired, due 98.201s
            next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 98.201s), no_consumers
    "#]]);
}

#[test]
fn a_lease_shorter_than_the_grace_period_reports_its_real_end() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s crash
        3s extend orders/biller 0:0.1 lease=1s => extended until 12s
        11s view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, consumers_full
        13s view orders/biller
            orders/biller 0:0 expired, due 12.342s
            next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 12.342s), no_consumers
    "#]]);
}

#[test]
fn the_grace_period_does_not_shorten_a_lease() {
    check(expect![[r#"
        1s topic orders 1 retry=3,1m,1m => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller lease=1h
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 3601s
        2s crash
        3600s view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, consumers_full
        3601s view orders/biller
            orders/biller 0:0 expired, due 3624.201s
            next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 3624.201s), no_consumers
    "#]]);
}

#[test]
fn a_delivery_that_is_given_back_is_not_counted() {
    check(expect![[r#"
        1s topic orders 1 retry=1,1s,1s => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s giveback orders/biller 0:0.1
            ok
            orders/biller 0:0 returned, due 2s
            a gets orders/biller 0:0.2 "hello" spent 1 until 32s
        3s giveback orders/biller 0:0.1 => ok
        4s ack orders/biller 0:0.1 => stale: leased, attempt 2 is current
        5s nack orders/biller 0:0.2
            ok
            dead letter 0:0 exhausted after 1 of biller, "nack"
            orders/biller 0:0 dead
    "#]]);
}

#[test]
fn giving_back_an_ended_delivery_changes_nothing() {
    check(expect![[r#"
        1s topic orders 1 retry=3,1m,1m lease=10s => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 11s
            a gets orders/biller 0:1.1 "m1" spent 1 until 11s
            a gets orders/biller 0:2.1 "m2" spent 1 until 11s
        2s ack orders/biller 0:0.1 + nack orders/biller 0:1.1
            ok
            ok
            orders/biller 0:0 acked
            orders/biller 0:1 nacked, due 31.075s
        3s giveback orders/biller 0:0.1 => ok
        4s giveback orders/biller 0:1.1 => ok
        12s giveback orders/biller 0:2.1
            orders/biller 0:2 expired, due 62.419s
            ok
        13s view orders/biller
            next 3 of 3, committed 0, backlog 2, leased 0, waiting 2 (first 31.075s), nothing_new
    "#]]);
}

#[test]
fn a_release_is_due_at_once_or_after_its_delay_and_keeps_the_last_error() {
    check(expect![[r#"
        1s topic orders 1 retry=2,1s,1s => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s nack orders/biller 0:0.1 delay=1s reason="card declined"
            ok
            orders/biller 0:0 nacked, due 3s
        4s release orders/biller 0:0.2 delay=10s reason="shutting down"
            a gets orders/biller 0:0.2 "hello" spent 2 until 33s after "card declined"
            ok
            orders/biller 0:0 returned, due 14s
        15s release orders/biller 0:0.3
            a gets orders/biller 0:0.3 "hello" spent 2 until 44s after "card declined"
            ok
            orders/biller 0:0 returned, due 15s
            a gets orders/biller 0:0.4 "hello" spent 2 until 45s after "card declined"
        16s nack orders/biller 0:0.4
            ok
            dead letter 0:0 exhausted after 2 of biller, "nack"
            orders/biller 0:0 dead
    "#]]);
}

#[test]
fn the_fourth_return_in_a_row_waits_for_the_backoff() {
    check(expect![[r#"
        1s topic orders 1 retry=9,5s,1m => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s release orders/biller 0:0.1
            ok
            orders/biller 0:0 returned, due 2s
            a gets orders/biller 0:0.2 "hello" spent 1 until 32s
        3s giveback orders/biller 0:0.2
            ok
            orders/biller 0:0 returned, due 3s
            a gets orders/biller 0:0.3 "hello" spent 1 until 33s
        4s release orders/biller 0:0.3
            ok
            orders/biller 0:0 returned, due 4s
            a gets orders/biller 0:0.4 "hello" spent 1 until 34s
        5s release orders/biller 0:0.4
            ok
            orders/biller 0:0 returned, due 10s
        11s release orders/biller 0:0.5 delay=20s
            a gets orders/biller 0:0.5 "hello" spent 1 until 40s
            ok
            orders/biller 0:0 returned, due 31s
        32s nack orders/biller 0:0.6 delay=1s
            a gets orders/biller 0:0.6 "hello" spent 1 until 61s
            ok
            orders/biller 0:0 nacked, due 33s
        34s release orders/biller 0:0.7
            a gets orders/biller 0:0.7 "hello" spent 2 until 63s after "nack"
            ok
            orders/biller 0:0 returned, due 34s
            a gets orders/biller 0:0.8 "hello" spent 2 until 64s after "nack"
    "#]]);
}

#[test]
fn returns_in_a_row_are_counted_through_a_crash() {
    check(expect![[r#"
        1s topic orders 1 retry=9,5s,1m => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s release orders/biller 0:0.1
            ok
            orders/biller 0:0 returned, due 2s
            a gets orders/biller 0:0.2 "hello" spent 1 until 32s
        3s release orders/biller 0:0.2
            ok
            orders/biller 0:0 returned, due 3s
            a gets orders/biller 0:0.3 "hello" spent 1 until 33s
        4s release orders/biller 0:0.3
            ok
            orders/biller 0:0 returned, due 4s
            a gets orders/biller 0:0.4 "hello" spent 1 until 34s
        5s crash
        6s release orders/biller 0:0.4
            ok
            orders/biller 0:0 returned, due 11s
    "#]]);
}

#[test]
fn fields_sent_with_a_token_must_match_it() {
    check(expect![[r#"
        0s topic orders 2 => created
        0s produce orders hello => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        1s ack orders/biller 0:0.1 of=bills/biller => refused: token: belongs to another topic
        1s ack orders/biller 0:0.1 of=orders/mailer => refused: token: belongs to another group
        1s ack orders/biller 0:0.1 at=1:0 => refused: token: belongs to another partition
        1s ack orders/biller 0:0.1 at=0:1 => refused: token: belongs to another offset
        1s nack orders/biller 0:0.1 owner=v => refused: token: belongs to another owner
        1s extend orders/biller 0:0.1 owner=v => refused: token: belongs to another owner
        1s ack orders/biller 0:0.1 of=orders/biller at=0:0 owner=w
            ok
            orders/biller 0:0 acked
        1s ack orders/biller 0:0.1 owner=v => ok
    "#]]);
}
