//! A network that misbehaves: a proxy that delays, stalls and cuts connections, and loses just the one answer that
//! matters.
//!
//! It knows bytes, not protocols. A message is what a client says until it is silent.

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

use crate::processes::GLANCE;
use connection::Orders;
pub use rule::{BOTH, End, Rule, Trap, Way};
pub use target::Target;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// A proxy on a port of the loopback address. Dropped, it closes its connections.
pub struct Proxy {
    address: SocketAddr,
    /// Bound and never listening: it keeps the port while new connections are refused.
    _port: TcpSocket,
    lines: Arc<Lines>,
    accepting: Option<JoinHandle<()>>,
}

/// The connections, and what they are told.
struct Lines {
    target: Target,
    state: Mutex<State>,
}

struct State {
    /// For those to come.
    rule: Rule,
    next: u64,
    open: BTreeMap<u64, watch::Sender<Orders>>,
    tasks: JoinSet<()>,
}

impl Proxy {
    /// Starts one that lets everything pass.
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.lines.lock().open.len()
    }

    /// A rule for the connections there are and for those to come.
    pub fn all(&self, rule: Rule) {
        self.coming(rule.clone());
        self.tell(|orders| orders.set(rule.clone()));
    }

    /// A rule for connections to come.
    pub fn coming(&self, rule: Rule) {
        self.lines.lock().rule = rule;
    }

    /// Cuts the connections there are, now.
    pub fn cut(&self, end: End) {
        self.tell(|orders| orders.cut(end));
    }

    /// Closes one direction of the connections there are: its receiver finds the end of the stream, its sender goes on
    /// talking to nobody.
    pub fn close(&self, way: Way) {
        self.tell(|orders| orders.close(way));
    }

    /// Refuses new connections; those there are go on.
    pub async fn refuse(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            // Cancelled: the port is no longer listened on.
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
        // Each change of it is one step.
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
                // As if nobody stood between them.
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
            // It was gone before it was accepted, or there are too many files open, which takes a while.
            Err(_) => tokio::time::sleep(GLANCE).await,
        }
    }
}

/// A socket on an address that another may hold without listening.
fn bind(address: SocketAddr) -> anyhow::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
