//! Administration of nodes and shards by an operator.

use driftq_core::ownership::{AdminError, ClusterRows, NodeRow, RULES};
use driftq_core::{NodeId, ShardId, Timestamp};
use expect_test::expect;

use super::script::{check, view};

#[test]
fn a_drained_node_gives_up_its_shards_until_it_is_undrained() {
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
        1.01s view n1- n2 / 0:2@n1 1:1@n2
            wishes 0:n2 1:n2
            give up 0e2
            next 2.000s
        1.02s given up 0
            next 2.000s
        2s time
            renew, draining
            next 9.000s
        2.01s view n1- n2 / 0:2 1:1@n2
            wishes 0:n2 1:n2
            next 3.000s
        3s time
            renew, draining
            next 10.000s
        3.01s view n1- n2 / 0:3@n2 1:1@n2
            wishes 0:n2 1:n2
            next 4.000s
        4s time
            renew, draining
            next 11.000s
        4.01s view n1! n2 / 0:3@n2 1:1@n2
            wishes 0:n2 1:n2
            next 5.000s
        5s time
            renew
            next 12.000s
        5.01s view n1 n2 / 0:3@n2 1:1@n2
            wishes 0:n2 1:n1
            next 6.000s
        6s time
            renew
            next 13.000s
        6.01s view n1 n2 / 0:3 1:1@n2
            wishes 0:n1 1:n2
            claim 0e3
            next 7.000s
    "#]]);
}

#[test]
fn shards_of_a_drained_node_are_claimed_once_it_gives_them_up() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2- / 0:1@n2 1:1@n2
            wishes 0:n1 1:n1
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 n2- / 0:1 1:1@n2
            wishes 0:n1 1:n1
            claim 0e1
            next 2.000s
        1.02s claimed 0 e2
            next 2.000s
        2s time
            renew
            next 9.000s
        2.01s view n1 n2- / 0:2@n1 1:1
            wishes 0:n1 1:n1
            claim 1e1
            next 3.000s
    "#]]);
}

/// Otherwise other nodes would keep waiting for it.
#[test]
fn a_drained_node_can_leave_the_cluster() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1- n2 / 0:1@n1 1:1@n2
            wishes 0:n2 1:n2
            give up 0e1
            next 0.200s
        0.02s given up 0
            next 0.200s
        0.5s drain
            leave
            next: whatever comes
    "#]]);
}

#[test]
fn a_pinned_shard_moves_and_another_takes_its_place() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n1 1:1@n1 2:1@n2 3:1@n2
            wishes 0:n1 1:n1 2:n2 3:n2
            claim 0e1 1e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        0.02s claimed 1 e2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 n2 / 0:2@n1>n2 1:2@n1 2:1@n2 3:1@n2
            wishes 0:n2 1:n1 2:n2 3:n1
            give up 0e2
            next 2.000s
        1.02s given up 0
            next 2.000s
        2s time
            renew
            next 9.000s
        2.01s view n1 n2 / 0:3@n2>n2 1:2@n1 2:1@n2 3:1
            wishes 0:n2 1:n1 2:n2 3:n1
            claim 3e1
            next 3.000s
        2.02s claimed 3 e2
            next 3.000s
        3s time
            renew
            next 10.000s
        3.01s view n1 n2 / 0:3@n2>n2 1:2@n1 2:1@n2 3:2@n1
            wishes 0:n2 1:n1 2:n2 3:n1
            next 4.000s
    "#]]);
}

/// Older nodes ignore pins, so the nodes would wait for each other.
#[test]
fn pins_are_ignored_while_a_node_follows_older_rules() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2~ / 0:1@n1>n2 1:1@n2
            wishes 0:n1 1:n2
            claim 0e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 n2 / 0:2@n1>n2 1:1@n2
            wishes 0:n2 1:n1
            give up 0e2
            next 2.000s
    "#]]);
}

/// A restarted process replaces the old one at its address.
#[test]
fn the_earlier_node_at_the_same_address_is_dead_once_it_stops_renewing() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1<n9 n9 n2 / 0:1@n9 1:1@n2
            wishes 0:n1 1:n2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1<n9 n9 n2 / 0:1@n9 1:1@n2
            wishes 0:n1 1:n2
            next 2.000s
        2s time
            renew
            next 9.000s
        2.01s view n1<n9 n9 n2 / 0:1@n9 1:1@n2
            wishes 0:n1 1:n2
            next 3.000s
        3s time
            renew
            next 10.000s
        3.01s view n1<n9 n9 n2 / 0:1@n9 1:1@n2
            wishes 0:n1 1:n2
            claim 0e1
            next 4.000s
    "#]]);
}

