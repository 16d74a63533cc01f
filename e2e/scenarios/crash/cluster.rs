//! Three servers on one PostgreSQL, with faults of the servers, the database and the network while
//! commits cross shards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use driftq_e2e::node::Sharing;
use driftq_e2e::postgres::{Cluster, Stop};

use crate::clients::Client;
use crate::cross_shard::{CrossShardLoad, Total};
use crate::history::History;
use crate::latency::Times;
use crate::member::{Member, Shape};
use crate::probes::Probes;

const NODES: usize = 3;
/// With the shortest lease that is allowed.
const SHARING: Sharing = Sharing { shards: 16, lease_ms: 3_000 };
const LEASE: Duration = Duration::from_millis(SHARING.lease_ms);
/// Minimum of commits between two faults.
const COMMITTED_PER_FAULT: u64 = 100;
/// How soon after a fault all shards must deliver again, in 99 of 100 cases.
pub(crate) const SERVED_AGAIN: Duration = LEASE.saturating_add(Duration::from_secs(5));
/// When a run gives up waiting.
pub(crate) const TIMEOUT: Duration = SERVED_AGAIN.saturating_mul(4);
/// A partition lasts longer than the lease.
const CUT_FOR: Duration = LEASE.saturating_add(Duration::from_secs(1));
/// Rounds on one storage. After them the history is checked and dropped, because it is held in
/// memory.
const ROUNDS_OF_A_PART: usize = 5;

/// The faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillNode,
    PauseNode,
    StopNode,
    Partition(Shape),
    RestartDatabase,
    KillDatabase,
}

/// The addresses of live servers that own a shard.
const SERVING: &str = "SELECT DISTINCT address FROM driftq.shard JOIN driftq.node USING (node)
    WHERE until > clock_timestamp()";

/// Faults of every round. Two of five rounds also kill PostgreSQL. 50 rounds have 100 killed and
/// 100 paused servers, 50 partitions of each shape, and 50 restarts and 20 kills of PostgreSQL.
const ROUND: [Fault; 12] = [
    Fault::KillNode,
    Fault::KillNode,
    Fault::PauseNode,
    Fault::PauseNode,
    Fault::StopNode,
    Fault::Partition(Shape::Silent),
    Fault::Partition(Shape::Unanswered),
    Fault::Partition(Shape::Severed),
    Fault::Partition(Shape::CommitUnanswered),
    Fault::Partition(Shape::Apart),
    Fault::Partition(Shape::Alone),
    Fault::RestartDatabase,
];

/// The result of a run.
#[derive(Default)]
pub(crate) struct ClusterResult {
    pub(crate) total: Total,
    /// Time from a fault until every shard has delivered something. If PostgreSQL was down, counted
    /// from its return.
    pub(crate) served: Times,
}

pub(crate) async fn run(binary: &str, rounds: u64) -> anyhow::Result<ClusterResult> {
    let mut all = ClusterResult::default();
    let all_rounds: Vec<u64> = (0..rounds).collect();
    for rounds in all_rounds.chunks(ROUNDS_OF_A_PART) {
        let faults = rounds.iter().flat_map(|round| faults_of(*round)).collect();
        let part = ClusterRun::start(binary).await?.run(faults).await?;
        all.total.add(&part.total);
        all.served.merge(part.served);
    }
    Ok(all)
}

fn faults_of(round: u64) -> Vec<Fault> {
    let mut faults = ROUND.to_vec();
    if [0, 2].contains(&(round % 5)) {
        faults.push(Fault::KillDatabase);
    }
    fastrand::shuffle(&mut faults);
    faults
}

/// Servers under load, with their database.
pub(crate) struct ClusterRun {
    pub(crate) database: Cluster,
    pub(crate) members: Vec<Member>,
    pub(crate) probes: Probes,
    pub(crate) crossing: CrossShardLoad,
}

