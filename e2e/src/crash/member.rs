//! A server, and what lies between it and everybody else.
//!
//! What it hears from PostgreSQL, from other servers and from clients comes through a proxy each. What it says to
//! other servers goes through theirs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::node::{Node, Sharing, free_address};
use driftq_e2e::proxy::{BOTH, End, Proxy, Rule, Target, Trap, Way};

/// How long a COMMIT may be waited for.
const COMMIT_WITHIN: Duration = Duration::from_secs(10);
/// A message that is cut ends somewhere in its first so many bytes.
const CUT_WITHIN: usize = 300;

/// What does not get through to a server, or from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// PostgreSQL hears nothing and says nothing. What is sent meanwhile arrives when it is over.
    Silent,
    /// PostgreSQL hears everything, and does it; none of its answers arrives before it is over.
    Unanswered,
    /// Connections to PostgreSQL are cut in the middle of a message or of an answer, new ones refused.
    Severed,
    /// A COMMIT is done, its answer lost with its connection; from then on as `Silent`.
    CommitUnanswered,
    /// No server reaches another.
    Apart,
    /// As `Silent`, and neither servers nor clients reach it.
    Alone,
}

/// A server, and its proxies.
pub(crate) struct Member {
    pub(crate) node: Node,
    database: Proxy,
    peers: Proxy,
    clients: Proxy,
}

impl Member {
    /// Starts one on the PostgreSQL behind this socket.
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

    /// Where clients reach its API.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.clients.address())
    }

    /// Where it says that it is.
    pub(crate) fn address(&self) -> String {
        self.peers.address().to_string()
    }

    /// Cuts it off. Returns when that has begun.
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
                sprung.context("it commits nothing")?;
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

    /// Everything gets through again.
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
