//! Transcripts: a test is a text that is both script and expectation.
//!
//! A line at the margin is a command, with the time at which it comes; indented lines are what the shard
//! answers, changes and does. `UPDATE_EXPECT=1` rewrites them. Commands joined by ` + ` come together and
//! are decided in one batch; where a time begins with `@` nobody has looked at the clock before. After every line the shard is rebuilt from its rows and must be what it was,
//! and its state must make sense. Commands, answers and deliveries go the way they go between nodes.

mod effect;
mod print;
mod script;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driftq_core::change::{Action, Change};
use driftq_core::row::Key;
use driftq_core::{
    Batch, Command, CommandResult, ConsumerId, EffectToken, Image, Input, LeaseToken, Message,
    MessageId, Output, Pipeline, PipelineConfig, Shard, ShardConfig, ShardId, Ticket, Timestamp,
};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine, Memory, Ownership, read_back};
use expect_test::Expect;

use crate::node_codec::round_trip;

pub(crate) use print::reply;

/// Turns after which a pipeline that nobody asks anything has to be at rest.
const TURNS_MAX: usize = 10_000;

/// Plays a transcript and compares.
#[track_caller]
pub(crate) fn check(transcript: Expect) {
    let played = play(transcript.data());
    transcript.assert_eq(&played);
}

/// Plays a transcript on one of several shards.
#[track_caller]
pub(crate) fn check_on(shard: u32, shards: u32, transcript: Expect) {
    let config = ShardConfig { shard: ShardId(shard), shards, ..ShardConfig::default() };
    let played = play_on(config, transcript.data());
    transcript.assert_eq(&played);
}

fn play(text: &str) -> String {
    play_on(ShardConfig::default(), text)
}

fn play_on(config: ShardConfig, text: &str) -> String {
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
        world.check();
    }
    assert!(commands > 0, "a transcript has commands");
    played
}

/// A shard on the memory engine, and what its callers remember.
pub(crate) struct World {
    pub(crate) engine: Memory,
    clock: Arc<AtomicU64>,
    pub(crate) config: ShardConfig,
    ownership: Ownership,
    pipeline: Option<Pipeline>,
    now: Timestamp,
    next_ticket: u64,
    consumers: BTreeMap<String, ConsumerId>,
    /// Tokens by what the script calls them: `orders/biller 0:3.1`.
    tokens: BTreeMap<String, LeaseToken>,
    /// Tokens of effects: `op/charge order-77.1`.
    effects: BTreeMap<String, EffectToken>,
    /// Dead letters by `topic partition:offset`.
    dead: BTreeMap<String, MessageId>,
    /// The dead letters themselves, by the same name.
    letters: BTreeMap<String, Arc<Message>>,
    /// What the commands of the last line were answered.
    answers: Vec<CommandResult>,
    lines: Vec<String>,
    groups_written: usize,
    /// Commits that still happen before the storage is out of reach; None: all.
    commits_left: Option<usize>,
}

/// Claims a shard and reads it back.
pub(crate) fn recover(engine: &Memory, config: &ShardConfig) -> (Ownership, Pipeline) {
    let (ownership, now, recovered) =
        wait(driftq_storage::recover(engine, config.clone())).expect("nothing is damaged");
    let pipeline = Pipeline::new(recovered, ownership.epoch, now, PipelineConfig::default());
    (ownership, pipeline)
}

