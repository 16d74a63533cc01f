//! Records are over at their time and are dropped with their bucket some time after, never before.

use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn taken_keys_are_dropped_after_their_time() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=60s
            created
        1000s produce orders m0 idem=k0 + produce orders m1 idem=k1
            stored 0:0
            stored 0:1
        1010s produce orders m2 idem=k2
            stored 0:2
        1059s rows record
            expire 0/17
            record 3
        1081s rows record
            expire 0/18
            record 0
        1200s rows record
            record 0
        1300s produce orders m0 idem=k0
            stored 0:3
        1300s rows record
            record 1
    "#]]);
}

#[test]
fn ends_of_deliveries_are_dropped_after_their_time() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=60s
            created
        1000s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1000s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 1030s
            a gets orders/biller 0:1.1 "m1" spent 1 until 1030s
            a gets orders/biller 0:2.1 "m2" spent 1 until 1030s
        1001s ack orders/biller 0:0.1 + bury orders/biller 0:1.1 + nack orders/biller 0:2.1 delay=1s
            ok
            ok
            ok
            orders/biller 0:0 acked
            dead letter 0:0 final after 1 of biller, "nack"
            orders/biller 0:1 dead
            orders/biller 0:2 nacked, due 1002s
        1003s ack orders/biller 0:2.2
            a gets orders/biller 0:2.2 "m2" spent 2 until 1032s after "nack"
            ok
            orders/biller 0:2 acked
        1004s rows record
            record 2
        23h rows record
            trim 0:0..3
            expire 3/1
            expire 3/2
            record 2
        30h rows record
            expire 3/3
            record 0
        31h crash
        32h ack orders/biller 0:2.2
            stale: gone
        32h ack orders/biller 0:1.1
            stale: gone
        32h ack orders/biller 0:0.1
            stale: gone
    "#]]);
}

#[test]
fn expiry_goes_on_after_a_crash() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=60s
            created
        1000s produce orders m0 idem=k0
            stored 0:0
        1001s crash until 2000s
            expire 0/17
            expire 0/18
        2001s rows record
            record 0
        2002s produce orders m0 idem=k0
            stored 0:1
    "#]]);
}

#[test]
fn a_key_taken_again_outlives_the_bucket_of_its_first_life() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=60s
            created
        1000s produce orders m0 idem=k0
            stored 0:0
        1060s produce orders m0 idem=k0
            expire 0/17
            stored 0:1
        1110s rows record
            expire 0/18
            record 1
        1111s produce orders m0 idem=k0
            stored 0:1 before
        1200s rows record
            expire 0/19
            record 0
    "#]]);
}

#[test]
fn records_of_different_lives_are_dropped_each_in_its_time() {
    let mut world = World::new(Default::default());
    world.play("1000000s topic short 1 dedupe=60s");
    world.play("1000000s topic middle 1 dedupe=1h");
    world.play("1000000s topic long 1 dedupe=7d");
    for topic in ["short", "middle", "long"] {
        world.play(&format!("1000000s produce {topic} m idem=k"));
    }
    let left = |world: &mut World, at: u64| {
        world.play(&format!("{at}s wait"));
        world.rows("record")
    };
    assert_eq!(left(&mut world, 1_000_060), 3, "over, not yet dropped");
    assert_eq!(left(&mut world, 1_000_120), 2, "at most its own life longer");
    assert_eq!(left(&mut world, 1_003_599), 2);
    assert_eq!(left(&mut world, 1_007_200), 1);
    assert_eq!(left(&mut world, 1_604_799), 1);
    assert_eq!(left(&mut world, 2_209_600), 0);
    assert_eq!(
        world.shard().next_deadline(driftq_core::Timestamp(0)),
        None,
        "nothing is left to be done"
    );
    world.check();
}

#[test]
fn what_ended_while_nobody_was_there_is_dropped_at_once() {
    let mut world = World::new(Default::default());
    world.play("1000000s topic short 1 dedupe=8m");
    for (minute, key) in (0..8).zip('a'..) {
        let second = 1_000_000 + minute * 60;
        world.play(&format!("{second}s produce short m idem={key}"));
    }
    assert_eq!(world.rows("record"), 8);
    let shown = world.play("1000421s crash until 1100000s");
    let dropped = shown.iter().filter(|line| line.starts_with("expire")).count();
    assert!((8..=10).contains(&dropped), "{dropped} buckets");
    assert_eq!(world.rows("record"), 0);
    world.check();
}
