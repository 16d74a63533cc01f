//! SIGKILL while commits cross shards: every step is stored once, and no effect is accepted twice.
//! The exported ledger proves it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use driftq_checker::Report;
use driftq_checker::history::{Event, Op, Reply, Verb, What};
use driftq_e2e::broker::Broker;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::clients::{Client, TOPIC, consume};
use crate::effects::{GROUP, Progress, STEPS, STEPS_OF_AN_ORDER, order, steps_of, work};
use crate::history::History;
use crate::proof::{self, Proof};

const SHARDS: u32 = 4;
const PRODUCERS: u32 = 2;
const WORKERS: u32 = 8;
/// The group that consumes the next steps.
const READERS: &str = "readers";
/// Minimum of commits in flight at a kill for it to count, and of completed commits per kill.
const COMMITS_MIN: u64 = 32;
pub(crate) const COMMITTED_PER_KILL: u64 = 100;
/// How long after enough commits are in flight a kill may happen. Commits come in short waves.
const WAVE_US: u64 = 5_000;
/// Maximum number of moments tried for one kill.
const MOMENTS_MAX: u32 = 1_000;
/// Time limit for reaching enough commits, and for draining.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a run.
pub(crate) struct Crossed {
    pub(crate) judged: Judged,
    /// The result of checking the export.
    pub(crate) proof: anyhow::Result<Proof>,
}

/// The outcome of everything that was sent.
pub(crate) struct Judged {
    pub(crate) report: Report,
    pub(crate) orders: usize,
    pub(crate) committed: u64,
    /// Steps that went to another shard, and outcomes that were replayed to a later attempt.
    pub(crate) queued: u64,
    pub(crate) replayed: u64,
    /// Steps that are missing, and steps that are stored more than once.
    pub(crate) missing: usize,
    pub(crate) doubled: usize,
    pub(crate) events: Vec<Event>,
}

impl Judged {
    /// Like [`Judged::tell`], but also fails if too little happened.
    pub(crate) fn hold(&self, committed_min: u64) -> anyhow::Result<Total> {
        let total = self.print_summary()?;
        let is_enough = self.committed >= committed_min && self.queued > self.committed;
        anyhow::ensure!(is_enough && self.replayed > 0, "too little happened");
        Ok(total)
    }

    /// Prints a summary. Fails if a step is missing or stored twice.
    pub(crate) fn print_summary(&self) -> anyhow::Result<Total> {
        for violation in self.report.violations.iter().take(20) {
            println!("{violation:?}");
        }
        let total = Total {
            orders: self.orders as u64,
            committed: self.committed,
            missing: self.missing as u64,
            doubled: self.doubled as u64,
            violations: self.report.violations.len() as u64,
        };
        println!("{total}, steps to other shards {}, replayed {}", self.queued, self.replayed);
        anyhow::ensure!(self.missing + self.doubled == 0, "a step is missing or stored twice");
        Ok(total)
    }
}

/// The sum of several runs.
#[derive(Default)]
pub(crate) struct Total {
    orders: u64,
    committed: u64,
    missing: u64,
    doubled: u64,
    pub(crate) violations: u64,
}

impl Total {
    pub(crate) fn add(&mut self, other: &Total) {
        self.orders += other.orders;
        self.committed += other.committed;
        self.missing += other.missing;
        self.doubled += other.doubled;
        self.violations += other.violations;
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Total { orders, committed, missing, doubled, violations } = self;
        write!(
            f,
            "orders {orders}, commits {committed}, steps missing {missing}, doubled {doubled}, "
        )?;
        write!(f, "violations {violations}")
    }
}

/// A load of orders whose commits cross shards.
pub(crate) struct CrossShardLoad {
    client: Client,
    progress: Arc<Progress>,
    tasks: Vec<JoinHandle<anyhow::Result<()>>>,
}

