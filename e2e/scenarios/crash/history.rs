//! What the clients saw, in order.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Instant;

use driftq_checker::history::{Event, Op, Reply, Verb, What};

/// Short, so that leases left by a kill expire before the next kill.
pub(crate) const LEASE_MS: u64 = 500;

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

    /// Milliseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        let mut events = self.events.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        std::mem::take(&mut *events)
    }
}

/// Counts of a run.
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
        match &event.what {
            What::Invoked { call, op: Op::Settle { verb: Verb::Ack, .. } } => {
                acks.insert(*call);
            }
            What::Done { reply: Reply::Produced { .. }, .. } => {
                tally.produced += 1;
            }
            What::Done { call, reply: Reply::Settled } => {
                tally.acked += u64::from(acks.contains(call));
            }
            What::Unknown { .. } => {
                tally.unknown += 1;
            }
            _ => {}
        }
    }
    tally
}

/// Returns the produces and leases in flight at each fault.
pub(crate) fn stakes(events: &[Event]) -> Vec<(u64, u64)> {
    let mut produces = HashSet::new();
    let mut settles = HashMap::new();
    let mut leased = HashMap::new();
    let mut stakes = Vec::new();
    for event in events {
        match &event.what {
            What::Invoked { call, op: Op::Produce(_) } => {
                produces.insert(*call);
            }
            What::Invoked { call, op: Op::Settle { lease, .. } } => {
                settles.insert(*call, lease);
            }
            What::Delivered(delivery) => {
                leased.insert(&delivery.lease, event.at + LEASE_MS);
            }
            What::Done { call, .. } | What::Refused { call, .. } | What::Unknown { call } => {
                produces.remove(call);
                if let Some(lease) = settles.remove(call) {
                    leased.remove(lease);
                }
            }
            What::Fault { .. } => {
                leased.retain(|_, until| *until > event.at);
                stakes.push((produces.len() as u64, leased.len() as u64));
            }
            _ => {}
        }
    }
    stakes
}
