//! Why a command was not carried out.

use crate::change::{Decision, Reads};
use crate::command::{Part, Rejection};
use crate::pack::Damaged;

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Refusal {
    /// The core rejects it. The caller gets the rejection once the batch is durable.
    Rejected(Rejection),
    /// Deciding needs rows that are not read yet. The pipeline reads them and decides again.
    Needs(Reads),
    /// A row it needs is damaged.
    Damaged(Damaged),
}

impl Refusal {
    /// Names the item of the command that was rejected.
    pub(crate) fn in_part(self, part: Part, index: usize) -> Refusal {
        match self {
            Refusal::Rejected(why) => {
                Refusal::Rejected(Rejection::InPart { part, index, why: Box::new(why) })
            }
            Refusal::Needs(_) | Refusal::Damaged(_) => self,
        }
    }
}

impl From<Damaged> for Refusal {
    fn from(damaged: Damaged) -> Refusal {
        Refusal::Damaged(damaged)
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Refusal {
        Refusal::Rejected(rejection)
    }
}

impl From<Reads> for Refusal {
    fn from(reads: Reads) -> Refusal {
        Refusal::Needs(reads)
    }
}

/// The result of deciding a command.
pub(crate) type Decided = Result<Decision, Refusal>;
