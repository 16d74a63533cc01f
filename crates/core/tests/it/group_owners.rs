//! Who consumes from a group: owners are present while they are connected, hold a lease or have just
//! polled, and are remembered for ten minutes.

use driftq_core::ShardConfig;
use driftq_core::view::{Blocked, OwnerView};
use expect_test::{Expect, expect};

use crate::transcript::World;

fn world() -> World {
    let mut world = World::new(ShardConfig::default());
    for line in ["1s topic orders 1 retry=-1,1s,1s", "1s group orders/biller"] {
        world.play(line);
    }
    world
}

fn owners(world: &mut World, seconds: u64) -> String {
    let show = |owner: OwnerView| {
        let at = |at: Option<driftq_core::Timestamp>| at.map_or("none".into(), |at| at.to_string());
        let OwnerView { owner: name, leased, acked_1m, failed_1m, expired_1m, .. } = &owner;
        format!(
            "{name}: leased {leased} until {}, acked {acked_1m}, failed {failed_1m}, \
             expired {expired_1m}, held {:?} {:?}, seen {}, settled {}\n",
            at(owner.next_expiry_at),
            owner.hold_p50_ms,
            owner.hold_p95_ms,
            owner.last_seen_at,
            at(owner.last_settle_at),
        )
    };
    let view = world.view_group(&format!("{seconds}s explain orders/biller"));
    view.owners.into_iter().map(show).collect()
}

fn check(world: &mut World, seconds: u64, shown: &Expect) {
    shown.assert_eq(&owners(world, seconds));
}

fn blocked(world: &mut World, seconds: u64) -> Option<Blocked> {
    let view = world.view_group(&format!("{seconds}s explain orders/biller"));
    view.partitions[0].blocked
}

#[test]
fn a_group_has_consumers_while_one_polls_or_holds_a_lease_and_for_ten_seconds_after() {
    let mut world = world();
    assert_eq!(blocked(&mut world, 2), Some(Blocked::NoConsumers));
    world.play("3s join a orders/biller poll lease=60s");
    assert_eq!(blocked(&mut world, 3), Some(Blocked::NothingNew));
    world.play("4s leave a");
    assert_eq!(blocked(&mut world, 13), Some(Blocked::NoCredit), "between two polls");
    assert_eq!(blocked(&mut world, 14), Some(Blocked::NoConsumers));
    world.play("15s produce orders m0 + produce orders m1");
    world.play("16s join a orders/biller poll lease=60s credit=1");
    world.play("16s leave a");
    assert_eq!(blocked(&mut world, 40), Some(Blocked::NoCredit), "it works on m0");
    world.play("41s ack orders/biller 0:0.1");
    assert_eq!(blocked(&mut world, 42), Some(Blocked::NoConsumers), "m1 has no consumer");
    // A stream that disconnects is gone at once.
    world.play("50s join b orders/biller credit=9");
    world.play("50s ack orders/biller 0:1.1");
    world.play("51s leave b");
    assert_eq!(blocked(&mut world, 51), Some(Blocked::NoConsumers));
}

#[test]
fn owners_are_listed_with_their_leases_and_their_speed() {
    let mut world = world();
    world.play("2s produce orders m0 + produce orders m1 + produce orders m2 + produce orders m3");
    world.play("3s join a orders/biller poll lease=20s owner=fast");
    world.play("3s leave a");
    world.play("4s join b orders/biller credit=9 lease=10s owner=slow");
    world.play("5s ack orders/biller 0:0.1");
    world.play("8s nack orders/biller 0:1.1");
    check(
        &mut world,
        8,
        &expect![[r#"
        fast: leased 2 until 23.000s, acked 1, failed 1, expired 0, held Some(1920) Some(4608), seen 8.000s, settled 8.000s
        slow: leased 0 until none, acked 0, failed 0, expired 0, held None None, seen 4.000s, settled none
    "#]],
    );
    world.play("13s extend orders/biller 0:2.1");
    // The lease of m3 has expired, and the other one has it now.
    check(
        &mut world,
        25,
        &expect![[r#"
        fast: leased 1 until 33.000s, acked 1, failed 1, expired 1, held Some(1920) Some(4608), seen 13.000s, settled 8.000s
        slow: leased 2 until 29.582s, acked 0, failed 0, expired 1, held None None, seen 23.378s, settled none
    "#]],
    );
    world.play("26s leave b");
    // After a recovery, only the leases are known.
    world.play("27s crash");
    check(
        &mut world,
        28,
        &expect![[r#"
        fast: leased 1 until 37.000s, acked 0, failed 0, expired 0, held None None, seen 13.000s, settled none
        slow: leased 2 until 37.000s, acked 0, failed 0, expired 0, held None None, seen 23.378s, settled none
    "#]],
    );
}

#[test]
fn an_owner_is_forgotten_ten_minutes_after_it_was_last_seen() {
    let mut world = world();
    world.play("2s join a orders/biller owner=w");
    world.play("3s leave a");
    check(
        &mut world,
        602,
        &expect![[r#"
        w: leased 0 until none, acked 0, failed 0, expired 0, held None None, seen 3.000s, settled none
    "#]],
    );
    check(&mut world, 603, &expect![[""]]);
}

#[test]
fn a_stream_that_settles_nothing_is_shown_with_its_expired_leases() {
    let mut world = world();
    world.play("2s produce orders m0");
    world.play("3s join a orders/biller lease=10s owner=stuck");
    check(
        &mut world,
        700,
        &expect![[r#"
        stuck: leased 1 until 706.563s, acked 0, failed 0, expired 5, held None None, seen 696.563s, settled none
    "#]],
    );
}

#[test]
fn a_group_shows_what_happened_in_the_last_fifteen_seconds() {
    let mut world = world();
    let mut recent = |line: &str, seconds: u64| {
        if !line.is_empty() {
            world.play(line);
        }
        let view = world.view_group(&format!("{seconds}s explain orders/biller"));
        (view.recent.delivered, view.recent.acked, view.recent.failed)
    };
    recent("5s join a orders/biller credit=9 lease=20s", 5);
    recent("6s produce orders m0 + produce orders m1 + produce orders m2", 6);
    recent("7s ack orders/biller 0:0.1", 7);
    recent("7s nack orders/biller 0:1.1", 7);
    recent("7s bury orders/biller 0:2.1", 7);
    // The current slot of five seconds does not count yet. m1 is delivered again after a second.
    assert_eq!(recent("", 9), (0, 0, 0));
    assert_eq!(recent("", 10), (4, 1, 2));
    assert_eq!(recent("12s extend orders/biller 0:1.2", 20), (4, 1, 2));
    assert_eq!(recent("", 25), (0, 0, 0));
    // The extended lease expires, and m1 is delivered again.
    assert_eq!(recent("", 40), (1, 0, 1));
    // After a recovery, nothing has happened.
    assert_eq!(recent("41s crash", 46), (0, 0, 0));
}
