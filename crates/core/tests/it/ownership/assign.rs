//! Shards are assigned evenly, no more move than balance requires, and the target does not change
//! while it is carried out.

use std::collections::BTreeMap;

use driftq_core::ownership::{ClusterView, NodeRole, NodeView, ShardOwner, assign};
use driftq_core::{Epoch, NodeId};
use proptest::prelude::*;

/// Node ids as processes draw them: random numbers.
fn id(number: u64) -> NodeId {
    NodeId(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1)
}

fn cluster(nodes: impl IntoIterator<Item = u64>, shards: usize) -> ClusterView {
    let node = |number| (id(number), NodeView { address: "".into(), part: NodeRole::Takes });
    let nodes = nodes.into_iter().map(node).collect();
    ClusterView { nodes, shards: vec![ShardOwner::default(); shards], ..ClusterView::default() }
}

fn carry_out(view: &mut ClusterView) {
    let wishes = assign(view);
    for (held, wish) in view.shards.iter_mut().zip(wishes) {
        held.node = wish;
    }
}

fn given(view: &ClusterView) -> Vec<usize> {
    let mut given: BTreeMap<NodeId, usize> = view.nodes.keys().map(|node| (*node, 0)).collect();
    for node in assign(view).into_iter().flatten() {
        *given.get_mut(&node).expect("assigned to a live node") += 1;
    }
    given.into_values().collect()
}

fn moved(before: &ClusterView, after: &ClusterView) -> usize {
    before.shards.iter().zip(&after.shards).filter(|(old, new)| old.node != new.node).count()
}

#[test]
fn sixteen_shards_on_three_nodes_are_five_five_and_six() {
    let mut counts = given(&cluster(1..=3, 16));
    counts.sort();
    assert_eq!(counts, [5, 5, 6]);
}

#[test]
fn a_joining_node_gets_its_share_and_no_other_shard_moves() {
    for (nodes, shards) in [(1, 64), (2, 64), (3, 16), (9, 64), (49, 1_000), (50, 1_000)] {
        let mut before = cluster(1..=nodes, shards);
        carry_out(&mut before);
        let mut after = before.clone();
        after.nodes.extend(cluster([nodes + 1], 0).nodes);
        carry_out(&mut after);
        assert_eq!(moved(&before, &after), shards / (nodes as usize + 1), "{nodes} nodes");
    }
}

#[test]
fn a_leaving_node_loses_its_shards_and_no_other_shard_moves() {
    let mut before = cluster(1..=50, 1_000);
    carry_out(&mut before);
    let mut after = before.clone();
    after.nodes.remove(&id(7));
    carry_out(&mut after);
    assert_eq!(moved(&before, &after), 20);
}

/// Nodes of different releases must agree, so these values never change.
#[test]
fn a_shard_is_assigned_to_the_node_that_ranks_it_highest() {
    let mut view = cluster([], 8);
    for node in 1..=4 {
        view.nodes.extend([(NodeId(node), NodeView { address: "".into(), part: NodeRole::Takes })]);
    }
    let wishes: Vec<u64> = assign(&view).into_iter().flatten().map(|node| node.0).collect();
    assert_eq!(wishes, [4, 1, 2, 1, 2, 4, 3, 3]);
}

fn any_view() -> impl Strategy<Value = ClusterView> {
    let nodes = prop::collection::vec(prop::bool::weighted(0.2), 0..8);
    let shards = prop::collection::vec(prop::option::weighted(0.7, 0..12_u64), 1..64);
    (nodes, shards).prop_map(|(nodes, shards)| {
        let mut view = cluster(0..nodes.len() as u64, 0);
        for (number, draining) in nodes.into_iter().enumerate() {
            if draining {
                view.nodes.get_mut(&id(number as u64)).expect("a node").part = NodeRole::Stops;
            }
        }
        let held =
            |node: Option<u64>| ShardOwner { epoch: Epoch(1), node: node.map(id), pinned_to: None };
        view.shards = shards.into_iter().map(held).collect();
        view
    })
}

/// Views in which some shards are pinned.
fn any_view_with_some_put() -> impl Strategy<Value = ClusterView> {
    let put = prop::collection::vec(prop::option::weighted(0.3, 0..12_u64), 64);
    (any_view(), put).prop_map(|(mut view, put)| {
        for (held, put) in view.shards.iter_mut().zip(put) {
            held.pinned_to = put.map(id);
        }
        view
    })
}

