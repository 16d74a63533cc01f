//! The WAL position of PostgreSQL (timeline and LSN) at each acknowledgement.
//!
//! A task polls the primary. An acknowledgement between two polls lies between their positions. A
//! failover ends a timeline at some position. An acknowledgement beyond that position is lost,
//! whether or not a client notices.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use driftq_checker::history::{Event, What};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio::task::JoinHandle;

use crate::history::History;

/// Polling interval, timeout, and the pause before another node is polled. The first answer may
/// take longer, because nodes that do not answer are tried before the primary, each up to the
/// connection timeout.
const EVERY: Duration = Duration::from_millis(50);
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(10);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The timeline is the first part of a WAL file name.
const ASK: &[u8] =
    b"SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), pg_current_wal_lsn();\n";
/// The ends of all earlier timelines, one per line.
pub(crate) const HISTORY: &str = "SELECT pg_read_file('pg_wal/' ||
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '.history')";

/// A position in the WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    timeline: u32,
    lsn: u64,
}

/// A position, and when it was requested and received, in milliseconds of the history.
#[derive(Debug, Clone, Copy)]
struct Sample {
    asked: u64,
    heard: u64,
    position: Position,
}

/// A task that polls the primary until this is dropped.
pub(crate) struct Positions {
    samples: Arc<Mutex<Vec<Sample>>>,
    task: JoinHandle<()>,
}

impl Positions {
    pub(crate) fn start(url: String, history: Arc<History>) -> Positions {
        let samples = Arc::<Mutex<Vec<Sample>>>::default();
        let acknowledged_decisions = Arc::clone(&samples);
        let task = tokio::spawn(async move {
            loop {
                // The node is down or no longer the primary, so another is polled.
                let _failed = ask(&url, &history, &acknowledged_decisions).await;
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        });
        Positions { samples, task }
    }

    /// Waits until a sample from a later timeline has arrived. From then on samples from this
    /// timeline are rejected, even if the old primary has not yet noticed that it was replaced.
    pub(crate) async fn beyond(&self, timeline: &str, patience: Duration) -> anyhow::Result<()> {
        let timeline = u32::from_str_radix(timeline, 16)?;
        let heard = async {
            while last(&self.samples.lock().unwrap_or_else(PoisonError::into_inner)) <= timeline {
                tokio::time::sleep(EVERY).await;
            }
        };
        tokio::time::timeout(patience, heard).await.context("no sample from a later timeline")
    }

    /// Classifies all acknowledgements. `ends` is the last primary's history of earlier timelines.
    pub(crate) fn judge(&self, events: &[Event], ends: &str) -> anyhow::Result<Acknowledgements> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        anyhow::ensure!(!samples.is_empty(), "PostgreSQL was never reached");
        let ends: BTreeMap<u32, u64> = ends.lines().filter_map(end).collect();
        Ok(judge(&samples, events, &ends))
    }
}

impl Drop for Positions {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn ask(url: &str, history: &History, samples: &Mutex<Vec<Sample>>) -> anyhow::Result<()> {
    let mut psql = Command::new("psql");
    psql.args([url, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]);
    psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut psql = psql.kill_on_drop(true).spawn().context("start psql")?;
    let mut input = psql.stdin.take().context("its input is piped")?;
    let mut lines = BufReader::new(psql.stdout.take().context("its output is piped")?).lines();
    let mut within = FIRST_ANSWER_WITHIN;
    loop {
        let asked = history.now();
        input.write_all(ASK).await?;
        let line = tokio::time::timeout(within, lines.next_line()).await??;
        let position = read(&line.context("psql has exited")?).context("no position")?;
        note(samples, Sample { asked, heard: history.now(), position })?;
        within = ANSWER_WITHIN;
        tokio::time::sleep(EVERY).await;
    }
}

/// The timeline of the last sample, or 0 if there is none.
fn last(samples: &[Sample]) -> u32 {
    samples.last().map_or(0, |last| last.position.timeline)
}

fn note(samples: &Mutex<Vec<Sample>>, sample: Sample) -> anyhow::Result<()> {
    let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
    // A former primary may not know yet that it was replaced.
    anyhow::ensure!(sample.position.timeline >= last(&samples), "no longer the primary");
    samples.push(sample);
    Ok(())
}

/// Parses `00000003|0/5000098`.
fn read(line: &str) -> Option<Position> {
    let (timeline, place) = line.split_once('|')?;
    Some(Position { timeline: u32::from_str_radix(timeline, 16).ok()?, lsn: lsn(place)? })
}

/// Parses a line such as `2<TAB>0/5000098<TAB>no recovery target specified`.
fn end(line: &str) -> Option<(u32, u64)> {
    let mut fields = line.split_whitespace();
    Some((fields.next()?.parse().ok()?, lsn(fields.next()?)?))
}

fn lsn(place: &str) -> Option<u64> {
    let (high, low) = place.split_once('/')?;
    Some(u64::from_str_radix(high, 16).ok()? << 32 | u64::from_str_radix(low, 16).ok()?)
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { timeline, lsn } = self;
        write!(f, "({timeline}, {:X}/{:X})", lsn >> 32, lsn & u64::from(u32::MAX))
    }
}

