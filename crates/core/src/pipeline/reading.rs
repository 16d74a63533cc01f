//! Reads in flight: their requesters, their results, and how long the overlay must be kept for
//! them.
//!
//! Reads for dispatch share a byte budget. Each reserves the most it may return until its result
//! arrives, and waits if that does not fit. Reads of commands never wait for those of dispatch.

use std::collections::{BTreeSet, VecDeque};

use crate::change::{Lookup, Prefetch, Reads};
use crate::id::BatchNo;
use crate::limits::{READ_AHEAD_PAGES_MAX, READ_AHEAD_STEP_BYTES, READ_LOOKUPS_MAX};
use crate::pack::{self, Damaged};
use crate::refusal::Refusal;
use crate::row::{Key, Read, Row};
use crate::shard::Work;

use super::{Item, Output, Pipeline, ReadId};
use crate::read_view::{LookupResult, PrefetchResult, ReadView};

/// Rows that were read for a command.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) rows: Vec<LookupResult>,
    /// The last batch that was durable when the first of the reads began.
    pub(super) since: BatchNo,
}

/// The requester of rows.
#[derive(Debug, Clone)]
pub(super) enum Requester {
    Command(u64, Reads),
    Dispatch(Prefetch),
}

/// Reads that have not started.
#[derive(Debug, Default)]
pub(super) struct ReadQueue {
    /// In the order requested.
    queue: VecDeque<Requester>,
    /// Reads for dispatch that wait for the byte budget or for a free read, oldest first.
    delayed: VecDeque<Prefetch>,
    /// Bytes that reads for dispatch in flight may return.
    reserved: u64,
}

impl ReadQueue {
    pub(super) fn push(&mut self, asker: Requester) {
        self.queue.push_back(asker);
    }

    /// Whether a read for dispatch may start. One always may, however large it is.
    fn has_room(&self, bytes: u64, limit: usize) -> bool {
        self.reserved == 0 || self.reserved + bytes <= limit as u64
    }
}

/// A read in flight.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) since: BatchNo,
    /// Bytes reserved for its result.
    reserved: u64,
    /// Each requester with its number of [`Read`]s.
    pub(super) askers: Vec<(Requester, usize)>,
    /// Indexes of [`Read`]s that return rows without bodies.
    pub(super) bare: BTreeSet<usize>,
}

impl Pipeline {
    pub(super) fn start_reads(&mut self, outputs: &mut Vec<Output>) {
        // One read is reserved for commands.
        let dispatch_max = self.config.reads_max.saturating_sub(1).max(1);
        // The shard processes one result in one turn, and commands wait meanwhile.
        let most = self.shard.config.read_in_flight_bytes() as u64 / dispatch_max as u64;
        while self.reading.len() < self.config.reads_max {
            let is_for_dispatch = self.reading.len() < dispatch_max;
            let before = self.asking.reserved;
            let (mut reads, mut askers) = (Vec::new(), Vec::new());
            while reads.len() < READ_LOOKUPS_MAX
                && self.asking.reserved - before < most
                && let Some(asker) = self.next_asker(is_for_dispatch)
            {
                let before = reads.len();
                match &asker {
                    Requester::Command(_, lookups) => {
                        reads.extend(lookups.iter().map(Lookup::read))
                    }
                    Requester::Dispatch(want) => reads.extend(want_reads(want)),
                }
                askers.push((asker, reads.len() - before));
            }
            if askers.is_empty() {
                return;
            }
            let id = ReadId(self.next_read);
            self.next_read += 1;
            let bare = |read: &Read| {
                matches!(read, Read::Range { bodies: false, .. } | Read::Ending { .. })
            };
            let bare = (0..reads.len()).filter(|at| bare(&reads[*at])).collect();
            let reserved = self.asking.reserved - before;
            self.reading.insert(id, Reading { since: self.durable, reserved, askers, bare });
            outputs.push(Output::StartRead(id, reads));
        }
    }

    /// Returns the next requester whose read may start, and reserves its bytes. Delayed reads come
    /// first, so that a stream of commands cannot starve them.
    fn next_asker(&mut self, is_for_dispatch: bool) -> Option<Requester> {
        let limit = self.shard.config.read_in_flight_bytes();
        while is_for_dispatch && let Some(&want) = self.asking.delayed.front() {
            let bytes = self.shard.bytes_expected(&want);
            if !self.asking.has_room(bytes, limit) {
                break;
            }
            self.asking.delayed.pop_front();
            // Its consumer may already have enough messages from lanes that were read sooner.
            let is_wanted = self.shard.has_ready_reader(&want);
            if self.is_reserved(&want, bytes, is_wanted) {
                return Some(Requester::Dispatch(want));
            }
        }
        while let Some(asker) = self.asking.queue.pop_front() {
            let Requester::Dispatch(want) = asker else { return Some(asker) };
            let bytes = self.shard.bytes_expected(&want);
            let has_room = is_for_dispatch && self.asking.has_room(bytes, limit);
            if !self.asking.delayed.is_empty() || !has_room {
                self.asking.delayed.push_back(want);
            } else if self.is_reserved(&want, bytes, self.shard.has_reader(&want)) {
                return Some(asker);
            }
        }
        None
    }