impl ClusterRun {
    pub(crate) async fn start(binary: &str) -> anyhow::Result<ClusterRun> {
        let database = Cluster::start(15).await?;
        let mut members = Vec::new();
        for _ in 0..NODES {
            members.push(Member::start(binary, database.socket(), SHARING).await?);
        }
        let urls: Vec<String> = members.iter().map(Member::url).collect();
        let sql = async |statement: &str| database.sql(statement).await;
        let probes = Probes::make(urls.clone(), SHARING.shards, sql).await?;
        let client = Client::among(urls, Arc::new(History::default()));
        let crossing = CrossShardLoad::start(client).await?;
        Ok(ClusterRun { database, members, probes, crossing })
    }

    async fn run(mut self, faults: Vec<Fault>) -> anyhow::Result<ClusterResult> {
        let mut served = Times::default();
        for (fault, number) in faults.iter().zip(1..) {
            self.crossing.busy(number * COMMITTED_PER_FAULT).await?;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
            self.crossing.fault(&format!("{fault:?}"));
            let before = self.crossing.committed();
            let took = self.inject(*fault).await.with_context(|| format!("{fault:?}"))?;
            let meanwhile = self.crossing.committed() - before;
            let ms = took.as_millis();
            println!(
                "{fault:?}: every shard delivers after {ms} ms, {meanwhile} commits meanwhile"
            );
            served.add(fault, took);
        }
        let judged = self.crossing.finish().await?;
        let total = judged.hold(faults.len() as u64 * COMMITTED_PER_FAULT)?;
        Ok(ClusterResult { total, served })
    }

    /// Injects the fault, waits until every shard has delivered something, and repairs it. Returns
    /// how long the shards took.
    async fn inject(&mut self, fault: Fault) -> anyhow::Result<Duration> {
        let victim = self.victim().await?;
        let mut began = Instant::now();
        match fault {
            Fault::KillNode => self.members[victim].node.kill().await?,
            Fault::PauseNode => self.members[victim].node.pause()?,
            Fault::StopNode => self.members[victim].node.stop()?,
            Fault::Partition(shape) => {
                self.cut(victim, shape).await?;
                began = Instant::now();
            }
            Fault::RestartDatabase => {
                let how = if fastrand::bool() { Stop::Fast } else { Stop::Immediate };
                self.database.restart(how).await?;
                began = Instant::now();
            }
            Fault::KillDatabase => {
                self.database.kill().await?;
                self.database.start_again().await?;
                began = Instant::now();
            }
        }
        let served = self.probes.all_deliver(began, TIMEOUT).await?;
        if matches!(fault, Fault::PauseNode | Fault::Partition(_)) {
            tokio::time::sleep_until((began + CUT_FOR).into()).await;
        }
        match fault {
            Fault::KillNode => self.members[victim].node.start_again().await?,
            Fault::StopNode => {
                self.members[victim].node.ended().await?;
                self.members[victim].node.start_again().await?;
            }
            Fault::PauseNode => self.members[victim].node.resume()?,
            Fault::Partition(_) => self.members.iter_mut().try_for_each(Member::heal)?,
            Fault::RestartDatabase | Fault::KillDatabase => {}
        }
        Ok(served)
    }

    /// Returns a random server that owns a shard.
    async fn victim(&self) -> anyhow::Result<usize> {
        let found = async {
            loop {
                let serving = self.database.sql(SERVING).await?;
                let serves = |at: &usize| {
                    let address = self.members[*at].address();
                    serving.lines().any(|line| line.ends_with(&address))
                };
                let all: Vec<usize> = (0..NODES).filter(serves).collect();
                if let Some(victim) = fastrand::choice(&all) {
                    return Ok(*victim);
                }
            }
        };
        tokio::time::timeout(TIMEOUT, found).await.context("no server owns a shard")?
    }

    async fn cut(&mut self, victim: usize, shape: Shape) -> anyhow::Result<()> {
        if shape == Shape::Apart {
            for member in &mut self.members {
                member.cut(shape).await?;
            }
            return Ok(());
        }
        let ClusterRun { members, probes, .. } = self;
        // Deliveries keep the shards of the victim committing; they may have nothing else to
        // commit.
        let busy = async {
            loop {
                probes.all_deliver(Instant::now(), TIMEOUT).await?;
            }
        };
        tokio::select! {
            biased;
            cut = members[victim].cut(shape) => cut,
            failed = busy => failed,
        }
    }
}
