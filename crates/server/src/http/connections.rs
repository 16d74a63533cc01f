//! The open connections of a server, in the order in which they are closed for new ones.
//!
//! 1. At most `limit` connections are open.
//! 2. A connection with a request in flight is never closed for a new one. Neither is a connection
//!    whose first bytes have not been read yet, because they may be a request.
//! 3. Of the others, the connection that has gone longest without a complete request is closed
//!    first. A connection without any request counts from when it was accepted.
//!
//! A request is in flight from the end of its headers to the end of its answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The open connections of a server.
pub(super) struct Connections {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last number assigned to a connection or to a position in the order.
    last: u64,
    /// Connections whose first bytes have not been read.
    unheard: usize,
    open: HashMap<u64, Entry>,
    /// Connections without a request in flight, in the order in which they are closed.
    idle: BTreeMap<u64, u64>,
}

/// One open connection.
struct Entry {
    /// The key in `idle`, while the connection is idle.
    place: u64,
    in_flight: usize,
    idle_since: Instant,
    close: Arc<Notify>,
}

impl State {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Removes the first connection in the order, and notifies its task.
    fn close_first(&mut self) -> bool {
        let Some((_, id)) = self.idle.pop_first() else { return false };
        if let Some(entry) = self.open.remove(&id) {
            entry.close.notify_one();
        }
        true
    }
}

impl Connections {
    pub(super) fn new(limit: usize) -> Arc<Connections> {
        Arc::new(Connections { limit, state: Mutex::default() })
    }

    /// Counts a new connection. If the limit is reached, another connection is closed for it.
    pub(super) fn admit(self: &Arc<Self>) -> Result<Admitted, Full> {
        let mut state = self.state();
        if state.open.len() >= self.limit && !state.close_first() {
            return Err(if state.unheard > 0 { Full::Silent } else { Full::InFlight });
        }
        let (id, close) = (state.next(), Arc::new(Notify::new()));
        // Until its first bytes are read, it counts as if it had a request in flight.
        let (place, idle_since) = (0, Instant::now());
        state.open.insert(id, Entry { place, in_flight: 1, idle_since, close: close.clone() });
        state.unheard += 1;
        let connection = Connection { id, all: self.clone() };
        let first = Some(InFlight(connection.clone()));
        Ok(Admitted { connection, close, first })
    }

    /// Closes the first connection in the order, if there is one.
    pub(super) fn close_first(&self) {
        self.state().close_first();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why no connection can be closed for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The first bytes of some have not been read yet. One of them may be closed in a moment.
    Silent,
    /// All have a request in flight.
    InFlight,
}

/// An open connection, held by its task. Dropping it ends the count.
pub(super) struct Admitted {
    connection: Connection,
    close: Arc<Notify>,
    first: Option<InFlight>,
}

impl Admitted {
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Records that the first bytes were read. From now on, the connection can be closed for
    /// another one while it has no request in flight.
    pub(super) fn first_bytes_read(&mut self) {
        if self.first.take().is_some() {
            self.connection.all.state().unheard -= 1;
        }
    }

    /// Waits until the connection must be closed for another one.
    pub(super) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.first_bytes_read();
        let mut state = self.connection.all.state();
        if let Some(entry) = state.open.remove(&self.connection.id) {
            state.idle.remove(&entry.place);
        }
    }
}

/// A handle to an open connection.
#[derive(Clone)]
pub(super) struct Connection {
    id: u64,
    all: Arc<Connections>,
}

impl Connection {
    /// Starts a request. Returns `None` if the connection is being closed; the request must not be
    /// served then.
    pub(super) fn begin(&self) -> Option<InFlight> {
        let mut state = self.all.state();
        let state = &mut *state;
        let entry = state.open.get_mut(&self.id)?;
        entry.in_flight += 1;
        state.idle.remove(&entry.place);
        Some(InFlight(self.clone()))
    }

