//! Extends the lease of a delivery.

use crate::change::{Decision, Entry};
use crate::command::{Extend, Reply};
use crate::refusal::Decided;
use crate::shard::context::Context;
use crate::shard::state::open_delivery::{OpenDelivery, open};
use crate::validate::check_lease;

impl Context<'_> {
    /// Sets the end of the lease to `lease_ms` from now, which may shorten it.
    pub(crate) fn extend(&self, extend: &Extend) -> Decided {
        if let Some(lease_ms) = extend.lease_ms {
            check_lease(lease_ms)?;
        }
        let held = self.standing(&extend.claim)?.leased(&extend.claim)?;
        Ok(self.renew_lease(&held, extend.lease_ms))
    }

    /// Moves the end of a lease.
    pub(crate) fn renew_lease(&self, held: &OpenDelivery<'_>, lease_ms: Option<u64>) -> Decision {
        let lease_ms = lease_ms.unwrap_or(u64::from(held.entry.lease_ms));
        let entry = Entry { at: self.now.after(lease_ms), ..*held.entry };
        // A lease shorter than the grace period after a recovery ends with the grace period.
        let until = self.effective_end(&entry);
        Decision::reply(Reply::Extended { until }).with(open(held, entry))
    }
}
