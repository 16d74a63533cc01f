//! A faulty network: a proxy that delays, stalls and cuts connections, and can drop exactly one
//! chosen answer.
//!
//! It handles bytes, not protocols. A message is what a client sends until it is silent.

mod connection;
mod rule;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::processes::POLL_INTERVAL;
use connection::Orders;
pub use rule::{BOTH, End, Rule, Trap, Way};
pub use target::Target;

/// Length of the accept queue.
const BACKLOG: u32 = 1_024;

/// A proxy on a port of the loopback address. Dropping it closes its connections.
pub struct Proxy {
    address: SocketAddr,
    /// Bound but never listening. It reserves the port while new connections are refused.
    _port: TcpSocket,
    lines: Arc<Lines>,
    accepting: Option<JoinHandle<()>>,
}

/// The connections and their orders.
struct Lines {
    target: Target,
    state: Mutex<State>,
}

struct State {
    /// The rule for new connections.
    rule: Rule,
    next: u64,
    open: BTreeMap<u64, watch::Sender<Orders>>,
    tasks: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy that forwards everything.
    pub async fn start(target: Target) -> anyhow::Result<Proxy> {
        let port = bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let state =
            State { rule: Rule::Pass, next: 0, open: BTreeMap::new(), tasks: JoinSet::new() };
        let mut proxy = Proxy {
            address: port.local_addr()?,
            _port: port,
            lines: Arc::new(Lines { target, state: Mutex::new(state) }),
            accepting: None,
        };
        proxy.accept()?;
        Ok(proxy)
    }

    /// Its listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        self.lines.lock().open.len()
    }

    /// Sets the rule for open and new connections.
    pub fn all(&self, rule: Rule) {
        self.coming(rule.clone());
        self.tell(|orders| orders.set(rule.clone()));
    }

    /// Sets the rule for new connections.
    pub fn coming(&self, rule: Rule) {
        self.lines.lock().rule = rule;
    }

    /// Cuts the open connections now.
    pub fn cut(&self, end: End) {
        self.tell(|orders| orders.cut(end));
    }

    /// Closes one direction of the open connections. The receiver gets the end of the stream, and
    /// bytes from the sender are discarded.
    pub fn close(&self, way: Way) {
        self.tell(|orders| orders.close(way));
    }

    /// Refuses new connections. Open ones continue.
    pub async fn refuse(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            // After cancellation the port no longer listens.
            let _ended = accepting.await;
        }
    }

    /// Accepts new connections again.
    pub fn accept(&mut self) -> anyhow::Result<()> {
        if self.accepting.is_none() {
            let listener = bind(self.address)?.listen(BACKLOG)?;
            self.accepting = Some(tokio::spawn(accept(listener, Arc::clone(&self.lines))));
        }
        Ok(())
    }

    fn tell(&self, order: impl Fn(&mut Orders)) {
        for line in self.lines.lock().open.values() {
            line.send_modify(&order);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
        self.lines.lock().tasks.abort_all();
    }
}

impl Lines {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Every change is a single step, so a poisoned state is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Lines>, client: TcpStream) {
        let mut state = self.lock();
        while state.tasks.try_join_next().is_some() {}
        let orders = watch::Sender::new(Orders::new(state.rule.clone()));
        let number = state.next;
        state.next += 1;
        state.open.insert(number, orders.clone());
        let lines = Arc::clone(self);
        state.tasks.spawn(async move {
            match lines.target.connect().await {
                Ok(server) => connection::run(client, server, orders).await,
                // The client gets a reset, as without a proxy.
                Err(_) => drop(client.set_zero_linger()),
            }
            lines.lock().open.remove(&number);
        });
    }
}

async fn accept(listener: TcpListener, lines: Arc<Lines>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => lines.begin(client),
            // The client disconnected before it was accepted, or too many files are open; the
            // latter takes a while to clear.
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Binds a socket to an address to which another socket may be bound without listening.
fn bind(address: SocketAddr) -> anyhow::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