pub(crate) async fn run(binary: &str, data: &Path, kills: u64) -> anyhow::Result<Crossed> {
    let mut broker = Broker::start_sharded(binary, data, SHARDS).await?;
    let client = Client::new(broker.url(), Arc::new(History::default()));
    let crossing = CrossShardLoad::start(client).await?;
    for kill in 1..=kills {
        crossing.moment(kill * COMMITTED_PER_KILL).await?;
        crossing.fault("kill");
        broker.kill().await?;
        broker.start_again(None).await?;
    }
    let judged = crossing.finish().await?;
    broker.kill().await?;
    // After a restart the export comes from disk.
    broker.start_again(None).await?;
    let acknowledged_decisions = proof::acknowledged_decisions(&judged.events);
    let proof =
        proof::run(binary, &broker.url(), data, &acknowledged_decisions, judged.orders).await;
    broker.kill().await?;
    Ok(Crossed { judged, proof })
}

impl CrossShardLoad {
    /// Creates topics and groups, and starts the clients.
    pub(crate) async fn start(client: Client) -> anyhow::Result<CrossShardLoad> {
        let progress = Arc::new(Progress::default());
        // Attempts are unlimited, so every order is committed in the end.
        let retry = json!({ "max_attempts": -1, "backoff_ms": 20, "max_backoff_ms": 200 });
        let settings = json!({ "retry_policy": retry });
        client.create(TOPIC, settings.clone(), &[GROUP]).await?;
        for topic in STEPS {
            client.create(topic, settings.clone(), &[READERS]).await?;
        }
        let mut numbers = 0..;
        let mut of = || client.of(numbers.next().unwrap_or_default());
        let mut tasks = Vec::new();
        for _ in 0..PRODUCERS {
            tasks.push(tokio::spawn(order(of(), Arc::clone(&progress))));
        }
        for _ in 0..WORKERS {
            tasks.push(tokio::spawn(work(of(), Arc::clone(&progress))));
        }
        for topic in STEPS {
            tasks.push(tokio::spawn(consume(of(), topic, READERS, || Some(Verb::Ack))));
        }
        Ok(CrossShardLoad { client, progress, tasks })
    }

    /// Records in the history that a fault is about to happen.
    pub(crate) fn fault(&self, fault: &str) {
        let what = What::Fault { fault: fault.into(), point: "anywhere".into() };
        self.client.history.push(u32::MAX, what);
    }

    /// Waits until `committed` orders are committed in total and enough commits are in flight.
    pub(crate) async fn busy(&self, committed: u64) -> anyhow::Result<()> {
        let wait = async {
            while self.committed() < committed
                || self.progress.committing.load(Ordering::Relaxed) < COMMITS_MIN
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.context("too few commits in flight")
    }

    /// Waits for a random moment with enough commits in flight. Commits come in waves, so a moment
    /// with too few is skipped.
    async fn moment(&self, committed: u64) -> anyhow::Result<()> {
        for _ in 0..MOMENTS_MAX {
            self.busy(committed).await?;
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..WAVE_US))).await;
            if self.progress.committing.load(Ordering::Relaxed) >= COMMITS_MIN {
                return Ok(());
            }
        }
        anyhow::bail!("too rarely enough commits in flight")
    }

    /// Waits until `committed` more orders are committed.
    pub(crate) async fn more(&self, committed: u64) -> anyhow::Result<()> {
        self.busy(self.committed() + committed).await
    }

    pub(crate) fn committed(&self) -> u64 {
        self.progress.committed.load(Ordering::Relaxed)
    }

    /// Stops producing, waits until everything is settled, and checks what the clients saw.
    pub(crate) async fn finish(self) -> anyhow::Result<Judged> {
        let CrossShardLoad { client, progress, tasks } = self;
        client.history.push(u32::MAX, What::Healed);
        client.stopped.store(true, Ordering::Relaxed);
        drained(&client).await?;
        client.ended.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await??;
        }
        nothing_is_open(&client).await?;
        client.history.push(u32::MAX, What::Ended);
        let events = client.history.take();
        let (orders, places) = (orders(&events), places(&events));
        let wanted = || orders.iter().flat_map(|order| steps_of(*order));
        let copies = |body: u64| places.get(&body).map_or(0, BTreeSet::len);
        Ok(Judged {
            report: driftq_checker::check(&events),
            orders: orders.len(),
            committed: progress.committed.load(Ordering::Relaxed),
            queued: progress.queued.load(Ordering::Relaxed),
            replayed: progress.replayed.load(Ordering::Relaxed),
            missing: wanted().filter(|(_, body)| copies(*body) == 0).count(),
            doubled: wanted().filter(|(_, body)| copies(*body) > 1).count(),
            events,
        })
    }
}

