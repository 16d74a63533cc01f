//! Checks that the fields sent along with a token match it.

use crate::command::{ExpectedDelivery, Rejection};
use crate::shard::{Group, Topic};
use crate::token::LeaseToken;

impl ExpectedDelivery {
    pub(crate) fn agrees(
        &self,
        token: &LeaseToken,
        topic: &Topic,
        group: &Group,
    ) -> Result<(), Rejection> {
        same(self.topic.as_ref(), &topic.row.name, "belongs to another topic")?;
        same(self.group.as_ref(), &group.row.name, "belongs to another group")?;
        same(self.partition.as_ref(), &token.lane.partition(), "belongs to another partition")?;
        same(self.offset.as_ref(), &token.offset, "belongs to another offset")
    }

    /// Rejects a different owner. The owner is known only while the delivery is open.
    pub(crate) fn agrees_with_owner(&self, owner: &str) -> Result<(), Rejection> {
        same(self.owner.as_deref(), owner, "belongs to another owner")
    }
}

fn same<T: PartialEq + ?Sized>(
    said: Option<&T>,
    is: &T,
    message: &'static str,
) -> Result<(), Rejection> {
    match said {
        Some(said) if said != is => Err(Rejection::invalid("token", message)),
        Some(_) | None => Ok(()),
    }
}
