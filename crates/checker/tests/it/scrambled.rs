//! Invalid histories are checked without a panic.

use driftq_checker::check;
use driftq_checker::history::{Counters, Fact, How, What};

use crate::good::everything;
use crate::tale::{Tale, counters, ended};

#[test]
fn events_in_any_order_are_checked() {
    let mut chance = 1u64;
    for _ in 0..300 {
        let mut tale = Tale::new();
        everything(&mut tale);
        for event in &mut tale.events {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if chance >> 60 < 4 {
                event.seq = (chance >> 32) % 200;
            }
        }
        check(&tale.events);
    }
}

#[test]
fn any_event_may_be_missing() {
    let mut tale = Tale::new();
    everything(&mut tale);
    for missing in 0..tale.events.len() {
        let mut events = tale.events.clone();
        events.remove(missing);
        check(&events);
    }
}

#[test]
fn numbers_up_to_the_maximum_are_checked() {
    let mut tale = Tale::new();
    tale.makes_group();
    tale.sends(1);
    tale.stores(1, |stored| {
        stored.offset = u64::MAX;
        (stored.retry.backoff_ms, stored.retry.max_backoff_ms) = (u64::MAX, u64::MAX);
    });
    for attempt in [u32::MAX, u32::MAX, 0] {
        tale.grants(u64::MAX, attempt, |granted| granted.until = u64::MAX);
        for how in [How::Returned { due: u64::MAX }, How::Expired { due: u64::MAX }] {
            tale.commits([ended(u64::MAX, attempt, how)]);
        }
    }
    tale.commits([Fact::Trimmed { topic: "orders".into(), partition: 0, first: u64::MAX }]);
    let max = u64::MAX;
    let most = Counters { high: max, leased: max, waiting: max, backlog: max, ..counters(0) };
    tale.happens(What::Counted { batch: Some(max), counters: most });
    tale.is_over();
    assert!(!check(&tale.events).is_clean());
}

#[test]
fn more_returns_than_grants_are_checked() {
    let mut tale = Tale::new();
    tale.makes_group();
    tale.produces(1);
    for _ in 0..3 {
        tale.grants(0, 1, |_| ());
        tale.ends(0, 1, How::Returned { due: tale.now });
    }
    tale.leases(0, 1);
    tale.nacks(0, 1);
    assert!(!check(&tale.events).is_clean());
}
