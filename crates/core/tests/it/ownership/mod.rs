//! A node serves the shards assigned to it, claims only shards without an owner, gives up shards
//! assigned to another node, and stops before its lease expires.

mod admin;
mod assign;
mod drain;
mod lease;
mod script;
mod token_version;

use std::collections::VecDeque;

use driftq_core::ownership::{
    CLAIM_BACKOFF_MS_MAX, NODE_LEASE_MS, NODE_LEASE_MS_MAX, OwnershipAction, OwnershipEvent,
    Ownerships, STABLE_AFTER_MS,
};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};
use expect_test::expect;

use script::{check, view};

#[test]
fn a_new_node_reads_two_views_before_it_claims_free_shards() {
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
fn a_shard_of_a_live_node_is_not_claimed() {
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
fn a_shard_assigned_to_another_node_is_given_up() {
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
fn shards_of_a_node_missing_from_two_views_in_a_row_are_claimed() {
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

/// The node stepped down or lost its copy of the shard. In both cases no other node serves it.
#[test]
fn an_owned_shard_that_is_not_served_is_claimed_at_once() {
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

/// The node to which the shard is assigned waits for it.
#[test]
fn an_owned_shard_assigned_to_another_node_is_given_up_unserved() {
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
fn a_shard_claimed_by_another_node_is_not_claimed_back() {
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

/// A view requested before the shard was fenced is not used.
#[test]
fn a_view_from_before_a_fencing_is_ignored() {
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
fn a_view_with_another_owner_ends_serving() {
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
fn a_view_from_before_a_claim_that_arrives_after_it_is_ignored() {
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
fn a_claim_overtaken_by_another_node_is_dropped() {
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
fn the_loss_of_a_shard_under_an_older_epoch_is_ignored() {
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
fn at_most_sixteen_claims_are_in_flight_and_none_twice() {
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
fn at_most_sixteen_shards_are_given_up_at_a_time() {
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
fn failed_claims_are_retried_with_backoff() {
    let waits = waits(NodeId(1), &[Fate::FailsAfter(0); 12]);
    assert_doubling(&waits);
    assert_eq!(waits, self::waits(NodeId(1), &[Fate::FailsAfter(0); 12]));
    assert_ne!(waits, self::waits(NodeId(2), &[Fate::FailsAfter(0); 12]));
}

#[test]
fn failures_ten_seconds_apart_do_not_increase_the_backoff() {
    let waits = waits(NodeId(1), &[Fate::FailsAfter(CLAIM_BACKOFF_MS_MAX); 12]);
    assert!(waits.iter().all(|wait| (10..=100).contains(wait)), "{waits:?}");
}

/// Claimed, recovered, and lost at the first commit. Without a backoff this would loop forever.
#[test]
fn a_shard_lost_right_after_its_claim_is_claimed_with_backoff() {
    assert_doubling(&waits(NodeId(1), &[Fate::LostAfter(0); 12]));
    assert_doubling(&waits(NodeId(1), &[Fate::LostAfter(STABLE_AFTER_MS - 1); 12]));
}

/// Faults several seconds apart are not a permanent failure.
#[test]
fn a_shard_lost_after_serving_for_a_while_is_claimed_at_once() {
    assert_eq!(waits(NodeId(1), &[Fate::LostAfter(STABLE_AFTER_MS); 12]), [0; 12]);

    let mut fates = [Fate::LostAfter(0); 12];
    fates[6] = Fate::LostAfter(STABLE_AFTER_MS);
    let waits = waits(NodeId(1), &fates);
    assert_doubling(&waits[..6]);
    assert_eq!(waits[6], 0);
    assert_doubling(&waits[7..]);
}

/// Failures while the database was unreachable must not delay later claims of the shard.
#[test]
fn a_successful_claim_resets_the_backoff() {
    let mut fates = [Fate::FailsAfter(0); 12];
    fates[6] = Fate::LostAfter(0);
    let waits = waits(NodeId(1), &fates);
    assert_doubling(&waits[..6]);
    assert_doubling(&waits[6..7]);
    assert_doubling(&waits[7..]);
}

/// Each wait is drawn between a tenth of its maximum and its maximum, which doubles from 100 ms to
/// 10 s.
fn assert_doubling(waits: &[u64]) {
    for (number, wait) in waits.iter().enumerate() {
        let longest = (100_u64 << number).min(10_000);
        assert!((longest / 10..=longest).contains(wait), "{number}: {waits:?}");
    }
}

/// The outcome of a claim.
#[derive(Clone, Copy)]
enum Fate {
    /// The claim fails after this many milliseconds.
    FailsAfter(u64),
    /// The claim succeeds, and the shard is lost after this many milliseconds.
    LostAfter(u64),
}

/// Returns the delays of a node after each of these claims of its only shard. The node renews
/// meanwhile.
fn waits(me: NodeId, fates: &[Fate]) -> Vec<u64> {
    let mut machine = Ownerships::new(me, NODE_LEASE_MS_MAX);
    let mut now = Timestamp(0);
    let mut actions = VecDeque::from(machine.on(now, OwnershipEvent::Time));
    let (mut fates, mut ended_at, mut epoch) = (fates.iter(), None, Epoch(1));
    let mut waits = Vec::new();
    loop {
        let Some(action) = actions.pop_front() else {
            now = machine.next_deadline().expect("something is always due");
            actions.extend(machine.on(now, OwnershipEvent::Time));
            continue;
        };
        match action {
            OwnershipAction::Renew { .. } => {
                let view = view(&format!("n{me} / 0:{}@n{me}", epoch.0));
                actions.extend(machine.on(now, OwnershipEvent::Renewed(view)));
            }
            OwnershipAction::Claim { shard, .. } => {
                waits.extend(ended_at.map(|at| now.since(at)));
                let Some(fate) = fates.next() else { return waits };
                let end = match *fate {
                    Fate::FailsAfter(took_ms) => {
                        now = now.after(took_ms);
                        OwnershipEvent::ClaimFailed(shard)
                    }
                    Fate::LostAfter(served_ms) => {
                        epoch = Epoch(epoch.0 + 1);
                        actions.extend(machine.on(now, OwnershipEvent::Claimed { shard, epoch }));
                        now = now.after(served_ms);
                        OwnershipEvent::Lost { shard, epoch, fenced: false }
                    }
                };
                ended_at = Some(now);
                actions.extend(machine.on(now, end));
            }
            OwnershipAction::GiveUp { .. }
            | OwnershipAction::Abandon(_)
            | OwnershipAction::Leave => panic!("{action:?}"),
        }
    }
}

#[test]
fn requests_are_routed_by_the_last_view() {
    let mut machine = Ownerships::new(NodeId(1), NODE_LEASE_MS);
    assert_eq!(machine.holder(ShardId(0)), None, "no view yet");
    let _ = machine.on(Timestamp(0), OwnershipEvent::Time);
    let _ =
        machine.on(Timestamp(1), OwnershipEvent::Renewed(view("n1 n2 / 0:4@n2 1:5 2:6@n9 3:0")));
    assert_eq!(machine.holder(ShardId(0)), Some((NodeId(2), Epoch(4))));
    assert_eq!(machine.holder(ShardId(1)), None, "given up");
    assert_eq!(machine.holder(ShardId(2)), Some((NodeId(9), Epoch(6))), "until it is claimed");
    assert_eq!(machine.holder(ShardId(4)), None, "the shard does not exist");
    assert_eq!(machine.address(NodeId(2)).map(|address| &**address), Some("n2"));
    assert_eq!(machine.address(NodeId(9)), None, "not alive");
}