/// Waits until every order is settled and the expected number of steps has arrived and is settled.
/// If steps never arrive, the caller counts them as missing.
async fn drained(client: &Client) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let is_late = began.elapsed() > TIMEOUT;
        // Some shards may still be moving to another server.
        if let Ok((open, waiting, arrived)) = left(client).await {
            let (orders, _) = client.acknowledged();
            let all = orders * STEPS_OF_AN_ORDER as u64;
            if open + waiting == 0 && (arrived >= all || is_late) {
                return Ok(());
            }
            anyhow::ensure!(!is_late, "not drained in time: {open} orders, {waiting} steps");
        }
        anyhow::ensure!(!is_late, "the server does not answer");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns open orders, unsettled steps, and steps that have arrived.
async fn left(client: &Client) -> anyhow::Result<(u64, u64, u64)> {
    let open = backlog(client, TOPIC, GROUP).await?.0 + client.under_way().0;
    let (mut waiting, mut arrived) = (0, 0);
    for topic in STEPS {
        let (backlog, next) = backlog(client, topic, READERS).await?;
        (waiting, arrived) = (waiting + backlog, arrived + next);
    }
    Ok((open, waiting, arrived))
}

/// Returns the backlog of a group, and how many messages it was ever delivered.
async fn backlog(client: &Client, topic: &str, group: &str) -> anyhow::Result<(u64, u64)> {
    let view = client.get(&format!("topics/{topic}/groups/{group}")).await?;
    let partitions = view["partitions"].as_array().context("partitions")?;
    let mut next = 0;
    for partition in partitions {
        next += partition["next_to_deliver"].as_u64().context("next_to_deliver")?;
    }
    Ok((view["backlog"].as_u64().context("a backlog")?, next))
}

async fn nothing_is_open(client: &Client) -> anyhow::Result<()> {
    for state in ["IN_PROGRESS", "IN_DOUBT", "PARKED"] {
        let page = client.get(&format!("effects?state={state}")).await?;
        let open = page["effects"].as_array().context("a list")?.len();
        anyhow::ensure!(open == 0, "{open} effects of settled orders are {state}");
    }
    let dead = client.get(&format!("topics/{TOPIC}")).await?;
    anyhow::ensure!(dead["dead_letters"] == 0, "dead letters exist: {dead}");
    Ok(())
}

/// Returns the orders that were accepted.
fn orders(events: &[Event]) -> BTreeSet<u64> {
    let (mut asked, mut orders) = (BTreeMap::new(), BTreeSet::new());
    for event in events {
        match &event.what {
            What::Invoked { call, op: Op::Produce(produce) } if &*produce.topic == TOPIC => {
                asked.insert(*call, produce.message.body);
            }
            What::Done { call, reply: Reply::Produced { .. } } => {
                orders.extend(asked.get(call));
            }
            _ => {}
        }
    }
    orders
}

/// Returns where each body was delivered from, orders included.
fn places(events: &[Event]) -> BTreeMap<u64, BTreeSet<(&str, u32, u64)>> {
    let mut places: BTreeMap<u64, BTreeSet<_>> = BTreeMap::new();
    for event in events {
        if let What::Delivered(delivery) = &event.what {
            let lease = &delivery.lease;
            let place = (&*lease.topic, lease.partition, lease.offset);
            places.entry(delivery.message.body).or_default().insert(place);
        }
    }
    places
}
