//! Checks what operators are shown, and where cursors are moved: `NoSkip`, `RestoreFencing`,
//! `TrueAnswers`, and of `DeadLetteredOnce` what was deleted.
//!
//! The position of a call inside its batch is unknown. Its reply must have been true at some point
//! of the batch, or before it.

use crate::history::{Counters, MessageStatus, MessageStatusKind, Start};
use crate::ids::{CallId, CursorId, LabelId, LaneId, NameId, ReaderId};
use crate::invariant::Invariant::{DeadLetteredOnce, NoSkip, RestoreFencing, TrueAnswers};
use crate::timeline::{Ask, Batch, Outcome, Step};

use super::state::{Model, State};

/// A call that this batch decided, and whether its reply has been true so far.
pub(super) struct Look<'a> {
    call: CallId,
    about: About<'a>,
}

enum About<'a> {
    Messages {
        lane: LaneId,
        shown: &'a [MessageStatus],
        was_so: Vec<bool>,
    },
    /// A group with its counters, and why it is delivered nothing. Both must have been true, but not
    /// at the same point: the joins of a batch are listed after its other facts.
    Group {
        shown: &'a [Counters],
        was_counted: Vec<bool>,
        was_blocked: Vec<bool>,
    },
    Settings {
        topic: NameId,
        text: &'a str,
        was_so: bool,
    },
    /// Dead letters to delete or to count.
    Letters {
        ids: Vec<LabelId>,
        unknown: u64,
        dry_run: bool,
        count: u64,
        was_so: bool,
    },
    /// Cursors that were moved, each with the first and next offset of its partition before the
    /// batch.
    Cursors {
        start: Start,
        before: Vec<(CursorId, u64, u64)>,
    },
}