/// Counts of acknowledgements.
#[derive(Default)]
pub(crate) struct Acknowledgements {
    all: u64,
    /// Acknowledgements whose upper position is part of the last timeline, so they are kept.
    kept: u64,
    /// Acknowledgements of requests that were sent when their timeline was already beyond its end,
    /// so they are lost.
    pub(crate) beyond: u64,
    /// A description of the first lost one.
    first: Option<String>,
}

fn judge(samples: &[Sample], events: &[Event], ends: &BTreeMap<u32, u64>) -> Acknowledgements {
    let mut invoked = HashMap::new();
    let mut oks = Acknowledgements::default();
    for event in events {
        match &event.what {
            What::Invoked { call, .. } => {
                invoked.insert(*call, event.at);
            }
            What::Done { call, .. } => {
                oks.all += 1;
                let asked = invoked.remove(call).unwrap_or(event.at);
                let before = samples[..samples.partition_point(|one| one.heard < asked)].last();
                let after = samples.get(samples.partition_point(|one| one.asked <= event.at));
                let (Some(before), Some(after)) = (before, after) else { continue };
                let (before, after) = (before.position, after.position);
                let Some(end) =
                    ends.get(&before.timeline).filter(|_| before.timeline == after.timeline)
                else {
                    oks.kept += u64::from(before.timeline == after.timeline);
                    continue;
                };
                oks.kept += u64::from(after.lsn <= *end);
                if before.lsn >= *end {
                    oks.beyond += 1;
                    let end = Position { timeline: before.timeline, lsn: *end };
                    oks.first.get_or_insert_with(|| {
                        format!("call {call}, between {before} and {after}, ended at {end}")
                    });
                }
            }
            _ => {}
        }
    }
    oks
}

impl fmt::Display for Acknowledgements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Acknowledgements { all, kept, beyond, first } = self;
        write!(
            f,
            "ok {all}, by (timeline, LSN) kept {kept}, beyond the end of a timeline {beyond}"
        )?;
        first.iter().try_for_each(|first| write!(f, " ({first})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftq_checker::history::{Op, Reply};

    #[test]
    fn what_is_acknowledged_beyond_the_end_of_its_timeline_is_seen() {
        let at = |ms: u64, timeline: u32, lsn: u64| Sample {
            asked: ms,
            heard: ms + 1,
            position: Position { timeline, lsn },
        };
        let samples =
            [at(0, 1, 10), at(100, 1, 20), at(200, 1, 40), at(300, 1, 50), at(400, 2, 35)];
        let samples = [&samples[..], &[at(500, 2, 60)]].concat();
        let calls = [(10, 20), (110, 120), (210, 220), (310, 320), (410, 420)];
        let events: Vec<Event> = (1..)
            .zip(calls)
            .flat_map(|(call, (asked, heard))| {
                let invoked = What::Invoked { call, op: Op::Look };
                let done = What::Done { call, reply: Reply::Ok };
                [(asked, invoked), (heard, done)]
            })
            .zip(0..)
            .map(|((at, what), seq)| Event { seq, at, process: 0, what })
            .collect();
        let ends = "1\t0/1E\tno recovery target specified".lines().filter_map(end).collect();
        let oks = judge(&samples, &events, &ends);
        // The second may be lost, the third is lost, and the fourth is between two timelines.
        assert_eq!((oks.all, oks.kept, oks.beyond), (5, 2, 1));
        let first = "call 3, between (1, 0/28) and (1, 0/32), ended at (1, 0/1E)";
        assert_eq!(oks.first.as_deref(), Some(first));
    }

    #[test]
    fn who_is_on_an_older_timeline_is_not_believed() {
        let at = |timeline| Sample { asked: 0, heard: 1, position: Position { timeline, lsn: 10 } };
        let samples = Mutex::default();
        assert!(note(&samples, at(1)).is_ok() && note(&samples, at(2)).is_ok());
        assert!(note(&samples, at(1)).is_err());
        assert_eq!(samples.into_inner().expect("not poisoned").len(), 2);
    }

    #[test]
    fn what_psql_prints_is_read() {
        assert_eq!(read("0000000A|1/FF"), Some(Position { timeline: 10, lsn: (1 << 32) | 255 }));
        assert_eq!(read(""), None);
    }
}
