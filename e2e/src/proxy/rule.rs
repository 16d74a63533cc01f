//! What becomes of the bytes of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// Both directions.
pub const BOTH: &[Way] = &[Way::ToServer, Way::ToClient];

/// How a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By a reset: `ECONNRESET`.
    Reset,
    /// Closed: the end of the stream.
    Close,
}

/// What holds for a connection until it is told something else.
#[derive(Debug, Clone)]
pub enum Rule {
    /// All bytes pass at once.
    Pass,
    /// Each byte arrives so much later. As many as before arrive in a second.
    Delay {
        /// Those of the client.
        to_server: Duration,
        /// Those of the server.
        to_client: Duration,
    },
    /// Nothing passes in these directions, not even the end of the connection. It passes once the rule is another.
    Stall(&'static [Way]),
    /// So many more bytes pass in one direction, then the connection is cut.
    CutAfter {
        /// Which are counted.
        way: Way,
        /// How many. If none, it is cut when the first one would pass.
        bytes: usize,
        /// How.
        end: End,
    },
    /// All bytes pass until the client says something.
    Trap(Arc<Trap>),
}

/// Waits for a message of a client: for the next one, on whichever connection it comes, and for no other.
#[derive(Debug)]
pub struct Trap {
    pub(super) contains: Vec<u8>,
    pub(super) loses: Loses,
    pub(super) end: End,
    is_taken: AtomicBool,
    has_sprung: watch::Sender<bool>,
}

/// What does not get through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loses {
    Answer,
    Message,
}

impl Trap {
    /// The next message that contains these bytes reaches the server, all of it; nothing the server says from then on
    /// reaches the client, whose connection is cut. The server finds the end of the stream after the message.
    pub fn answer(to: impl Into<Vec<u8>>, end: End) -> Arc<Trap> {
        Trap::set(to.into(), Loses::Answer, end)
    }

    /// The next message that contains these bytes does not reach the server; both are cut off before it.
    pub fn message(with: impl Into<Vec<u8>>, end: End) -> Arc<Trap> {
        Trap::set(with.into(), Loses::Message, end)
    }

    /// Returns when the client is cut off.
    pub async fn sprung(&self) {
        let mut has_sprung = self.has_sprung.subscribe();
        // Its other end is ours.
        let _open = has_sprung.wait_for(|sprung| *sprung).await;
    }

    fn set(contains: Vec<u8>, loses: Loses, end: End) -> Arc<Trap> {
        let (has_sprung, _) = watch::channel(false);
        Arc::new(Trap { contains, loses, end, is_taken: AtomicBool::new(false), has_sprung })
    }

    /// True for the first who asks.
    pub(super) fn take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::AcqRel)
    }

    pub(super) fn set_again(&self) {
        self.is_taken.store(false, Ordering::Release);
    }

    pub(super) fn spring(&self) {
        self.has_sprung.send_replace(true);
    }
}

/// Finds bytes in a stream that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The end of what came before, too short to contain them.
    before: Vec<u8>,
}

impl Search {
    /// Where in this piece they begin, once it completes them; at 0 if they began in one before.
    pub(super) fn find(&mut self, wanted: &[u8], piece: &[u8]) -> Option<usize> {
        let n_before = self.before.len();
        self.before.extend_from_slice(piece);
        let found = self.before.windows(wanted.len().max(1)).position(|here| here == wanted);
        let n_kept = self.before.len().min(wanted.len().saturating_sub(1));
        self.before.drain(..self.before.len() - n_kept);
        found.map(|at| at.saturating_sub(n_before))
    }
}
