//! Three servers on three PostgreSQL nodes under Patroni whose primary changes while commits cross
//! shards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use driftq_e2e::node::{Node, Sharing, free_address};
use driftq_e2e::patroni::{Patroni, Replication};

use crate::clients::Client;
use crate::cross_shard::{CrossShardLoad, Total};
use crate::history::History;
use crate::latency::Times;
use crate::probes::Probes;
use crate::wal_positions::{Acknowledgements, HISTORY, Positions};

const VERSION: u32 = 15;
const SERVERS: usize = 3;
const SHARING: Sharing = Sharing { shards: 16, lease_ms: 3_000 };
/// Minimum of commits before each failover.
const COMMITTED_PER_FAILOVER: u64 = 200;
/// How soon after a failover every shard must deliver again, in 99 of 100 cases, and when a run
/// gives up waiting.
pub(crate) const FIRST_OK: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(180);
/// How long the cluster is given to recover without the old primary.
const ALONE: Duration = Duration::from_secs(40);
/// The current timeline, with a fixed number of digits. Every failover begins a new one.
const TIMELINE: &str = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";
/// More bytes than fit into any socket buffer, and not compressible. Rows written after them do not
/// reach a standby that has stopped reading.
const BALLAST: &str = "
    CREATE TABLE ballast (bytes text);
    ALTER TABLE ballast ALTER bytes SET STORAGE EXTERNAL;
    INSERT INTO ballast SELECT repeat(md5(n::text), 3000) FROM generate_series(1, 300) n";

/// What happens to the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kill,
    /// All packets to and from it are dropped.
    Isolate,
    Switchover,
    Pause,
    /// The synchronous standby is killed first, then the primary.
    StandbyToo,
}

const KINDS: [Kind; 5] =
    [Kind::Kill, Kind::Isolate, Kind::Switchover, Kind::Pause, Kind::StandbyToo];

/// The result of a run.
pub(crate) struct FailedOver {
    pub(crate) total: Total,
    pub(crate) oks: Acknowledgements,
    /// Time from a failover until every shard has delivered something.
    pub(crate) served: Times,
}

pub(crate) async fn run(binary: &str, failovers: u64) -> anyhow::Result<FailedOver> {
    let patroni = Patroni::start_apart(VERSION, Replication::Synchronous).await?;
    let mut world = World::start(binary, patroni).await?;
    let mut served = Times::default();
    for (kind, number) in KINDS.into_iter().cycle().zip(1..=failovers) {
        world.crossing.busy(number * COMMITTED_PER_FAILOVER).await?;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
        world.crossing.fault(&format!("{kind:?}"));
        let took = world.fail_over(kind).await.with_context(|| format!("{kind:?}"))?;
        served.add(kind, took);
    }
    let World { patroni, crossing, positions, servers: _servers, .. } = world;
    let judged = crossing.finish().await?;
    let oks = positions.judge(&judged.events, &patroni.sql(HISTORY).await?)?;
    let total = judged.hold(failovers * COMMITTED_PER_FAILOVER)?;
    Ok(FailedOver { total, oks, served })
}

/// The same load without synchronous replication. Commits acknowledged by the primary alone are
/// lost when it is killed. Returns a summary of the detected losses, and fails if there are none.
pub(crate) async fn control(binary: &str) -> anyhow::Result<String> {
    let patroni = Patroni::start(VERSION, Replication::Asynchronous).await?;
    let mut world = World::start(binary, patroni).await?;
    world.crossing.busy(COMMITTED_PER_FAILOVER).await?;
    let primary = world.patroni.hold_receivers().await?;
    world.patroni.sql(BALLAST).await?;
    world.crossing.more(COMMITTED_PER_FAILOVER).await?;
    world.crossing.fault("Kill");
    world.patroni.kill(primary).await?;
    world.patroni.release_receivers(primary)?;
    world.probes.all_deliver(Instant::now(), TIMEOUT).await?;
    world.patroni.restart(primary)?;
    world.patroni.settled().await?;
    let World { patroni, crossing, positions, servers: _servers, .. } = world;
    let judged = crossing.finish().await?;
    let oks = positions.judge(&judged.events, &patroni.sql(HISTORY).await?)?;
    let (missing, violations) = (judged.missing, judged.report.violations.len());
    let seen = format!("steps missing {missing}, violations {violations}, {oks}");
    anyhow::ensure!(violations > 0 && oks.beyond > 0, "losses were not detected: {seen}");
    Ok(seen)
}

