//! Checks the effect ledger: `OneExecutor`, `StaleFinishIsRejected`, `ExactReplay` and
//! `RequestMismatch`, and the parts of `DurableReplies`, `RecordExpiry`, `TenantIsolation` and
//! `AtomicCommit` that concern effects.
//!
//! 1. `client_view` checks the replies that clients received, with or without commits.
//! 2. With commits, `record` checks every committed change of an effect, on the authority clock,
//!    and `answer` checks every reply against the records at the time of the decision.
//! 3. The order of commands inside a batch is unknown: a reply is right if any state that the
//!    effect had in its batch makes it right.

mod accepted;
mod answer;
mod client_view;
mod leases;
mod record;

use std::fmt;

use crate::history::{Finish, How, Lease, Progress, Record, Status};
use crate::ids::{CallId, Column, EffectId, EntryId, FastMap, FastSet};
use crate::invariant::Invariant;
use crate::invariant::Invariant::{DurableReplies, OneExecutor, RecordExpiry};
use crate::report::Findings;
use crate::timeline::{Ask, Batch, Seen, Step, Timeline};

use accepted::Accepted;
use leases::Leases;

/// Checks everything that concerns effects.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    client_view::judge(timeline, findings);
    if !timeline.has_facts() {
        return;
    }
    let mut judge = Judge::new(timeline, findings);
    let mut over_since_healing = None;
    for moment in &timeline.moments {
        if timeline.healed.is_some_and(|healed| healed < moment.seq) {
            over_since_healing.get_or_insert_with(|| judge.over());
        }
        match moment.seen {
            Seen::Invoked(call) => judge.asked(call),
            Seen::Answered(call) => judge.answered(call),
            Seen::Committed(batch) => judge.commit(&timeline.batches[batch]),
            Seen::Delivered { .. } | Seen::Written { .. } | Seen::Left { .. } => {}
        }
    }
    // Without a quiet period it is unknown whether the retention should have started.
    if let (Some(ended), Some(over)) = (timeline.ended, over_since_healing) {
        judge.all_will_end(ended, &over);
    }
}

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    leases: Leases<'s, 'a>,
    accepted: Accepted,
    effects: Column<EffectId, Option<Known<'a>>>,
    /// Effects begun under each message. Some have been begun under another message since.
    begun: FastMap<EntryId, Vec<EffectId>>,
    /// Requests that effects were begun with.
    begins: FastSet<(EffectId, Option<&'a str>)>,
    finishes: FastSet<(EffectId, u64, u64, Status, &'a str)>,
    resolves: FastSet<(EffectId, u64, Status, &'a str)>,
    decided: FastSet<CallId>,
    /// The current batch.
    seq: u64,
    now: u64,
    /// The states of effects before this batch and earlier in it.
    earlier: FastMap<EffectId, Vec<Option<Known<'a>>>>,
    /// Effects in doubt: when the batch ends, their holder must have lost its delivery.
    doubted: Vec<(EffectId, EntryId, u32)>,
    /// The messages that each life of an effect was begun under.
    holders: FastMap<(EffectId, u64), Vec<(EntryId, &'a Lease)>>,
    /// Effects whose retention starts in this batch: when the batch ends, their messages must be
    /// closed.
    let_go: Vec<(EffectId, EntryId)>,
}

/// The record of an effect.
#[derive(Clone, Copy)]
struct Known<'a> {
    record: &'a Record,
    under: Option<EntryId>,
    /// The latest right was granted while the one before it was in doubt.
    is_after_doubt: bool,
    /// Since when right and progress are unchanged.
    since: u64,
}

impl Known<'_> {
    fn is_over(&self, now: u64) -> bool {
        self.record.kept_until.is_some_and(|until| until <= now)
    }

    /// Whether right and progress are unchanged: only the retention may differ.
    fn is_as_far_as(&self, record: &Record) -> bool {
        self.record.right == record.right && self.record.progress == record.progress
    }

    /// Returns its status, if the outcome is one that is replayed.
    fn replayed(&self) -> Option<Status> {
        match self.record.progress {
            Progress::Known(status) if status.is_final() => Some(status),
            Progress::Known(_) | Progress::InProgress | Progress::InDoubt => None,
        }
    }
}

impl<'s, 'a> Judge<'s, 'a> {
    fn new(timeline: &'s Timeline<'a>, findings: &'s mut Findings) -> Self {
        Self {
            timeline,
            findings,
            leases: Leases::new(timeline),
            accepted: Accepted::default(),
            effects: timeline.places.effects.column(None),
            begun: FastMap::default(),
            begins: FastSet::default(),
            finishes: FastSet::default(),
            resolves: FastSet::default(),
            decided: FastSet::default(),
            seq: 0,
            now: 0,
            earlier: FastMap::default(),
            doubted: Vec::new(),
            holders: FastMap::default(),
            let_go: Vec::new(),
        }
    }

    fn asked(&mut self, call: CallId) {
        match self.timeline.calls[call].ask {
            Ask::Begin { effect, begin } if !begin.again => {
                self.begins.insert((effect, begin.request.as_deref()));
            }
            Ask::Finish { effect, right, status, outcome } => {
                self.finishes.insert((effect, right.life, right.fence, status, outcome));
            }
            Ask::Resolve { effect, fence, status, outcome } => {
                self.resolves.insert((effect, fence, status, outcome));
            }
            Ask::Commit(commit) => {
                for (effect, finish) in &self.timeline.commits[commit].finishes {
                    let Finish { right, status, outcome } = finish;
                    self.finishes.insert((*effect, right.life, right.fence, *status, outcome));
                }
            }
            Ask::Begin { .. }
            | Ask::ExtendEffect { .. }
            | Ask::Produce(_)
            | Ask::Settle(_)
            | Ask::CreateGroup(..)
            | Ask::SeekAll(..)
            | Ask::Purge { .. }
            | Ask::Inspect(_)
            | Ask::ExplainGroup
            | Ask::ReadPointer { .. }
            | Ask::Settings(_)
            | Ask::Outdated
            | Ask::DeleteGroup(_)
            | Ask::DeleteTopic(_)
            | Ask::Seek(_)
            | Ask::Redrive(_)
            | Ask::Other => {}
        }
    }

    /// Checks that a reply of the ledger is committed, whatever it contains.
    fn answered(&mut self, id: CallId) {
        let call = &self.timeline.calls[id];
        let Some(effect) = effect_of(call.ask) else { return };
        let is_from_the_ledger = call.outcome.is_done() || call.outcome.is_refused_by_the_ledger();
        if is_from_the_ledger && !self.decided.contains(&id) {
            self.seq = call.answered;
            self.breaks(
                DurableReplies,
                effect,
                format_args!("was the subject of a reply before anything was committed"),
            );
        }
    }

    fn commit(&mut self, batch: &Batch) {
        (self.seq, self.now) = (batch.seq, batch.now);
        self.earlier.clear();
        let timeline = self.timeline;
        for step in timeline.steps_of(batch) {
            self.leases.step(step);
            self.accepted.step(timeline, batch.now, step);
            match *step {
                Step::Recorded { effect, under, record } => {
                    let former = self.effects[effect];
                    self.earlier.entry(effect).or_default().push(former);
                    let known = self.recorded(effect, former, record, under);
                    self.effects[effect] = Some(known);
                    if let Some(entry) = under {
                        self.begun.entry(entry).or_default().push(effect);
                    }
                }
                Step::Ended { entry, how: How::Acked, .. } => {
                    self.acked(entry);
                }
                _ => {}
            }
        }
        self.close();
        for step in timeline.steps_of(batch) {
            if let Step::Decided { call } = *step {
                self.decided(call);
            }
        }
    }

    /// Whether no message that a life of an effect was begun under is open.
    fn has_no_message(&self, effect: EffectId, life: u64) -> bool {
        let holders = self.holders.get(&(effect, life)).into_iter().flatten();
        holders.into_iter().all(|(entry, _)| !self.leases.is_open(*entry))
    }

    /// Whether its outcome was known before a key was accepted as new, and its messages are closed.
    fn is_of_earlier_life(&self, effect: EffectId, known: Known<'_>, accepted: u64) -> bool {
        matches!(known.record.progress, Progress::Known(_))
            && known.since < accepted
            && self.has_no_message(effect, known.record.right.life)
    }

    /// Effects with a known outcome whose messages are all closed, but whose retention has not
    /// started.
    fn unending(&self) -> Vec<(EffectId, &'a Record)> {
        let effects = self.timeline.places.effects.ids();
        let known = effects.filter_map(|effect| Some((effect, self.effects[effect]?.record)));
        let unending = known.filter(|(effect, record)| {
            matches!(record.progress, Progress::Known(_))
                && record.kept_until.is_none()
                && self.has_no_message(*effect, record.right.life)
        });
        unending.collect()
    }

    fn over(&self) -> FastSet<(EffectId, u64)> {
        self.unending().into_iter().map(|(effect, record)| (effect, record.right.life)).collect()
    }

    /// Checks that every outcome expires eventually: its retention starts soon after its last
    /// message is closed.
    fn all_will_end(&mut self, ended: u64, over_since_healing: &FastSet<(EffectId, u64)>) {
        self.seq = ended;
        for (effect, record) in self.unending() {
            let life = (effect, record.right.life);
            if over_since_healing.contains(&life) {
                let holders = self.holders.get(&life).map_or(&[][..], Vec::as_slice);
                let all = holders.len();
                let left = holders.iter().filter(|(entry, _)| self.leases.is_left(*entry)).count();
                let detail = format_args!(
                    "has a known outcome and its {all} messages are closed ({left} because their generation ended), but its retention never started"
                );
                self.breaks(RecordExpiry, effect, detail);
            }
        }
    }

    /// Checks that every effect begun under an acked message has a known outcome.
    fn acked(&mut self, entry: EntryId) {
        for effect in self.begun.remove(&entry).unwrap_or_default() {
            let Some(known) = self.effects[effect] else { continue };
            if !matches!(known.record.progress, Progress::Known(_)) {
                let text = self.timeline.places.entry_text(entry);
                let detail = format_args!("has no known outcome, but {text} was acked");
                self.breaks(OneExecutor, effect, detail);
            }
        }
    }

    /// Records a violation that concerns an effect.
    fn breaks(&mut self, invariant: Invariant, effect: EffectId, detail: fmt::Arguments<'_>) {
        let text = self.timeline.places.effect_text(effect);
        self.findings.add(invariant, self.seq, format_args!("{text} {detail}"));
    }
}

/// Returns the effect that a call is about.
fn effect_of(ask: Ask<'_>) -> Option<EffectId> {
    match ask {
        Ask::Begin { effect, .. }
        | Ask::Finish { effect, .. }
        | Ask::ExtendEffect { effect, .. }
        | Ask::Resolve { effect, .. } => Some(effect),
        Ask::Produce(_)
        | Ask::Settle(_)
        | Ask::CreateGroup(..)
        | Ask::SeekAll(..)
        | Ask::Purge { .. }
        | Ask::Inspect(_)
        | Ask::ExplainGroup
        | Ask::ReadPointer { .. }
        | Ask::Settings(_)
        | Ask::Outdated
        | Ask::DeleteGroup(_)
        | Ask::DeleteTopic(_)
        | Ask::Seek(_)
        | Ask::Redrive(_)
        | Ask::Commit(_)
        | Ask::Other => None,
    }
}
