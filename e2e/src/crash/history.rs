//! What the clients saw, in the order they saw it.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Instant;

use driftq_checker::history::{Event, Op, Reply, Verb, What};

use crate::clients::LEASE_MS;

/// The history of a run.
pub(crate) struct History {
    began: Instant,
    events: Mutex<Vec<Event>>,
}

impl Default for History {
    fn default() -> History {
        History { began: Instant::now(), events: Mutex::default() }
    }
}

impl History {
    pub(crate) fn push(&self, process: u32, what: What) {
        let at = self.now();
        let mut events = self.events.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let seq = events.len() as u64;
        events.push(Event { seq, at, process, what });
    }

    /// Milliseconds since it began.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        let mut events = self.events.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        std::mem::take(&mut *events)
    }
}

/// How much happened.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) produced: u64,
    pub(crate) acked: u64,
    pub(crate) unknown: u64,
}

pub(crate) fn tally(events: &[Event]) -> Tally {
    let mut acks = HashSet::new();
    let mut tally = Tally::default();
    for event in events {
        if let What::Invoked { call, op: Op::Settle { verb: Verb::Ack, .. } } = &event.what {
            acks.insert(*call);
        } else if let What::Done { reply: Reply::Produced { .. }, .. } = &event.what {
            tally.produced += 1;
        } else if let What::Done { call, reply: Reply::Settled } = &event.what {
            tally.acked += u64::from(acks.contains(call));
        } else if let What::Unknown { .. } = &event.what {
            tally.unknown += 1;
        }
    }
    tally
}

/// Produces and leases that were under way at each fault.
pub(crate) fn stakes(events: &[Event]) -> Vec<(u64, u64)> {
    let mut produces = HashSet::new();
    let mut settles = HashMap::new();
    let mut leased = HashMap::new();
    let mut stakes = Vec::new();
    for event in events {
        if let What::Invoked { call, op: Op::Produce(_) } = &event.what {
            produces.insert(*call);
        } else if let What::Invoked { call, op: Op::Settle { lease, .. } } = &event.what {
            settles.insert(*call, lease);
        } else if let What::Delivered(delivery) = &event.what {
            leased.insert(&delivery.lease, event.at + LEASE_MS);
        } else if let What::Done { call, .. }
        | What::Refused { call, .. }
        | What::Unknown { call } = &event.what
        {
            produces.remove(call);
            if let Some(lease) = settles.remove(call) {
                leased.remove(lease);
            }
        } else if let What::Fault { .. } = &event.what {
            leased.retain(|_, until| *until > event.at);
            stakes.push((produces.len() as u64, leased.len() as u64));
        }
    }
    stakes
}