struct World {
    patroni: Patroni,
    servers: Vec<Node>,
    probes: Probes,
    crossing: CrossShardLoad,
    positions: Positions,
}

impl World {
    async fn start(binary: &str, patroni: Patroni) -> anyhow::Result<World> {
        let (mut servers, mut urls) = (Vec::new(), Vec::new());
        for _ in 0..SERVERS {
            let listen = free_address()?;
            servers.push(Node::start(binary, listen, listen, &patroni.url(), SHARING).await?);
            urls.push(format!("http://{listen}/v1"));
        }
        let sql = async |statement: &str| patroni.sql(statement).await;
        let probes = Probes::make(urls.clone(), SHARING.shards, sql).await?;
        let history = Arc::new(History::default());
        let positions = Positions::start(patroni.url(), Arc::clone(&history));
        let crossing = CrossShardLoad::start(Client::among(urls, history)).await?;
        Ok(World { patroni, servers, probes, crossing, positions })
    }

    /// Injects a failover, waits until every shard has delivered something, and repairs it. Returns
    /// how long the shards took.
    async fn fail_over(&mut self, kind: Kind) -> anyhow::Result<Duration> {
        let patroni = &mut self.patroni;
        let primary = patroni.primary().await?.context("no primary")?;
        let standby = patroni.synchronous_standby().await?.context("no synchronous standby")?;
        let timeline = patroni.sql(TIMELINE).await?;
        let began = Instant::now();
        match kind {
            Kind::Kill => patroni.kill(primary).await?,
            Kind::Isolate => patroni.isolate(primary)?,
            Kind::Switchover => patroni.switchover().await?,
            Kind::Pause => patroni.pause(primary).await?,
            Kind::StandbyToo => {
                patroni.kill(standby).await?;
                patroni.kill(primary).await?;
                // The third node may lack commits, so without one of these two there is no primary.
                patroni.restart(standby)?;
            }
        }
        let mut served = self.probes.all_deliver(began, ALONE).await;
        // A primary that has seen its standby die is the only node that may lead, because no other
        // has all commits.
        let is_needed = kind == Kind::StandbyToo && served.is_err();
        if is_needed {
            patroni.restart(primary)?;
        }
        if served.is_err() {
            served = self.probes.all_deliver(began, TIMEOUT).await;
        }
        let served = served?;
        if !is_needed {
            // Wait for the new timeline first, because for a moment the old primary would still
            // answer as primary.
            self.positions.beyond(&timeline, TIMEOUT).await?;
        }
        match kind {
            Kind::StandbyToo if is_needed => {}
            Kind::Kill | Kind::StandbyToo => patroni.restart(primary)?,
            Kind::Isolate => patroni.heal()?,
            Kind::Pause => patroni.resume(primary),
            Kind::Switchover => {}
        }
        patroni.settled().await?;
        let next = patroni.primary().await?.context("no primary")?;
        println!(
            "{kind:?}: node {primary} to node {next}, every shard delivers after {} ms, settled after {} ms",
            served.as_millis(),
            began.elapsed().as_millis()
        );
        // It may be the same node again: a slow machine also loses primaries without an injected
        // fault.
        let is_new = patroni.sql(TIMELINE).await? > timeline;
        anyhow::ensure!(is_new || is_needed, "no failover happened");
        Ok(served)
    }
}
