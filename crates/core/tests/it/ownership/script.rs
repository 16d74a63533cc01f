//! Transcripts of one node, `n1`. A line at the margin is an event with its time. Indented lines
//! are the assignment computed from a view, the actions, and the time of the next call.
//!
//! `view n1 n2! / 0:3@n1 1:0` is a successful renewal: `n2` drains, `n1` owns shard 0 under epoch
//! 3, shard 1 has no owner. `0..20:1@n9` is shards 0 to 19. `n2-` was drained by an operator and
//! `n2~` follows older rules. `n2=n1` has the address of `n1` and joined after it. `n2<n1` is the
//! same, and `n1` has not renewed since. `0:3@n1>n2` is pinned to `n2`.

use driftq_core::ownership::{
    ClusterRows, NODE_LEASE_MS, NodeRole, NodeRow, OwnershipAction, OwnershipEvent, Ownerships,
    RULES, ShardOwner,
};
use driftq_core::{Epoch, NodeId, ShardId, Timestamp};
use expect_test::Expect;

#[track_caller]
pub(crate) fn check(transcript: Expect) {
    let played = play(transcript.data());
    transcript.assert_eq(&played);
}

fn play(text: &str) -> String {
    let mut machine = Ownerships::new(NodeId(1), NODE_LEASE_MS);
    let mut played = String::new();
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start().len();
    let margin = lines().map(indent).min().expect("a transcript has lines");
    for line in lines().filter(|line| indent(line) == margin).map(str::trim) {
        let (at, heard) = line.split_once(' ').expect("a time and an event");
        let seconds: f64 = at.strip_suffix('s').expect("seconds").parse().expect("a time");
        let now = Timestamp((seconds * 1_000.0).round() as u64);
        let event = event(heard);
        let is_view = matches!(event, OwnershipEvent::Renewed(_));
        let actions = machine.on(now, event);
        played += &format!("{line}\n");
        if is_view {
            played += &format!("    wishes {}\n", wishes(&machine));
            if let Some(NodeRole::DuplicateAddress(other)) = machine.part() {
                played += &format!("    beside n{other}\n");
            }
        }
        for line in grouped(&actions) {
            played += &format!("    {line}\n");
        }
        match machine.next_deadline() {
            Some(at) => {
                assert!(at > now, "a deadline is in the future when it is set");
                played += &format!("    next {at}\n");
            }
            None => played += "    next: whatever comes\n",
        }
    }
    played
}

fn event(words: &str) -> OwnershipEvent {
    let number = |word: &str| ShardId(word.parse().expect("a shard"));
    let epoch = |word: &str| Epoch(word[1..].parse().expect("an epoch"));
    match words.split(' ').collect::<Vec<_>>()[..] {
        ["time"] => OwnershipEvent::Time,
        ["drain"] => OwnershipEvent::Drain,
        ["view", ..] => OwnershipEvent::Renewed(view(&words["view ".len()..])),
        ["no", "view"] => OwnershipEvent::RenewFailed,
        ["claimed", shard, e] => OwnershipEvent::Claimed { shard: number(shard), epoch: epoch(e) },
        ["not", "claimed", shard] => OwnershipEvent::ClaimFailed(number(shard)),
        ["lost", shard, e] => {
            OwnershipEvent::Lost { shard: number(shard), epoch: epoch(e), fenced: false }
        }
        ["fenced", shard, e] => {
            OwnershipEvent::Lost { shard: number(shard), epoch: epoch(e), fenced: true }
        }
        ["given", "up", shard] => OwnershipEvent::GivenUp(number(shard)),
        _ => panic!("`{words}`?"),
    }
}

fn node(word: &str) -> NodeId {
    NodeId(word[1..].parse().expect("a node"))
}

/// The database clock at every view.
const AT: Timestamp = Timestamp(1_000_000);

/// A node that joined long ago and has just renewed.
fn row(name: &str) -> NodeRow {
    NodeRow {
        address: name.into(),
        version: "1".into(),
        rules: RULES,
        joined_at: Timestamp(0),
        renewed_at: AT,
        until: AT.after(NODE_LEASE_MS),
        draining: false,
        drained: false,
    }
}

fn node_row(word: &str) -> (NodeId, NodeRow) {
    let name = word.trim_end_matches(['!', '-', '~']);
    let (name, address) = name.split_once(['=', '<']).unwrap_or((name, name));
    let mut row = row(address);
    row.draining = word.ends_with('!');
    row.drained = word.ends_with('-');
    if word.ends_with('~') {
        row.rules = 1;
    }
    if word.contains('=') {
        row.joined_at = Timestamp(1);
    }
    if word.contains('<') {
        row.joined_at = AT.after(1);
    }
    (node(name), row)
}

pub(crate) fn view(words: &str) -> ClusterRows {
    let (nodes, shards) = words.split_once(" / ").expect("nodes and shards");
    let nodes = nodes.split(' ').map(node_row).collect();
    let mut shown = ClusterRows { at: AT, nodes, shards: Vec::new() };
    for word in shards.split(' ') {
        let (word, put) = word.split_once('>').map_or((word, None), |(w, n)| (w, Some(node(n))));
        let (numbers, held) = word.split_once(':').expect("shard:epoch@node");
        let (epoch, holder) =
            held.split_once('@').map_or((held, None), |(e, n)| (e, Some(node(n))));
        let end = match numbers.split_once("..") {
            Some((_, end)) => end.parse().expect("a number"),
            None => shown.shards.len() + 1,
        };
        let held = ShardOwner {
            epoch: Epoch(epoch.parse().expect("an epoch")),
            node: holder,
            pinned_to: put,
        };
        shown.shards.resize(end, held);
    }
    shown
}

fn wishes(machine: &Ownerships) -> String {
    let wished = (0..).map_while(|number| Some((number, machine.target(ShardId(number))?)));
    let words: Vec<String> = wished.map(|(number, node)| format!("{number}:n{node}")).collect();
    if words.len() > 8 {
        let mine = words.iter().filter(|word| word.ends_with(":n1")).count();
        return format!("{mine} of {} here", words.len());
    }
    words.join(" ")
}

/// Formats actions of one kind on one line.
fn grouped(actions: &[OwnershipAction]) -> Vec<String> {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for action in actions {
        let (kind, what) = match action {
            OwnershipAction::Renew { draining: false } => ("renew", String::new()),
            OwnershipAction::Renew { draining: true } => ("renew, draining", String::new()),
            OwnershipAction::Claim { shard, epoch } => ("claim", format!(" {shard}e{epoch}")),
            OwnershipAction::GiveUp { shard, epoch } => ("give up", format!(" {shard}e{epoch}")),
            OwnershipAction::Abandon(shard) => ("abandon", format!(" {shard}")),
            OwnershipAction::Leave => ("leave", String::new()),
        };
        match lines.last_mut() {
            Some((last, words)) if *last == kind => *words += &what,
            Some(_) | None => lines.push((kind, what)),
        }
    }
    lines.into_iter().map(|(kind, words)| format!("{kind}{words}")).collect()
}
