//! What the task of a shard is told to do about it.

use driftq_core::Epoch;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Serve it, and claim it again whenever it is lost: there is no other node.
    Always,
    /// Claim it if its epoch is still this one, and serve it, once.
    Claim(Epoch),
    /// Stop serving it when what is decided has been committed, and tell the others if its epoch is still
    /// this one.
    GiveUp(Epoch),
    /// Drop it at once.
    Nothing,
    /// Stop serving it when what is decided has been committed, for good.
    Stop,
}

/// The last order; two that say the same have two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) order: Order,
    pub(crate) number: u64,
}

impl Told {
    pub(super) fn first(order: Order) -> Told {
        Told { order, number: 0 }
    }

    /// Another order after this one.
    pub(crate) fn then(self, order: Order) -> Told {
        Told { order, number: self.number + 1 }
    }

    /// What it means to a task that serves by the order of this number.
    pub(super) fn to_server(self, by: u64) -> Serve {
        match self.order {
            Order::Always => Serve::On,
            Order::Claim(_) if self.number == by => Serve::On,
            Order::Claim(_) | Order::Nothing => Serve::Drop,
            Order::GiveUp(_) | Order::Stop => Serve::End,
        }
    }
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serve {
    On,
    /// When what is decided has been committed.
    End,
    /// At once.
    Drop,
}
