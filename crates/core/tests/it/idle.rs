//! Groups without consumers expire if their topic is configured so, and no others.

use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn a_group_without_consumers_expires() {
    check(expect![[r#"
        100s topic orders 1 idle=80s => created
        100s group orders/abandoned => created
        110s join a orders/biller => joined
        111s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 141s
        150s leave a
            orders/biller 0:0 expired, due 141.342s
            a gets orders/biller 0:0.2 "m0" spent 2 until 171.342s after "ack_timeout"
            ok
        179s groups orders
            orders/biller 0:0 expired, due 172.037s
            abandoned backlog 1, oldest 111s; biller backlog 1, oldest 111s
        181s groups orders
            sweep blocks 3 0:0..0
            sweep cursor 3 0
            biller backlog 1, oldest 111s
        229s groups orders => biller backlog 1, oldest 111s
        231s groups orders
            sweep blocks 5 0:0..1
            sweep cursor 5 0
            none
        232s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 262s
    "#]]);
}

#[test]
fn a_group_with_a_consumer_is_written_eight_times_per_idle_period() {
    let mut world = World::new(Default::default());
    world.play("100s topic orders 1 idle=80s");
    world.play("100s join a orders/biller");
    world.play("900s wait");
    assert_eq!(world.groups_written(), 1 + 80, "created, and eight times in each of ten periods");
    assert!(world.ask("900s view orders/biller").starts_with("next 0"));
    world.check();
}

#[test]
fn a_polled_group_is_written_eight_times_per_idle_period() {
    let mut world = World::new(Default::default());
    world.play("100s topic orders 1 idle=80s");
    world.play("100s join a orders/biller owner=w");
    world.play("100s leave a");
    for second in 100..500 {
        world.play(&format!("{second}s join a orders/biller owner=w"));
        world.play(&format!("{second}s leave a"));
    }
    assert_eq!(world.groups_written(), 1 + 39, "created, and eight times in each of five periods");
    assert!(world.ask("500s view orders/biller").starts_with("next 0"));
    assert!(world.ask("578s view orders/biller").starts_with("next 0"));
    assert_eq!(world.ask("579s view orders/biller"), "refused: no such group");
}

#[test]
fn a_restart_keeps_the_idle_time_and_lets_consumers_reconnect() {
    check(expect![[r#"
        100s topic orders 1 idle=80s => created
        100s group orders/abandoned => created
        100s join a orders/biller => joined
        175s crash
        184s groups orders => abandoned backlog 0, oldest none; biller backlog 0, oldest none
        189s groups orders => abandoned backlog 0, oldest none; biller backlog 0, oldest none
        191s groups orders
            sweep blocks 3 0:0..0
            sweep cursor 3 0
            biller backlog 0, oldest none
        200s groups orders => biller backlog 0, oldest none
        260s groups orders
            sweep blocks 5 0:0..0
            sweep cursor 5 0
            none
        270s groups orders => none
    "#]]);
    check(expect![[r#"
        100s topic orders 1 idle=80s => created
        100s join a orders/biller => joined
        200s crash until 1000s
        1009s groups orders => biller backlog 0, oldest none
        1009s join a orders/biller => joined
        1020s groups orders => biller backlog 0, oldest none, a holds 0 of 100 for 30000ms
        1100s crash until 2000s
        2009s groups orders => biller backlog 0, oldest none
        2011s groups orders
            sweep blocks 3 0:0..0
            sweep cursor 3 0
            none
    "#]]);
}

#[test]
fn a_consumer_that_joins_within_a_step_is_written_at_its_end() {
    check(expect![[r#"
        100s topic orders 1 idle=80s => created
        100s join a orders/biller => joined
        101s leave a => ok
        109s join b orders/biller => joined
        118s leave b => ok
        118s crash
        197s groups orders => biller backlog 0, oldest none
        198s groups orders
            sweep blocks 3 0:0..0
            sweep cursor 3 0
            none
    "#]]);
}

#[test]
fn a_paused_group_does_not_expire() {
    check(expect![[r#"
        100s topic orders 1 idle=80s => created
        100s group orders/biller + group orders/mailer
            created
            created
        110s pause orders/biller + pause orders/mailer until=300s
            ok
            ok
        379s groups orders => biller backlog 0, oldest none; mailer backlog 0, oldest none
        381s groups orders
            sweep blocks 5 0:0..0
            sweep cursor 5 0
            biller backlog 0, oldest none
        400s crash
        500s resume orders/biller => ok
        579s groups orders => biller backlog 0, oldest none
        581s groups orders
            sweep blocks 3 0:0..0
            sweep cursor 3 0
            none
    "#]]);
}

#[test]
fn idle_time_before_the_setting_does_not_count() {
    check(expect![[r#"
        100s topic orders 1 => created
        100s group orders/biller => created
        1000s crash
        2000s patch orders idle=80s
            orders 0..0 (0 bytes), dead 0, groups ["biller"], changed group_idle_ms
        2001s crash
        2079s groups orders => biller backlog 0, oldest none
        2100s groups orders
            sweep blocks 3 0:0..0
            sweep cursor 3 0
            none
        2200s group orders/mailer => created
        2210s patch orders reset=group_idle_ms => orders 0..0 (0 bytes), dead 0, groups ["mailer"]
        2400s groups orders => mailer backlog 0, oldest none
    "#]]);
}

#[test]
fn an_expired_group_no_longer_holds_back_trimming() {
    check(expect![[r#"
        100s topic orders 1 idle=80s retention=1s max_messages=2 => created
        100s group orders/abandoned => created
        100s join a orders/biller => joined
        101s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            full: messages, held by biller
            a gets orders/biller 0:0.1 "m0" spent 1 until 131s
            a gets orders/biller 0:1.1 "m1" spent 1 until 131s
        102s ack orders/biller 0:0.1 + ack orders/biller 0:1.1
            ok
            ok
            orders/biller 0:0 acked
            orders/biller 0:1 acked
        185s produce orders m2
            sweep blocks 3 0:0..0
            sweep cursor 3 0
            trim 0:0..2
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 215s
        190s view orders
            trim 0:0..2
            orders 3..3 (0 bytes), dead 0, groups ["biller"], changed max_backlog_messages retention_ms group_idle_ms
    "#]]);
}

/// Both are due when the clock is next read. The lane must not start again at an offset whose pages
/// are deleted.
#[test]
fn a_group_that_expires_while_its_lane_is_trimmed_leaves_the_lane_trimmed() {
    check(expect![[r#"
        1000s topic orders 1 retention=80s idle=80s => created
        1000s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
            a gets orders/biller 0:1.1 "m1" spent 1 until 1030s
        1001s nack orders/biller 0:0.1 delay=7d + ack orders/biller 0:1.1
            ok
            ok
            orders/biller 0:0 nacked, due 605801s
            orders/biller 0:1 acked
        1040s produce orders m2 + produce orders m3
            stored 0:2
            stored 0:3
            a gets orders/biller 0:2.1 "m2" spent 1 until 1070s
            a gets orders/biller 0:3.1 "m3" spent 1 until 1070s
        1041s ack orders/biller 0:2.1 + ack orders/biller 0:3.1
            ok
            ok
            orders/biller 0:2 acked
            orders/biller 0:3 acked
        1042s leave a => ok
        1110s view orders
            trim 0:1..2
            orders 2..4 (4 bytes), dead 0, groups ["biller"], changed retention_ms group_idle_ms
        @1200s groups orders
            biller backlog 1, oldest 1000s
            trim 0:1..4
            sweep blocks 3 0:0..4
            sweep cursor 3 0
        1201s view orders
            orders 4..4 (0 bytes), dead 0, groups [], changed retention_ms group_idle_ms
        1202s rows page => page 1
        1203s join b orders/late => joined
        1204s produce orders m4
            stored 0:4
            b gets orders/late 0:4.1 "m4" spent 1 until 1234s
        1205s ack orders/late 0:4.1
            ok
            orders/late 0:4 acked
        1400s rows page
            trim 0:0..4
            trim 0:0..5
            page 0
    "#]]);
}

/// Two groups in one batch, each with its own cursors and open messages.
#[test]
fn two_groups_that_expire_together_leave_no_rows() {
    check(expect![[r#"
        1000s topic orders 2 idle=80s => created
        1000s produce orders m0 key=a => stored 0:0
        1000s produce orders m1 key=b => stored 1:0
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
            a gets orders/biller 1:0.1 "m1" spent 1 until 1030s
        1000s join b orders/mailer
            joined
            b gets orders/mailer 0:0.1 "m0" spent 1 until 1030s
            b gets orders/mailer 1:0.1 "m1" spent 1 until 1030s
        1001s leave a + leave b
            ok
            ok
        @1200s groups orders
            biller backlog 2, oldest 1000s; mailer backlog 2, oldest 1000s
            group 2 0:0 expired, due 1200.342s
            group 2 1:0 expired, due 1200.398s
            group 5 0:0 expired, due 1200.342s
            group 5 1:0 expired, due 1200.398s
            sweep blocks 6 0:0..1
            sweep cursor 6 0
            sweep blocks 3 0:0..1
            sweep cursor 3 0
            sweep blocks 6 1:0..1
            sweep cursor 6 1
            sweep blocks 3 1:0..1
            sweep cursor 3 1
        1201s rows block => block 0
        1202s rows cursor => cursor 0
    "#]]);
}
