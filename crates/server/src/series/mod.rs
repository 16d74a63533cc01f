//! Short time series of topics, groups and shards.
//!
//! 1. Each shard's task counts what happened in its durable batches. Every 5 s, and when its copy of
//!    the shard ends, it adds its counts here.
//! 2. Two resolutions: 5 s for 15 minutes, 60 s for 6 hours. Slots are aligned to the clock of the
//!    cluster, so that the series of several nodes can be added up.
//! 3. Bounded: at most [`SUBJECTS_MAX`] topics and groups. Above that, one that was idle for [`KEPT_MS`]
//!    gives way to an active one.
//! 4. In memory, and lost with the process. A slot in which no process counted is `None`.

mod ring;
mod shard_activity;
mod totals;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use driftq_core::view::AllViews;
use driftq_core::{Text, Timestamp};
use serde::{Deserialize, Serialize};

use ring::{Gap, Ring};
pub(crate) use shard_activity::ShardActivity;
pub(crate) use totals::{OTHER, Totals};

/// Maximum number of topics and groups with series.
const SUBJECTS_MAX: usize = 512;
/// A topic or group that was active in this time is not replaced.
const KEPT_MS: u64 = 900_000;
const BREAKS_MAX: usize = 256;

const TOPIC: &[&str] = &["produced", "produced_bytes", "dead_lettered"];
const TOPIC_COUNTERS: usize = TOPIC.len();
/// Eight counters, then the gauges.
const GROUP: &[&str] = &[
    "delivered",
    "redelivered",
    "acked",
    "nacked",
    "expired",
    "returned",
    "dead_lettered",
    "redriven",
    "backlog",
    "leased",
    "waiting",
    "oldest_unsettled_s",
];
const GROUP_COUNTERS: usize = 8;
const SHARD: &[&str] = &["commits", "commands"];
const SHARD_COUNTERS: usize = SHARD.len();

/// What a series is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum SeriesOf {
    Shard(u32),
    Topic(Text),
    Group { topic: Text, group: Text },
}

impl SeriesOf {
    /// Its values, counters first.
    pub(crate) fn names(&self) -> &'static [&'static str] {
        match self {
            SeriesOf::Shard(_) => SHARD,
            SeriesOf::Topic(_) => TOPIC,
            SeriesOf::Group { .. } => GROUP,
        }
    }

    fn counters(&self) -> usize {
        match self {
            SeriesOf::Shard(_) => SHARD_COUNTERS,
            SeriesOf::Topic(_) => TOPIC_COUNTERS,
            SeriesOf::Group { .. } => GROUP_COUNTERS,
        }
    }

    /// Whether a value is a count that several nodes add up.
    pub(crate) fn is_counter(&self, name: usize) -> bool {
        name < self.counters()
    }
}

/// The length of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    Fine,
    Coarse,
}

impl Step {
    pub(crate) fn ms(self) -> u64 {
        match self {
            Step::Fine => 5_000,
            Step::Coarse => 60_000,
        }
    }

    pub(crate) fn slots(self) -> u64 {
        match self {
            Step::Fine => 180,
            Step::Coarse => 360,
        }
    }

    pub(crate) fn slot(self, at: Timestamp) -> u64 {
        at.0 / self.ms()
    }
}

/// A request for the slots `from..to`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SeriesRequest {
    pub(crate) subject: SeriesOf,
    /// The shard of the topic.
    pub(crate) shard: u32,
    pub(crate) step: Step,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What one node counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CountedSeries {
    /// By name, in the order of [`SeriesOf::names`]; by slot.
    pub(crate) values: Vec<Vec<Option<u32>>>,
    pub(crate) breaks: Vec<SeriesBreak>,
}

/// When a node began or ended to serve a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeriesBreak {
    pub(crate) at: Timestamp,
    pub(crate) shard: u32,
    pub(crate) reason: String,
}

#[derive(Debug)]
struct History {
    /// When something happened last.
    active_at: Timestamp,
    fine: Ring,
    coarse: Ring,
}

impl History {
    fn new(subject: &SeriesOf, now: Timestamp) -> History {
        let gap = if matches!(subject, SeriesOf::Shard(_)) { Gap::Unknown } else { Gap::Quiet };
        let (counters, gauges) = (subject.counters(), subject.names().len() - subject.counters());
        let ring = |step: Step| Ring::new(counters, gauges, step.slots(), gap, step.slot(now));
        History { active_at: now, fine: ring(Step::Fine), coarse: ring(Step::Coarse) }
    }

    fn ring(&self, step: Step) -> &Ring {
        match step {
            Step::Fine => &self.fine,
            Step::Coarse => &self.coarse,
        }
    }
}

#[derive(Debug)]
struct State {
    shards: BTreeMap<u32, History>,
    /// Topics and groups.
    others: BTreeMap<SeriesOf, History>,
    /// Whether a topic or group was left out. Then a missing one may have been active.
    is_partial: bool,
    breaks: VecDeque<SeriesBreak>,
    topics: Totals,
    groups: Totals,
}

impl Default for State {
    fn default() -> State {
        State {
            shards: BTreeMap::new(),
            others: BTreeMap::new(),
            is_partial: false,
            breaks: VecDeque::new(),
            topics: Totals::of_topics(),
            groups: Totals::of_groups(),
        }
    }
}

/// The series of this process.
#[derive(Debug, Default)]
pub(crate) struct SeriesStore(Mutex<State>);

