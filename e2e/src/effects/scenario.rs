//! What happens to an order when it is first brought to the provider.

/// Orders of a run.
pub(crate) const ORDERS: usize = 1_000;

/// Who dies, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// The worker, when the charge is in the books and before it is told.
    KilledUntold,
    /// The worker, when it was told and before it says so.
    KilledTold,
    /// The worker, before anything is in the books.
    KilledBefore,
    /// Nobody, but the worker is told too late.
    ToldLate,
    /// The broker, when the charge is in the books.
    BrokerKilled,
    /// Nobody.
    Lucky,
}

/// How many orders have it.
pub(crate) const SCENARIOS: [(Scenario, usize); 5] = [
    (Scenario::KilledUntold, 200),
    (Scenario::KilledTold, 100),
    (Scenario::KilledBefore, 100),
    (Scenario::ToldLate, 50),
    (Scenario::BrokerKilled, 50),
];

impl Scenario {
    pub(crate) fn of(order: usize) -> Scenario {
        // Has no divisor in common with the number of orders: neighbours differ, and none is left out.
        let mut place = order * 617 % ORDERS;
        for (fate, orders) in SCENARIOS {
            match place.checked_sub(orders) {
                None => return fate,
                Some(rest) => place = rest,
            }
        }
        Scenario::Lucky
    }

    pub(crate) fn kills_a_worker(self) -> bool {
        matches!(self, Scenario::KilledUntold | Scenario::KilledTold | Scenario::KilledBefore)
    }
}
