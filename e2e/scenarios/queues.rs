//! `queues BINARY`: runs the code of `docs/how-to/keep-your-queue.md`, as printed there, in real
//! workers of other queues, next to the real server on SQLite. The files that the page calls yours
//! are in `e2e/queues`. Of twenty orders:
//!
//! 1. Some are charged but not completed when their worker is killed with SIGKILL. Later the server
//!    is killed too.
//! 2. One is declined. Two get no answer, and one of these two was charged.
//!
//! The operator inspects the effects listed as in doubt and resolves them. In the end every job has
//! completed, and every card that was not declined was charged exactly once.
#![expect(clippy::print_stdout, reason = "command-line program")]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use driftq_e2e::broker::Broker;
use driftq_e2e::directory::Directory;
use driftq_e2e::worker::Worker;
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

const PAGE: &str = "docs/how-to/keep-your-queue.md";
const YOURS: &str = "e2e/queues";
const ORDERS: usize = 20;
const DECLINED: &str = "order-3";
const CHARGED_WITHOUT_ANSWER: &str = "order-7";
const LOST_ON_THE_WAY: &str = "order-11";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A queue other than DriftQ.
struct Queue {
    name: &'static str,
    /// Run before its first worker.
    prepare: &'static str,
    worker: &'static str,
    /// Sends the orders, prints a line, waits until all have completed, and prints how they ended.
    orders: &'static str,
}

const QUEUES: [Queue; 2] = [
    Queue {
        name: "celery",
        // SQS is not available here, so its worker is compiled but not run.
        prepare: "python3 -m py_compile sqs.py",
        worker: "celery --quiet --app jobs worker --loglevel error",
        orders: "python3 orders.py",
    },
    Queue {
        name: "bullmq",
        prepare: "npm install --silent --no-package-lock --omit optional",
        worker: "node worker.mjs",
        orders: "node orders.mjs",
    },
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let binary = std::env::args().nth(1).context("usage: queues BINARY")?;
    let began = Instant::now();
    let directory = Directory::make()?;
    // Most of the time is spent waiting for leases to expire, so the queues run concurrently.
    try_join_all(QUEUES.map(|queue| run_queue(&binary, directory.path(), queue))).await?;
    println!("keep-your-queue {}, {} s", QUEUES.len(), began.elapsed().as_secs());
    Ok(())
}

async fn run_queue(binary: &str, directory: &Path, queue: Queue) -> anyhow::Result<()> {
    let name = queue.name;
    let deployment = Deployment::open(binary, &directory.join(name), queue).await.context(name)?;
    let log = deployment.directory.join("workers.log");
    deployment.run_orders().await.context(name).inspect_err(|_| {
        println!("{}", std::fs::read_to_string(log).unwrap_or_default());
    })
}

/// A user who keeps their own queue and uses only the effect ledger.
struct Deployment {
    queue: Queue,
    /// Directory of the workers and the charges.
    directory: PathBuf,
    broker: Broker,
    _redis: Worker,
}

