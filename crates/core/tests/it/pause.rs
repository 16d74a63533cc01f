//! A paused group receives no messages. Its leased messages can still be settled, and a pause uses
//! up no attempts.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_paused_group_receives_nothing_until_it_is_resumed() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller => joined
        2s pause orders/biller => ok
        3s produce orders m0 => stored 0:0
        1h view orders/biller
            paused by ops since 2s; next 0 of 1, committed -1, backlog 1, leased 0, waiting 0, paused
        1h join b orders/biller => joined
        1h resume orders/biller
            ok
            a gets orders/biller 0:0.1 "m0" spent 1 until 3630s
    "#]]);
}

#[test]
fn a_pause_affects_one_group_only() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller => joined
        1s join b orders/mailer => joined
        2s pause orders/biller => ok
        3s produce orders m0
            stored 0:0
            b gets orders/mailer 0:0.1 "m0" spent 1 until 33s
    "#]]);
}

#[test]
fn leased_messages_of_a_paused_group_can_be_settled() {
    check(expect![[r#"
        1s topic orders 1 lease=10s => created
        1s produce orders m0 + produce orders m1 + produce orders m2 + produce orders m3
            stored 0:0
            stored 0:1
            stored 0:2
            stored 0:3
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 11s
            a gets orders/biller 0:1.1 "m1" spent 1 until 11s
            a gets orders/biller 0:2.1 "m2" spent 1 until 11s
            a gets orders/biller 0:3.1 "m3" spent 1 until 11s
        2s pause orders/biller => ok
        3s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        3s nack orders/biller 0:1.1 delay=1s reason=x
            ok
            orders/biller 0:1 nacked, due 4s
        3s release orders/biller 0:2.1
            ok
            orders/biller 0:2 returned, due 3s
        9s extend orders/biller 0:3.1 => extended until 19s
        18s ack orders/biller 0:3.1
            ok
            orders/biller 0:3 acked
        20s view orders/biller
            paused by ops since 2s; next 4 of 4, committed 0, backlog 2, leased 0, waiting 2 (first 3s), paused
        21s resume orders/biller
            ok
            a gets orders/biller 0:2.2 "m2" spent 1 until 31s
            a gets orders/biller 0:1.2 "m1" spent 2 until 31s after "x"
    "#]]);
}

#[test]
fn expired_leases_wait_and_use_up_no_attempt() {
    check(expect![[r#"
        1s topic orders 1 lease=10s retry=2,1s,1s => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 11s
        2s pause orders/biller => ok
        30d view orders/biller
            orders/biller 0:0 expired, due 11.342s
            paused by ops since 2s; next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 11.342s), paused
        30d resume orders/biller
            ok
            a gets orders/biller 0:0.2 "m0" spent 2 until 2592010s after "ack_timeout"
    "#]]);
}

#[test]
fn a_pause_survives_a_crash() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        2s group orders/biller => created
        2s pause orders/biller => ok
        3s crash
        4s join a orders/biller => joined
        5s view orders/biller
            paused by ops since 2s; next 0 of 1, committed -1, backlog 1, leased 0, waiting 0, paused
        6s resume orders/biller
            ok
            a gets orders/biller 0:0.1 "m0" spent 1 until 36s
    "#]]);
}

#[test]
fn a_pause_ends_at_its_end_time() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s join a orders/biller => joined
        2s pause orders/biller until=1h => ok
        3s produce orders m0 p=1 => stored 1:0
        3599s view orders/biller
            paused by ops since 2s; next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, paused; next 0 of 1, committed -1, backlog 1, leased 0, waiting 0, paused
        3600s view orders/biller
            a gets orders/biller 1:0.1 "m0" spent 1 until 3630s
            next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, nothing_new; next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_pause_with_an_end_time_survives_a_crash() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s group orders/biller => created
        2s pause orders/biller until=1h => ok
        3s crash
        4s join a orders/biller => joined
        3599s view orders/biller
            paused by ops since 2s; next 0 of 1, committed -1, backlog 1, leased 0, waiting 0, paused
        3600s wait => a gets orders/biller 0:0.1 "m0" spent 1 until 3630s
    "#]]);
}

#[test]
fn pausing_twice_replaces_the_end_and_keeps_the_start() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller => joined
        2s pause orders/biller until=10s => ok
        5s pause orders/biller => ok
        6s produce orders m0 => stored 0:0
        20s view orders/biller
            paused by ops since 2s; next 0 of 1, committed -1, backlog 1, leased 0, waiting 0, paused
        21s pause orders/biller until=30s => ok
        31s view orders/biller
            a gets orders/biller 0:0.1 "m0" spent 1 until 60s
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_pause_after_an_ended_one_has_a_new_start() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller => joined
        2s pause orders/biller until=10s => ok
        1h pause orders/biller => ok
        1h view orders/biller
            paused by ops since 3600s; next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, paused
    "#]]);
}

#[test]
fn resuming_a_group_that_is_not_paused_changes_nothing() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s resume orders/biller => refused: no such group
        1s pause orders/biller => refused: no such group
        2s group orders/biller => created
        3s resume orders/biller => ok
    "#]]);
}

#[test]
fn a_deadline_passes_during_a_pause() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller => joined
        2s pause orders/biller => ok
        3s produce orders m0 deadline=10s => stored 0:0
        20s view orders => orders 0..1 (2 bytes), dead 0, groups ["biller"]
        30s resume orders/biller
            ok
            dead letter 0:0 deadline after 0 of biller, ""
    "#]]);
}
