//! Checks offsets against real time: `RealTimeOrder` and `ProducerOrder`.
//!
//! A produce must get a greater offset than every produce that was answered before it was sent.
//! Comparing with the highest offset answered so far is enough.

use crate::ids::{CallId, Column, FastMap, LaneId};
use crate::invariant::Invariant::{ProducerOrder, RealTimeOrder};
use crate::report::Findings;
use crate::timeline::{Outcome, Seen, Timeline};

/// Checks every produce that stored a message.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut highest: Column<LaneId, Highest> = timeline.places.lanes.column(Highest::default());
    let mut highest_own: FastMap<(LaneId, u32), u64> = FastMap::default();
    for moment in &timeline.moments {
        let process = moment.process;
        match moment.seen {
            Seen::Invoked(call) => {
                let Some((lane, offset)) = stored_at(timeline, call) else {
                    continue;
                };
                let seq = timeline.calls[call].answered;
                let text = timeline.places.lane_text(lane);
                if let Some(own) = highest_own.get(&(lane, process)).filter(|own| **own >= offset) {
                    let detail = format_args!(
                        "process {process} sent {text}/{offset} after its message at offset {own} was accepted"
                    );
                    findings.add(ProducerOrder, seq, detail);
                }
                if let Some(other) =
                    highest[lane].of_others(process).filter(|other| *other >= offset)
                {
                    findings.add(
                        RealTimeOrder,
                        seq,
                        format_args!("{text}/{offset} was sent after another process's message at offset {other} was accepted"),
                    );
                }
            }
            Seen::Answered(call) => {
                let Some((lane, offset)) = stored_at(timeline, call) else {
                    continue;
                };
                let own = highest_own.entry((lane, process)).or_insert(offset);
                *own = offset.max(*own);
                highest[lane].raise(process, *own);
            }
            _ => {}
        }
    }
}

fn stored_at(timeline: &Timeline<'_>, call: CallId) -> Option<(LaneId, u64)> {
    let Outcome::Produced { at, deduplicated: false, .. } = timeline.calls[call].outcome else {
        return None;
    };
    Some(timeline.places.positions.key(at))
}

/// The highest offset of a partition, and the highest offset of any other process.
#[derive(Clone, Copy, Default)]
struct Highest {
    first: Option<(u64, u32)>,
    second: Option<(u64, u32)>,
}

impl Highest {
    fn of_others(self, process: u32) -> Option<u64> {
        [self.first, self.second]
            .into_iter()
            .flatten()
            .find(|top| top.1 != process)
            .map(|top| top.0)
    }

    fn raise(&mut self, process: u32, offset: u64) {
        let top = Some((offset, process));
        match self.first {
            Some((_, leader)) if leader == process => self.first = self.first.max(top),
            _ if self.first < top => (self.first, self.second) = (top, self.first),
            _ => self.second = self.second.max(top),
        }
    }
}
