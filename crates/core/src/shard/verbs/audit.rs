//! Appends accepted decisions of the ledger and administrative acts to the chains of their namespace,
//! in the same commit.

use crate::audit::{Accepted, AuditRecord, ChainRecord, Link, Tip, chain_of_acts, outcome_hash};
use crate::change::{Change, Decision, Lookup, Reads};
use crate::command::{AuditSlice, ReadAudit, RecordedCommand, Reply};
use crate::effect::EffectRow;
use crate::format::Format;
use crate::id::Text;
use crate::pack::{AuditRun, chain_hash, open_audit};
use crate::refusal::Decided;
use crate::shard::Shard;
use crate::shard::context::Context;
use crate::shard::verbs::act_record::act_record;

impl Context<'_> {
    /// Records that a fence was granted.
    pub(crate) fn audit_begin(&self, row: &EffectRow, changes: &mut Vec<Change>) {
        let accepted = Accepted::Begin { request: row.request.clone() };
        self.append(row, accepted, changes);
    }

    /// Records the outcome that the holder reported.
    pub(crate) fn audit_finish(&self, row: &EffectRow, changes: &mut Vec<Change>) {
        let (state, outcome) = (row.state, outcome_hash(&row.outcome));
        self.append(row, Accepted::Finish { state, outcome }, changes);
    }

    /// Records the outcome that an operator set.
    pub(crate) fn audit_resolve(&self, row: &EffectRow, changes: &mut Vec<Change>) {
        let (state, outcome) = (row.state, outcome_hash(&row.outcome));
        let reason = row.resolution.as_ref().map(|of| of.reason.clone()).unwrap_or_default();
        self.append(row, Accepted::Resolve { state, outcome, reason }, changes);
    }

    /// Records a command of an administrative act, if it changed something.
    pub(crate) fn audit_act(&self, recorded: &RecordedCommand, decision: &mut Decision) {
        // Nodes of older releases cannot read these records.
        if decision.changes.is_empty() || self.volatile.format < Format::V2 {
            return;
        }
        let RecordedCommand { act, command } = recorded;
        let record = act_record(self.now, act, command, &decision.reply);
        if let Some((namespace, record)) = record {
            let chain = chain_of_acts(&namespace);
            self.link(chain, ChainRecord::Act(record), &mut decision.changes);
        }
    }

    fn append(&self, row: &EffectRow, accepted: Accepted, changes: &mut Vec<Change>) {
        let record = AuditRecord::of(self.now, row, accepted, self.volatile.format);
        self.link(row.name.namespace.clone(), ChainRecord::Decision(record), changes);
    }

    fn link(&self, chain: Text, record: ChainRecord, changes: &mut Vec<Change>) {
        // One command may append several records.
        let earlier = changes.iter().rev().find_map(|change| {
            let Change::Audit(link) = change else { return None };
            (link.chain == chain).then_some(link.tip)
        });
        let before = earlier.unwrap_or_else(|| self.tip(&chain));
        let (tip, _) = before.next(&record);
        changes.push(Change::Audit(Box::new(Link { chain, before, record, tip })));
    }

    fn tip(&self, chain: &Text) -> Tip {
        let known = self.chains.get(chain).copied();
        known.unwrap_or_else(|| Tip::root(chain, self.config.shard))
    }

    /// Returns the tip of a chain. Replies are sent after the commit, so the chain is durable up to
    /// this tip.
    pub(crate) fn view_chain(&self, namespace: &Text) -> Decision {
        Decision::reply(Reply::Chain(self.tip(namespace)))
    }
}

impl Shard {
    pub(crate) fn audit_reads(&self, read: &ReadAudit) -> Reads {
        vec![Lookup::Audit { namespace: chain_hash(&read.namespace), from: read.from }]
    }
}

impl Context<'_> {
    /// Returns one slice of a chain. The slice ends at the first missing record.
    pub(crate) fn read_audit(&self, read: &ReadAudit) -> Decided {
        let mut slice = AuditSlice { records: Vec::new(), next: None };
        let mut expected = read.from.max(1);
        for row in self.rows.audit(chain_hash(&read.namespace), read.from)? {
            let AuditRun { before, records, .. } = open_audit(row)?;
            if before.seq >= expected {
                break;
            }
            let mut tip = before;
            for record in &records {
                let (next, text) = tip.next(record);
                tip = next;
                if (expected..=read.to).contains(&tip.seq) {
                    slice.records.push((text, tip));
                }
            }
            expected = expected.max(tip.seq + 1);
        }
        let last = slice.records.last().map(|(_, tip)| tip.seq);
        slice.next = last.filter(|last| *last < read.to).map(|last| last + 1);
        Ok(Decision::reply(Reply::Audit(Box::new(slice))))
    }
}
