//! Rules for the bytes of a connection.

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
    /// With a reset (`ECONNRESET`).
    Reset,
    /// With the end of the stream.
    Close,
}

/// The rule of a connection until another one is set.
#[derive(Debug, Clone)]
pub enum Rule {
    /// All bytes pass at once.
    Pass,
    /// Delays each byte. Throughput is unchanged.
    Delay {
        /// Delay from client to server.
        to_server: Duration,
        /// Delay from server to client.
        to_client: Duration,
    },
    /// Nothing passes in these directions, not even the end of the stream, until the rule changes.
    Stall(&'static [Way]),
    /// Passes a number of further bytes in one direction, then cuts the connection.
    CutAfter {
        /// The direction that is counted.
        way: Way,
        /// The number of bytes. If 0, the connection is cut when the first byte would pass.
        bytes: usize,
        /// How it is cut.
        end: End,
    },
    /// Passes everything until the client sends the message that the trap waits for.
    Trap(Arc<Trap>),
}

/// Waits for one message from a client: the next match on any connection, and only that one.
#[derive(Debug)]
pub struct Trap {
    pub(super) contains: Vec<u8>,
    pub(super) loses: Loses,
    pub(super) end: End,
    is_taken: AtomicBool,
    has_sprung: watch::Sender<bool>,
}

/// What the trap discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loses {
    Answer,
    Message,
}

impl Trap {
    /// The next message that contains these bytes reaches the server in full. From then on nothing
    /// from the server reaches the client, and the client's connection is cut. The server gets the
    /// end of the stream after the message.
    pub fn answer(to: impl Into<Vec<u8>>, end: End) -> Arc<Trap> {
        Trap::set(to.into(), Loses::Answer, end)
    }

    /// The next message that contains these bytes does not reach the server. Both connections are
    /// cut before it.
    pub fn message(with: impl Into<Vec<u8>>, end: End) -> Arc<Trap> {
        Trap::set(with.into(), Loses::Message, end)
    }

    /// Returns when the client has been cut off.
    pub async fn sprung(&self) {
        let mut has_sprung = self.has_sprung.subscribe();
        // This struct owns the sender, so the channel is open.
        let _open = has_sprung.wait_for(|sprung| *sprung).await;
    }

    fn set(contains: Vec<u8>, loses: Loses, end: End) -> Arc<Trap> {
        let (has_sprung, _) = watch::channel(false);
        Arc::new(Trap { contains, loses, end, is_taken: AtomicBool::new(false), has_sprung })
    }

    /// Returns true for the first caller only.
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

/// Finds bytes in a stream that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The end of the previous pieces, too short to contain a match.
    before: Vec<u8>,
}

impl Search {
    /// Returns the position in this piece at which a completed match begins, or 0 if it began in an
    /// earlier piece.
    pub(super) fn find(&mut self, wanted: &[u8], piece: &[u8]) -> Option<usize> {
        let n_before = self.before.len();
        self.before.extend_from_slice(piece);
        let found = self.before.windows(wanted.len().max(1)).position(|here| here == wanted);
        let n_kept = self.before.len().min(wanted.len().saturating_sub(1));
        self.before.drain(..self.before.len() - n_kept);
        found.map(|at| at.saturating_sub(n_before))
    }
}
