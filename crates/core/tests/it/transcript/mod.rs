//! Transcripts: a test is a text that is both script and expectation.
//!
//! A line at the margin is a command, with the time at which it comes; indented lines are what the shard
//! answers, changes and does. `UPDATE_EXPECT=1` rewrites them. After every command the shard is rebuilt
//! from its rows and must be what it was, and its state must make sense.

mod print;
mod script;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driftq_core::{
    Batch, Command, ConsumerId, Damaged, Image, Input, LeaseToken, MessageId, Output, Pipeline,
    PipelineConfig, Recovery, Shard, ShardConfig, ShardId, Ticket, Timestamp,
};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine, Memory, Ownership};
use expect_test::Expect;

/// Plays a transcript and compares.
#[track_caller]
pub(crate) fn check(transcript: Expect) {
    let played = play(transcript.data(), ShardConfig::default());
    transcript.assert_eq(&played);
}

/// The same, with other settings by default.
#[track_caller]
pub(crate) fn check_with(config: ShardConfig, transcript: Expect) {
    let played = play(transcript.data(), config);
    transcript.assert_eq(&played);
}

fn play(text: &str, config: ShardConfig) -> String {
    let mut world = World::new(config);
    let mut played = String::new();
    let mut commands = 0;
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start().len();
    let margin = lines().map(indent).min().unwrap_or(0);
    for line in lines().filter(|line| indent(line) == margin).map(str::trim) {
        commands += 1;
        played += &format!("{line}\n");
        for said in world.play(line) {
            played += &format!("    {said}\n");
        }
    }
    assert!(commands > 0, "a transcript has commands");
    played
}

/// A shard on the memory engine, and what its callers remember.
pub(crate) struct World {
    pub(crate) engine: Memory,
    clock: Arc<AtomicU64>,
    config: ShardConfig,
    ownership: Ownership,
    pipeline: Option<Pipeline>,
    now: Timestamp,
    next_ticket: u64,
    consumers: BTreeMap<String, ConsumerId>,
    /// Tokens by what the script calls them: `orders/biller 0:3.1`.
    tokens: BTreeMap<String, LeaseToken>,
    /// Dead letters by `topic partition:offset`.
    dead: BTreeMap<String, MessageId>,
    lines: Vec<String>,
}

/// Claims a shard and reads it back.
pub(crate) fn recover(
    engine: &Memory,
    config: &ShardConfig,
) -> Result<(Ownership, Pipeline), Damaged> {
    let (ownership, now) = wait(engine.claim(config.shard)).expect("memory does not fail");
    let recovered = reread(engine, ownership, config)?;
    let pipeline = Pipeline::new(recovered, ownership.epoch, now, PipelineConfig::default());
    Ok((ownership, pipeline))
}

fn reread(
    engine: &Memory,
    ownership: Ownership,
    config: &ShardConfig,
) -> Result<driftq_core::Recovered, Damaged> {
    let mut recovery = Recovery::new(config.clone());
    let mut rows = Vec::new();
    wait(engine.load(ownership, &mut |row| rows.push(row))).expect("memory does not fail");
    for row in rows {
        recovery.row(row)?;
    }
    recovery.loaded()?;
    while let Some(read) = recovery.next_read() {
        let mut answers = wait(engine.read(ownership, vec![read])).expect("memory does not fail");
        recovery.read(&answers.remove(0))?;
    }
    Ok(recovery.finish())
}

impl World {
    pub(crate) fn new(config: ShardConfig) -> World {
        let clock = Arc::new(AtomicU64::new(0));
        let authority = clock.clone();
        let engine = Memory::new(move || Timestamp(authority.load(Ordering::Relaxed)));
        let (ownership, pipeline) = recover(&engine, &config).expect("nothing is damaged");
        World {
            engine,
            clock,
            config,
            ownership,
            pipeline: Some(pipeline),
            now: Timestamp(0),
            next_ticket: 0,
            consumers: BTreeMap::new(),
            tokens: BTreeMap::new(),
            dead: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    fn shard(&self) -> &Shard {
        self.pipeline.as_ref().expect("only missing during a crash").shard()
    }

    fn play(&mut self, line: &str) -> Vec<String> {
        let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
        let until = script::time(time);
        // Time passes step by step, as it does for a server that sleeps until something is due.
        while let Some(due) = self.pipeline.as_ref().and_then(Pipeline::next_deadline)
            && due <= until
        {
            self.set_now(due.max(self.now));
            if !self.turn() {
                break;
            }
        }
        self.set_now(until);
        match rest {
            "" | "wait" => {}
            "crash" => self.crash(),
            rows if rows.starts_with("rows ") => self.count_rows(&rows[5..]),
            command => {
                let command = script::parse(self, command);
                self.send(command);
            }
        }
        while self.turn() {}
        self.check();
        std::mem::take(&mut self.lines)
    }

    fn set_now(&mut self, now: Timestamp) {
        assert!(now >= self.now, "time does not go back in a transcript");
        self.now = now;
        self.clock.store(now.0, Ordering::Relaxed);
    }

    fn crash(&mut self) {
        self.consumers.clear();
        self.pipeline = None;
        let (ownership, pipeline) =
            recover(&self.engine, &self.config).expect("nothing is damaged");
        self.ownership = ownership;
        self.pipeline = Some(pipeline);
    }

    fn count_rows(&mut self, table: &str) {
        let counts = self.engine.count(ShardId(0));
        let count = counts.iter().find(|(name, _)| format!("{name:?}").to_lowercase() == table);
        self.lines.push(format!("{}", count.map_or(0, |(_, count)| *count)));
    }

    fn send(&mut self, command: Command) {
        self.next_ticket += 1;
        let arrived = Input::Arrived(Ticket(self.next_ticket), command);
        self.feed(arrived);
    }

    fn feed(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.pipeline.as_mut().expect("alive").on(self.now, input, &mut outputs);
        self.perform(outputs);
    }

    /// One turn of the pipeline, with everything it asks for done at once. Whether there was anything.
    fn turn(&mut self) -> bool {
        let mut outputs = Vec::new();
        self.pipeline.as_mut().expect("alive").turn(self.now, &mut outputs);
        let is_busy = !outputs.is_empty();
        self.perform(outputs);
        is_busy
    }

    fn perform(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::StartRead(id, reads) => {
                    let rows = wait(self.engine.read(self.ownership, reads))
                        .expect("memory does not fail");
                    self.feed(Input::ReadDone(id, rows));
                }
                Output::StartCommit(batch, writes) => {
                    wait(self.engine.commit(self.ownership, batch.no, writes))
                        .expect("memory does not fail");
                    self.feed(Input::CommitDone(batch.no));
                }
                Output::Release(release) => self.show(&release.batch),
                Output::Die(damaged) => panic!("{damaged}"),
            }
        }
    }

    fn show(&mut self, batch: &Batch) {
        let lines = print::batch(self, batch);
        self.lines.extend(lines);
    }

    /// A shard rebuilt from its rows is the shard that wrote them, and makes sense.
    fn check(&self) {
        assert_eq!(self.shard().violation(), None);
        let copy = self.engine.snapshot();
        let (ownership, _) = wait(copy.claim(self.config.shard)).expect("memory does not fail");
        let recovered = reread(&copy, ownership, &self.config).expect("nothing is damaged");
        let pipeline =
            Pipeline::new(recovered, ownership.epoch, self.now, PipelineConfig::default());
        let (is, was): (Image, Image) = (pipeline.shard().image(), self.shard().image());
        assert_eq!(is, was, "a recovery differs");
        assert_eq!(pipeline.shard().violation(), None, "after a recovery");
    }
}
