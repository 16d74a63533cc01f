//! A closed loop of core, packing and pipeline on an engine: one thread, no network.
//!
//! Every iteration sends a batch of commands and commits it. It then either waits for the
//! deliveries or decides the next batch meanwhile, as the server does. Half of the messages carry a
//! key, one settle in twenty is a nack, and a given number of deliveries is open at any time.

use std::collections::VecDeque;

use driftq_core::change::Action;
use driftq_core::command::{
    Claim, CreateTopic, GroupName, Join, Nack, NackKind, Peer, Produce, Start, TopicName,
};
use driftq_core::{
    BatchNo, Command, ConsumerId, Envelope, Input, LeaseToken, Output, Pipeline, PipelineConfig,
    SettingsPatch, ShardConfig, Ticket, Timestamp,
};
use driftq_storage::conformance::wait;
use driftq_storage::{Answer, Engine, Memory, Ownership};

const PARTITIONS: u32 = 8;
const GROUPS: usize = 3;
const CONSUMERS: u32 = 4;
const BATCH: usize = 256;
const BODY: usize = 256;
/// The time between two batches.
const BATCH_MS: u64 = 1;

/// The order in which deliveries are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// In the order of delivery.
    First,
    /// In random order.
    Random,
}

/// The loop.
pub struct Bench<E: 'static> {
    engine: &'static E,
    ownership: Ownership,
    pipeline: Pipeline,
    now: Timestamp,
    rng: fastrand::Rng,
    order: Order,
    open: usize,
    next_ticket: u64,
    next_message: u64,
    held: VecDeque<LeaseToken>,
    outputs: Vec<Output>,
    under_way: VecDeque<(BatchNo, Answer<'static, Timestamp>)>,
    under_way_max: usize,
    /// Deliveries settled so far.
    pub settled: u64,
    /// Commits so far.
    pub commits: u64,
}

impl Bench<Memory> {
    /// Creates a loop on the memory engine that keeps `open` deliveries open.
    pub fn new(order: Order, open: usize) -> Bench<Memory> {
        Bench::on(Memory::new(|| Timestamp(1_000_000)), order, open, 0)
    }
}

impl<E: Engine> Bench<E> {
    /// Creates a loop on an engine, with up to `under_way_max` commits in flight while the next
    /// batch is decided. The loop uses its own clock, not the engine's.
    pub fn on(engine: E, order: Order, open: usize, under_way_max: usize) -> Bench<E> {
        // Commits in flight borrow the engine, so it lives as long as the process.
        let engine: &'static E = Box::leak(Box::new(engine));
        let config = ShardConfig::default();
        let (ownership, now, recovered) =
            wait(driftq_storage::recover(engine, config)).expect("the engine is new");
        let pipeline = Pipeline::new(recovered, ownership.epoch, now, PipelineConfig::default());
        let mut bench = Bench {
            engine,
            ownership,
            pipeline,
            now,
            rng: fastrand::Rng::with_seed(7),
            order,
            open,
            next_ticket: 0,
            next_message: 0,
            held: VecDeque::new(),
            outputs: Vec::new(),
            under_way: VecDeque::new(),
            under_way_max,
            settled: 0,
            commits: 0,
        };
        bench.set_up();
        bench
    }

    fn set_up(&mut self) {
        // The retention is short, so that trimming is part of the measurement.
        let settings = SettingsPatch {
            retention_ms: Some(1_000),
            max_in_flight: Some(100_000),
            max_open: Some(100_000),
            ..SettingsPatch::default()
        };
        self.send(Command::CreateTopic(Box::new(CreateTopic {
            name: topic(),
            partitions: PARTITIONS,
            settings,
            retry_policy: None,
        })));
        self.turn();
        let mut consumer = 0;
        for group in 0..GROUPS {
            for _ in 0..CONSUMERS {
                consumer += 1;
                let join = Join {
                    consumer: ConsumerId(consumer),
                    name: GroupName { topic: topic(), group: format!("group-{group}").into() },
                    owner: format!("worker-{consumer}").into(),
                    lease_ms: Some(3_600_000),
                    credit: (self.open / (GROUPS * CONSUMERS as usize)) as u32,
                    credit_bytes: u64::MAX / 2,
                    start: Start::Earliest,
                    peer: Peer::default(),
                };
                self.send(Command::Join(join));
            }
        }
        self.turn();
        while self.held.len() < self.open - GROUPS * CONSUMERS as usize {
            for _ in 0..BATCH {
                self.produce();
            }
            self.turn();
        }
    }