    /// Waits until no request has been in flight for `limit`, counted from `from` at the earliest.
    pub(super) async fn idle_for(&self, limit: Duration, from: Instant) {
        loop {
            let idle_since = match self.all.state().open.get(&self.id) {
                Some(entry) if entry.in_flight == 0 => entry.idle_since,
                // Checked again after `limit`.
                Some(_) => Instant::now(),
                None => return,
            };
            let until = idle_since.max(from) + limit;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// A request in flight. Dropping it completes the request.
pub(super) struct InFlight(Connection);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.all.state();
        let state = &mut *state;
        let place = state.next();
        if let Some(entry) = state.open.get_mut(&self.0.id) {
            entry.in_flight -= 1;
            if entry.in_flight == 0 {
                (entry.place, entry.idle_since) = (place, Instant::now());
                state.idle.insert(place, self.0.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn admit(all: &Arc<Connections>) -> Admitted {
        let mut admitted = all.admit().unwrap_or_else(|full| panic!("{full:?}"));
        admitted.first_bytes_read();
        admitted
    }

    fn is_closed(admitted: &Admitted) -> bool {
        admitted.closed().now_or_never().is_some()
    }

    #[test]
    fn the_one_without_a_request_for_longest_is_closed() {
        let all = Connections::new(3);
        let [first, second, third] = [(); 3].map(|()| admit(&all));
        // The first completes a request, so the second has now waited longest.
        drop(first.connection().begin());
        let fourth = admit(&all);
        assert!(is_closed(&second) && !is_closed(&first) && !is_closed(&third));
        assert!(second.connection().begin().is_none(), "it accepts no more requests");
        let fifth = admit(&all);
        assert!(is_closed(&third) && !is_closed(&first));
        drop([second, third]);
        let _sixth = admit(&all);
        assert!(is_closed(&first) && !is_closed(&fourth) && !is_closed(&fifth));
    }

    #[test]
    fn none_is_closed_while_a_request_is_in_flight() {
        let all = Connections::new(2);
        let [one, two] = [(); 2].map(|()| admit(&all));
        let requests = [one.connection(), one.connection(), two.connection()];
        let [first, second, third] = requests.map(|of| of.begin().expect("the connection is open"));
        assert_eq!(all.admit().err(), Some(Full::InFlight));
        drop(first);
        assert_eq!(all.admit().err(), Some(Full::InFlight), "another request of it is in flight");
        drop((second, third));
        let _new = admit(&all);
        assert!(is_closed(&one) && !is_closed(&two));
    }

    #[test]
    fn none_is_closed_before_it_was_heard() {
        let all = Connections::new(1);
        let Ok(mut one) = all.admit() else { panic!("the limit is not reached") };
        assert_eq!(all.admit().err(), Some(Full::Silent));
        let request = one.connection().begin();
        one.first_bytes_read();
        assert_eq!(all.admit().err(), Some(Full::InFlight), "its request is in flight");
        drop(request);
        let _two = admit(&all);
        assert!(is_closed(&one));
    }

    #[test]
    fn what_has_ended_is_not_counted() {
        let all = Connections::new(1);
        for _ in 0..3 {
            let one = admit(&all);
            let request = one.connection().begin();
            drop(one);
            // An answer may outlive its connection.
            drop(request);
        }
        let state = all.state();
        assert!(state.open.is_empty() && state.idle.is_empty() && state.unheard == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_from_its_last_request() {
        let all = Connections::new(1);
        let one = admit(&all);
        let (limit, half) = (Duration::from_secs(60), Duration::from_secs(30));
        let began = Instant::now();
        tokio::time::sleep(half).await;
        let request = one.connection().begin();
        let end = async {
            tokio::time::sleep(4 * half).await;
            drop(request);
        };
        tokio::join!(one.connection().idle_for(limit, began), end);
        assert_eq!(began.elapsed(), 5 * half + limit);
        one.connection().idle_for(half, Instant::now()).await;
        assert_eq!(began.elapsed(), 6 * half + limit);
    }
}
