//! A writer that inserts rows one by one with `psql` and records which were acknowledged.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Timeout of an insert, and the pause before the next session.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long it may take until enough rows are acknowledged.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) const TABLE: &str = "CREATE TABLE written (number bigint PRIMARY KEY)";
pub(crate) const ROWS: &str = "SELECT number FROM written";

/// Runs until it is dropped.
pub(crate) struct Writer {
    known: Arc<Mutex<Known>>,
    task: JoinHandle<()>,
}

/// Each row is sent once, whatever its outcome.
#[derive(Default)]
struct Known {
    sent: u64,
    acknowledged: Vec<Acknowledged>,
}

struct Acknowledged {
    number: u64,
    sent: Instant,
    heard: Instant,
}

impl Writer {
    pub(crate) fn start(url: String) -> Writer {
        let known = Arc::<Mutex<Known>>::default();
        let task = tokio::spawn(write(url, Arc::clone(&known)));
        Writer { known, task }
    }

    /// Returns the number of rows sent, and the acknowledged rows.
    pub(crate) fn known(&self) -> (u64, BTreeSet<u64>) {
        let known = lock(&self.known);
        (known.sent, known.acknowledged.iter().map(|row| row.number).collect())
    }

    /// Waits until `count` rows that were sent after this call are acknowledged.
    pub(crate) async fn goes_on(&self, count: usize) -> anyhow::Result<()> {
        let began = Instant::now();
        while began.elapsed() < TIMEOUT {
            if lock(&self.known).acknowledged.iter().filter(|row| row.sent >= began).count()
                >= count
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("too few rows acknowledged within {TIMEOUT:?}")
    }

    /// The longest time between two acknowledgements, of those that ended after `since`.
    pub(crate) fn longest_silence(&self, since: Instant) -> Duration {
        let known = lock(&self.known);
        let times = known.acknowledged.windows(2).filter(|rows| rows[1].heard >= since);
        times.map(|rows| rows[1].heard - rows[0].heard).max().unwrap_or_default()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn write(url: String, known: Arc<Mutex<Known>>) {
    loop {
        // After any failure the outcome of the last row is unknown, so it is not sent again.
        let _ended = write_until_failure(&url, &known).await;
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

async fn write_until_failure(url: &str, known: &Mutex<Known>) -> anyhow::Result<()> {
    let mut session = Session::start(url)?;
    loop {
        let number = {
            let mut known = lock(known);
            known.sent += 1;
            known.sent
        };
        let sent = Instant::now();
        tokio::time::timeout(ANSWER_WITHIN, session.insert(number)).await??;
        let heard = Instant::now();
        lock(known).acknowledged.push(Acknowledged { number, sent, heard });
    }
}

struct Session {
    _psql: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Session {
    fn start(url: &str) -> anyhow::Result<Session> {
        let mut psql = Command::new("psql");
        psql.args([url, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut psql = psql.kill_on_drop(true).spawn().context("start psql")?;
        let input = psql.stdin.take().context("its input is piped")?;
        let output = psql.stdout.take().context("its output is piped")?;
        Ok(Session { _psql: psql, input, output: BufReader::new(output).lines() })
    }

    /// Returns when PostgreSQL has reported the commit. `psql` prints no row before that.
    async fn insert(&mut self, number: u64) -> anyhow::Result<()> {
        let statement = format!("INSERT INTO written VALUES ({number}) RETURNING number;\n");
        self.input.write_all(statement.as_bytes()).await?;
        let line = self.output.next_line().await?.context("psql has exited")?;
        anyhow::ensure!(line == number.to_string(), "unexpected answer: {line}");
        Ok(())
    }
}

fn lock(known: &Mutex<Known>) -> std::sync::MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
