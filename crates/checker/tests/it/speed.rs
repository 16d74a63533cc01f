//! Performance of a long history. Run with `--release --run-ignored all`.

use std::time::{Duration, Instant};

use driftq_checker::check;
use driftq_checker::history::{Fact, Granted, How, Reply, Stored, Verb, What};

use crate::assert_clean;
use crate::tale::{Tale, ended, granted, produced, stored};

const IN_A_BATCH: u64 = 8;

/// At least `n_events` events in which eight messages at a time are produced, delivered and acked.
fn long(n_events: usize) -> Tale {
    let mut tale = Tale::new();
    tale.makes_group();
    while tale.events.len() < n_events {
        let offsets = tale.high..tale.high + IN_A_BATCH;
        let calls: Vec<u64> = offsets.clone().map(|offset| tale.sends(offset + 1)).collect();
        let store = |offset| Fact::Stored(Stored { ..stored(offset + 1, offset) });
        tale.commits(offsets.clone().map(store).collect::<Vec<_>>());
        for (call, offset) in calls.into_iter().zip(offsets.clone()) {
            tale.is_done(call, produced(offset));
        }
        let now = tale.now;
        let grant = |offset| Fact::Granted(Granted { ..granted(offset, 1, now) });
        tale.commits(offsets.clone().map(grant).collect::<Vec<_>>());
        offsets.clone().for_each(|offset| tale.delivers(offset, 1, |_| ()));
        let calls: Vec<u64> =
            offsets.clone().map(|offset| tale.asks_to(Verb::Ack, offset, 1)).collect();
        let ack = |offset| ended(offset, 1, How::Acked);
        tale.commits(offsets.clone().map(ack).collect::<Vec<_>>());
        calls.into_iter().for_each(|call| tale.is_done(call, Reply::Settled));
        tale.high = offsets.end;
        tale.passes(1);
    }
    tale.happens(What::Ended);
    tale
}

#[test]
fn a_long_history_is_clean() {
    assert_clean(&long(2_000));
}

#[test]
#[ignore = "slow, and meaningful only in release builds"]
fn a_hundred_thousand_events_take_less_than_a_tenth_of_a_second() {
    let tale = long(100_000);
    let best = (0..10).map(|_| timed(&tale)).min().unwrap();
    println!("{} events in {best:?}", tale.events.len());
    assert!(best < Duration::from_millis(100), "{best:?}");
}

fn timed(tale: &Tale) -> Duration {
    let start = Instant::now();
    let report = check(&tale.events);
    let taken = start.elapsed();
    assert!(report.is_clean(), "{report}");
    taken
}
