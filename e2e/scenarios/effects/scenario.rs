//! What happens to an order at its first request to the provider.

/// Number of orders in a run.
pub(crate) const ORDERS: usize = 1_000;

/// Which process dies, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// The worker, after the charge is recorded and before the answer is sent.
    KilledBeforeAnswer,
    /// The worker, after it has the answer and before it reports the outcome.
    KilledAfterAnswer,
    /// The worker, before the charge is recorded.
    KilledBefore,
    /// None, but the answer arrives too late.
    LateAnswer,
    /// The broker, after the charge is recorded.
    BrokerKilled,
    /// None.
    NoFault,
}

/// Number of orders per scenario.
pub(crate) const SCENARIOS: [(Scenario, usize); 5] = [
    (Scenario::KilledBeforeAnswer, 200),
    (Scenario::KilledAfterAnswer, 100),
    (Scenario::KilledBefore, 100),
    (Scenario::LateAnswer, 50),
    (Scenario::BrokerKilled, 50),
];

impl Scenario {
    pub(crate) fn of(order: usize) -> Scenario {
        // 617 and the number of orders are coprime, so neighbours differ and every place is used.
        let mut place = order * 617 % ORDERS;
        for (fate, orders) in SCENARIOS {
            match place.checked_sub(orders) {
                None => return fate,
                Some(rest) => place = rest,
            }
        }
        Scenario::NoFault
    }

    pub(crate) fn kills_a_worker(self) -> bool {
        matches!(
            self,
            Scenario::KilledBeforeAnswer | Scenario::KilledAfterAnswer | Scenario::KilledBefore
        )
    }
}
