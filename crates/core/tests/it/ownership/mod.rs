//! A node serves what is wished for it, claims only what nobody serves, gives up what is wished for another,
//! and stops before its lease is over.

mod admin;
mod assign;
mod drain;
mod lease;
mod script;
mod token_version;

use std::collections::VecDeque;

use driftq_core::ownership::{
    Action, CLAIM_BACKOFF_MS_MAX, Event, NODE_LEASE_MS, NODE_LEASE_MS_MAX, Ownerships,
    STABLE_AFTER_MS,
};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};
use expect_test::expect;

use script::{check, view};

#[test]
fn a_new_node_renews_looks_twice_and_claims_what_nobody_holds() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 / 0:0 1:0
            wishes 0:n1 1:n1
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 / 0:0 1:0
            wishes 0:n1 1:n1
            claim 0e0 1e0
            next 2.000s
        1.03s claimed 0 e1
            next 2.000s
        1.04s claimed 1 e1
            next 2.000s
        2s time
            renew
            next 9.000s
        2.01s view n1 / 0:1@n1 1:1@n1
            wishes 0:n1 1:n1
            next 3.000s
        3s time
            renew
            next 10.000s
    "#]]);
}

#[test]
fn what_a_live_node_holds_is_waited_for() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n2 1:1@n2
            wishes 0:n2 1:n1
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 n2 / 0:1@n2 1:1@n2
            wishes 0:n2 1:n1
            next 2.000s
        2s time
            renew
            next 9.000s
        2.01s view n1 n2 / 0:1@n2 1:1
            wishes 0:n2 1:n1
            claim 1e1
            next 3.000s
        2.03s claimed 1 e2
            next 3.000s
    "#]]);
}

#[test]
fn what_is_wished_for_another_is_given_up() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 / 0:3@n1 1:5@n1
            wishes 0:n1 1:n1
            claim 0e3 1e5
            next 0.200s
        0.02s claimed 0 e4
            next 0.200s
        0.02s claimed 1 e6
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 n2 / 0:4@n1 1:6@n1
            wishes 0:n1 1:n2
            give up 1e6
            next 2.000s
        1.02s given up 1
            next 2.000s
        2s time
            renew
            next 9.000s
        2.01s view n1 n2 / 0:4@n1 1:6
            wishes 0:n1 1:n2
            next 3.000s
        3s time
            renew
            next 10.000s
        3.01s view n1 n2 / 0:4@n1 1:7@n2
            wishes 0:n1 1:n2
            next 4.000s
    "#]]);
}

#[test]
fn the_shards_of_a_lost_node_are_claimed_when_two_views_in_a_row_lack_it() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n1 1:1@n2
            wishes 0:n1 1:n2
            claim 0e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 / 0:2@n1 1:1@n2
            wishes 0:n1 1:n1
            next 2.000s
        2s time
            renew
            next 9.000s
        2.01s view n1 n2 / 0:2@n1 1:1@n2
            wishes 0:n1 1:n2
            next 3.000s
        3s time
            renew
            next 10.000s
        3.01s view n1 / 0:2@n1 1:1@n2
            wishes 0:n1 1:n1
            next 4.000s
        4s time
            renew
            next 11.000s
        4.01s view n1 / 0:2@n1 1:1@n2
            wishes 0:n1 1:n1
            claim 1e1
            next 5.000s
        4.03s claimed 1 e2
            next 5.000s
    "#]]);
}

/// It stepped down, or its copy was lost: whatever it was, nobody else serves it.
#[test]
fn what_this_node_holds_and_does_not_serve_is_claimed_at_once() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:7@n1 1:3@n2
            wishes 0:n1 1:n2
            claim 0e7
            next 0.200s
        0.02s claimed 0 e8
            next 0.200s
        5s lost 0 e8
            renew
            claim 0e8
            next 8.000s
        5.02s claimed 0 e9
            next 8.000s
    "#]]);
}

/// … or given up, if it is wished for another: that node waits for it.
#[test]
fn what_this_node_holds_neither_serves_nor_should_is_given_up() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:7@n1 1:3@n1 2:1@n1
            wishes 0:n1 1:n1 2:n2
            claim 0e7 1e3
            give up 2e1
            next 0.200s
        0.02s given up 2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 n2 / 0:7@n1 1:3@n1 2:1@n1
            wishes 0:n1 1:n1 2:n2
            give up 2e1
            next 2.000s
    "#]]);
}

