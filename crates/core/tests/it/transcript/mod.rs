//! Transcripts: a test is a text that is both script and expectation.
//!
//! A line at the margin is a command with its time. Behind ` => ` or in indented lines are the
//! replies, changes and actions of the shard; `UPDATE_EXPECT=1` rewrites them. Commands joined by
//! ` + ` arrive together and are decided in one batch. If a time begins with `@`, no timer runs
//! before it.
//!
//! After every line the shard is recovered from its rows, must equal the running one, and must pass
//! its own checks. Commands, replies and deliveries are encoded and decoded as between nodes.

mod effect;
mod print;
mod script;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driftq_core::change::{Action, Change};
use driftq_core::command::Explained;
use driftq_core::row::Key;
use driftq_core::view::GroupView;
use driftq_core::{
    Batch, Command, CommandResult, ConsumerId, EffectToken, Format, Image, Input, LeaseToken,
    Message, MessageId, Output, Pipeline, PipelineConfig, Reply, Shard, ShardConfig, ShardId,
    Ticket, Timestamp,
};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine, Memory, Ownership, read_back};
use expect_test::Expect;

use crate::node_codec::round_trip;

pub(crate) use print::reply;

/// Turns after which a pipeline without commands must be idle.
const TURNS_MAX: usize = 10_000;

/// Characters of a command and a reply that are written in one line.
const ONE_LINE_MAX: usize = 88;

/// Plays a transcript and compares its output.
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
        let command = line.split(" => ").next().unwrap_or(line);
        commands += 1;
        match &world.play(command)[..] {
            [reply] if command.len() + reply.len() <= ONE_LINE_MAX => {
                played += &format!("{command} => {reply}\n");
            }
            replies => {
                played += &format!("{command}\n");
                played.extend(replies.iter().map(|reply| format!("    {reply}\n")));
            }
        }
        world.check();
    }
    assert!(commands > 0, "a transcript has commands");
    played
}

/// A shard on the memory engine, and the tokens and ids its callers received.
pub(crate) struct World {
    pub(crate) engine: Memory,
    clock: Arc<AtomicU64>,
    pub(crate) config: ShardConfig,
    ownership: Ownership,
    pipeline: Option<Pipeline>,
    now: Timestamp,
    next_ticket: u64,
    consumers: BTreeMap<String, ConsumerId>,
    /// Tokens by their name in the script: `orders/biller 0:3.1`.
    tokens: BTreeMap<String, LeaseToken>,
    /// Tokens of effects: `op/charge order-77.1`.
    effects: BTreeMap<String, EffectToken>,
    /// Dead letters by `topic partition:offset`.
    dead: BTreeMap<String, MessageId>,
    /// The dead letters themselves, by the same name.
    letters: BTreeMap<String, Arc<Message>>,
    /// The replies to the commands of the last line.
    answers: Vec<CommandResult>,
    lines: Vec<String>,
    groups_written: usize,
    /// Commits before the storage becomes unreachable; None: no limit.
    commits_left: Option<usize>,
}

