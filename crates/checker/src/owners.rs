//! Checks which node may write to a shard, and until when: `OneOwnerPerEpoch`, `CommitFencing` and
//! `StepDown`.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Event, What};
use crate::invariant::Invariant::{CommitFencing, OneOwnerPerEpoch, StepDown};
use crate::report::Findings;

/// Grace for a process that has just resumed: it may decide pending commands before it reads the
/// clock.
const MOMENT_MS: u64 = 5;

/// Checks claims, commits and decisions in the order they were observed.
pub(crate) fn judge(events: &[Event], findings: &mut Findings) {
    let mut owners = Owners { findings, claims: BTreeMap::new(), nodes: BTreeMap::new() };
    for event in events {
        match &event.what {
            What::Claimed { node, shard, epoch } => {
                owners.claimed(event.seq, *node, *shard, *epoch);
            }
            What::Renewed { node, lease_ms } => {
                owners.nodes.entry(*node).or_default().alive_until = event.at + lease_ms;
            }
            What::Stopped { node, until } => {
                owners.nodes.entry(*node).or_default().goes_on_at.insert(*until);
            }
            What::Decided { node, shard, epoch, batch } => {
                owners.decided(event, *node, (*shard, *epoch), *batch);
            }
            What::Committed { shard, epoch, batch, .. } => {
                owners.committed(event.seq, *shard, *epoch, *batch);
            }
            What::Invoked { .. }
            | What::Done { .. }
            | What::Refused { .. }
            | What::Unknown { .. }
            | What::Delivered(_)
            | What::Counted { .. }
            | What::Damaged { .. }
            | What::OlderNodes { .. }
            | What::Corrupted { .. }
            | What::Leaked { .. }
            | What::Limits { .. }
            | What::Clock { .. }
            | What::Written { .. }
            | What::Left { .. }
            | What::Restored { .. }
            | What::Fault { .. }
            | What::Healed
            | What::DeadLetter(_)
            | What::Ended => {}
        }
    }
}

/// The state of a node.
#[derive(Default)]
struct Node {
    alive_until: u64,
    /// The times at which the process resumes. It may be stopped again in the millisecond in which
    /// it resumes.
    goes_on_at: BTreeSet<u64>,
}

struct Owners<'f> {
    findings: &'f mut Findings,
    /// Shard to epoch to the node that claimed it.
    claims: BTreeMap<u32, BTreeMap<u64, u64>>,
    nodes: BTreeMap<u64, Node>,
}

impl Owners<'_> {
    fn claimed(&mut self, seq: u64, node: u64, shard: u32, epoch: u64) {
        let claims = self.claims.entry(shard).or_default();
        if let Some((last, _)) = claims.last_key_value().filter(|(last, _)| epoch <= **last) {
            let detail = format_args!(
                "shard {shard} was claimed with epoch {epoch} after epoch {last} was claimed"
            );
            self.findings.add(OneOwnerPerEpoch, seq, detail);
        }
        claims.insert(epoch, node);
    }

    fn committed(&mut self, seq: u64, shard: u32, epoch: u64, batch: u64) {
        let last = self.claims.get(&shard).and_then(|claims| claims.last_key_value());
        if let Some((last, _)) = last.filter(|(last, _)| epoch < **last) {
            let detail = format_args!(
                "batch {batch} of shard {shard} was committed under epoch {epoch} after epoch {last} was claimed"
            );
            self.findings.add(CommitFencing, seq, detail);
        }
    }

    fn decided(&mut self, event: &Event, node: u64, (shard, epoch): (u32, u64), batch: u64) {
        let owner = self.claims.get(&shard).and_then(|claims| claims.get(&epoch));
        if owner != Some(&node) {
            let detail = format_args!(
                "batch {batch} of shard {shard} was decided under epoch {epoch} by node {node}, but the epoch was claimed by {owner:?}"
            );
            self.findings.add(OneOwnerPerEpoch, event.seq, detail);
        }
        let known = self.nodes.entry(node).or_default();
        let moment = event.at.saturating_sub(MOMENT_MS)..=event.at;
        let is_waking = known.goes_on_at.range(moment).next().is_some();
        if known.alive_until < event.at && !is_waking {
            let late = event.at - known.alive_until;
            let detail =
                format_args!("node {node} decided a batch {late} ms after its lease ended");
            self.findings.add(StepDown, event.seq, detail);
        }
    }
}
