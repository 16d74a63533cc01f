//! Three servers on one PostgreSQL, and what can happen to them, to it and between them while commits cross shards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use driftq_e2e::node::Sharing;
use driftq_e2e::postgres::{Cluster, Stop};

use crate::clients::Client;
use crate::cross_shard::{Crossing, Total};
use crate::history::History;
use crate::latency::Times;
use crate::member::{Member, Shape};
use crate::probes::Probes;

const NODES: usize = 3;
/// With the shortest lease there is.
const SHARING: Sharing = Sharing { shards: 16, lease_ms: 3_000 };
const LEASE: Duration = Duration::from_millis(SHARING.lease_ms);
/// What must be committed between two faults.
const COMMITTED_PER_FAULT: u64 = 100;
/// How long after a fault all shards deliver again, of 99 in 100.
pub(crate) const SERVED_AGAIN: Duration = LEASE.saturating_add(Duration::from_secs(5));
/// When they are given up.
pub(crate) const PATIENCE: Duration = SERVED_AGAIN.saturating_mul(4);
/// What is cut off stays so for longer than its lease.
const CUT_FOR: Duration = LEASE.saturating_add(Duration::from_secs(1));
/// Rounds on one storage. Then its history is judged and forgotten: it is in memory.
const ROUNDS_OF_A_PART: usize = 5;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillNode,
    PauseNode,
    StopNode,
    Partition(Shape),
    RestartDatabase,
    KillDatabase,
}

/// The addresses of servers that are alive and serve something.
const SERVING: &str = "SELECT DISTINCT address FROM driftq.shard JOIN driftq.node USING (node)
    WHERE until > clock_timestamp()";

/// A round has every kind but the last, which has two of five; 50 rounds have 100 killed and 100 paused servers, 50
/// partitions of each shape, 50 restarts and 20 kills of PostgreSQL.
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

/// A run.
#[derive(Default)]
pub(crate) struct Stormed {
    pub(crate) total: Total,
    /// From a fault until every shard has delivered something; where PostgreSQL was gone, from its return.
    pub(crate) served: Times,
}

pub(crate) async fn run(binary: &str, rounds: u64) -> anyhow::Result<Stormed> {
    let mut all = Stormed::default();
    let all_rounds: Vec<u64> = (0..rounds).collect();
    for rounds in all_rounds.chunks(ROUNDS_OF_A_PART) {
        let faults = rounds.iter().flat_map(|round| faults_of(*round)).collect();
        let part = Storm::start(binary).await?.run(faults).await?;
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

/// Servers under load, and what they stand on.
pub(crate) struct Storm {
    pub(crate) database: Cluster,
    pub(crate) members: Vec<Member>,
    pub(crate) probes: Probes,
    pub(crate) crossing: Crossing,
}

impl Storm {
    pub(crate) async fn start(binary: &str) -> anyhow::Result<Storm> {
        let database = Cluster::start(15).await?;
        let mut members = Vec::new();
        for _ in 0..NODES {
            members.push(Member::start(binary, database.socket(), SHARING).await?);
        }
        let urls: Vec<String> = members.iter().map(Member::url).collect();
        let sql = async |statement: &str| database.sql(statement).await;
        let probes = Probes::make(urls.clone(), SHARING.shards, sql).await?;
        let client = Client::among(urls, Arc::new(History::default()));
        let crossing = Crossing::start(client).await?;
        Ok(Storm { database, members, probes, crossing })
    }

    async fn run(mut self, faults: Vec<Fault>) -> anyhow::Result<Stormed> {
        let mut served = Times::default();
        for (fault, number) in faults.iter().zip(1..) {
            self.crossing.busy(number * COMMITTED_PER_FAULT).await?;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
            self.crossing.fault(&format!("{fault:?}"));
            let before = self.crossing.committed();
            let took = self.suffer(*fault).await.with_context(|| format!("{fault:?}"))?;
            let meanwhile = self.crossing.committed() - before;
            let ms = took.as_millis();
            println!(
                "{fault:?}: every shard delivers after {ms} ms, {meanwhile} commits until it is over"
            );
            served.add(fault, took);
        }
        let judged = self.crossing.finish().await?;
        let total = judged.hold(faults.len() as u64 * COMMITTED_PER_FAULT)?;
        Ok(Stormed { total, served })
    }

    /// Does it, says how long it took until every shard has delivered something, and mends it.
    async fn suffer(&mut self, fault: Fault) -> anyhow::Result<Duration> {
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
        let served = self.probes.all_deliver(began, PATIENCE).await?;
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

    /// One that has something to lose.
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
        tokio::time::timeout(PATIENCE, found).await.context("nobody serves anything")?
    }

    async fn cut(&mut self, victim: usize, shape: Shape) -> anyhow::Result<()> {
        if shape == Shape::Apart {
            for member in &mut self.members {
                member.cut(shape).await?;
            }
            return Ok(());
        }
        let Storm { members, probes, .. } = self;
        // Its shards may have nothing to commit but deliveries.
        let busy = async {
            loop {
                probes.all_deliver(Instant::now(), PATIENCE).await?;
            }
        };
        tokio::select! {
            biased;
            cut = members[victim].cut(shape) => cut,
            failed = busy => failed,
        }
    }
}
