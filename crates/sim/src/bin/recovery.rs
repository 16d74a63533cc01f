//! Measures that recovery does not depend on the backlog: 10 000 000 messages against 1 000, with
//! equal open state.
#![expect(clippy::print_stdout, reason = "command-line program")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use driftq_core::command::{CreateTopic, GroupName, Join, Peer, Produce, Start, TopicName};
use driftq_core::row::Table;
use driftq_core::{
    Command, ConsumerId, Input, Output, Pipeline, PipelineConfig, Recovery, SettingsPatch,
    ShardConfig, Ticket, Timestamp,
};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine, Memory, Ownership};

const SMALL: u64 = 1_000;
const LARGE: u64 = 10_000_000;
const OPEN: u32 = 400;
const PARTITIONS: u32 = 4;
/// Commits of both histories: equal, so that only the backlog differs.
const BATCHES: u64 = 9_766;
/// Messages of the first commit: enough for the open entries.
const FIRST: u64 = 450;
/// The newest commits, equal in both histories. Their number is that of the commits of the large
/// history since its last checkpoint, so that both recoveries read the same heads.
const NEWEST: u64 = 542;
const NEWEST_MESSAGES: u64 = 550;
const HEADS_MAX: usize = 1_100;
const ROUNDS: usize = 9;
const SLOWER_MAX: f64 = 2.0;