    fn send(&mut self, command: Command) {
        self.next_ticket += 1;
        let arrived = Input::Arrived(Ticket(self.next_ticket), command);
        self.pipeline.on(self.now, arrived, &mut self.outputs);
    }

    fn produce(&mut self) {
        self.next_message += 1;
        let number = self.next_message;
        let key = format!("user:{}", number % 997);
        let idempotency_key = number.is_multiple_of(2).then(|| format!("intent-{number}").into());
        self.send(Command::Produce(Box::new(Produce {
            topic: topic(),
            key: key.into(),
            value: vec![b'x'; BODY].into(),
            envelope: Envelope { idempotency_key, ..Envelope::default() },
            routing: None,
            needs_routing: false,
            trace: None,
            seen: None,
            routed: None,
        })));
    }

    fn settle(&mut self) {
        let token = match self.order {
            Order::First => self.held.pop_front(),
            Order::Random => {
                let index = self.rng.usize(0..self.held.len());
                self.held.swap_remove_back(index)
            }
        };
        let Some(token) = token else { return };
        let claim = Claim::Token(token, None);
        self.settled += 1;
        self.send(match self.settled % 20 {
            0 => Command::Nack(Nack {
                claim,
                reason: Some("it broke".into()),
                delay_ms: None,
                kind: NackKind::Failed,
            }),
            _ => Command::Ack(claim),
        });
    }

    /// Runs one batch: a quarter produces, the rest settles, because each message is settled by
    /// three groups.
    pub fn batch(&mut self) {
        for _ in 0..BATCH / (GROUPS + 1) {
            self.produce();
            for _ in 0..GROUPS {
                self.settle();
            }
        }
        self.turn();
    }

    /// Number of open entries of the shard, including waiting ones.
    pub fn open_entries(&self) -> u64 {
        self.pipeline.shard().open_entries()
    }

    fn turn(&mut self) {
        self.now = self.now.after(BATCH_MS);
        loop {
            // Waits for reads, so that commands that arrive together are decided together.
            self.pipeline.ask(&mut self.outputs);
            self.perform_all();
            self.pipeline.turn(self.now, &mut self.outputs);
            if self.outputs.is_empty() {
                return;
            }
            self.perform_all();
        }
    }

    fn perform_all(&mut self) {
        while !self.outputs.is_empty() {
            for output in std::mem::take(&mut self.outputs) {
                self.perform(output);
            }
        }
    }

    /// Waits until at most `left` commits are in flight.
    pub fn finish(&mut self, left: usize) {
        while self.under_way.len() > left
            && let Some((no, done)) = self.under_way.pop_front()
        {
            wait(done).expect("the engine does not fail");
            self.pipeline.on(self.now, Input::CommitDone(no), &mut self.outputs);
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::StartRead(id, reads) => {
                let rows = wait(self.engine.read(self.ownership, reads))
                    .expect("the engine does not fail");
                self.pipeline.on(self.now, Input::ReadDone(id, rows), &mut self.outputs);
            }
            Output::StartCommit(batch, writes) => {
                self.commits += 1;
                let done = self.engine.commit(self.ownership, batch.no, writes);
                self.under_way.push_back((batch.no, done));
                self.finish(self.under_way_max);
            }
            Output::Release(release) => {
                for (_, answered) in &release.batch.replies {
                    answered.as_ref().expect("the loop sends only valid commands");
                }
                for effect in &release.batch.actions {
                    if let Action::Deliver(_, delivery) = effect {
                        self.held.push_back(delivery.token.clone());
                    }
                }
            }
            Output::Damaged(damaged) => panic!("{damaged}"),
        }
    }
}

fn topic() -> TopicName {
    TopicName { namespace: "default".into(), topic: "orders".into() }
}