impl World {
    pub(crate) fn new(config: ShardConfig) -> World {
        let clock = Arc::new(AtomicU64::new(0));
        let authority = clock.clone();
        let engine = Memory::new(move || Timestamp(authority.load(Ordering::Relaxed)));
        let (ownership, pipeline) = recover(&engine, &config);
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
            effects: BTreeMap::new(),
            dead: BTreeMap::new(),
            letters: BTreeMap::new(),
            answers: Vec::new(),
            lines: Vec::new(),
            groups_written: 0,
            commits_left: None,
        }
    }

    /// Plays a line of which only the first commits happen; then comes a crash.
    pub(crate) fn play_partly(&mut self, line: &str, commits: usize) {
        self.commits_left = Some(commits);
        self.play(line);
        self.commits_left = None;
        self.crash(self.now);
        self.check();
    }

    /// What the last command of `line` was answered, in words.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.play(line);
        reply(self.answers.last().unwrap_or_else(|| panic!("`{line}` was not answered")))
    }

    /// What a command that a script cannot say is answered, in words.
    pub(crate) fn command(&mut self, command: Command) -> String {
        self.answers.clear();
        self.send(command);
        self.rest();
        reply(self.answers.last().expect("it was answered"))
    }

    /// A dead letter that was seen, by what a script calls it.
    pub(crate) fn letter(&self, name: &str) -> &Message {
        &self.letters[name]
    }

    /// Where a dead letter that was seen is stored, by what a script calls it.
    pub(crate) fn dead_id(&self, name: &str) -> MessageId {
        self.dead[name]
    }

    /// The token of a delivery that was seen, by what a script calls it.
    pub(crate) fn token(&self, name: &str) -> &LeaseToken {
        &self.tokens[name]
    }

    /// A token that nobody was given.
    pub(crate) fn forge(&mut self, name: &str, token: LeaseToken) {
        self.tokens.insert(name.to_owned(), token);
    }

    /// The token of an effect that was seen, changed.
    pub(crate) fn forge_effect(
        &mut self,
        effect: &str,
        name: &str,
        change: impl FnOnce(EffectToken) -> EffectToken,
    ) {
        let token = change(self.effects[effect].clone());
        self.effects.insert(name.to_owned(), token);
    }

    /// How often rows of groups were written.
    pub(crate) fn groups_written(&self) -> usize {
        self.groups_written
    }

    pub(crate) fn shard(&self) -> &Shard {
        self.pipeline.as_ref().expect("only missing during a crash").shard()
    }

    /// Plays one line and says what came of it.
    pub(crate) fn play(&mut self, line: &str) -> Vec<String> {
        self.answers.clear();
        let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
        let until = script::time(time.trim_start_matches('@'));
        // Time passes step by step, as it does for a server that sleeps until something is due.
        while !time.starts_with('@')
            && let Some(due) = self.next_deadline().filter(|due| *due <= until)
        {
            self.set_now(due.max(self.now));
            if !self.rest() && self.next_deadline() == Some(due) {
                break;
            }
        }
        self.set_now(until);
        match rest {
            "" | "wait" => {}
            "crash" => self.crash(until),
            damage if damage.starts_with("damage ") => self.damage(&damage[7..], false),
            lose if lose.starts_with("lose ") => self.damage(&lose[5..], true),
            damage if damage.starts_with("crash and damage ") => {
                self.damage(&damage[17..], false);
                self.crash(until);
            }
            lose if lose.starts_with("crash and lose ") => {
                self.damage(&lose[15..], true);
                self.crash(until);
            }
            down if down.starts_with("crash until ") => self.crash(script::time(&down[12..])),
            keep if keep.starts_with("keep ") => self.keep(&keep[5..]),
            keep if keep.starts_with("keep-effect ") => self.keep_effect(&keep[12..]),
            rows if rows.starts_with("rows ") => self.count_rows(&rows[5..]),
            commands => {
                for command in commands.split(" + ") {
                    let command = script::parse(self, command);
                    self.send(command);
                }
            }
        }
        self.rest();
        std::mem::take(&mut self.lines)
    }

    /// Turns until there is nothing more to do now. Whether there was anything.
    fn rest(&mut self) -> bool {
        let turns = (0..TURNS_MAX).take_while(|_| self.turn()).count();
        assert!(turns < TURNS_MAX, "the pipeline does not come to rest at {}", self.now);
        turns > 0
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.pipeline.as_ref().expect("alive").next_deadline()
    }

    fn set_now(&mut self, now: Timestamp) {
        assert!(now >= self.now, "time does not go back in a transcript");
        self.now = now;
        self.clock.store(now.0, Ordering::Relaxed);
    }

    /// `page 2`: the third row of the table is damaged or missing from now on.
    fn damage(&mut self, row: &str, is_missing: bool) {
        let (table, index) = row.split_once(' ').expect("a table and the number of a row");
        let keys = self.engine.keys(self.config.shard);
        let of_table = |key: &&Key| format!("{:?}", key.table()).to_lowercase() == table;
        let key = keys.iter().filter(of_table).nth(index.parse().expect("a number"));
        self.engine.damage(self.config.shard, key.expect("there is such a row"), is_missing);
    }

    /// Nobody is there until `until`.
    fn crash(&mut self, until: Timestamp) {
        self.consumers.clear();
        self.pipeline = None;
        self.set_now(until);
        let (ownership, pipeline) = recover(&self.engine, &self.config);
        self.ownership = ownership;
        self.pipeline = Some(pipeline);
    }

    /// `orders/biller 0:3.1 as old`: the token gets another name, before another life of the group takes
    /// its own.
    fn keep(&mut self, names: &str) {
        let (from, to) = names.split_once(" as ").expect("a token as another name");
        self.tokens.insert(to.to_owned(), self.tokens[from].clone());
    }

    fn keep_effect(&mut self, names: &str) {
        let (from, to) = names.split_once(" as ").expect("a token as another name");
        self.effects.insert(to.to_owned(), self.effects[from].clone());
    }

    fn count_rows(&mut self, tables: &str) {
        let counts: Vec<String> =
            tables.split(' ').map(|table| format!("{table} {}", self.rows(table))).collect();
        self.lines.push(counts.join(", "));
    }

    /// Rows of a table.
    pub(crate) fn rows(&self, table: &str) -> usize {
        let counts = self.engine.count(self.config.shard);
        let count = counts.iter().find(|(name, _)| format!("{name:?}").to_lowercase() == table);
        count.map_or(0, |(_, count)| *count)
    }

    fn send(&mut self, command: Command) {
        self.next_ticket += 1;
        let arrived = Input::Arrived(Ticket(self.next_ticket), round_trip::call(&command));
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
                Output::StartCommit(..) if self.commits_left == Some(0) => {}
                Output::StartCommit(batch, writes) => {
                    self.commits_left = self.commits_left.map(|left| left - 1);
                    wait(self.engine.commit(self.ownership, batch.no, writes))
                        .expect("memory does not fail");
                    self.feed(Input::CommitDone(batch.no));
                }
                Output::Release(release) => self.show(&release.batch),
                Output::Damaged(damaged) => self.lines.push(format!("damage: {damaged}")),
            }
        }
    }

    fn show(&mut self, batch: &Batch) {
        for (_, answered) in &batch.replies {
            effect::keep_token(self, answered);
            self.answers.push(round_trip::answer(answered));
        }
        for effect in &batch.actions {
            match effect {
                Action::Deliver(_, delivery) => {
                    round_trip::deliveries(std::slice::from_ref(delivery))
                }
                Action::Send(_, arrive) => drop(round_trip::call(&Command::Arrive(arrive.clone()))),
                Action::Dismiss(_) => {}
            }
        }
        let written = batch.changes.iter().filter(|change| matches!(change, Change::Group(_)));
        self.groups_written += written.count();
        let lines = print::batch(self, batch);
        self.lines.extend(lines);
    }

    /// A shard rebuilt from its rows is the shard that wrote them, and makes sense.
    pub(crate) fn check(&self) {
        assert_eq!(self.shard().violation(), None);
        let copy = self.engine.snapshot();
        let (ownership, _) = wait(copy.claim(self.config.shard)).expect("memory does not fail");
        let recovered =
            wait(read_back(&copy, ownership, self.config.clone())).expect("nothing is damaged");
        let pipeline =
            Pipeline::new(recovered, ownership.epoch, self.now, PipelineConfig::default());
        let (is, was): (Image, Image) = (pipeline.shard().image(), self.shard().image());
        assert_eq!(is, was, "a recovery differs");
        assert_eq!(pipeline.shard().violation(), None, "after a recovery");
    }
}
