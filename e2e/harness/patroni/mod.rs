//! Three PostgreSQL nodes under Patroni with one etcd. All run on the loopback address, or each in
//! a network namespace of its own. Primaries are killed or isolated, and standbys are promoted.

mod etcd;
mod node;
mod settings;
mod view;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;

use crate::directory::Directory;
use crate::netns::Network;
use crate::postgres::{account, binaries, psql};
use crate::processes::Process;
use etcd::Etcd;
use node::Node;
use settings::Settings;
use view::{Role, View};

/// Number of PostgreSQL nodes.
pub const NODES: usize = 3;
const NAMES: [&str; NODES] = ["node0", "node1", "node2"];
/// Ports inside namespaces. All nodes have their sockets in one directory, so the ports differ.
const POSTGRES_PORTS: [u16; NODES] = [5432, 5433, 5434];
const API_PORT: u16 = 8008;
/// How long the cluster may take to settle, including the first start.
const TIMEOUT: Duration = Duration::from_secs(180);
/// How long a node may take to answer, and how often nodes are polled.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const ASK_EVERY: Duration = Duration::from_millis(100);
/// How long a switchover may take.
const DONE_WITHIN: Duration = Duration::from_secs(60);

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// After a standby has stored it, without exception: `synchronous_mode` and
    /// `synchronous_mode_strict`.
    Synchronous,
    /// At once. If the primary dies, changes not yet replicated are lost.
    Asynchronous,
}

/// A Patroni cluster. Dropping it kills its processes and deletes its data.
pub struct Patroni {
    replication: Replication,
    psql: PathBuf,
    http: reqwest::Client,
    nodes: Vec<Node>,
    _etcd: Etcd,
    /// The network between the nodes, if each has a namespace of its own.
    network: Option<Network>,
    // Dropped after the processes have exited.
    _directory: Directory,
}

impl Patroni {
    /// Starts three nodes of this version on the loopback address. Returns when there is a primary
    /// and all standbys follow it.
    pub async fn start(version: u32, replication: Replication) -> anyhow::Result<Patroni> {
        Patroni::make(version, replication, None).await
    }

    /// Like `start`, but each node has a namespace of its own and can be isolated. Needs root. etcd
    /// runs outside the namespaces.
    pub async fn start_apart(version: u32, replication: Replication) -> anyhow::Result<Patroni> {
        Patroni::make(version, replication, Some(Network::make(&NAMES)?)).await
    }

    async fn make(
        version: u32,
        replication: Replication,
        network: Option<Network>,
    ) -> anyhow::Result<Patroni> {
        let binaries = binaries::find(version)?;
        let directory = Directory::make()?;
        account::own(directory.path())?;
        let here = network.as_ref().map_or(Ipv4Addr::LOCALHOST, Network::outside);
        let ports = free_ports(here.into(), 2 + 2 * NODES)?;
        let (etcd_ports, node_ports) = ports.split_at(2);
        let etcd = Etcd::start(directory.path(), etcd_ports[0], etcd_ports[1])?;
        let mut nodes = Vec::new();
        for (number, ports) in node_ports.chunks(2).enumerate() {
            let name = NAMES[number].to_owned();
            let namespace = network.as_ref().map(|all| all.namespace(&name)).transpose()?.cloned();
            let (postgres, api) = match &namespace {
                Some(own) => (
                    SocketAddr::from((own.address(), POSTGRES_PORTS[number])),
                    SocketAddr::from((own.address(), API_PORT)),
                ),
                None => (ports[0], ports[1]),
            };
            let node = Node::new(directory.path(), name, postgres, api, namespace);
            let settings = Settings {
                name: &node.name,
                binaries: &binaries,
                directory: directory.path(),
                etcd: etcd_ports[0],
                replication,
                postgres: node.postgres,
                api: node.api,
            };
            node.configure(&settings.to_json().to_string())?;
            nodes.push(node);
        }
        let mut patroni = Patroni {
            replication,
            psql: binaries::psql(&binaries),
            http: reqwest::Client::builder().timeout(ANSWER_WITHIN).build()?,
            nodes,
            _etcd: etcd,
            network,
            _directory: directory,
        };
        patroni.nodes.iter_mut().try_for_each(Node::start)?;
        patroni.settled().await?;
        Ok(patroni)
    }

    /// A URL that lists all nodes and connects to the writable one.
    pub fn url(&self) -> String {
        let all = self.nodes.iter().map(|node| node.postgres.to_string());
        let all = all.collect::<Vec<_>>().join(",");
        // A paused node accepts connections and never answers.
        let more = "target_session_attrs=read-write&connect_timeout=2&sslmode=disable";
        format!("postgresql://postgres@{all}/postgres?{more}")
    }

    /// The URL of one node.
    pub fn node_url(&self, node: usize) -> String {
        format!("postgresql://postgres@{}/postgres?connect_timeout=2", self.nodes[node].postgres)
    }

    /// The processes of all nodes.
    pub fn processes(&self) -> Vec<Process> {
        self.nodes.iter().flat_map(Node::processes).collect()
    }