impl SeriesStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|error| error.into_inner())
    }

    /// Adds what happened in a shard since its last sample.
    pub(crate) fn add(
        &self,
        now: Timestamp,
        shard: &driftq_core::Shard,
        number: u32,
        activity: &mut ShardActivity,
    ) {
        let (samples, deleted) = activity.take(shard, number, now);
        let mut state = self.state();
        for subject in deleted {
            state.others.remove(&subject);
            state.topics.remove(&subject);
            state.groups.remove(&subject);
        }
        for sample in samples {
            match &sample.subject {
                SeriesOf::Shard(_) => {}
                SeriesOf::Topic(_) => state.topics.add(&sample.subject, &sample.counts),
                SeriesOf::Group { .. } => state.groups.add(&sample.subject, &sample.counts),
            }
            let is_active = !sample.counts.is_empty();
            let Some(history) = state.history(&sample.subject, now, is_active) else { continue };
            history.fine.add(Step::Fine.slot(now), &sample.counts, &sample.gauges);
            history.coarse.add(Step::Coarse.slot(now), &sample.counts, &sample.gauges);
            if is_active {
                history.active_at = now;
            }
        }
    }

    /// Returns the counts since the process started, by topic and by group. `views` is everything
    /// that exists, if it is known.
    pub(crate) fn totals(&self, views: Option<&AllViews>) -> (Totals, Totals) {
        let mut state = self.state();
        if let Some(views) = views {
            state.topics.place(&topics_by_size(views));
            state.groups.place(&groups_by_size(views));
        }
        (state.topics.clone(), state.groups.clone())
    }

    /// Records that this node began or ended to serve a shard.
    pub(crate) fn note(&self, at: Timestamp, shard: u32, reason: &str) {
        let mut state = self.state();
        if state.breaks.len() >= BREAKS_MAX {
            state.breaks.pop_front();
        }
        state.breaks.push_back(SeriesBreak { at, shard, reason: reason.to_owned() });
    }

    /// Returns what this process counted.
    pub(crate) fn read(&self, request: &SeriesRequest) -> CountedSeries {
        let SeriesRequest { subject, shard, step, from, to } = request;
        let state = self.state();
        let served = state.shards.get(shard).map(|history| history.ring(*step));
        let is_served = |slot: u64| served.and_then(|ring| ring.get(slot, 0)).is_some();
        let own = match subject {
            SeriesOf::Shard(shard) => state.shards.get(shard),
            SeriesOf::Topic(_) | SeriesOf::Group { .. } => state.others.get(subject),
        };
        let is_unseen = |name: usize| {
            let is_idle = subject.is_counter(name) && !state.is_partial;
            is_idle && !matches!(subject, SeriesOf::Shard(_))
        };
        let value = |slot: u64, name: usize| {
            let counted = own.and_then(|history| history.ring(*step).get(slot, name));
            // A topic or group that was never active has no history: it counted nothing.
            counted.or(is_unseen(name).then_some(0)).filter(|_| is_served(slot))
        };
        let row = |name: usize| (*from..*to).map(|slot| value(slot, name)).collect();
        let times = Timestamp(from * step.ms())..Timestamp(to * step.ms());
        let is_asked = |at: &&SeriesBreak| at.shard == *shard && times.contains(&at.at);
        CountedSeries {
            values: (0..subject.names().len()).map(row).collect(),
            breaks: state.breaks.iter().filter(is_asked).cloned().collect(),
        }
    }
}

impl State {
    /// Returns the history of a subject. If there are too many, an active one replaces the one that
    /// was active least recently, unless that was active a short while ago.
    fn history(
        &mut self,
        subject: &SeriesOf,
        now: Timestamp,
        is_active: bool,
    ) -> Option<&mut History> {
        let new = || History::new(subject, now);
        if let SeriesOf::Shard(shard) = subject {
            return Some(self.shards.entry(*shard).or_insert_with(new));
        }
        if !self.others.contains_key(subject) && self.others.len() >= SUBJECTS_MAX {
            self.is_partial = true;
            let (oldest, history) =
                self.others.iter().min_by_key(|(_, history)| history.active_at)?;
            if !is_active || now.since(history.active_at) < KEPT_MS {
                return None;
            }
            let oldest = oldest.clone();
            self.others.remove(&oldest);
        }
        Some(self.others.entry(subject.clone()).or_insert_with(new))
    }
}

fn topics_by_size(views: &AllViews) -> Vec<SeriesOf> {
    let mut topics: Vec<_> = views.topics.iter().collect();
    let bytes = |topic: &driftq_core::view::TopicView| {
        topic.partitions.iter().map(|lane| lane.bytes).sum::<u64>()
    };
    topics.sort_by_key(|topic| std::cmp::Reverse(bytes(topic)));
    topics.into_iter().map(|topic| SeriesOf::Topic(topic.name.clone())).collect()
}

fn groups_by_size(views: &AllViews) -> Vec<SeriesOf> {
    let mut groups: Vec<_> = views.groups.iter().collect();
    let backlog = |group: &driftq_core::view::GroupView| {
        group.partitions.iter().map(|cursor| cursor.backlog).sum::<u64>()
    };
    groups.sort_by_key(|group| std::cmp::Reverse(backlog(group)));
    let name = |group: &driftq_core::view::GroupView| SeriesOf::Group {
        topic: group.topic.clone(),
        group: group.name.clone(),
    };
    groups.into_iter().map(name).collect()
}