impl Deployment {
    async fn open(binary: &str, directory: &Path, queue: Queue) -> anyhow::Result<Deployment> {
        std::fs::create_dir_all(directory)?;
        for file in std::fs::read_dir(YOURS)? {
            let file = file?;
            std::fs::copy(file.path(), directory.join(file.file_name()))?;
        }
        let page = std::fs::read_to_string(PAGE)?;
        for (name, code) in files(&page) {
            std::fs::write(directory.join(name), code)?;
        }
        let broker = Broker::start(binary, &directory.join("data"), None).await?;
        let mut redis = Command::new("redis-server");
        redis.args(["--port", "0", "--save", "", "--unixsocket", "redis.socket"]);
        let redis = Worker::start(redis.current_dir(directory).stdout(Stdio::null()))?;
        let began = Instant::now();
        while UnixStream::connect(directory.join("redis.socket")).await.is_err() {
            ensure!(began.elapsed() < TIMEOUT, "redis-server is not ready");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let directory = directory.to_owned();
        let deployment = Deployment { queue, directory, broker, _redis: redis };
        let prepared = deployment.command(deployment.queue.prepare).status().await?;
        ensure!(prepared.success(), "{}: {prepared}", deployment.queue.prepare);
        Ok(deployment)
    }

    fn command(&self, line: &str) -> Command {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .current_dir(&self.directory)
            .env("DRIFTQ_URL", self.broker.url().trim_end_matches("/v1"))
            .env("REDIS", self.directory.join("redis.socket"))
            .kill_on_drop(true);
        command
    }

    async fn run_orders(mut self) -> anyhow::Result<()> {
        let mut orders = self.command(self.queue.orders);
        let mut orders = orders.stdout(Stdio::piped()).spawn()?;
        let mut message = BufReader::new(orders.stdout.take().context("it is piped")?).lines();
        message.next_line().await?.context("the orders were not sent")?;
        let killed = self.worker_that_dies().await?;
        let _second = self.worker()?;
        self.until("half of the orders", |charges| charges.answered.len() >= ORDERS / 2).await?;
        self.broker.kill().await?;
        self.broker.start_again(None).await?;
        let doubted = self.resolve_all(&mut orders).await?;
        let ended = message.next_line().await?.context("the orders printed no results")?;
        self.check(&serde_json::from_str(&ended)?)?;
        for order in &killed {
            let is_listed = doubted.get(order).is_some_and(|cause| cause == "lease_expired");
            ensure!(is_listed, "{order} was interrupted but is not listed: {doubted:?}");
        }
        for order in [CHARGED_WITHOUT_ANSWER, LOST_ON_THE_WAY] {
            let is_listed = doubted.get(order).is_some_and(|cause| cause == "reported");
            ensure!(is_listed, "{order} got no answer but is not listed: {doubted:?}");
        }
        let name = self.queue.name;
        println!("{name}: {ORDERS} orders, none charged twice; in doubt: {doubted:?}");
        self.broker.kill().await
    }

    fn worker(&self) -> anyhow::Result<Worker> {
        let log =
            File::options().create(true).append(true).open(self.directory.join("workers.log"))?;
        Worker::start(self.command(self.queue.worker).stdout(log.try_clone()?).stderr(log))
    }

    /// Starts a worker and kills it while cards are charged whose jobs have not completed. Returns
    /// their orders.
    async fn worker_that_dies(&self) -> anyhow::Result<Vec<String>> {
        let worker = self.worker()?;
        let began = Instant::now();
        loop {
            self.until("three charged orders", |charges| charges.answered.len() >= 3).await?;
            worker.signal("STOP")?;
            let middle = self.charges()?.in_the_middle();
            if !middle.is_empty() {
                return Ok(middle);
            }
            worker.signal("CONT")?;
            ensure!(began.elapsed() < TIMEOUT, "no worker was ever between charge and finish");
        }
    }

    /// Resolves every effect in doubt until all orders have completed. Returns the cause of each
    /// doubt.
    async fn resolve_all(&self, orders: &mut Child) -> anyhow::Result<BTreeMap<String, String>> {
        let api = self.broker.api()?;
        let mut doubted = BTreeMap::new();
        let began = Instant::now();
        while orders.try_wait()?.is_none() {
            let charges = self.charges()?;
            ensure!(
                began.elapsed() < TIMEOUT,
                "not completed in time; in doubt: {doubted:?}; {charges:?}"
            );
            let list = api.get("effects?state=PARKED&scope=op/charge").await?.ok()?;
            for effect in list["effects"].as_array().context("a list")? {
                let order = effect["key"].as_str().context("a key")?;
                let cause = effect["doubt"]["cause"].as_str().context("a cause")?;
                doubted.insert(order.to_owned(), cause.to_owned());
                self.resolve(order, &effect["fence"]).await?;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(doubted)
    }

    async fn resolve(&self, order: &str, fence: &Value) -> anyhow::Result<()> {
        let mut message = json!({ "scope": "op/charge", "key": order, "fence": fence, "by": "ops",
                               "reason": "looked at the charges" });
        if self.charges()?.charged.contains_key(order) {
            message["as"] = json!("succeeded");
            message["result"] = receipt(order);
        } else {
            message["as"] = json!("retry");
        }
        self.broker.api()?.post("effects/resolve", &message).await?.ok()?;
        Ok(())
    }

    fn check(&self, ended: &Value) -> anyhow::Result<()> {
        let charges = self.charges()?;
        for order in (0..ORDERS).map(|number| format!("order-{number}")) {
            let (end, charged) = (&ended[&order], charges.charged.get(&order).copied());
            let (wanted, times) = match order.as_str() {
                DECLINED => (json!("the card is declined"), None),
                _ => (receipt(&order), Some(1)),
            };
            ensure!(*end == wanted, "{order} ended with {end}, not with {wanted}");
            ensure!(charged == times, "{order} was charged {charged:?} times");
        }
        Ok(())
    }

    fn charges(&self) -> anyhow::Result<Charges> {
        let path = self.directory.join("charges");
        let text = if path.exists() { std::fs::read_to_string(path)? } else { String::new() };
        let mut charges = Charges::default();
        for line in text.lines() {
            let (what, rest) = line.split_once(' ').context("two words")?;
            let order = rest.split(' ').next().unwrap_or_default().to_owned();
            let count = match what {
                "charged" => charges.charged.entry(order),
                _ => charges.answered.entry(order),
            };
            *count.or_default() += 1;
        }
        Ok(charges)
    }

    /// Waits until the charges satisfy a condition.
    async fn until(&self, what: &str, is_so: impl Fn(&Charges) -> bool) -> anyhow::Result<()> {
        let began = Instant::now();
        while !is_so(&self.charges()?) {
            let (queue, charges) = (self.queue.name, self.charges()?);
            ensure!(began.elapsed() < TIMEOUT, "{queue}: timeout: {what}; {charges:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

/// How often each order was charged, and how often a worker received the answer.
#[derive(Debug, Default)]
struct Charges {
    charged: BTreeMap<String, usize>,
    answered: BTreeMap<String, usize>,
}

impl Charges {
    fn in_the_middle(&self) -> Vec<String> {
        let is_open = |order: &&String| {
            !self.answered.contains_key(*order) && *order != CHARGED_WITHOUT_ANSWER
        };
        self.charged.keys().filter(is_open).cloned().collect()
    }
}

/// The answer of the payment provider.
fn receipt(order: &str) -> Value {
    json!({ "charge": format!("ch-{order}") })
}

/// Returns the code blocks of the page whose first line is a comment with a file name.
fn files(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let code = blocks.filter_map(|block| Some(block.split_once('\n')?.1));
    code.filter_map(|code| {
        let first = code.lines().next()?;
        let name = first.strip_prefix("# ").or_else(|| first.strip_prefix("// "))?;
        Some((name, code))
    })
    .collect()
}
