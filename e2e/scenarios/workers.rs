//! `workers BINARY`: runs each worker of `examples/` against the real server on SQLite. The first
//! worker is killed with SIGKILL while it holds a message, then the server while the second worker
//! is running. In the end every message is settled, none is a dead letter, and every effect exists.
#![expect(clippy::print_stdout, reason = "command-line program")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use driftq_e2e::api::Api;
use driftq_e2e::broker::Broker;
use driftq_e2e::directory::Directory;
use driftq_e2e::worker::Worker;
use serde_json::{Value, json};
use tokio::process::Command;

/// A topic and the command that runs its worker.
const EXAMPLES: [(&str, &[&str]); 2] = [
    ("python", &["python3", "worker.py"]),
    ("typescript", &["npx", "--yes", "tsx@4.23.15", "worker.ts"]),
];
const MESSAGES: usize = 20;
/// The value of each message: seconds of work, long enough to kill a worker in the middle.
const WORK: &str = "0.1";
const GROUP: &str = "workers";
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let binary = std::env::args().nth(1).context("usage: workers BINARY")?;
    let began = Instant::now();
    let data = Directory::make()?;
    let mut broker = Broker::start(&binary, &data.path().join("data"), None).await?;
    let queue = broker.api()?;
    for (topic, program) in EXAMPLES {
        let run = Run::begin(&queue, topic, program).await?;
        run.worker_that_dies(&queue).await?;
        let _second = run.worker()?;
        run.until(&queue, "half of the effects", |done, _| done >= MESSAGES / 2).await?;
        ensure!(run.done()?.len() < MESSAGES, "{topic}: the server would be killed too late");
        broker.kill().await?;
        broker.start_again(None).await?;
        run.until(&queue, "an empty backlog", |_, group| group["backlog"] == 0).await?;
        run.check(&queue).await?;
        std::fs::remove_dir_all(&run.effects)?;
        println!("{topic}: {MESSAGES} of {MESSAGES} settled");
    }
    broker.kill().await?;
    println!("examples {}, {} s", EXAMPLES.len(), began.elapsed().as_secs());
    Ok(())
}

/// One example under test.
struct Run {
    topic: &'static str,
    program: &'static [&'static str],
    /// The URL of the server, for its workers.
    url: String,
    /// Directory in which the workers create one file per effect.
    effects: PathBuf,
    produced: BTreeSet<String>,
}

impl Run {
    async fn begin(
        queue: &Api,
        topic: &'static str,
        program: &'static [&'static str],
    ) -> anyhow::Result<Run> {
        let retry = json!({ "max_attempts": 20, "backoff_ms": 100, "max_backoff_ms": 100 });
        let settings = json!({ "lease_ms": 1_000, "retry_policy": retry });
        queue.post("topics", &json!({ "name": topic, "settings": settings })).await?.ok()?;
        queue.put(&format!("topics/{topic}/groups/{GROUP}"), &json!({})).await?.ok()?;
        let messages = vec![json!({ "topic": topic, "value": WORK }); MESSAGES];
        let stored = queue.post("produce/batch", &json!({ "messages": messages })).await?.ok()?;
        let receipts = stored["results"].as_array().context("a list of receipts")?;
        let ids = receipts.iter().filter_map(|receipt| receipt["id"].as_str());
        let produced: BTreeSet<String> = ids.map(str::to_owned).collect();
        ensure!(produced.len() == MESSAGES, "stored {} of {MESSAGES}", produced.len());
        let name = format!("driftq-examples-{}-{topic}", std::process::id());
        let effects = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&effects)?;
        let url = queue.url().to_owned();
        Ok(Run { topic, program, url, effects, produced })
    }

    fn worker(&self) -> anyhow::Result<Worker> {
        let (script, program) = self.program.split_last().context("a script")?;
        let (program, arguments) = program.split_first().context("what runs it")?;
        let script = std::env::current_dir()?.join("examples").join(script);
        let mut command = Command::new(program);
        command.args(arguments).arg(script).args([self.topic, GROUP]);
        Worker::start(command.current_dir(&self.effects).env("DRIFTQ_URL", &self.url))
    }

    /// Starts a worker and kills it while it holds a message.
    async fn worker_that_dies(&self, queue: &Api) -> anyhow::Result<()> {
        let worker = self.worker()?;
        let began = Instant::now();
        loop {
            self.until(queue, "three effects", |done, _| done >= 3).await?;
            worker.signal("STOP")?;
            // The worker is stopped, so a message that is leased now stays leased.
            let group = self.group(queue).await?;
            ensure!(self.done()?.len() < MESSAGES, "{}: killed too late", self.topic);
            if group["leased"] == 1 {
                return Ok(());
            }
            worker.signal("CONT")?;
            ensure!(began.elapsed() < TIMEOUT, "{} never holds a message", self.topic);
        }
    }

    async fn group(&self, queue: &Api) -> anyhow::Result<Value> {
        Ok(queue.get(&format!("topics/{}/groups/{GROUP}", self.topic)).await?.ok()?)
    }

    /// Returns the messages whose effect exists.
    fn done(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut done = BTreeSet::new();
        for file in std::fs::read_dir(&self.effects)? {
            done.insert(file?.file_name().to_string_lossy().into_owned());
        }
        Ok(done)
    }

    /// Waits until effects and group satisfy a condition.
    async fn until(
        &self,
        queue: &Api,
        what: &str,
        is_so: impl Fn(usize, &Value) -> bool,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let (done, group) = (self.done()?.len(), self.group(queue).await?);
            if is_so(done, &group) {
                return Ok(());
            }
            let topic = self.topic;
            ensure!(began.elapsed() < TIMEOUT, "{topic}: timeout: {what}; {done} effects, {group}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn check(&self, queue: &Api) -> anyhow::Result<()> {
        let topic = queue.get(&format!("topics/{}", self.topic)).await?.ok()?;
        ensure!(topic["dead_letters"] == 0, "{}: has dead letters", self.topic);
        ensure!(self.done()? == self.produced, "{}: an effect is missing or extra", self.topic);
        Ok(())
    }
}
