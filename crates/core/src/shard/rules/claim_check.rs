//! Whether what was said beside a token agrees with it.

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
        same(self.topic.as_ref(), &topic.row.name, "it is of another topic")?;
        same(self.group.as_ref(), &group.row.name, "it is of another group")?;
        same(self.partition.as_ref(), &token.lane.partition(), "it is of another partition")?;
        same(self.offset.as_ref(), &token.offset, "it is of another offset")
    }

    /// The owner is known while the delivery is open; afterwards nothing can be compared.
    pub(crate) fn agrees_with_owner(&self, owner: &str) -> Result<(), Rejection> {
        same(self.owner.as_deref(), owner, "it is of another owner")
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
