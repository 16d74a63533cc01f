//! Where in its log PostgreSQL was when something was acknowledged: on which timeline, and how far.
//!
//! Somebody asks the primary all the time. What was acknowledged between two answers lies between them. A failover ends
//! a timeline at some place; what was acknowledged beyond that is lost, whether or not somebody misses it.

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

/// How often it is asked, how long an answer may take, and how soon somebody else is asked then. The first answer may
/// take longer: those who say nothing are asked before the primary, each for as long as a connection may take.
const EVERY: Duration = Duration::from_millis(50);
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(10);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The timeline stands first in the name of a file of the log.
const ASK: &[u8] =
    b"SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), pg_current_wal_lsn();\n";
/// Where the timelines before the one in force ended, line by line.
pub(crate) const HISTORY: &str = "SELECT pg_read_file('pg_wal/' ||
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '.history')";

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    timeline: u32,
    lsn: u64,
}

/// A place, and when it was asked for and heard of, in milliseconds of the history.
#[derive(Debug, Clone, Copy)]
struct Sample {
    asked: u64,
    heard: u64,
    position: Position,
}

/// Somebody who asks the primary until this is dropped.
pub(crate) struct Positions {
    samples: Arc<Mutex<Vec<Sample>>>,
    task: JoinHandle<()>,
}

impl Positions {
    pub(crate) fn start(url: String, history: Arc<History>) -> Positions {
        let samples = Arc::<Mutex<Vec<Sample>>>::default();
        let told = Arc::clone(&samples);
        let task = tokio::spawn(async move {
            loop {
                // It is gone, or no primary any more: another is asked.
                let _failed = ask(&url, &history, &told).await;
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        });
        Positions { samples, task }
    }

    /// Waits until somebody was heard of who is beyond this timeline. From then on nobody on it is believed, however
    /// long he takes to learn that he is no primary any more.
    pub(crate) async fn beyond(&self, timeline: &str, patience: Duration) -> anyhow::Result<()> {
        let timeline = u32::from_str_radix(timeline, 16)?;
        let heard = async {
            while last(&self.samples.lock().unwrap_or_else(PoisonError::into_inner)) <= timeline {
                tokio::time::sleep(EVERY).await;
            }
        };
        tokio::time::timeout(patience, heard).await.context("the next timeline is not heard of")
    }

    /// Where what was acknowledged lies. `ends`: what the last primary says of timelines before its own.
    pub(crate) fn judge(&self, events: &[Event], ends: &str) -> anyhow::Result<Oks> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        anyhow::ensure!(!samples.is_empty(), "PostgreSQL was never heard of");
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
        let position = read(&line.context("psql has ended")?).context("no position")?;
        note(samples, Sample { asked, heard: history.now(), position })?;
        within = ANSWER_WITHIN;
        tokio::time::sleep(EVERY).await;
    }
}

/// The timeline that was heard of last; none is 0.
fn last(samples: &[Sample]) -> u32 {
    samples.last().map_or(0, |last| last.position.timeline)
}

fn note(samples: &Mutex<Vec<Sample>>, sample: Sample) -> anyhow::Result<()> {
    let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
    // One that was a primary once does not always know yet that it is none.
    anyhow::ensure!(sample.position.timeline >= last(&samples), "another is the primary");
    samples.push(sample);
    Ok(())
}

/// Reads `00000003|0/5000098`.
fn read(line: &str) -> Option<Position> {
    let (timeline, place) = line.split_once('|')?;
    Some(Position { timeline: u32::from_str_radix(timeline, 16).ok()?, lsn: lsn(place)? })
}

/// Reads a line as `2<TAB>0/5000098<TAB>no recovery target specified`.
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

/// What was acknowledged.
#[derive(Default)]
pub(crate) struct Oks {
    all: u64,
    /// Of these the last timeline has all that was written until after they were heard.
    kept: u64,
    /// These were asked for when their timeline was already beyond the place where it ended.
    pub(crate) beyond: u64,
    /// The first of those, in words.
    first: Option<String>,
}

fn judge(samples: &[Sample], events: &[Event], ends: &BTreeMap<u32, u64>) -> Oks {
    let mut invoked = HashMap::new();
    let mut oks = Oks::default();
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

impl fmt::Display for Oks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Oks { all, kept, beyond, first } = self;
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
        // The second may be lost, the third is, the fourth is somewhere between two timelines.
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
        assert_eq!(samples.into_inner().expect("nobody has panicked").len(), 2);
    }

    #[test]
    fn what_psql_prints_is_read() {
        assert_eq!(read("0000000A|1/FF"), Some(Position { timeline: 10, lsn: (1 << 32) | 255 }));
        assert_eq!(read(""), None);
    }
}
