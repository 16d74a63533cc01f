//! Pauses and resumes a group.

use crate::change::{Change, Decision, GroupRow, Paused};
use crate::command::{GroupName, Pause};
use crate::id::cut;
use crate::limits::REASON_BYTES_MAX;
use crate::refusal::Decided;
use crate::shard::context::Context;
use crate::shard::done;

impl Context<'_> {
    /// Stops leasing messages to a group. Running leases can still be settled. A pause uses no
    /// attempts.
    pub(crate) fn pause(&self, pause: &Pause) -> Decided {
        let (_, group) = self.group_named(&pause.name)?;
        let before = group.row.paused.as_ref().filter(|_| group.is_paused(self.now));
        let since = before.map_or(self.now, |paused| paused.since);
        let paused = Paused {
            since,
            by: cut(&pause.by, REASON_BYTES_MAX),
            reason: cut(&pause.reason, REASON_BYTES_MAX),
            until: pause.until,
        };
        Ok(self.set_paused(&group.row, Some(paused)))
    }

    pub(crate) fn resume(&self, name: &GroupName) -> Decided {
        let (_, group) = self.group_named(name)?;
        match group.row.paused {
            None => Ok(done()),
            // A paused group is not idle, so its idle time starts now.
            Some(_) => Ok(self.set_paused(&GroupRow { seen: self.now, ..group.row.clone() }, None)),
        }
    }

    fn set_paused(&self, row: &GroupRow, paused: Option<Paused>) -> Decision {
        done().with(Change::Group(Box::new(GroupRow { paused, ..row.clone() })))
    }
}
