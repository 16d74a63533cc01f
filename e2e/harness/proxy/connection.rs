//! One proxied connection: client, server, and the bytes in transit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::rule::{End, Loses, Rule, Search, Trap, Way};
use super::target::Server;

/// Bytes read at once, and the maximum number of such pieces in transit. Beyond that, reading
/// stops, as if TCP windows were full.
const PIECE_BYTES: usize = 16 << 10;
const PIECES_MAX: usize = 64;
/// A client's message ends when the client is silent for `SILENCE`, and after `MESSAGE_WITHIN` at
/// the latest.
const SILENCE: Duration = Duration::from_millis(50);
const MESSAGE_WITHIN: Duration = Duration::from_secs(1);
/// How long a server may take to close a connection after its client was cut off.
const FINISH_WITHIN: Duration = Duration::from_secs(60);

/// The current orders for one connection.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    rule: Rule,
    /// Number of the rule. Byte counts restart when the rule changes.
    number: u64,
    cut: Option<End>,
    /// Directions that are closed although their source is still sending.
    closed: Vec<Way>,
    /// Whether all bytes to the client are discarded.
    is_mute: bool,
}

impl Orders {
    pub(super) fn new(rule: Rule) -> Orders {
        Orders { rule, number: 0, cut: None, closed: Vec::new(), is_mute: false }
    }

    pub(super) fn set(&mut self, rule: Rule) {
        self.rule = rule;
        self.number += 1;
    }

    pub(super) fn cut(&mut self, end: End) {
        self.cut = Some(end);
    }

    pub(super) fn close(&mut self, way: Way) {
        self.closed.push(way);
    }
}

/// How a connection is cut, and the trap that caused it, if any.
struct Cut {
    end: End,
    trap: Option<Arc<Trap>>,
}

impl Cut {
    fn by(end: End) -> Cut {
        Cut { end, trap: None }
    }

    /// Writing to one side failed, so the other side gets a reset.
    fn by_peer(_: io::Error) -> Cut {
        Cut::by(End::Reset)
    }
}

pub(super) async fn run(mut client: TcpStream, mut server: Server, orders: watch::Sender<Orders>) {
    // A failure only costs latency.
    let _at_once = client.set_nodelay(true);
    let cut = {
        let (client_in, client_out) = client.split();
        let (server_in, server_out) = server.split();
        let there = carry(Way::ToServer, client_in, server_out, &orders);
        let back = carry(Way::ToClient, server_in, client_out, &orders);
        let mut told = orders.subscribe();
        tokio::select! {
            biased;
            Ok(told) = told.wait_for(|orders| orders.cut.is_some()) => told.cut.map(Cut::by),
            carried = async { tokio::try_join!(there, back) } => carried.err(),
        }
    };
    let Some(Cut { end, trap }) = cut else { return };
    // A failure means that the connection has ended already.
    let _cut = match end {
        End::Reset => client.set_zero_linger(),
        End::Close => client.shutdown().await,
    };
    drop(client);
    match trap {
        // The server must read everything that was forwarded, followed by the end of the stream.
        Some(trap) => {
            trap.spring();
            let _ended = server.shutdown().await;
            let _finished = timeout(FINISH_WITHIN, server.drain()).await;
        }
        None => server.cut(end).await,
    }
}

/// Bytes, or the end of the stream, in transit.
enum Piece {
    Bytes {
        arrived: Instant,
        bytes: Vec<u8>,
    },
    /// The end of the stream.
    End {
        arrived: Instant,
    },
    Reset {
        arrived: Instant,
    },
}

async fn carry(
    way: Way,
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    orders: &watch::Sender<Orders>,
) -> Result<(), Cut> {
    let (queue, queued) = mpsc::channel(PIECES_MAX);
    let carrier = Carrier {
        way,
        to,
        queued,
        orders,
        told: orders.subscribe(),
        is_closed: false,
        number: 0,
        passed: 0,
        search: Search::default(),
    };
    let read = async {
        read(from, queue).await;
        Ok(())
    };
    // Read pending bytes before checking for silence.
    tokio::try_join!(biased; read, carrier.run()).map(|_| ())
}

