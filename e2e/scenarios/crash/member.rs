//! A server and its proxies.
//!
//! Traffic from PostgreSQL, from other servers and from clients passes through a proxy each.
//! Requests to other servers pass through their proxies.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::node::{Node, Sharing, free_address};
use driftq_e2e::proxy::{BOTH, End, Proxy, Rule, Target, Trap, Way};

/// How long a trap waits for a COMMIT.
const COMMIT_WITHIN: Duration = Duration::from_secs(10);
/// A cut message ends within this number of bytes.
const CUT_WITHIN: usize = 300;

/// Which traffic to and from a server is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// No traffic passes between the server and PostgreSQL. Bytes sent meanwhile arrive when it is
    /// healed.
    Silent,
    /// PostgreSQL receives and executes everything. Its answers arrive only when it is healed.
    Unanswered,
    /// Connections to PostgreSQL are cut in the middle of a message or an answer, and new ones are
    /// refused.
    Severed,
    /// A COMMIT is executed, but its answer and its connection are lost. From then on like
    /// `Silent`.
    CommitUnanswered,
    /// No server reaches another.
    Apart,
    /// Like `Silent`, and neither servers nor clients reach it.
    Alone,
}

/// A server and its proxies.
pub(crate) struct Member {
    pub(crate) node: Node,
    database: Proxy,
    peers: Proxy,
    clients: Proxy,
}

impl Member {
    /// Starts a server on the PostgreSQL behind this socket.
    pub(crate) async fn start(
        binary: &str,
        socket: PathBuf,
        sharing: Sharing,
    ) -> anyhow::Result<Member> {
        let listen = free_address()?;
        let database = Proxy::start(Target::Unix(socket)).await?;
        let peers = Proxy::start(Target::Tcp(listen)).await?;
        let clients = Proxy::start(Target::Tcp(listen)).await?;
        let url = format!("postgresql://postgres@{}/postgres", database.address());
        let node = Node::start(binary, listen, peers.address(), &url, sharing).await?;
        Ok(Member { node, database, peers, clients })
    }

    /// The URL of its API, through the proxy for clients.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.clients.address())
    }

    /// The address that it advertises.
    pub(crate) fn address(&self) -> String {
        self.peers.address().to_string()
    }

    /// Applies a partition. Returns when it has taken effect.
    pub(crate) async fn cut(&mut self, shape: Shape) -> anyhow::Result<()> {
        match shape {
            Shape::Silent => self.database.all(Rule::Stall(BOTH)),
            Shape::Unanswered => self.database.all(Rule::Stall(&[Way::ToClient])),
            Shape::Severed => {
                let way = if fastrand::bool() { Way::ToServer } else { Way::ToClient };
                let bytes = fastrand::usize(1..CUT_WITHIN);
                self.database.refuse().await;
                self.database.all(Rule::CutAfter { way, bytes, end: any_end() });
            }
            Shape::CommitUnanswered => {
                let trap = Trap::answer("COMMIT", any_end());
                self.database.all(Rule::Trap(trap.clone()));
                let sprung = tokio::time::timeout(COMMIT_WITHIN, trap.sprung()).await;
                sprung.context("the server committed nothing")?;
                self.database.all(Rule::Stall(BOTH));
            }
            Shape::Apart => self.peers.all(Rule::Stall(BOTH)),
            Shape::Alone => {
                for proxy in [&self.database, &self.peers, &self.clients] {
                    proxy.all(Rule::Stall(BOTH));
                }
            }
        }
        Ok(())
    }

    /// Removes the partition.
    pub(crate) fn heal(&mut self) -> anyhow::Result<()> {
        for proxy in [&mut self.database, &mut self.peers, &mut self.clients] {
            proxy.all(Rule::Pass);
            proxy.accept()?;
        }
        Ok(())
    }
}

fn any_end() -> End {
    if fastrand::bool() { End::Reset } else { End::Close }
}
