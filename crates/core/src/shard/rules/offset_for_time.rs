//! Finds the offset of a lane for a time.
//!
//! A page is stored by one commit, and commit times never decrease, so the pages of a lane are
//! ordered by time. For a produced message this is the time at which it was produced. A redriven
//! message or a dead letter keeps the time at which it was first stored, but the search uses the
//! time at which it was stored in this lane.

use crate::change::{LaneState, Reads};
use crate::id::{Lane, Offset};
use crate::limits::READ_LOOKUPS_MAX;
use crate::read_view::ReadView;
use crate::refusal::Refusal;
use crate::shard::Topic;
use crate::shard::context::Context;
use crate::time::Timestamp;

impl Context<'_> {
    /// Returns for each lane the first offset stored at or after `at`, or the lane's end.
    pub(crate) fn offsets_for_time(
        &self,
        topic: &Topic,
        at: Timestamp,
    ) -> Result<Vec<Offset>, Refusal> {
        if at > self.now {
            return Ok(topic.lanes.iter().map(|state| state.high).collect());
        }
        let (mut offsets, mut needs): (Vec<Offset>, Reads) = Default::default();
        for (index, state) in topic.lanes.iter().enumerate() {
            match offset_for_time(topic, Lane::of(index as u32), state, at, self.rows) {
                Ok(offset) => offsets.push(offset),
                Err(reads) => needs.extend(reads),
            }
        }
        needs.truncate(READ_LOOKUPS_MAX);
        if needs.is_empty() { Ok(offsets) } else { Err(needs.into()) }
    }
}

/// Finds the offset by binary search over the pages of a lane.
fn offset_for_time(
    topic: &Topic,
    lane: Lane,
    state: &LaneState,
    at: Timestamp,
    found: &ReadView<'_>,
) -> Result<Offset, Reads> {
    let (mut low, mut high) = (state.first, state.high);
    while low < high {
        let middle = stable_midpoint(low, high);
        match found.page_at(topic.row.id, lane, middle)? {
            // Stored by the current batch, or nothing is stored up to the end.
            None => high = middle,
            Some(page) if page.at >= at => high = page.base.clamp(low, middle),
            Some(page) => low = page.last + 1,
        }
    }
    Ok(low)
}

/// Returns the number between `low` and `high` with the most trailing zero bits, or `low` if there
/// is none. Unlike the arithmetic middle it stays the same while a lane grows, so that pages
/// already read are used again.
fn stable_midpoint(low: Offset, high: Offset) -> Offset {
    let last = high - 1;
    match (low ^ last).checked_ilog2() {
        None => low,
        Some(bit) => last >> bit << bit,
    }
}

#[cfg(test)]
mod tests {
    use super::stable_midpoint;

    #[test]
    fn the_roundest_number_has_the_most_zeros() {
        for low in 0..70 {
            for high in low + 1..140 {
                let middle = stable_midpoint(low, high);
                assert!((low..high).contains(&middle), "{middle} of {low}..{high}");
                let stable_midpoint = (low + 1..high).max_by_key(|number| number.trailing_zeros());
                assert_eq!(middle, stable_midpoint.unwrap_or(low), "of {low}..{high}");
            }
        }
        assert_eq!(stable_midpoint(0, u64::MAX), 1 << 63);
    }
}
