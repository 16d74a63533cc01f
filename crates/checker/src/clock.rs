//! Checks the authority clock: `ConfirmedClockJump`.

use crate::history::{Event, What};
use crate::invariant::Invariant::ConfirmedClockJump;
use crate::report::Findings;

/// Allows for the slightly different speeds of node clocks.
const SLACK_MS: u64 = 60_000;

/// Checks the times of batches. Skipped without `Clock` events.
pub(crate) fn judge(events: &[Event], findings: &mut Findings) {
    // The greatest difference between the authority clock and the harness clock so far. It never
    // decreases: batch times do not go back when the clock does.
    let mut most: Option<u64> = None;
    for event in events {
        if let What::Clock { now } = event.what {
            most = most.max(Some(now.saturating_sub(event.at)));
        } else if let (What::Committed { shard, batch, now, .. }, Some(most)) = (&event.what, most)
        {
            let ahead_ms = now.saturating_sub(most.saturating_add(event.at));
            if ahead_ms > SLACK_MS {
                let detail = format_args!(
                    "batch {batch} of shard {shard} is {ahead_ms} ms ahead of the confirmed authority clock"
                );
                findings.add(ConfirmedClockJump, event.seq, detail);
            }
        }
    }
}
