//! The token version that a node mints, and the format that it stores, while the cluster runs mixed
//! releases.

use driftq_core::ownership::{
    NODE_LEASE_MS, OwnershipEvent, Ownerships, STARTUP_GRACE_MS, TOKEN_V2_AFTER_MS,
};
use driftq_core::{Format, NodeId, Timestamp, TokenVersion};

use super::script::view;

/// Renews at `at` with a view of `nodes`. Returns the token version the node mints then.
fn renewed(machine: &mut Ownerships, at: u64, nodes: &str) -> TokenVersion {
    let now = Timestamp(at);
    let _renew = machine.on(now, OwnershipEvent::Time);
    let _claims = machine.on(now, OwnershipEvent::Renewed(view(&format!("{nodes} / 0:1@n1"))));
    machine.token_version(now)
}

#[test]
fn version_2_is_minted_once_all_live_nodes_read_it_for_token_v2_after_ms() {
    let mut machine = Ownerships::new(NodeId(1), NODE_LEASE_MS);
    assert_eq!(renewed(&mut machine, 0, "n1 n2~"), TokenVersion::V1);
    // The last node of an older release has left.
    assert_eq!(renewed(&mut machine, 5_000, "n1 n2"), TokenVersion::V1);
    let from = 5_000 + TOKEN_V2_AFTER_MS;
    assert_eq!(renewed(&mut machine, from - 1_000, "n1 n2"), TokenVersion::V1);
    assert_eq!(renewed(&mut machine, from, "n1 n2"), TokenVersion::V2);
    // A node is rolled back: it rejects version 2 from the moment it serves requests.
    assert_eq!(renewed(&mut machine, from + 5_000, "n1 n2 n3~"), TokenVersion::V1);
    assert_eq!(renewed(&mut machine, from + 10_000, "n1 n2"), TokenVersion::V1);
    let again = from + 10_000 + TOKEN_V2_AFTER_MS;
    assert_eq!(renewed(&mut machine, again, "n1 n2"), TokenVersion::V2);
}

#[test]
fn a_node_without_a_view_of_the_others_mints_version_1() {
    let machine = Ownerships::new(NodeId(1), NODE_LEASE_MS);
    assert_eq!(machine.token_version(Timestamp(TOKEN_V2_AFTER_MS * 2)), TokenVersion::V1);
}

#[test]
fn format_2_is_stored_only_while_all_live_nodes_read_it() {
    let mut machine = Ownerships::new(NodeId(1), NODE_LEASE_MS);
    assert_eq!(machine.format(Timestamp(0)), None, "no view of the others yet");
    let mut format = |at, nodes| {
        let _version = renewed(&mut machine, at, nodes);
        machine.format(Timestamp(at))
    };
    assert_eq!(format(0, "n1 n2"), Some(Format::V2), "no node is older");
    assert_eq!(format(5_000, "n1 n2~"), Some(Format::V1), "a node is rolled back");
    assert_eq!(format(6_000, "n1 n2"), Some(Format::V1), "it may be about to reconnect");
    assert_eq!(format(5_000 + STARTUP_GRACE_MS, "n1 n2"), Some(Format::V2));
    let _abandon = machine.on(Timestamp(60_000), OwnershipEvent::Time);
    assert_eq!(machine.format(Timestamp(60_000)), None, "cut off from the database");
}

#[test]
fn an_older_node_counts_until_its_row_is_deleted_or_it_is_replaced() {
    let format = |nodes: &str, until: u64| {
        let mut rows = view(&format!("{nodes} / 0:1@n1"));
        let older = rows.nodes.get_mut(&NodeId(2)).expect("n2");
        (older.renewed_at, older.until) = (Timestamp(until - 1), Timestamp(until));
        rows.view().format
    };
    assert_eq!(format("n1 n2~", 1_500_000), Format::V1, "alive, or ahead of the clock");
    assert_eq!(format("n1 n2~", 100_000), Format::V1, "its lease has expired");
    assert_eq!(format("n1 n2", 100_000), Format::V2);
    assert_eq!(format("n1 n2~ n3<n2", 100_000), Format::V2, "replaced by a node of this release");
}
