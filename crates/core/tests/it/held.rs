//! A pipeline on the memory engine whose reads and commits complete only when the test says so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use driftq_core::change::{Action, Delivery};
use driftq_core::command::{
    Claim, CreateTopic, GroupName, Join, Nack, NackKind, Peer, PeerKind, Produce, Start, TopicName,
};
use driftq_core::row::{Read, Row, Write};
use driftq_core::{
    Batch, Command, CommandResult, ConsumerId, Damaged, Envelope, Input, LeaseToken, Output,
    Pipeline, PipelineConfig, ReadId, Release, RetryPolicy, SettingsPatch, ShardConfig, Ticket,
    Timestamp,
};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine, Memory, Ownership, recover};

/// A commit in flight.
pub(crate) struct Committing {
    pub(crate) batch: Arc<Batch>,
    pub(crate) writes: Vec<Write>,
    /// Stored by the engine; the pipeline has not been notified.
    pub(crate) is_stored: bool,
}

/// A read in flight.
pub(crate) struct Reading {
    pub(crate) id: ReadId,
    pub(crate) reads: Vec<Read>,
    /// The rows the engine had when it read.
    pub(crate) rows: Option<Vec<Vec<Row>>>,
}

/// A pipeline with the reads and commits it has started and the test has not completed.
pub(crate) struct Held {
    pub(crate) engine: Memory,
    pub(crate) ownership: Ownership,
    pub(crate) pipeline: Pipeline,
    pub(crate) now: Timestamp,
    pub(crate) commits: VecDeque<Committing>,
    pub(crate) reads: VecDeque<Reading>,
    /// Released replies by ticket, and deliveries in order without the withheld ones.
    pub(crate) answers: BTreeMap<Ticket, CommandResult>,
    pub(crate) deliveries: Vec<(ConsumerId, Delivery)>,
    pub(crate) withheld: usize,
    /// Numbers of the released batches.
    pub(crate) released: Vec<u64>,
    pub(crate) damaged: Vec<Damaged>,
    next_ticket: u64,
}

impl Held {
    pub(crate) fn new() -> Held {
        Held::with(PipelineConfig::default())
    }

    pub(crate) fn with(config: PipelineConfig) -> Held {
        Held::over(Memory::new(|| Timestamp(0)), Timestamp(0), config)
    }

    /// Claims the shard and recovers it.
    pub(crate) fn over(engine: Memory, now: Timestamp, config: PipelineConfig) -> Held {
        Held::of(ShardConfig::default(), engine, now, config)
    }

    /// The same with another shard configuration.
    pub(crate) fn of(
        shard: ShardConfig,
        engine: Memory,
        now: Timestamp,
        config: PipelineConfig,
    ) -> Held {
        let (ownership, _, recovered) = wait(recover(&engine, shard)).expect("nothing is damaged");
        let now = now.max(recovered.now);
        let pipeline = Pipeline::new(recovered, ownership.epoch, now, config);
        Held {
            engine,
            ownership,
            pipeline,
            now,
            commits: VecDeque::new(),
            reads: VecDeque::new(),
            answers: BTreeMap::new(),
            deliveries: Vec::new(),
            withheld: 0,
            released: Vec::new(),
            damaged: Vec::new(),
            next_ticket: 0,
        }
    }

    /// Drops the pipeline with all reads and commits in flight. Stored commits stay stored.
    pub(crate) fn crash(&mut self) {
        let engine = self.engine.clone();
        *self = Held {
            next_ticket: self.next_ticket,
            ..Held::over(engine, self.now, Default::default())
        };
    }

