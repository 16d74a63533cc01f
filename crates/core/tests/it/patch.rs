//! Changed settings apply to later decisions.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_patch_merges_and_a_reset_restores_the_default() {
    check(expect![[r#"
        1s topic orders 1 lease=5s max_open=2000 => created
        2s patch orders max_in_flight=64
            orders 0..0 (0 bytes), dead 0, groups [], changed lease_ms max_in_flight max_open
        3s patch orders reset=lease_ms,max_open
            orders 0..0 (0 bytes), dead 0, groups [], changed max_in_flight
        4s patch orders lease=7s reset=lease_ms
            orders 0..0 (0 bytes), dead 0, groups [], changed lease_ms max_in_flight
        5s patch orders => orders 0..0 (0 bytes), dead 0, groups [], changed lease_ms max_in_flight
        6s crash
        7s view orders => orders 0..0 (0 bytes), dead 0, groups [], changed lease_ms max_in_flight
    "#]]);
}

#[test]
fn missing_fields_of_a_retry_policy_take_the_value_in_force() {
    check(expect![[r#"
        1s topic orders 1 retry=2 => created
        1s topic orders 1 retry=2 => exists
        1s topic orders 1 retry=3
            refused: the topic already exists with different partitions or settings
        2s act patch orders retry=,1h
            orders 0..0 (0 bytes), dead 0, groups [], changed retry_policy
        2s topic orders 1 retry=2,1h => exists
        2s produce orders m0 => stored 0:0
        2s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
        3s nack orders/biller 0:0.1
            ok
            orders/biller 0:0 nacked, due 1875.645s
        4s crash
        2h join b orders/biller
            joined
            b gets orders/biller 0:0.2 "m0" spent 2 until 7230s after "nack"
        3h nack orders/biller 0:0.2
            dead letter 0:0 exhausted after 2 of biller, "ack_timeout"
            orders/biller 0:0 dead
            trim 0:0..1
            stale: dead
        4h patch orders retry=,,5s
            refused: settings.retry_policy: backoff_ms must not exceed max_backoff_ms
        5h topic orders 1 retry=2,1h => exists
        5h patch orders reset=retry_policy => orders 1..1 (0 bytes), dead 1, groups ["biller"]
        5h topic orders 1 retry=20 => exists
        6h audit 1..9 of=default/acts
            #1 patch_topic orders act-1 ops test r-1 {"retry_policy.backoff_ms":"3600000"} 8d7eb042 (next 2)
    "#]]);
}

#[test]
fn a_patch_is_validated_as_a_unit() {
    check(expect![[r#"
        1s topic orders 1 max_in_flight=5 max_open=10 => created
        2s patch orders max_open=4
            refused: settings.max_open: must be between 5 and 1000000 (got 4)
        3s patch orders max_in_flight=11
            refused: settings.max_open: must be between 11 and 1000000 (got 10)
        4s patch orders reset=max_in_flight
            refused: settings.max_open: must be between 1000 and 1000000 (got 10)
        5s patch orders lease=1ms
            refused: settings.lease_ms: must be between 250 and 43200000 (got 1)
        6s patch orders effect=8d
            refused: settings.dedupe_ttl_ms: must not be shorter than effect_ttl_ms
        7s view orders => orders 0..0 (0 bytes), dead 0, groups [], changed max_in_flight max_open
        8s patch nothing lease=1s => refused: no such topic
    "#]]);
}

#[test]
fn patching_a_dead_letter_topic_is_rejected() {
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
        3s patch dlq.orders lease=1s
            refused: a dead-letter topic cannot be changed or deleted by itself
    "#]]);
}

#[test]
fn a_patched_lease_ms_applies_to_new_leases_only() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller + join b orders/biller lease=20s
            joined
            joined
        2s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
            b gets orders/biller 0:1.1 "m1" spent 1 until 22s
        3s patch orders lease=5s
            orders 0..2 (4 bytes), dead 0, groups ["biller"], changed lease_ms
        4s produce orders m2 + produce orders m3
            stored 0:2
            stored 0:3
            a gets orders/biller 0:2.1 "m2" spent 1 until 9s
            b gets orders/biller 0:3.1 "m3" spent 1 until 24s
        8s groups orders
            biller backlog 4, oldest 2s, a holds 2 of 100 for 5000ms, b holds 2 of 100 for 20000ms
        31s wait
            orders/biller 0:2 expired, due 9.922s
            a gets orders/biller 0:2.2 "m2" spent 2 until 14.922s after "ack_timeout"
            orders/biller 0:2 expired, due 15.863s
            b gets orders/biller 0:2.3 "m2" spent 3 until 35.863s after "ack_timeout"
            orders/biller 0:1 expired, due 22.999s
            a gets orders/biller 0:1.2 "m1" spent 2 until 27.999s after "ack_timeout"
            orders/biller 0:3 expired, due 24.378s
            b gets orders/biller 0:3.2 "m3" spent 2 until 44.378s after "ack_timeout"
            orders/biller 0:1 expired, due 28.638s
            a gets orders/biller 0:1.3 "m1" spent 3 until 33.638s after "ack_timeout"
    "#]]);
}

#[test]
fn a_raised_limit_applies_at_once_and_a_lowered_one_revokes_nothing() {
    check(expect![[r#"
        1s topic orders 1 max_in_flight=1 => created
        1s join a orders/biller => joined
        2s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
        3s patch orders max_in_flight=3
            orders 0..3 (6 bytes), dead 0, groups ["biller"], changed max_in_flight
            a gets orders/biller 0:1.1 "m1" spent 1 until 33s
            a gets orders/biller 0:2.1 "m2" spent 1 until 33s
        4s patch orders max_in_flight=1
            orders 0..3 (6 bytes), dead 0, groups ["biller"], changed max_in_flight
        4s view orders/biller
            next 3 of 3, committed -1, backlog 3, leased 3, waiting 0, in_flight_limit
        5s ack orders/biller 0:0.1 + produce orders m3
            ok
            stored 0:3
            orders/biller 0:0 acked
        6s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        7s ack orders/biller 0:2.1
            ok
            orders/biller 0:2 acked
            a gets orders/biller 0:3.1 "m3" spent 1 until 37s
    "#]]);
}

#[test]
fn a_shorter_retention_applies_at_once() {
    check(expect![[r#"
        1s topic orders 1 retention=365d => created
        1s join a orders/biller => joined
        2s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        60s patch orders retention=10s
            orders 0..1 (2 bytes), dead 0, groups ["biller"], changed retention_ms
        80s view orders
            trim 0:0..1
            orders 1..1 (0 bytes), dead 0, groups ["biller"], changed retention_ms
    "#]]);
}

/// A tombstone is kept for the time that was configured when it was written. After that time is
/// increased, a missing tombstone is no proof of an ack.
#[test]
fn a_longer_dedupe_ttl_does_not_turn_a_forgotten_death_into_an_ack() {
    check(expect![[r#"
        0s topic orders 1 dedupe=1m => created
        0s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        0s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 30s
            a gets orders/biller 0:1.1 "m1" spent 1 until 30s
        1s bury orders/biller 0:0.1 + ack orders/biller 0:1.1
            ok
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
            orders/biller 0:1 acked
        2s ack orders/biller 0:0.1 => stale: dead
        20h patch orders reset=dedupe_ttl_ms,effect_ttl_ms
            trim 0:0..2
            orders 2..2 (0 bytes), dead 1, groups ["biller"]
        20h ack orders/biller 0:1.1 => ok
        21h produce orders m2
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 75630s
        21h ack orders/biller 0:2.1
            ok
            orders/biller 0:2 acked
        25h ack orders/biller 0:0.1
            trim 0:0..3
            expire to 86401.001s
            stale: gone
        25h ack orders/biller 0:1.1 => stale: gone
        25h crash
        144h ack orders/biller 0:2.1 => ok
        200h ack orders/biller 0:2.1 => stale: gone
    "#]]);
}

#[test]
fn a_second_patch_keeps_track_of_what_the_first_forgot() {
    check(expect![[r#"
        0s topic orders 1 dedupe=1m => created
        0s produce orders m0 => stored 0:0
        0s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 30s
        1s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        1h patch orders dedupe=2d
            orders 0..1 (2 bytes), dead 1, groups ["biller"], changed dedupe_ttl_ms effect_ttl_ms
        2h patch orders dedupe=7d
            trim 0:0..1
            orders 1..1 (0 bytes), dead 1, groups ["biller"], changed dedupe_ttl_ms effect_ttl_ms
        25h ack orders/biller 0:0.1
            expire to 86401.001s
            stale: gone
    "#]]);
}