/// Two nodes are configured with one address. The second gives up its shards and claims none as
/// long as the first is alive.
#[test]
fn the_earlier_live_node_at_the_same_address_keeps_its_shards() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1<n9 n9 n2 / 0:1 1:1@n2 2:1@n9
            wishes 0:n1 1:n2 2:n2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1<n9 n9 n2 / 0:1 1:1@n2 2:1@n9
            wishes 0:n1 1:n2 2:n2
            claim 0e1
            next 2.000s
        1.02s claimed 0 e2
            next 2.000s
        2s time
            renew
            next 9.000s
        2.01s view n1=n9 n9 n2 / 0:2@n1 1:1@n2 2:1@n9
            wishes 0:n9 1:n2 2:n9
            beside n9
            give up 0e2
            next 3.000s
        2.02s given up 0
            next 3.000s
        3s time
            renew
            next 10.000s
        3.01s view n1=n9 n9 n2 / 0:2 1:1@n2 2:1@n9
            wishes 0:n9 1:n2 2:n9
            beside n9
            next 4.000s
        4s time
            renew
            next 11.000s
        4.01s view n1 n2 / 0:2 1:1@n2 2:1
            wishes 0:n1 1:n2 2:n2
            claim 0e2
            next 5.000s
    "#]]);
}

#[test]
fn a_later_node_at_the_same_address_gets_no_shards() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 / 0:1@n1 1:1@n1
            wishes 0:n1 1:n1
            claim 0e1 1e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        0.02s claimed 1 e2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 n2=n1 / 0:2@n1 1:2@n1
            wishes 0:n1 1:n1
            next 2.000s
    "#]]);
}

#[test]
fn invalid_admin_requests_are_rejected() {
    let view = view("n1 n2- n3! / 0:1@n1").view();
    let [one, two, three, four] = [1, 2, 3, 4].map(NodeId);
    assert_eq!(view.may_drain(one), Err(AdminError::LastNode));
    assert_eq!(view.may_drain(two), Ok(()));
    assert_eq!(view.may_drain(four), Err(AdminError::NoNode));
    assert_eq!(view.may_undrain(two), Ok(()));
    assert_eq!(view.may_undrain(four), Err(AdminError::NoNode));
    assert_eq!(view.may_put(ShardId(0), Some(one)), Ok(()));
    assert_eq!(view.may_put(ShardId(0), None), Ok(()));
    assert_eq!(view.may_put(ShardId(1), Some(one)), Err(AdminError::NoShard));
    assert_eq!(view.may_put(ShardId(0), Some(two)), Err(AdminError::TakesNone));
    assert_eq!(view.may_put(ShardId(0), Some(three)), Err(AdminError::TakesNone));
    assert_eq!(view.may_put(ShardId(0), Some(four)), Err(AdminError::NoNode));
}

/// The clock of the database was set back, so a node that died before looks as if it had just
/// renewed.
#[test]
fn a_node_row_from_before_the_clock_was_set_back_is_ignored() {
    let row = |renewed_at: u64| NodeRow {
        address: format!("{renewed_at}").into(),
        version: "1".into(),
        rules: RULES,
        joined_at: Timestamp(1),
        renewed_at: Timestamp(renewed_at),
        until: Timestamp(renewed_at + 3_000),
        draining: false,
        drained: false,
    };
    let nodes = [(NodeId(1), row(10_000)), (NodeId(2), row(12_000))].into();
    let mut shown = ClusterRows { at: Timestamp(10_000), nodes, shards: Vec::new() };
    assert_eq!(shown.view().nodes.into_keys().collect::<Vec<_>>(), [NodeId(1)]);

    // It is still ignored when the clock reaches its old value again.
    let ahead: Vec<_> = shown.ahead().collect();
    assert_eq!(ahead, [(NodeId(2), Timestamp(12_000))]);
    for (node, renewed_at) in ahead {
        shown.nodes.entry(node).and_modify(|row| row.until = renewed_at);
    }
    assert_eq!(shown.ahead().next(), None);
    shown.at = Timestamp(12_000);
    assert_eq!(shown.view().nodes.into_keys().collect::<Vec<_>>(), [NodeId(1)]);
}
