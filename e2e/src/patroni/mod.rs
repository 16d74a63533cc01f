//! Three PostgreSQL under Patroni with one etcd, all on the loopback address or on machines of their own, as far as
//! their network goes: primaries die or are cut off, others take over.

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

/// How many there are.
pub const NODES: usize = 3;
const NAMES: [&str; NODES] = ["node0", "node1", "node2"];
/// Where each listens on a machine of its own. Their sockets are in one directory, so it is not the same everywhere.
const POSTGRES_PORTS: [u16; NODES] = [5432, 5433, 5434];
const API_PORT: u16 = 8008;
/// How long they may take to agree, the first time included.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long one of them may take to answer, and how often they are asked.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const ASK_EVERY: Duration = Duration::from_millis(100);
/// How long a switchover may take.
const DONE_WITHIN: Duration = Duration::from_secs(60);

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// When a standby has it too, in any case: `synchronous_mode` and `synchronous_mode_strict`.
    Synchronous,
    /// At once: what a standby has not got yet is lost with the primary.
    Asynchronous,
}

/// The three of them. Dropped, they are gone with their data.
pub struct Patroni {
    replication: Replication,
    psql: PathBuf,
    http: reqwest::Client,
    nodes: Vec<Node>,
    _etcd: Etcd,
    /// Between machines, if they have their own.
    network: Option<Network>,
    // Dropped after the processes are gone.
    _directory: Directory,
}

impl Patroni {
    /// Makes three of this version on this machine; returns when there is a primary and all follow it.
    pub async fn start(version: u32, replication: Replication) -> anyhow::Result<Patroni> {
        Patroni::make(version, replication, None).await
    }

    /// The same on machines of their own, so that they can be cut off. Needs root. etcd is here.
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

    /// All of them, of which the one is meant that can be written to.
    pub fn url(&self) -> String {
        let all = self.nodes.iter().map(|node| node.postgres.to_string());
        let all = all.collect::<Vec<_>>().join(",");
        // One that is paused accepts connections and says nothing.
        let more = "target_session_attrs=read-write&connect_timeout=2&sslmode=disable";
        format!("postgresql://postgres@{all}/postgres?{more}")
    }

    /// One of them.
    pub fn node_url(&self, node: usize) -> String {
        format!("postgresql://postgres@{}/postgres?connect_timeout=2", self.nodes[node].postgres)
    }

    /// The processes of all of them.
    pub fn processes(&self) -> Vec<Process> {
        self.nodes.iter().flat_map(Node::processes).collect()
    }

    /// Which one is the primary: it says so itself.
    pub async fn primary(&self) -> anyhow::Result<Option<usize>> {
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_started()) {
            let asked = self.http.get(format!("http://{}/primary", node.api)).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Which one has everything that was acknowledged, besides the primary.
    pub async fn synchronous_standby(&self) -> anyhow::Result<Option<usize>> {
        let view = self.view().await?;
        Ok(view.find(Role::SyncStandby).and_then(|member| self.number(&member.name)))
    }

    /// Waits until there is a primary, all that were not killed follow it, and one of them does synchronously if that is
    /// how they are.
    pub async fn settled(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while !self.is_settled().await.unwrap_or(false) {
            if began.elapsed() > PATIENCE {
                let logs = self.nodes.iter().map(|node| last_lines(&node.name, &node.log()));
                bail!("they do not agree:\n{}", logs.collect::<String>());
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

    /// SIGCONT for them.
    pub fn resume(&self, node: usize) {
        self.nodes[node].resume();
    }

    /// Cuts a node off from everybody: packets vanish.
    pub fn isolate(&mut self, node: usize) -> anyhow::Result<()> {
        self.network()?.isolate(NAMES[node])
    }

    /// Everybody reaches everybody again.
    pub fn heal(&mut self) -> anyhow::Result<()> {
        self.network()?.heal()
    }

    /// Primary and synchronous standby change places in order; without one, with any standby.
    pub async fn switchover(&self) -> anyhow::Result<()> {
        let primary = self.primary().await?.context("there is no primary")?;
        let node = &self.nodes[primary];
        let asked = self.http.post(format!("http://{}/switchover", node.api));
        let asked = asked.json(&json!({ "leader": node.name })).timeout(DONE_WITHIN);
        let answer = asked.send().await?;
        let is_done = answer.status().is_success();
        ensure!(is_done, "{}: {}", answer.status(), answer.text().await?);
        Ok(())
    }

    /// SIGSTOP for what receives the changes on the standbys: its sockets fill, then nothing gets there any more. Says
    /// which one is the primary.
    pub async fn hold_receivers(&self) -> anyhow::Result<usize> {
        let began = Instant::now();
        loop {
            self.settled().await?;
            let primary = self.primary().await?.context("there is no primary")?;
            match self.signal_receivers(primary, Signal::STOP) {
                Ok(()) => return Ok(primary),
                // One may be gone for a moment, until PostgreSQL starts the next.
                Err(_) if began.elapsed() < PATIENCE => tokio::time::sleep(ASK_EVERY).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// SIGCONT for those that received from this one.
    pub fn release_receivers(&self, primary: usize) -> anyhow::Result<()> {
        self.signal_receivers(primary, Signal::CONT)
    }

    fn signal_receivers(&self, primary: usize, signal: Signal) -> anyhow::Result<()> {
        let mut standbys = self.nodes.iter().enumerate().filter(|(number, _)| *number != primary);
        standbys.try_for_each(|(_, node)| node.signal_receiver(signal))
    }

    /// Runs statements on the primary with `psql` and returns their rows, fields divided by `|`.
    pub async fn sql(&self, statements: &str) -> anyhow::Result<String> {
        psql::ask(&self.psql, &self.url(), &["-c", statements]).await
    }

    async fn is_settled(&self) -> anyhow::Result<bool> {
        let Some(primary) = self.primary().await? else { return Ok(false) };
        let view = self.view().await?;
        let started: Vec<_> = self.nodes.iter().filter(|node| node.is_started()).collect();
        let leader = view.find(Role::Leader).and_then(|leader| self.number(&leader.name));
        let names = started.iter().map(|node| node.name.as_str());
        if leader != Some(primary) || !view.is_whole(names) {
            return Ok(false);
        }
        // Patroni may call a standby running that does not receive, and PostgreSQL must know what Patroni has decided.
        let asked =
            "SELECT count(DISTINCT application_name), count(*) FILTER (WHERE sync_state = 'sync')
            FROM pg_stat_replication WHERE state = 'streaming'";
        let told = psql::ask(&self.psql, &self.node_url(primary), &["-c", asked]).await?;
        let (following, in_step) = told.split_once('|').context("no two counts")?;
        let all_follow = following.parse::<usize>()? >= started.len() - 1;
        let is_followed = in_step != "0" && view.find(Role::SyncStandby).is_some();
        Ok(all_follow && (is_followed || self.replication == Replication::Asynchronous))
    }

    /// What the first says that answers.
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
        self.network.as_mut().context("they are all on this machine")
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }
}

/// Free when asked for, all at once, so that none is given twice.
fn free_ports(here: IpAddr, count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let taken: Result<Vec<_>, _> = (0..count).map(|_| TcpListener::bind((here, 0))).collect();
    Ok(taken?.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?)
}

fn last_lines(name: &str, log: &str) -> String {
    let lines: Vec<_> = log.lines().rev().take(15).collect();
    let lines = lines.into_iter().rev().map(|line| format!("{name}: {line}\n"));
    lines.collect()
}
