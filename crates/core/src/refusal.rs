//! Why a command was not decided.

use crate::change::{Decision, Reads};
use crate::command::{Part, Rejection};
use crate::pack::Damaged;

/// Why a command was not decided to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Refusal {
    /// It is refused. The caller is told when the batch is durable.
    Rejected(Rejection),
    /// Rows are missing. Nothing has changed; it is decided again when they are there.
    Needs(Reads),
    /// Rows are not what was written: nothing can be decided on them.
    Damaged(Damaged),
}

impl Refusal {
    /// What is refused is one item of a command.
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

/// What deciding a command comes to.
pub(crate) type Decided = Result<Decision, Refusal>;