impl<'a> Model<'_, 'a> {
    /// The calls of operators that a batch decided.
    pub(super) fn looks_of(&self, batch: &Batch) -> Vec<Look<'a>> {
        let steps = self.timeline.steps_of(batch).iter();
        let calls = steps
            .filter_map(|step| if let Step::Decided { call } = step { Some(*call) } else { None });
        calls.filter_map(|call| Some(Look { call, about: self.about(call)? })).collect()
    }

    fn about(&self, call: CallId) -> Option<About<'a>> {
        let places = &self.timeline.places;
        let call = &self.timeline.calls[call];
        match (call.ask, call.outcome) {
            (Ask::Inspect(lane), Outcome::Inspected(shown)) => {
                Some(About::Messages { lane, shown, was_so: vec![false; shown.len()] })
            }
            (Ask::ExplainGroup, Outcome::Group(shown)) => {
                let (was_counted, was_blocked) =
                    (vec![false; shown.len()], vec![false; shown.len()]);
                Some(About::Group { shown, was_counted, was_blocked })
            }
            (Ask::Settings(topic), Outcome::Settings(text)) => {
                Some(About::Settings { topic, text, was_so: false })
            }
            (Ask::Purge { ids, dry_run }, Outcome::Purged { count }) => {
                let mut known: Vec<LabelId> =
                    ids.iter().filter_map(|id| places.labels.find(id)).collect();
                known.sort_unstable();
                known.dedup();
                let unknown = known.iter().filter(|id| self.stored_as(**id).is_none()).count();
                let unknown = unknown as u64;
                Some(About::Letters { ids: known, unknown, dry_run, count, was_so: false })
            }
            (Ask::SeekAll(reader, start) | Ask::CreateGroup(reader, start), outcome)
                if outcome.is_done() =>
            {
                Some(About::Cursors { start, before: self.ends_of(reader) })
            }
            (_, _) => None,
        }
    }

    /// The first and next offset of the partitions that a group reads.
    fn ends_of(&self, reader: ReaderId) -> Vec<(CursorId, u64, u64)> {
        let places = &self.timeline.places;
        let ends = |cursor: CursorId| {
            let lane = &self.lanes[places.cursors.key(cursor).1];
            (cursor, lane.first, lane.high)
        };
        places.cursors_of(reader).map(ends).collect()
    }

    /// Compares the replies with the current state of the model.
    pub(super) fn look(&self, look: &mut Look<'a>) {
        match &mut look.about {
            About::Messages { lane, shown, was_so } => {
                for (shown, was_so) in shown.iter().zip(was_so).filter(|(_, was_so)| !**was_so) {
                    *was_so = self.is_so(*lane, shown);
                }
            }
            About::Group { shown, was_counted, was_blocked } => {
                for (index, shown) in shown.iter().enumerate() {
                    let Some(cursor) = self.cursor_named(shown) else { continue };
                    was_counted[index] |= self.counts(cursor, shown);
                    was_blocked[index] |= self.is_blocked_by(cursor, shown.blocked.as_deref());
                }
            }
            About::Settings { topic, text, was_so } => {
                let settings = self.operator.settings[*topic];
                *was_so |= settings.is_none_or(|settings| &*settings.text == *text);
            }
            About::Letters { ids, count, was_so, .. } => {
                let kept = ids.iter().filter(|id| self.is_kept(**id)).count();
                *was_so |= kept as u64 == *count;
            }
            About::Cursors { .. } => {}
        }
    }

    /// Whether a dead letter exists.
    fn is_kept(&self, id: LabelId) -> bool {
        let places = &self.timeline.places;
        let letter = self.positions[id].filter(|_| !self.operator.dropped[id]);
        letter.is_some_and(|at| !self.topics_gone[places.lanes.key(places.positions.key(at).0).0])
    }

    fn is_so(&self, lane: LaneId, shown: &MessageStatus) -> bool {
        let places = &self.timeline.places;
        let (topic, _) = places.lanes.key(lane);
        let group = places.names.find(&shown.group);
        let reader = group.and_then(|group| places.readers.find((topic, group)));
        let Some(cursor) = reader.and_then(|reader| places.cursors.find((reader, lane))) else {
            return false;
        };
        let Some(life) = self.cursors[cursor].life else { return false };
        let at = places.positions.find(lane, shown.offset);
        let Some(message) = at.and_then(|at| self.messages[at]) else { return false };
        if places.labels.key(message.put.id) != &*shown.id {
            return false;
        }
        let is_trimmed = shown.offset < self.lanes[lane].first;
        let is_settled = shown.state == MessageStatusKind::Settled
            || shown.state == MessageStatusKind::Trimmed && is_trimmed;
        let entry = places.entries.find(life, shown.offset);
        let entry = entry.map(|entry| self.entries[entry]).unwrap_or_default();
        match entry.state {
            State::Fresh => {
                let only = message.put.for_group;
                let is_for_another = only.is_some_and(|only| only != places.group_of(cursor))
                    || self.is_dropped(cursor, shown.offset);
                if shown.offset < self.cursors[cursor].next || is_for_another {
                    is_settled
                } else {
                    shown.state == MessageStatusKind::Ready
                }
            }
            State::Leased { .. } => {
                shown.state == MessageStatusKind::Leased && shown.attempts == entry.spent()
            }
            State::Waiting { .. } => {
                shown.state == MessageStatusKind::Waiting && shown.attempts == entry.spent()
            }
            State::Acked | State::Passed => is_settled,
            State::Dead { .. } => shown.state == MessageStatusKind::Dead || is_settled,
        }
    }

    /// Ends the batch: a reply that was never true in it is a violation.
    pub(super) fn judge_look(&mut self, batch: &Batch, look: Look<'a>) {
        let seq = self.timeline.calls[look.call].answered;
        match look.about {
            About::Messages { lane, shown, was_so } => {
                let lies = shown.iter().zip(was_so).filter(|(_, was_so)| !was_so);
                for (shown, _) in lies {
                    let text = self.timeline.places.lane_text(lane);
                    let detail = format_args!(
                        "a message of {text} was shown as {shown:?}, which was never true"
                    );
                    self.findings.add(TrueAnswers, seq, detail);
                }
            }
            About::Group { shown, was_counted, was_blocked } => {
                let was_so = was_counted.iter().zip(was_blocked).map(|(one, other)| *one && other);
                for (shown, _) in shown.iter().zip(was_so).filter(|(_, was_so)| !was_so) {
                    let detail =
                        format_args!("a group was shown as {shown:?}, which was never true");
                    self.findings.add(TrueAnswers, seq, detail);
                }
            }
            About::Settings { topic, text, was_so } => {
                if !was_so {
                    let topic = self.timeline.places.names.key(topic);
                    let detail = format_args!(
                        "topic {topic} was shown with settings {text}, which it does not have"
                    );
                    self.findings.add(TrueAnswers, seq, detail);
                }
            }
            About::Letters { ids, unknown, dry_run, count, was_so } => {
                let is_so = if dry_run { was_so } else { self.are_deleted(batch, &ids, count) };
                if !is_so {
                    // An id that this storage never issued may belong to another dead letter by
                    // now.
                    let invariant = if unknown > 0 { RestoreFencing } else { DeadLetteredOnce };
                    let detail = format_args!(
                        "a purge reported {count} of {} dead letters as deleted, which is not true",
                        ids.len()
                    );
                    self.findings.add(invariant, seq, detail);
                }
            }
            About::Cursors { start, before } => {
                for (cursor, first, high) in before {
                    self.is_put(batch, seq, cursor, start, (first, high));
                }
            }
        }
    }

    /// Whether none of the dead letters is left, and at least `count` were deleted in this batch.
    fn are_deleted(&self, batch: &Batch, ids: &[LabelId], count: u64) -> bool {
        let steps = self.timeline.steps_of(batch).iter();
        let dropped = steps.filter(|step| matches!(step, Step::Dropped { id } if ids.contains(id)));
        dropped.count() as u64 >= count && !ids.iter().any(|id| self.is_kept(*id))
    }

    /// Checks that a cursor moved in this batch starts at the right offset. Another call of the
    /// same batch may have moved it elsewhere.
    fn is_put(
        &mut self,
        batch: &Batch,
        seq: u64,
        cursor: CursorId,
        start: Start,
        before: (u64, u64),
    ) {
        let places = &self.timeline.places;
        let steps = self.timeline.steps_of(batch).iter();
        let opened = steps.filter_map(|step| {
            if let Step::Opened { life, offset } = *step { Some((life, offset)) } else { None }
        });
        let of_this = opened.filter(|(life, _)| places.lives.key(*life).0 == cursor);
        let offsets: Vec<u64> = of_this.map(|(_, offset)| offset).collect();
        let is_right = |offset| self.is_start(batch.now, cursor, start, before, offset);
        if !offsets.is_empty() && !offsets.iter().any(|offset| is_right(*offset)) {
            let text = places.cursor_text(cursor);
            let detail = format_args!("{text} was moved to {offsets:?}, which is not {start:?}");
            self.findings.add(NoSkip, seq, detail);
        }
    }

    fn is_start(
        &self,
        now: u64,
        cursor: CursorId,
        start: Start,
        (first, high): (u64, u64),
        offset: u64,
    ) -> bool {
        let lane = &self.lanes[self.timeline.places.cursors.key(cursor).1];
        let is_end = (high..=lane.high).contains(&offset);
        match start {
            Start::Earliest => (first..=lane.first).contains(&offset),
            Start::Latest => is_end,
            Start::Time(at) if at > now => is_end,
            Start::Time(at) => {
                let stored_at = |offset: u64| {
                    let at = lane.stored.get(usize::try_from(offset).ok()?)?;
                    Some(self.messages[*at]?.at)
                };
                // The message before it may have been trimmed in the same batch.
                let is_first =
                    offset <= lane.first || stored_at(offset - 1).is_none_or(|stored| stored < at);
                // If a page is missing, the times of its messages are unknown.
                let lane = self.timeline.places.cursors.key(cursor).1;
                let is_damaged = self.timeline.corrupted.iter().any(|(_, of, _)| *of == lane);
                if is_damaged {
                    return true;
                }
                let is_in_time = stored_at(offset).is_none_or(|stored| stored >= at)
                    || self.is_dropped(cursor, offset);
                is_first && (is_in_time || is_end)
            }
        }
    }
}