/// Claims a shard and recovers it.
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

    /// Plays a line of which only the first commits succeed, then crashes.
    pub(crate) fn play_partly(&mut self, line: &str, commits: usize) {
        self.commits_left = Some(commits);
        self.play(line);
        self.commits_left = None;
        self.crash(self.now);
        self.check();
    }

    /// Returns the reply to the last command of `line` as text.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.play(line);
        reply(self.answers.last().unwrap_or_else(|| panic!("`{line}` got no reply")))
    }

    /// Returns the view of a group. `line` asks for it.
    pub(crate) fn view_group(&mut self, line: &str) -> GroupView {
        self.play(line);
        match self.answers.last() {
            Some(Ok(Reply::Explained(explained))) => match &**explained {
                Explained::Group { view, .. } => (**view).clone(),
                other => panic!("`{line}`: {other:?}"),
            },
            other => panic!("`{line}`: {other:?}"),
        }
    }

    /// Plays a line and returns its last reply.
    pub(crate) fn reply_to(&mut self, line: &str) -> Option<Reply> {
        self.play(line);
        self.answers.last().cloned()?.ok()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the reply to a command that scripts cannot express, as text.
    pub(crate) fn command(&mut self, command: Command) -> String {
        self.answers.clear();
        self.send(command);
        self.rest();
        reply(self.answers.last().expect("a reply was released"))
    }

    /// Returns a dead letter by its name in the script.
    pub(crate) fn letter(&self, name: &str) -> &Message {
        &self.letters[name]
    }

    /// Returns the id of a dead letter by its name in the script.
    pub(crate) fn dead_id(&self, name: &str) -> MessageId {
        self.dead[name]
    }

    /// Returns the token of a delivery by its name in the script.
    pub(crate) fn token(&self, name: &str) -> &LeaseToken {
        &self.tokens[name]
    }

    /// Adds a token that the shard did not issue.
    pub(crate) fn forge(&mut self, name: &str, token: LeaseToken) {
        self.tokens.insert(name.to_owned(), token);
    }

    /// Adds a changed copy of an effect token under `name`.
    pub(crate) fn forge_effect(
        &mut self,
        effect: &str,
        name: &str,
        change: impl FnOnce(EffectToken) -> EffectToken,
    ) {
        let token = change(self.effects[effect].clone());
        self.effects.insert(name.to_owned(), token);
    }

    /// Number of writes of group rows.
    pub(crate) fn groups_written(&self) -> usize {
        self.groups_written
    }

    pub(crate) fn shard(&self) -> &Shard {
        self.pipeline.as_ref().expect("only missing during a crash").shard()
    }

    /// Plays one line and returns its output.
    pub(crate) fn play(&mut self, line: &str) -> Vec<String> {
        self.answers.clear();
        let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
        let until = script::time(time.trim_start_matches('@'));
        // Time advances step by step, as for a server that sleeps until the next deadline.
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
            "format 1" | "format 2" => {
                let format = if rest == "format 1" { Format::V1 } else { Format::V2 };
                self.pipeline.as_mut().expect("alive").set_format(format);
            }
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
            newer if newer.starts_with("crash and write newer ") => {
                self.write_newer(&newer[22..]);
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

    /// Runs turns until nothing more is due now. Returns whether there was anything to do.
    fn rest(&mut self) -> bool {
        let turns = (0..TURNS_MAX).take_while(|_| self.turn()).count();
        assert!(turns < TURNS_MAX, "the pipeline does not become idle at {}", self.now);
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

    /// `page 2`: the third row of the table.
    fn key(&self, row: &str) -> Key {
        let (table, index) = row.split_once(' ').expect("a table and the number of a row");
        let keys = self.engine.keys(self.config.shard).into_iter();
        let mut keys = keys.filter(|key| format!("{:?}", key.table()).to_lowercase() == table);
        keys.nth(index.parse().expect("a number")).expect("the row exists")
    }

    fn damage(&mut self, row: &str, is_missing: bool) {
        self.engine.damage(self.config.shard, &self.key(row), is_missing);
    }

    /// Gives a packed row a version that this release does not know.
    fn write_newer(&mut self, row: &str) {
        self.engine.rewrite(self.config.shard, &self.key(row), |body| {
            let content = body.len() - 4;
            body[0] = u8::MAX;
            let checksum = crc32c::crc32c(&body[..content]);
            body[content..].copy_from_slice(&checksum.to_le_bytes());
        });
    }

    /// Nothing runs until `until`.
    fn crash(&mut self, until: Timestamp) {
        self.consumers.clear();
        self.pipeline = None;
        self.set_now(until);
        let (ownership, pipeline) = recover(&self.engine, &self.config);
        self.ownership = ownership;
        self.pipeline = Some(pipeline);
    }

    /// `orders/biller 0:3.1 as old`: keeps the token under another name before a later generation
    /// of the group reuses its name.
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

    /// Number of rows of a table.
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

    /// Runs one turn of the pipeline and completes its reads and commits at once. Returns whether
    /// there was anything to do.
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

    /// Checks that the shard recovered from its rows equals this one and passes its own checks.
    pub(crate) fn check(&self) {
        assert_eq!(self.shard().violation(), None);
        let copy = self.engine.snapshot();
        let (ownership, _) = wait(copy.claim(self.config.shard)).expect("memory does not fail");
        let recovered =
            wait(read_back(&copy, ownership, self.config.clone())).expect("nothing is damaged");
        let pipeline =
            Pipeline::new(recovered, ownership.epoch, self.now, PipelineConfig::default());
        let (is, was): (Image, Image) = (pipeline.shard().image(), self.shard().image());
        assert_eq!(is, was, "the recovered shard differs");
        assert_eq!(pipeline.shard().violation(), None, "after a recovery");
    }
}
