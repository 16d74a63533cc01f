//! The token version that a node mints, and the format that it stores, while the cluster runs mixed
//! releases.

use driftq_core::ownership::{NODE_LEASE_MS, OwnershipEvent, Ownerships, TOKEN_V2_AFTER_MS};
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
    assert_eq!(machine.format(), Format::V1, "no view of the others yet");
    let mut format = |at, nodes| {
        let _version = renewed(&mut machine, at, nodes);
        machine.format()
    };
    assert_eq!(format(0, "n1 n2~"), Format::V1);
    assert_eq!(format(5_000, "n1 n2"), Format::V2);
    assert_eq!(format(10_000, "n1 n2 n3~"), Format::V1, "a node is rolled back");
}