    /// Returns the node that reports itself as primary.
    pub async fn primary(&self) -> anyhow::Result<Option<usize>> {
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_started()) {
            let asked = self.http.get(format!("http://{}/primary", node.api)).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Returns the standby that has every acknowledged commit.
    pub async fn synchronous_standby(&self) -> anyhow::Result<Option<usize>> {
        let view = self.view().await?;
        Ok(view.find(Role::SyncStandby).and_then(|member| self.number(&member.name)))
    }

    /// Waits until there is a primary and all nodes that were not killed follow it. With
    /// synchronous replication, one standby must also be synchronous.
    pub async fn settled(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while !self.is_settled().await.unwrap_or(false) {
            if began.elapsed() > TIMEOUT {
                let logs = self.nodes.iter().map(|node| last_lines(&node.name, &node.log()));
                bail!("the cluster does not settle:\n{}", logs.collect::<String>());
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    /// SIGKILL for a node's Patroni and its PostgreSQL.
    pub async fn kill(&mut self, node: usize) -> anyhow::Result<()> {
        self.nodes[node].kill().await
    }

    /// Starts a node that was killed.
    pub fn restart(&mut self, node: usize) -> anyhow::Result<()> {
        self.nodes[node].start()
    }

    /// SIGSTOP for a node's Patroni and its PostgreSQL.
    pub async fn pause(&self, node: usize) -> anyhow::Result<()> {
        self.nodes[node].pause().await
    }

    /// SIGCONT for a node's Patroni and its PostgreSQL.
    pub fn resume(&self, node: usize) {
        self.nodes[node].resume();
    }

    /// Isolates a node. Packets to and from it are silently dropped.
    pub fn isolate(&mut self, node: usize) -> anyhow::Result<()> {
        self.network()?.isolate(NAMES[node])
    }

    /// Reconnects all nodes.
    pub fn heal(&mut self) -> anyhow::Result<()> {
        self.network()?.heal()
    }

    /// Switches over to the synchronous standby; without one, to any standby.
    pub async fn switchover(&self) -> anyhow::Result<()> {
        let primary = self.primary().await?.context("no primary")?;
        let node = &self.nodes[primary];
        let asked = self.http.post(format!("http://{}/switchover", node.api));
        let asked = asked.json(&json!({ "leader": node.name })).timeout(DONE_WITHIN);
        let answer = asked.send().await?;
        let is_done = answer.status().is_success();
        ensure!(is_done, "{}: {}", answer.status(), answer.text().await?);
        Ok(())
    }

    /// SIGSTOP for the WAL receivers of the standbys. When their socket buffers are full, no
    /// changes reach them. Returns the primary.
    pub async fn hold_receivers(&self) -> anyhow::Result<usize> {
        let began = Instant::now();
        loop {
            self.settled().await?;
            let primary = self.primary().await?.context("no primary")?;
            match self.signal_receivers(primary, Signal::STOP) {
                Ok(()) => return Ok(primary),
                // A receiver may be missing briefly, until PostgreSQL starts the next one.
                Err(_) if began.elapsed() < TIMEOUT => tokio::time::sleep(ASK_EVERY).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// SIGCONT for the WAL receivers that were connected to this primary.
    pub fn release_receivers(&self, primary: usize) -> anyhow::Result<()> {
        self.signal_receivers(primary, Signal::CONT)
    }

    fn signal_receivers(&self, primary: usize, signal: Signal) -> anyhow::Result<()> {
        let mut standbys = self.nodes.iter().enumerate().filter(|(number, _)| *number != primary);
        standbys.try_for_each(|(_, node)| node.signal_receiver(signal))
    }

    /// Runs statements on the primary with `psql` and returns their rows, with fields separated by
    /// `|`.
    pub async fn sql(&self, statements: &str) -> anyhow::Result<String> {
        psql::ask(&self.psql, &self.url(), &["-c", statements]).await
    }

    async fn is_settled(&self) -> anyhow::Result<bool> {
        let Some(primary) = self.primary().await? else { return Ok(false) };
        let view = self.view().await?;
        let started: Vec<_> = self.nodes.iter().filter(|node| node.is_started()).collect();
        let leader = view.find(Role::Leader).and_then(|leader| self.number(&leader.name));
        let names = started.iter().map(|node| node.name.as_str());
        if leader != Some(primary) || !view.is_consistent(names) {
            return Ok(false);
        }
        // Patroni may report a standby as running that does not stream, and PostgreSQL must have
        // applied Patroni's decision, so `pg_stat_replication` is checked too.
        let asked =
            "SELECT count(DISTINCT application_name), count(*) FILTER (WHERE sync_state = 'sync')
            FROM pg_stat_replication WHERE state = 'streaming'";
        let told = psql::ask(&self.psql, &self.node_url(primary), &["-c", asked]).await?;
        let (following, in_step) = told.split_once('|').context("expected two counts")?;
        let all_follow = following.parse::<usize>()? >= started.len() - 1;
        let is_followed = in_step != "0" && view.find(Role::SyncStandby).is_some();
        Ok(all_follow && (is_followed || self.replication == Replication::Asynchronous))
    }

    /// Returns the view of the first node that answers.
    async fn view(&self) -> anyhow::Result<View> {
        for node in self.nodes.iter().filter(|node| node.is_started()) {
            let asked = self.http.get(format!("http://{}/cluster", node.api)).send().await;
            if let Ok(answer) = asked {
                return Ok(answer.json().await?);
            }
        }
        bail!("no Patroni answers")
    }

    fn network(&mut self) -> anyhow::Result<&mut Network> {
        self.network.as_mut().context("the nodes have no network of their own")
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }
}

/// Returns free ports. All are bound at once, so that none is returned twice.
fn free_ports(here: IpAddr, count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let taken: Result<Vec<_>, _> = (0..count).map(|_| TcpListener::bind((here, 0))).collect();
    Ok(taken?.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?)
}

fn last_lines(name: &str, log: &str) -> String {
    let lines: Vec<_> = log.lines().rev().take(15).collect();
    let lines = lines.into_iter().rev().map(|line| format!("{name}: {line}\n"));
    lines.collect()
}