fn main() -> ExitCode {
    let small = fill(SMALL);
    let large = fill(LARGE);
    // Alternates, so that load on the machine affects both.
    let rounds: Vec<(Seen, Seen)> =
        (0..ROUNDS).map(|_| (recover(&small), recover(&large))).collect();
    let small_time = median(rounds.iter().map(|(small, _)| small.time));
    let large_time = median(rounds.iter().map(|(_, large)| large.time));
    let (small, large) = &rounds[0];
    println!("{SMALL} messages: {:?} in {small_time:?}", small.rows);
    println!("{LARGE} messages: {:?} in {large_time:?}", large.rows);
    let count = |seen: &Seen, table| seen.rows.get(&table).copied().unwrap_or(0);
    let without_heads = |seen: &Seen| {
        let mut rows = seen.rows.clone();
        rows.remove(&Table::Head);
        rows
    };
    let slower = large_time.as_secs_f64() / small_time.as_secs_f64();
    let claims = [
        ("no page is read", count(large, Table::Page) == 0),
        ("equal blocks, cursors and small rows", without_heads(small) == without_heads(large)),
        ("at most 1 100 heads", count(large, Table::Head) <= HEADS_MAX),
        ("at most twice the time", slower <= SLOWER_MAX),
    ];
    for (claim, holds) in claims {
        println!("{claim}: {}", if holds { "yes" } else { "NO" });
    }
    println!("recovery of {LARGE} messages takes {slower:.2} times that of {SMALL}");
    if claims.iter().all(|(_, holds)| *holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times[times.len() / 2]
}

/// The rows that a recovery read, and its duration.
struct Seen {
    rows: BTreeMap<Table, usize>,
    time: Duration,
}

fn recover(engine: &Memory) -> Seen {
    let began = Instant::now();
    let mut rows: BTreeMap<Table, usize> = BTreeMap::new();
    let (_, recovery) = read_back(engine, &mut rows);
    let recovered = recovery.finish();
    let (epoch, now) = (driftq_core::Epoch(0), recovered.now);
    let pipeline = Pipeline::new(recovered, epoch, now, PipelineConfig::default());
    let time = began.elapsed();
    assert_eq!(pipeline.shard().open_entries(), u64::from(OPEN), "the open state is recovered");
    Seen { rows, time }
}

fn read_back(engine: &Memory, seen: &mut BTreeMap<Table, usize>) -> (Ownership, Recovery) {
    let config = ShardConfig::default();
    let (ownership, _) = wait(engine.claim(config.shard)).expect("memory does not fail");
    let mut recovery = Recovery::new(config);
    let mut loaded = Vec::new();
    wait(engine.load(ownership, &mut |row| loaded.push(row))).expect("memory does not fail");
    for row in loaded {
        *seen.entry(row.key.table()).or_default() += 1;
        recovery.row(row).expect("no row is damaged");
    }
    recovery.loaded().expect("no row is damaged");
    while let Some(read) = recovery.next_read() {
        let rows =
            wait(engine.read(ownership, vec![read])).expect("memory does not fail").remove(0);
        for row in &rows {
            *seen.entry(row.key.table()).or_default() += 1;
        }
        recovery.read(&rows).expect("no row is damaged");
    }
    (ownership, recovery)
}

/// Creates a shard with `messages` messages after [`BATCHES`] commits. A group has [`OPEN`] of them
/// open.
fn fill(messages: u64) -> Memory {
    let engine = Memory::new(|| Timestamp(1_000_000));
    let (ownership, recovery) = read_back(&engine, &mut BTreeMap::new());
    let now = Timestamp(1_000_000);
    let pipeline =
        Pipeline::new(recovery.finish(), ownership.epoch, now, PipelineConfig::default());
    let mut node = Node { engine, ownership, pipeline, now, next_ticket: 0 };
    let topic = TopicName { namespace: "default".into(), topic: "orders".into() };
    let settings = SettingsPatch {
        max_backlog_messages: Some(u64::MAX),
        max_backlog_bytes: Some(u64::MAX),
        max_in_flight: Some(100_000),
        max_open: Some(100_000),
        ..SettingsPatch::default()
    };
    let name = topic.clone();
    let create = CreateTopic { name, partitions: PARTITIONS, settings, retry_policy: None };
    node.send(Command::CreateTopic(Box::new(create)));
    node.settle_down();
    node.send(Command::Join(Join {
        consumer: ConsumerId(1),
        name: GroupName { topic: topic.clone(), group: "biller".into() },
        owner: "worker".into(),
        lease_ms: Some(43_200_000),
        credit: OPEN,
        credit_bytes: u64::MAX / 2,
        start: Start::Earliest,
        peer: Peer::default(),
    }));
    let mut sent = 0;
    for batch in 0..=BATCHES {
        let due = stored_after(batch, messages);
        for number in sent..due {
            node.send(Command::Produce(Box::new(Produce {
                topic: topic.clone(),
                // Numbered from the end, so that the newest keys are equal.
                key: (messages - number).to_string().into(),
                value: "a message".into(),
                envelope: Default::default(),
                routing: None,
                needs_routing: false,
                trace: None,
                seen: None,
                routed: None,
            })));
        }
        sent = due;
        // A read commits too.
        node.send(Command::ViewTopic(topic.clone()));
        node.settle_down();
    }
    node.engine
}

/// How many of `messages` are stored after `batch` commits.
fn stored_after(batch: u64, messages: u64) -> u64 {
    let old = BATCHES - NEWEST;
    if batch <= old {
        FIRST + (messages - FIRST - NEWEST_MESSAGES) * batch / old
    } else {
        messages - NEWEST_MESSAGES + NEWEST_MESSAGES * (batch - old) / NEWEST
    }
}

struct Node {
    engine: Memory,
    ownership: Ownership,
    pipeline: Pipeline,
    now: Timestamp,
    next_ticket: u64,
}

impl Node {
    fn send(&mut self, command: Command) {
        self.next_ticket += 1;
        let mut outputs = Vec::new();
        self.pipeline.on(self.now, Input::Arrived(Ticket(self.next_ticket), command), &mut outputs);
    }

    fn settle_down(&mut self) {
        self.now = self.now.after(1);
        loop {
            let mut outputs = Vec::new();
            self.pipeline.turn(self.now, &mut outputs);
            if outputs.is_empty() {
                return;
            }
            while let Some(output) = outputs.pop() {
                match output {
                    Output::StartRead(id, reads) => {
                        let rows = wait(self.engine.read(self.ownership, reads))
                            .expect("memory does not fail");
                        self.pipeline.on(self.now, Input::ReadDone(id, rows), &mut outputs);
                    }
                    Output::StartCommit(batch, writes) => {
                        wait(self.engine.commit(self.ownership, batch.no, writes))
                            .expect("memory does not fail");
                        self.pipeline.on(self.now, Input::CommitDone(batch.no), &mut outputs);
                    }
                    Output::Release(_) => {}
                    Output::Damaged(damaged) => panic!("{damaged}"),
                }
            }
        }
    }
}
