//! More time for a delivery.

use crate::change::{Decision, Entry};
use crate::command::{Extend, Reply};
use crate::read_view::Found;
use crate::refusal::Decided;
use crate::shard::Shard;
use crate::shard::state::held::{Held, open};
use crate::time::Timestamp;
use crate::validate::check_lease;

impl Shard {
    /// The lease now ends `lease_ms` from now; it may become shorter.
    pub(crate) fn extend(&self, now: Timestamp, extend: &Extend, found: &Found<'_>) -> Decided {
        if let Some(lease_ms) = extend.lease_ms {
            check_lease(lease_ms)?;
        }
        let held = self.standing(now, &extend.claim, found)?.leased(&extend.claim)?;
        Ok(self.renew_lease(now, &held, extend.lease_ms))
    }

    /// The end of a lease, moved.
    pub(crate) fn renew_lease(
        &self,
        now: Timestamp,
        held: &Held<'_>,
        lease_ms: Option<u64>,
    ) -> Decision {
        let lease_ms = lease_ms.unwrap_or(u64::from(held.entry.lease_ms));
        let entry = Entry { at: now.after(lease_ms), ..*held.entry };
        // As it will be: a lease may be made shorter than the grace after a recovery.
        let until = self.effective_end(&entry);
        Decision::reply(Reply::Extended { until }).with(open(held, entry))
    }
}