    fn take(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::StartRead(id, reads) => {
                    self.reads.push_back(Reading { id, reads, rows: None });
                }
                Output::StartCommit(batch, writes) => {
                    self.commits.push_back(Committing { batch, writes, is_stored: false });
                }
                Output::Release(release) => self.release(release),
                Output::Damaged(damaged) => self.damaged.push(damaged),
            }
        }
    }

    fn release(&mut self, release: Release) {
        let Release { batch, withheld } = release;
        self.released.push(batch.no.0);
        self.answers.extend(batch.replies.iter().cloned());
        for effect in &batch.actions {
            if let Action::Deliver(consumer, delivery) = effect {
                if withheld.contains(&delivery.hold) {
                    self.withheld += 1
                } else {
                    self.deliveries.push((*consumer, Delivery::clone(delivery)))
                }
            }
        }
    }

    fn on(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.pipeline.on(self.now, input, &mut outputs);
        self.take(outputs);
    }

    /// Queues a command. It is decided with the next turn.
    pub(crate) fn arrive(&mut self, command: Command) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.on(Input::Arrived(ticket, command));
        ticket
    }

    pub(crate) fn turn(&mut self) {
        let mut outputs = Vec::new();
        self.pipeline.turn(self.now, &mut outputs);
        self.take(outputs);
    }

    /// Starts the reads of the queued commands before anything is decided.
    pub(crate) fn ask_reads(&mut self) {
        let mut outputs = Vec::new();
        self.pipeline.ask(&mut outputs);
        self.take(outputs);
    }

    pub(crate) fn turn_at(&mut self, ms: u64) {
        self.now = Timestamp(ms);
        self.turn();
    }

    /// Stores the oldest commit that the engine does not have. The pipeline is not notified.
    pub(crate) fn store_commit(&mut self) {
        let next = self.commits.iter_mut().find(|commit| !commit.is_stored);
        let commit = next.expect("a commit is in flight");
        let writes = commit.writes.clone();
        wait(self.engine.commit(self.ownership, commit.batch.no, writes)).expect("it is next");
        commit.is_stored = true;
    }

    /// Completes the oldest commit.
    pub(crate) fn finish_commit(&mut self) {
        if !self.commits.front().expect("a commit is in flight").is_stored {
            self.store_commit();
        }
        let commit = self.commits.pop_front().expect("just seen");
        self.on(Input::CommitDone(commit.batch.no));
    }

    /// Reads the rows of the oldest read from the engine. The pipeline is not notified.
    pub(crate) fn look(&mut self) {
        let next = self.reads.iter_mut().find(|reading| reading.rows.is_none());
        let reading = next.expect("a read is in flight");
        let rows = wait(self.engine.read(self.ownership, reading.reads.clone()));
        reading.rows = Some(rows.expect("memory does not fail"));
    }

    /// Completes the oldest read.
    pub(crate) fn finish_read(&mut self) {
        if self.reads.front().expect("a read is in flight").rows.is_none() {
            self.look();
        }
        let reading = self.reads.pop_front().expect("just seen");
        self.on(Input::ReadDone(reading.id, reading.rows.expect("read above")));
    }

    /// Completes the oldest read with rows changed by `tamper`.
    pub(crate) fn finish_read_with(&mut self, tamper: impl FnOnce(&mut Vec<Vec<Row>>)) {
        self.look();
        let reading = self.reads.front_mut().expect("read above");
        tamper(reading.rows.as_mut().expect("read above"));
        self.finish_read();
    }

    /// Completes everything in flight until the pipeline has nothing more to do now.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            self.turn();
            if self.commits.is_empty() && self.reads.is_empty() {
                return;
            }
            while !self.reads.is_empty() {
                self.finish_read();
            }
            while !self.commits.is_empty() {
                self.finish_commit();
            }
        }
        panic!("the pipeline does not become idle");
    }

    /// Queues a command, completes everything and returns its reply.
    pub(crate) fn ask(&mut self, command: Command) -> CommandResult {
        let ticket = self.arrive(command);
        self.settle();
        self.answers.get(&ticket).expect("it was answered").clone()
    }

    /// Returns the reply to a ticket, if it was released.
    pub(crate) fn answer(&self, ticket: Ticket) -> Option<String> {
        self.answers.get(&ticket).map(crate::transcript::reply)
    }
}

fn topic_name(topic: &str) -> TopicName {
    TopicName { namespace: "default".into(), topic: topic.into() }
}

/// The name of a group of `orders`.
pub(crate) fn group_name(group: &str) -> GroupName {
    GroupName { topic: topic_name("orders"), group: group.into() }
}

/// Creates `orders`, whose messages are retried forever, 100 ms apart at most.
pub(crate) fn topic(partitions: u32, patch: SettingsPatch) -> Command {
    let forever = RetryPolicy { max_attempts: -1, backoff_ms: 100, max_backoff_ms: 100 };
    Command::CreateTopic(Box::new(CreateTopic {
        name: topic_name("orders"),
        partitions,
        settings: SettingsPatch { retry_policy: patch.retry_policy.or(Some(forever)), ..patch },
        retry_policy: None,
    }))
}

pub(crate) fn delete() -> Command {
    Command::DeleteTopic(topic_name("orders"))
}

pub(crate) fn view() -> Command {
    Command::ViewTopic(topic_name("orders"))
}

pub(crate) fn produce(value: &str) -> Command {
    produce_with(value, Envelope::default())
}

/// A message with an idempotency key.
pub(crate) fn keyed(value: &str, key: &str) -> Command {
    produce_with(value, Envelope { idempotency_key: Some(key.into()), ..Envelope::default() })
}

pub(crate) fn produce_with(value: &str, envelope: Envelope) -> Command {
    Command::Produce(Box::new(Produce {
        topic: topic_name("orders"),
        key: Default::default(),
        value: value.to_owned().into(),
        envelope,
        routing: None,
        needs_routing: false,
        trace: None,
        seen: None,
        routed: None,
    }))
}

pub(crate) fn join(consumer: u64, group: &str, credit: u32, lease_ms: u64) -> Command {
    Command::Join(Join {
        consumer: ConsumerId(consumer),
        name: group_name(group),
        owner: format!("worker-{consumer}").into(),
        lease_ms: Some(lease_ms),
        credit,
        credit_bytes: 1 << 30,
        start: Start::Earliest,
        peer: Peer::default(),
    })
}

pub(crate) fn poll(consumer: u64, group: &str, lease_ms: u64) -> Command {
    let Command::Join(join) = join(consumer, group, 9, lease_ms) else { unreachable!("it joins") };
    Command::Join(Join { peer: Peer { kind: PeerKind::Poll, ..Peer::default() }, ..join })
}

pub(crate) fn ack(token: &LeaseToken) -> Command {
    Command::Ack(Claim::Token(token.clone(), None))
}

pub(crate) fn nack(token: &LeaseToken, kind: NackKind) -> Command {
    Command::Nack(Nack {
        claim: Claim::Token(token.clone(), None),
        reason: None,
        delay_ms: None,
        kind,
    })
}