/// Reads ahead, so that a delayed piece does not delay later pieces even more. Ends of the stream
/// are delayed too.
async fn read(mut from: impl AsyncRead + Unpin, queue: mpsc::Sender<Piece>) {
    loop {
        let mut bytes = Vec::with_capacity(PIECE_BYTES);
        let read = from.read_buf(&mut bytes).await;
        let arrived = Instant::now();
        let piece = match read {
            Ok(0) => Piece::End { arrived },
            Ok(_) => Piece::Bytes { arrived, bytes },
            Err(_) => Piece::Reset { arrived },
        };
        let is_last = !matches!(piece, Piece::Bytes { .. });
        if queue.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

/// Forwards pieces to the other side according to the rule.
struct Carrier<'a, W> {
    way: Way,
    to: W,
    queued: mpsc::Receiver<Piece>,
    orders: &'a watch::Sender<Orders>,
    told: watch::Receiver<Orders>,
    is_closed: bool,
    /// Number of the rule that the following fields belong to.
    number: u64,
    passed: usize,
    search: Search,
}

impl<W: AsyncWrite + Unpin> Carrier<'_, W> {
    async fn run(mut self) -> Result<(), Cut> {
        // Orders may have changed before this task started.
        self.look().await;
        loop {
            let piece = tokio::select! {
                biased;
                _ = self.told.changed() => {
                    self.look().await;
                    continue;
                }
                piece = self.queued.recv() => piece,
            };
            match piece {
                Some(Piece::Bytes { arrived, bytes }) => {
                    let rule = self.turn(arrived).await;
                    self.pass(rule, &bytes).await?;
                }
                Some(Piece::End { arrived }) => {
                    self.turn(arrived).await;
                    return self.to.shutdown().await.map_err(Cut::by_peer);
                }
                Some(Piece::Reset { arrived }) => {
                    self.turn(arrived).await;
                    return Err(Cut::by(End::Reset));
                }
                None => return Ok(()),
            }
        }
    }

    /// Waits until a piece may pass, and returns the rule that applies to it.
    async fn turn(&mut self, arrived: Instant) -> Rule {
        loop {
            let rule = self.look().await;
            let due = match &rule {
                Rule::Stall(ways) if ways.contains(&self.way) => None,
                Rule::Delay { to_server, .. } if self.way == Way::ToServer => {
                    Some(arrived + *to_server)
                }
                Rule::Delay { to_client, .. } => Some(arrived + *to_client),
                Rule::Pass | Rule::Stall(_) | Rule::CutAfter { .. } | Rule::Trap(_) => return rule,
            };
            let its_time = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = self.told.changed() => (),
                () = its_time => return rule,
            }
        }
    }

    /// Reads the orders and applies the immediate ones.
    async fn look(&mut self) -> Rule {
        let orders = self.told.borrow_and_update().clone();
        if orders.number != self.number {
            (self.number, self.passed, self.search) = (orders.number, 0, Search::default());
        }
        if orders.closed.contains(&self.way) && !self.is_closed {
            self.is_closed = true;
            // The peer may have disconnected already.
            let _closed = self.to.shutdown().await;
        }
        orders.rule
    }

    async fn pass(&mut self, rule: Rule, bytes: &[u8]) -> Result<(), Cut> {
        match rule {
            Rule::CutAfter { way, bytes: most, end } if way == self.way => {
                let left = most.saturating_sub(self.passed).min(bytes.len());
                self.write(&bytes[..left]).await?;
                self.passed += left;
                if self.passed == most { Err(Cut::by(end)) } else { Ok(()) }
            }
            Rule::Trap(trap) if self.way == Way::ToServer => {
                match self.search.find(&trap.contains, bytes) {
                    Some(at) if trap.take() => self.fall(trap, bytes, at).await,
                    Some(_) | None => self.write(bytes).await,
                }
            }
            Rule::Pass
            | Rule::Delay { .. }
            | Rule::Stall(_)
            | Rule::CutAfter { .. }
            | Rule::Trap(_) => self.write(bytes).await,
        }
    }

    /// Handles a piece that completes the bytes a trap waits for. `at` is where they begin in this
    /// piece, or 0 if they began in an earlier one.
    async fn fall(&mut self, trap: Arc<Trap>, bytes: &[u8], at: usize) -> Result<(), Cut> {
        let fallen = match trap.loses {
            // Forwarding the part before it does no harm: without its end it is not a message.
            Loses::Message => self.write(&bytes[..at]).await,
            Loses::Answer => {
                // Must be set before the server can receive the message.
                self.orders.send_modify(|orders| orders.is_mute = true);
                let all = async {
                    self.write(bytes).await?;
                    self.rest().await
                };
                timeout(MESSAGE_WITHIN, all).await.unwrap_or(Ok(()))
            }
        };
        // The server had disconnected already, so the trap waits for the next message.
        fallen.inspect_err(|_| trap.set_again())?;
        Err(Cut { end: trap.end, trap: Some(trap) })
    }

    /// Forwards the rest of a message: all bytes until the client is silent.
    async fn rest(&mut self) -> Result<(), Cut> {
        while let Ok(Some(Piece::Bytes { bytes, .. })) = timeout(SILENCE, self.queued.recv()).await
        {
            self.write(&bytes).await?;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Cut> {
        let is_mute = self.way == Way::ToClient && self.told.borrow().is_mute;
        if self.is_closed || is_mute {
            return Ok(());
        }
        self.to.write_all(bytes).await.map_err(Cut::by_peer)
    }
}
