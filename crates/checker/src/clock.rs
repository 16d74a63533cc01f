//! The authority clock: I61.

use crate::history::{Event, What};
use crate::invariant::Invariant::ConfirmedClockJump;
use crate::report::Findings;

/// Clocks of nodes run at slightly different speeds.
const SLACK_MS: u64 = 60_000;

/// Judges the times of batches, where the harness knows which may be followed.
pub(crate) fn judge(events: &[Event], findings: &mut Findings) {
    // The authority clock less the harness's, at most: time does not go back with the clock.
    let mut most: Option<u64> = None;
    for event in events {
        if let What::Clock { now } = event.what {
            most = most.max(Some(now.saturating_sub(event.at)));
        } else if let (What::Committed { shard, batch, now, .. }, Some(most)) = (&event.what, most)
        {
            let ahead_ms = now.saturating_sub(most.saturating_add(event.at));
            if ahead_ms > SLACK_MS {
                let detail = format_args!(
                    "batch {batch} of shard {shard} is {ahead_ms} ms ahead of every time that may be followed"
                );
                findings.add(ConfirmedClockJump, event.seq, detail);
            }
        }
    }
}
