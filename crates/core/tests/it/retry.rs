//! A failed message is delivered again after its backoff or the delay the worker named. It carries
//! its last error and counts the attempt. Retries and fresh messages do not starve each other.

use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn each_failure_doubles_the_backoff_up_to_max_backoff_ms() {
    check(expect![[r#"
        1s topic orders 1 retry=6,1s,4s => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        10s nack orders/biller 0:0.1
            ok
            orders/biller 0:0 nacked, due 10.342s
        20s nack orders/biller 0:0.2
            a gets orders/biller 0:0.2 "hello" spent 2 until 40.342s after "nack"
            ok
            orders/biller 0:0 nacked, due 20.695s
        30s nack orders/biller 0:0.3
            a gets orders/biller 0:0.3 "hello" spent 3 until 50.695s after "nack"
            ok
            orders/biller 0:0 nacked, due 31.218s
        40s nack orders/biller 0:0.4
            a gets orders/biller 0:0.4 "hello" spent 4 until 61.218s after "nack"
            ok
            orders/biller 0:0 nacked, due 42.422s
        50s nack orders/biller 0:0.5
            a gets orders/biller 0:0.5 "hello" spent 5 until 72.422s after "nack"
            ok
            orders/biller 0:0 nacked, due 51.302s
        60s ack orders/biller 0:0.6
            a gets orders/biller 0:0.6 "hello" spent 6 until 81.302s after "nack"
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn a_message_with_its_own_policy_follows_it() {
    check(expect![[r#"
        1s topic orders 1 retry=9,1h,1h => created
        1s produce orders hello retry=2,1s,1s => stored 0:0
        1s produce orders hello retry=3 => stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
            a gets orders/biller 0:1.1 "hello" spent 1 until 31s
        10s nack orders/biller 0:0.1 + nack orders/biller 0:1.1
            ok
            ok
            orders/biller 0:0 nacked, due 10.342s
            orders/biller 0:1 nacked, due 854.436s
        20s nack orders/biller 0:0.2
            a gets orders/biller 0:0.2 "hello" spent 2 until 40.342s after "nack"
            ok
            dead letter 0:0 exhausted after 2 of biller, "nack"
            orders/biller 0:0 dead
        21s view orders/biller
            next 2 of 2, committed 0, backlog 1, leased 0, waiting 1 (first 854.436s), nothing_new
    "#]]);
}

#[test]
fn a_worker_may_name_the_delay() {
    check(expect![[r#"
        1s topic orders 1 retry=6,1h,1h => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
        2s nack orders/biller 0:0.1 delay=5s
            ok
            orders/biller 0:0 nacked, due 7s
        2s nack orders/biller 0:1.1 delay=0s
            ok
            orders/biller 0:1 nacked, due 2s
            a gets orders/biller 0:1.2 "m1" spent 2 until 32s after "nack"
        8s view orders/biller
            a gets orders/biller 0:0.2 "m0" spent 2 until 37s after "nack"
            next 2 of 2, committed -1, backlog 2, leased 2, waiting 0, nothing_new
    "#]]);
}

#[test]
fn the_last_error_is_the_reason_nack_or_ack_timeout() {
    check(expect![[r#"
        1s topic orders 1 lease=10s retry=9,1s,1s => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 11s
        2s nack orders/biller 0:0.1 delay=1s reason="card declined"
            ok
            orders/biller 0:0 nacked, due 3s
        4s rows note
            a gets orders/biller 0:0.2 "hello" spent 2 until 13s after "card declined"
            note 1
        4s nack orders/biller 0:0.2 delay=1s
            ok
            orders/biller 0:0 nacked, due 5s
        5s rows note
            a gets orders/biller 0:0.3 "hello" spent 3 until 15s after "nack"
            note 0
        20s rows note
            orders/biller 0:0 expired, due 15.251s
            a gets orders/biller 0:0.4 "hello" spent 4 until 25.251s after "ack_timeout"
            note 0
        20s nack orders/biller 0:0.4 delay=1s reason=again
            ok
            orders/biller 0:0 nacked, due 21s
        22s release orders/biller 0:0.5 delay=1s
            a gets orders/biller 0:0.5 "hello" spent 5 until 31s after "again"
            ok
            orders/biller 0:0 returned, due 23s
        24s ack orders/biller 0:0.6
            a gets orders/biller 0:0.6 "hello" spent 5 until 33s after "again"
            ok
            orders/biller 0:0 acked
        25s rows note => note 0
    "#]]);
}

#[test]
fn attempts_and_the_last_error_survive_a_crash() {
    check(expect![[r#"
        1s topic orders 1 retry=9,1s,1s => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s nack orders/biller 0:0.1 delay=1s reason=first
            ok
            orders/biller 0:0 nacked, due 3s
        4s nack orders/biller 0:0.2 delay=10s reason="card declined"
            a gets orders/biller 0:0.2 "hello" spent 2 until 33s after "first"
            ok
            orders/biller 0:0 nacked, due 14s
        5s crash
        20s join b orders/biller
            joined
            b gets orders/biller 0:0.3 "hello" spent 3 until 50s after "card declined"
        21s crash
        22s ack orders/biller 0:0.3
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn a_retry_is_read_from_its_page_a_second_before_it_is_due() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s nack orders/biller 0:0.1 delay=10s
            ok
            orders/biller 0:0 nacked, due 12s
        3s crash
        4s join a orders/biller => joined
        11999ms view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 12s), nothing_new
        12s wait => a gets orders/biller 0:0.2 "hello" spent 2 until 42s after "nack"
    "#]]);
}

#[test]
fn four_fresh_messages_are_delivered_after_each_retry() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 1");
    world.play("1s join a orders/biller credit=3");
    world.play("1s produce orders r0 + produce orders r1 + produce orders r2");
    let nacks = [0, 1, 2].map(|at| format!("nack orders/biller 0:{at}.1 delay=5s"));
    world.play(&format!("2s {} + leave a", nacks.join(" + ")));
    let fresh: Vec<String> = (3..20).map(|at| format!("produce orders f{at}")).collect();
    world.play(&format!("3s {}", fresh.join(" + ")));
    let shown = world.play("10s join b orders/biller credit=16");
    let values: Vec<&str> = shown.iter().filter_map(|line| line.split('"').nth(1)).collect();
    // The retries were fresh once. They are three of the four fresh messages before the first
    // retry.
    let expected = "f3 r0 f4 f5 f6 f7 r1 f8 f9 f10 f11 r2 f12 f13 f14 f15";
    assert_eq!(values.join(" "), expected);
}

#[test]
fn retries_get_their_share_with_a_prefetch_of_one() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders r0 => stored 0:0
        1s join a orders/biller credit=1
            joined
            a gets orders/biller 0:0.1 "r0" spent 1 until 31s
        1s produce orders f1 + produce orders f2 + produce orders f3 + produce orders f4 + produce orders f5
            stored 0:1
            stored 0:2
            stored 0:3
            stored 0:4
            stored 0:5
        2s nack orders/biller 0:0.1 delay=100ms
            ok
            orders/biller 0:0 nacked, due 2.100s
            a gets orders/biller 0:1.1 "f1" spent 1 until 32s
        3s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
            a gets orders/biller 0:2.1 "f2" spent 1 until 33s
        4s ack orders/biller 0:2.1
            ok
            orders/biller 0:2 acked
            a gets orders/biller 0:3.1 "f3" spent 1 until 34s
        5s ack orders/biller 0:3.1
            ok
            orders/biller 0:3 acked
            a gets orders/biller 0:0.2 "r0" spent 2 until 35s after "nack"
        6s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
            a gets orders/biller 0:4.1 "f4" spent 1 until 36s
        7s ack orders/biller 0:4.1
            ok
            orders/biller 0:4 acked
            a gets orders/biller 0:5.1 "f5" spent 1 until 37s
    "#]]);
}

#[test]
fn due_retries_do_not_starve_fresh_messages_that_must_be_read() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 1");
    world.play("1s join a orders/biller bytes=9000000");
    // One read returns this much, so later messages need another read.
    let retries = ["produce orders 140000bytes"; 8].join(" + ");
    world.play(&format!("1s {retries}"));
    let nacks: Vec<String> =
        (0..8).map(|at| format!("nack orders/biller 0:{at}.1 delay=5s")).collect();
    world.play(&format!("2s {} + leave a", nacks.join(" + ")));
    let fresh = ["produce orders fresh"; 8].join(" + ");
    world.play(&format!("3s {fresh}"));
    world.play("4s crash");
    // Loads only the retries of the other group into memory.
    world.play("5s join reader orders/reader bytes=980000");
    let mut shown = world.play("20s join b orders/biller credit=1");
    let mut places = Vec::new();
    for second in 21..27 {
        let line = shown.iter().find(|line| line.contains("b gets")).expect("it has free prefetch");
        places.push(line.split(' ').nth(3).expect("a place").to_owned());
        let place = places.last().expect("just pushed");
        shown = world.play(&format!("{second}s ack orders/biller {place}"));
    }
    let fresh = places.iter().filter(|place| place.ends_with(".1")).count();
    assert!(fresh >= 4, "four fresh after each retry, not {places:?}");
}

#[test]
fn a_message_given_back_is_delivered_before_fresh_messages() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller credit=2
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
        2s giveback orders/biller 0:1.1
            ok
            orders/biller 0:1 returned, due 2s
            a gets orders/biller 0:1.2 "m1" spent 1 until 32s
        3s release orders/biller 0:0.1
            ok
            orders/biller 0:0 returned, due 3s
            a gets orders/biller 0:0.2 "m0" spent 1 until 33s
        4s ack orders/biller 0:1.2
            ok
            orders/biller 0:1 acked
            a gets orders/biller 0:2.1 "m2" spent 1 until 34s
    "#]]);
}

#[test]
fn max_attempts_minus_one_retries_forever() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 1");
    world.play("1s produce orders hello retry=-1,1s,1s");
    world.play("1s join a orders/biller");
    for attempt in 1..=2_000 {
        let second = attempt * 2;
        let said = world.ask(&format!("{second}s nack orders/biller 0:0.{attempt}"));
        assert_eq!(said, "ok", "attempt {attempt}");
    }
    world.check();
    assert_eq!(world.ask("4002s ack orders/biller 0:0.2001"), "ok");
}