#[test]
fn a_pinned_shard_displaces_another() {
    let mut before = cluster(1..=3, 12);
    carry_out(&mut before);
    let (shard, from) = (0, before.shards[0].node.expect("the shard has an owner"));
    let to = *before.nodes.keys().find(|node| **node != from).expect("another node");
    let mut after = before.clone();
    after.shards[shard].pinned_to = Some(to);
    carry_out(&mut after);
    assert_eq!(after.shards[shard].node, Some(to));
    assert_eq!((moved(&before, &after), given(&after)), (2, vec![4, 4, 4]));
    // The pin holds while other nodes join and leave, until its own node leaves.
    after.nodes.extend(cluster([4, 5], 0).nodes);
    carry_out(&mut after);
    assert_eq!(after.shards[shard].node, Some(to));
    after.nodes.remove(&to);
    carry_out(&mut after);
    assert_ne!(after.shards[shard].node, Some(to));
}

proptest! {
    #[test]
    fn a_shard_pinned_to_an_active_node_is_assigned_to_it(view in any_view_with_some_put()) {
        let takes = |node: NodeId| view.nodes.get(&node).is_some_and(NodeView::takes);
        for (held, wish) in view.shards.iter().zip(assign(&view)) {
            if let Some(put) = held.pinned_to.filter(|node| takes(*node)) {
                prop_assert_eq!(wish, Some(put));
            }
        }
    }

    /// A node exceeds its share only by shards pinned to it.
    #[test]
    fn every_shard_is_assigned(view in any_view_with_some_put()) {
        let wishes = assign(&view);
        let taking = view.nodes.values().filter(|node| node.takes()).count();
        prop_assume!(taking > 0);
        prop_assert!(wishes.iter().all(Option::is_some));
        let share = view.shards.len().div_ceil(taking);
        for id in view.nodes.keys() {
            let given = wishes.iter().filter(|wish| **wish == Some(*id)).count();
            let put = view.shards.iter().filter(|held| held.pinned_to == Some(*id)).count();
            prop_assert!(given <= share.max(put), "{} of {}, {} pinned", given, share, put);
        }
    }

    #[test]
    fn active_nodes_differ_by_at_most_one_shard(view in any_view()) {
        let wishes = assign(&view);
        let taking: Vec<NodeId> =
            view.nodes.iter().filter(|(_, node)| node.takes()).map(|(id, _)| *id).collect();
        prop_assert_eq!(wishes.iter().flatten().count(), if taking.is_empty() { 0 } else { wishes.len() });
        let count = |id: &NodeId| wishes.iter().filter(|wish| **wish == Some(*id)).count();
        let counts: Vec<usize> = taking.iter().map(count).collect();
        prop_assert_eq!(counts.iter().sum::<usize>(), wishes.iter().flatten().count());
        let (most, least) = (counts.iter().max(), counts.iter().min());
        prop_assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1), "{:?}", counts);
    }

    /// Each node keeps the shards it holds, up to its share.
    #[test]
    fn no_more_shards_move_than_balance_requires(view in any_view()) {
        let wishes = assign(&view);
        let taking = view.nodes.values().filter(|node| node.takes()).count();
        prop_assume!(taking > 0);
        let (share, mut more) = (view.shards.len() / taking, view.shards.len() % taking);
        let mut stay = 0;
        for id in view.nodes.iter().filter(|(_, node)| node.takes()).map(|(id, _)| id) {
            let held = view.shards.iter().filter(|held| held.node == Some(*id)).count();
            let extra = usize::from(held > share && more > 0);
            more -= extra;
            stay += held.min(share + extra);
        }
        let kept = view.shards.iter().zip(&wishes).filter(|(held, wish)| held.node == **wish && wish.is_some());
        prop_assert_eq!(kept.count(), stay);
    }

    /// Shards are given up and claimed in any order.
    #[test]
    fn the_assignment_does_not_change_while_it_is_carried_out(
        mut view in any_view_with_some_put(), steps in prop::collection::vec(any::<(prop::sample::Index, bool)>(), 0..64),
    ) {
        let wishes = assign(&view);
        for (shard, is_claimed) in steps {
            let number = shard.index(view.shards.len());
            let held = &mut view.shards[number];
            held.node = if is_claimed || held.node == wishes[number] { wishes[number] } else { None };
            prop_assert_eq!(&assign(&view), &wishes);
        }
    }
}