#[test]
fn one_that_was_claimed_by_another_is_left_to_it() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n1 1:1@n2
            wishes 0:n1 1:n2
            claim 0e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        0.5s fenced 0 e2
            renew
            next 8.000s
        0.51s view n1 n2 / 0:3@n2 1:1@n2
            wishes 0:n2 1:n1
            next 1.500s
        1.5s time
            renew
            next 8.500s
        1.51s view n1 n2 / 0:3@n2 1:1
            wishes 0:n2 1:n1
            claim 1e1
            next 2.500s
        1.53s claimed 1 e2
            next 2.500s
    "#]]);
}

/// A view that was asked for before the loss does not count.
#[test]
fn a_view_from_before_it_was_fenced_is_not_believed() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 / 0:1@n1
            wishes 0:n1
            claim 0e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.1s fenced 0 e2
            next 8.000s
        1.2s view n1 / 0:2@n1
            wishes 0:n1
            renew
            next 9.000s
        1.21s view n1 / 0:2@n1
            wishes 0:n1
            claim 0e2
            next 2.200s
    "#]]);
}

#[test]
fn a_view_that_shows_another_holder_ends_serving() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n1 1:1@n2
            wishes 0:n1 1:n2
            claim 0e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 n2 / 0:3@n2 1:1@n2
            wishes 0:n2 1:n1
            abandon 0
            next 2.000s
        1.02s lost 0 e2
            next 2.000s
    "#]]);
}

#[test]
fn a_view_from_before_a_claim_that_is_heard_after_it_changes_nothing() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n1 1:1@n2
            wishes 0:n1 1:n2
            claim 0e1
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s claimed 0 e2
            next 8.000s
        1.02s view n1 n2 / 0:1@n1 1:1@n2
            wishes 0:n1 1:n2
            next 2.000s
    "#]]);
}

#[test]
fn a_claim_that_another_has_overtaken_is_dropped_when_it_is_answered() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n1 1:1@n2
            wishes 0:n1 1:n2
            claim 0e1
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 n2 / 0:3@n2 1:1@n2
            wishes 0:n2 1:n1
            next 2.000s
        1.02s claimed 0 e2
            abandon 0
            next 2.000s
    "#]]);
}

#[test]
fn what_was_lost_under_an_older_epoch_is_no_news() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 / 0:1@n1
            wishes 0:n1
            claim 0e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        1.5s lost 0 e2
            renew
            claim 0e2
            next 8.000s
        1.52s claimed 0 e3
            next 8.000s
        1.53s fenced 0 e2
            next 8.000s
        1.54s lost 0 e3
            next 1.572s
    "#]]);
}

#[test]
fn sixteen_claims_are_under_way_at_most_and_none_is_asked_twice() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 / 0..20:0
            wishes 20 of 20 here
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 / 0..20:0
            wishes 20 of 20 here
            claim 0e0 1e0 2e0 3e0 4e0 5e0 6e0 7e0 8e0 9e0 10e0 11e0 12e0 13e0 14e0 15e0
            next 2.000s
        1.02s claimed 3 e1
            claim 16e0
            next 2.000s
        1.03s not claimed 4
            claim 17e0
            next 2.000s
        1.04s time
            next 2.000s
        2s time
            renew
            next 9.000s
        2.01s view n1 / 0..20:0
            wishes 20 of 20 here
            abandon 3
            next 3.000s
    "#]]);
}

#[test]
fn sixteen_shards_are_given_up_at_a_time() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0..40:1@n1
            wishes 20 of 40 here
            claim 0e1 1e1 2e1 3e1 4e1 5e1 6e1 7e1 8e1 9e1 10e1 11e1 12e1 13e1 14e1 15e1
            give up 20e1 21e1 22e1 23e1 24e1 25e1 26e1 27e1 28e1 29e1 30e1 31e1 32e1 33e1 34e1 35e1
            next 0.200s
        0.02s given up 39
            next 0.200s
        0.03s given up 38
            next 0.200s
    "#]]);
}

#[test]
fn claims_that_fail_are_asked_later_and_later() {
    let waits = waits(NodeId(1), &[Fate::FailsAfter(0); 12]);
    assert_doubling(&waits);
    assert_eq!(waits, self::waits(NodeId(1), &[Fate::FailsAfter(0); 12]));
    assert_ne!(waits, self::waits(NodeId(2), &[Fate::FailsAfter(0); 12]));
}

#[test]
fn claims_that_fail_ten_seconds_apart_are_not_in_a_row() {
    let waits = waits(NodeId(1), &[Fate::FailsAfter(CLAIM_BACKOFF_MS_MAX); 12]);
    assert!(waits.iter().all(|wait| (10..=100).contains(wait)), "{waits:?}");
}