    /// Reserves the bytes of a read if it is still needed. If not, the next consumer requests it
    /// again.
    fn is_reserved(&mut self, want: &Prefetch, bytes: u64, is_wanted: bool) -> bool {
        if is_wanted {
            self.asking.reserved += bytes
        } else {
            self.shard.loaded(want)
        }
        is_wanted
    }

    pub(super) fn read_done(&mut self, id: ReadId, rows: Vec<Vec<Row>>) {
        let reading = self.reading.remove(&id).expect("a read was in flight");
        let Reading { since, reserved, askers, bare } = reading;
        self.asking.reserved -= reserved;
        let mut rows = rows.into_iter().enumerate();
        for (asker, questions) in askers {
            let mut found = rows.by_ref().take(questions);
            match asker {
                Requester::Command(item, lookups) => {
                    let found = found.map(|(at, rows)| {
                        // A row without its body has nothing to verify.
                        let bodies = rows.iter().filter(|_| !bare.contains(&at));
                        let damaged = bodies.map(pack::verify).find_map(Result::err);
                        (rows, damaged)
                    });
                    let came = lookups
                        .into_iter()
                        .zip(found)
                        .map(|(lookup, (rows, damaged))| LookupResult { lookup, rows, damaged });
                    let partial = self.partial.remove(&item);
                    let mut answers = partial.unwrap_or(Answers { rows: Vec::new(), since });
                    answers.rows.extend(came);
                    answers.rows.sort_by(|one, other| one.lookup.cmp(&other.lookup));
                    self.answers.insert(item, answers);
                    if let Some(item) = self.aside.remove(&item) {
                        let item = Item { waits: false, ..item };
                        if item.work.is_settle() {
                            self.settles.push_front(item)
                        } else {
                            self.others.push_front(item)
                        }
                    }
                }
                Requester::Dispatch(want) => {
                    let (_, pages) = found.next().unwrap_or_default();
                    let (_, notes) = found.next().unwrap_or_default();
                    // `load` verifies a page as it unpacks it.
                    let verified = notes.iter().try_for_each(pack::verify);
                    let loaded = verified.and_then(|()| self.load(&want, pages, notes));
                    let supplied = loaded.and_then(|loaded| self.shard.supply(&want, loaded));
                    if let Err(damaged) = supplied {
                        self.shard.loaded(&want);
                        self.report_damage(damaged);
                    }
                }
            }
        }
    }

    /// Stops the lane of a damaged page and reports the damage. The shard keeps serving.
    pub(super) fn report_damage(&mut self, damaged: Damaged) {
        self.shard.quarantine_lane(&damaged);
        self.damaged.push(damaged);
    }

    fn load(
        &self,
        want: &Prefetch,
        pages: Vec<Row>,
        notes: Vec<Row>,
    ) -> Result<PrefetchResult, Damaged> {
        match *want {
            Prefetch::Ahead { topic, lane, from } => {
                Ok(PrefetchResult::Pages(self.overlay.run(topic, lane, from, &pages)?))
            }
            Prefetch::Retry { topic, generation, lane, offset, .. } => {
                let lookup = Lookup::Message { topic, lane, offset };
                let noted = Lookup::Row(Key::Note { generation, lane, offset });
                let answers = [
                    LookupResult { lookup: noted, rows: notes, damaged: None },
                    LookupResult { lookup, rows: pages, damaged: None },
                ];
                let found = ReadView::new(&answers, &self.overlay);
                if !self.shard.is_waiting(want) {
                    return Ok(PrefetchResult::Nothing);
                }
                let message = match found.message(topic, lane, offset) {
                    Ok(message) => message,
                    Err(Refusal::Damaged(damaged)) => return Err(damaged),
                    Err(Refusal::Needs(_) | Refusal::Rejected(_)) => unreachable!("it was read"),
                };
                let last_error = match self.shard.plain_error(want) {
                    Some(text) => text.into(),
                    None => found.note(generation, lane, offset).expect("it was read"),
                };
                Ok(PrefetchResult::Retry { message, last_error })
            }
        }
    }

    /// Drops the batches from the overlay that were durable before the oldest read began whose
    /// result is still needed.
    pub(super) fn forget_overlay(&mut self) {
        let reading = self.reading.values().map(|reading| reading.since).min();
        let answered = self.answers.values().chain(self.partial.values());
        let answered = answered.map(|answers| answers.since).min();
        let through = [reading, answered].into_iter().flatten().fold(self.durable, BatchNo::min);
        self.overlay.forget(through);
    }

    /// Requests rows for a command. Nothing has changed; once the rows are read, the command is
    /// decided again at the head of a batch.
    pub(super) fn wait_for(&mut self, item: Item, reads: Reads) {
        if let Work::ExpireLease(hold) = item.work {
            self.expiring.insert(hold);
        }
        self.asking.push(Requester::Command(item.id, reads));
        let item = Item { waits: true, ..item };
        if item.work.is_produce() {
            self.others.push_front(item);
        } else {
            self.aside.insert(item.id, item);
        }
    }
}

fn want_reads(want: &Prefetch) -> Vec<Read> {
    match *want {
        Prefetch::Ahead { topic, lane, from } => {
            vec![Read::pages(topic, lane, from, READ_AHEAD_PAGES_MAX, READ_AHEAD_STEP_BYTES)]
        }
        Prefetch::Retry { topic, generation, lane, offset, .. } => vec![
            Read::pages(topic, lane, offset, 1, usize::MAX),
            Read::Key(Key::Note { generation, lane, offset }),
        ],
    }
}