/// Claimed, recovered, and lost at the first commit: that could go on for ever.
#[test]
fn a_shard_that_is_lost_as_soon_as_it_is_served_is_claimed_later_and_later() {
    assert_doubling(&waits(NodeId(1), &[Fate::LostAfter(0); 12]));
    assert_doubling(&waits(NodeId(1), &[Fate::LostAfter(STABLE_AFTER_MS - 1); 12]));
}

/// Faults that come every few seconds are not one that never ends.
#[test]
fn a_shard_that_was_served_for_a_while_is_claimed_at_once() {
    assert_eq!(waits(NodeId(1), &[Fate::LostAfter(STABLE_AFTER_MS); 12]), [0; 12]);

    let mut fates = [Fate::LostAfter(0); 12];
    fates[6] = Fate::LostAfter(STABLE_AFTER_MS);
    let waits = waits(NodeId(1), &fates);
    assert_doubling(&waits[..6]);
    assert_eq!(waits[6], 0);
    assert_doubling(&waits[7..]);
}

/// A database that was long away says nothing of how the shard is served now, or claimed the next time.
#[test]
fn a_claim_that_is_done_ends_the_row_of_those_that_failed() {
    let mut fates = [Fate::FailsAfter(0); 12];
    fates[6] = Fate::LostAfter(0);
    let waits = waits(NodeId(1), &fates);
    assert_doubling(&waits[..6]);
    assert_doubling(&waits[6..7]);
    assert_doubling(&waits[7..]);
}

/// Each wait is drawn between a tenth of its longest and its longest, which doubles from 100 ms to 10 s.
fn assert_doubling(waits: &[u64]) {
    for (number, wait) in waits.iter().enumerate() {
        let longest = (100_u64 << number).min(10_000);
        assert!((longest / 10..=longest).contains(wait), "{number}: {waits:?}");
    }
}

/// What becomes of a claim.
#[derive(Clone, Copy)]
enum Fate {
    /// It fails when it has taken so many milliseconds.
    FailsAfter(u64),
    /// It is done, and the shard is served for so many milliseconds.
    LostAfter(u64),
}

/// How long a node waits after each of its claims of its only shard has ended so, renewing meanwhile.
fn waits(me: NodeId, fates: &[Fate]) -> Vec<u64> {
    let mut machine = Ownerships::new(me, NODE_LEASE_MS_MAX);
    let mut now = Timestamp(0);
    let mut actions = VecDeque::from(machine.on(now, Event::Time));
    let (mut fates, mut ended_at, mut epoch) = (fates.iter(), None, Epoch(1));
    let mut waits = Vec::new();
    loop {
        let Some(action) = actions.pop_front() else {
            now = machine.next_deadline().expect("something is always due");
            actions.extend(machine.on(now, Event::Time));
            continue;
        };
        match action {
            Action::Renew { .. } => {
                let view = view(&format!("n{me} / 0:{}@n{me}", epoch.0));
                actions.extend(machine.on(now, Event::Renewed(view)));
            }
            Action::Claim { shard, .. } => {
                waits.extend(ended_at.map(|at| now.since(at)));
                let Some(fate) = fates.next() else { return waits };
                let end = match *fate {
                    Fate::FailsAfter(took_ms) => {
                        now = now.after(took_ms);
                        Event::ClaimFailed(shard)
                    }
                    Fate::LostAfter(served_ms) => {
                        epoch = Epoch(epoch.0 + 1);
                        actions.extend(machine.on(now, Event::Claimed { shard, epoch }));
                        now = now.after(served_ms);
                        Event::Lost { shard, epoch, fenced: false }
                    }
                };
                ended_at = Some(now);
                actions.extend(machine.on(now, end));
            }
            Action::GiveUp { .. } | Action::Abandon(_) | Action::Leave => panic!("{action:?}"),
        }
    }
}

#[test]
fn the_last_view_says_where_requests_go() {
    let mut machine = Ownerships::new(NodeId(1), NODE_LEASE_MS);
    assert_eq!(machine.holder(ShardId(0)), None, "nothing seen yet");
    let _ = machine.on(Timestamp(0), Event::Time);
    let _ = machine.on(Timestamp(1), Event::Renewed(view("n1 n2 / 0:4@n2 1:5 2:6@n9 3:0")));
    assert_eq!(machine.holder(ShardId(0)), Some((NodeId(2), Epoch(4))));
    assert_eq!(machine.holder(ShardId(1)), None, "given up");
    assert_eq!(machine.holder(ShardId(2)), Some((NodeId(9), Epoch(6))), "until another has it");
    assert_eq!(machine.holder(ShardId(4)), None, "there is no such shard");
    assert_eq!(machine.address(NodeId(2)).map(|address| &**address), Some("n2"));
    assert_eq!(machine.address(NodeId(9)), None, "not alive");
}
