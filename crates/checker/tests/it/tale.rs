//! Builds histories tersely: topic `orders` with one partition, group `biller` of generation 1, ids
//! `m0`, `m1`, … by offset. A case that needs something else changes the fact before it is
//! committed.

use std::sync::LazyLock;

use driftq_checker::history::{
    Content, Counters, DeadLetter, Delivery, Event, Fact, Granted, How, Lease, Name, OnDoubt, Op,
    Produce, Reply, Retry, Stored, Verb, What,
};

pub(crate) const LEASE_MS: u64 = 30_000;
pub(crate) const BACKOFF_MS: u64 = 1_000;

pub(crate) struct Tale {
    pub(crate) events: Vec<Event>,
    /// The authority clock.
    pub(crate) now: u64,
    pub(crate) epoch: u64,
    pub(crate) batch: u64,
    /// The last batch of another shard.
    batch_there: u64,
    /// The process that observes the next event.
    pub(crate) process: u32,
    /// First offset not yet stored.
    pub(crate) high: u64,
    /// The effect: its life, policy and window, its delivery, its holder, and the end of its lease.
    pub(crate) life: u64,
    pub(crate) on_doubt: OnDoubt,
    pub(crate) window_until: Option<u64>,
    pub(crate) under: Option<Lease>,
    pub(crate) holder: Option<Name>,
    pub(crate) until: u64,
    has_commits: bool,
    /// Calls that are administrative acts. Their records are in the commits that decide them.
    acts: Vec<u64>,
    records_acts: bool,
    n_calls: u64,
    seq: u64,
    /// Time that passed in addition to the ten milliseconds of every event.
    passed_ms: u64,
}

impl Tale {
    pub(crate) fn new() -> Self {
        Self {
            events: Vec::new(),
            now: 1_000_000,
            epoch: 1,
            batch: 0,
            batch_there: 0,
            process: 1,
            high: 0,
            life: 1,
            on_doubt: OnDoubt::Retry,
            window_until: None,
            under: None,
            holder: None,
            until: 0,
            has_commits: true,
            acts: Vec::new(),
            records_acts: true,
            n_calls: 0,
            seq: 0,
            passed_ms: 0,
        }
    }

    /// From here on commits are not recorded, as with real processes.
    pub(crate) fn hides_commits(&mut self) {
        self.has_commits = false;
    }

    /// From here on a case records acts itself.
    pub(crate) fn records_no_acts(&mut self) {
        self.records_acts = false;
    }

    pub(crate) fn happens(&mut self, what: What) {
        self.seq += 1;
        let (seq, process) = (self.seq, self.process);
        self.events.push(Event { seq, at: self.passed_ms + seq * 10, process, what });
    }

    pub(crate) fn passes(&mut self, ms: u64) {
        self.now += ms;
        self.passed_ms += ms;
    }

    // Calls.

    pub(crate) fn asks(&mut self, op: Op) -> u64 {
        self.n_calls += 1;
        let call = self.n_calls;
        if let Op::Purge { .. }
        | Op::Redrive { .. }
        | Op::DeleteGroup { .. }
        | Op::DeleteTopic { .. }
        | Op::Seek { .. } = op
        {
            self.acts.push(call);
        }
        self.happens(What::Invoked { call, op });
        call
    }

    pub(crate) fn is_done(&mut self, call: u64, reply: Reply) {
        self.happens(What::Done { call, reply });
    }

    pub(crate) fn is_refused(&mut self, call: u64, code: &str, state: &str) {
        let state = (!state.is_empty()).then(|| state.into());
        self.happens(What::Refused { call, code: code.into(), state });
    }

    pub(crate) fn is_lost(&mut self, call: u64) {
        self.happens(What::Unknown { call });
    }

    /// Sends a settle by token.
    pub(crate) fn asks_to(&mut self, verb: Verb, offset: u64, attempt: u32) -> u64 {
        self.asks(Op::Settle { lease: lease(offset, attempt), verb, by_owner: false })
    }

    pub(crate) fn sends(&mut self, body: u64) -> u64 {
        self.asks(produce(body, None))
    }

    pub(crate) fn sends_keyed(&mut self, body: u64, key: &str) -> u64 {
        self.asks(produce(body, Some(key)))
    }

    // Commits.

    pub(crate) fn commits(&mut self, facts: impl Into<Vec<Fact>>) {
        self.batch += 1;
        let facts = self.with_acts(facts.into());
        if self.has_commits {
            self.happens(What::Committed {
                shard: 0,
                epoch: self.epoch,
                batch: self.batch,
                now: self.now,
                facts,
            });
        }
    }

    fn with_acts(&self, mut facts: Vec<Fact>) -> Vec<Fact> {
        let decided = facts.iter().flat_map(|fact| match fact {
            Fact::Decided { calls } => calls.clone(),
            _ => Vec::new(),
        });
        let acts = decided.filter(|call| self.records_acts && self.acts.contains(call));
        let acts: Vec<Fact> = acts.map(|call| Fact::Acted { call }).collect();
        facts.extend(acts);
        facts
    }

    /// Commits in the other shard.
    pub(crate) fn commits_there(&mut self, facts: impl Into<Vec<Fact>>) {
        self.batch_there += 1;
        if self.has_commits {
            let (epoch, batch, now) = (self.epoch, self.batch_there, self.now);
            self.happens(What::Committed { shard: 1, epoch, batch, now, facts: facts.into() });
        }
    }

    /// Stores a message at the end of the partition; `change` alters it.
    pub(crate) fn stores(&mut self, body: u64, change: impl FnOnce(&mut Stored)) -> u64 {
        let mut stored = stored(body, self.high);
        change(&mut stored);
        self.high += 1;
        let offset = stored.offset;
        self.commits([Fact::Stored(stored)]);
        offset
    }

    // Common sequences.

    pub(crate) fn makes_group(&mut self) {
        let call = self.asks(Op::CreateGroup { topic: orders(), group: biller(), latest: false });
        self.commits([group_made(1, 0)]);
        self.is_done(call, Reply::Ok);
    }

    pub(crate) fn produces(&mut self, body: u64) -> u64 {
        self.produces_with(body, |_| ())
    }

    pub(crate) fn produces_with(&mut self, body: u64, change: impl FnOnce(&mut Stored)) -> u64 {
        let call = self.sends(body);
        let offset = self.stores(body, change);
        self.is_done(call, produced(offset));
        offset
    }

    /// Grants and delivers; body is offset + 1, as in histories that produce 1, 2, 3 …
    pub(crate) fn leases(&mut self, offset: u64, attempt: u32) {
        self.grants(offset, attempt, |_| ());
        self.delivers(offset, attempt, |_| ());
    }

    pub(crate) fn grants(&mut self, offset: u64, attempt: u32, change: impl FnOnce(&mut Granted)) {
        let mut granted = granted(offset, attempt, self.now);
        change(&mut granted);
        self.commits([Fact::Granted(granted)]);
    }

    pub(crate) fn delivers(
        &mut self,
        offset: u64,
        attempt: u32,
        change: impl FnOnce(&mut Delivery),
    ) {
        let mut delivery = Delivery {
            lease: lease(offset, attempt),
            id: id(offset),
            spent: attempt,
            message: content(offset + 1),
        };
        change(&mut delivery);
        self.happens(What::Delivered(delivery));
    }

    pub(crate) fn ends(&mut self, offset: u64, attempt: u32, how: How) {
        self.commits([ended(offset, attempt, how)]);
    }

    pub(crate) fn acks(&mut self, offset: u64, attempt: u32) {
        let call = self.asks_to(Verb::Ack, offset, attempt);
        self.ends(offset, attempt, How::Acked);
        self.is_done(call, Reply::Settled);
    }

    /// Nacks, and lets the backoff pass.
    pub(crate) fn nacks(&mut self, offset: u64, attempt: u32) {
        let call = self.asks_to(Verb::Nack { delay_ms: None }, offset, attempt);
        let due = self.now + BACKOFF_MS;
        self.ends(offset, attempt, How::Nacked { due, asked: false });
        self.is_done(call, Reply::Settled);
        self.passes(BACKOFF_MS);
    }

    /// Lets a lease expire, and the backoff pass.
    pub(crate) fn expires(&mut self, offset: u64, attempt: u32) {
        self.passes(LEASE_MS);
        let due = self.now + BACKOFF_MS;
        self.ends(offset, attempt, How::Expired { due });
        self.passes(BACKOFF_MS);
    }

    /// Dead-letters by a final nack: the message at `offset` becomes dead letter `dead`.
    pub(crate) fn dies(&mut self, offset: u64, attempt: u32, dead: u64) {
        let call = self.asks_to(Verb::Final, offset, attempt);
        self.commits([
            ended(offset, attempt, How::Dead { asked: true }),
            died(offset, attempt, "rejected", dead),
            buried(offset + 1, dead),
        ]);
        self.is_done(call, Reply::Settled);
    }

    /// Redrives dead letter `dead`; the new message has body `body`.
    pub(crate) fn redrives(&mut self, dead: u64, body: u64) -> u64 {
        let call = self.asks(redrive(dead));
        let offset = self.high;
        self.high += 1;
        let copy = Stored { for_group: Some(biller()), ..stored(body, offset) };
        let redriven = Fact::Redriven { id: dead_id(dead), new: id(offset), group: biller() };
        self.commits([Fact::Stored(copy), redriven]);
        self.is_done(call, Reply::Redriven { new: id(offset), already: false });
        offset
    }

    pub(crate) fn heals(&mut self) {
        self.happens(What::Healed);
    }

    pub(crate) fn is_over(&mut self) {
        self.happens(What::Ended);
    }

    /// Produces, delivers and acks one message, and ends the history.
    pub(crate) fn goes_well(&mut self) {
        self.makes_group();
        self.produces(1);
        self.leases(0, 1);
        self.acks(0, 1);
        self.is_over();
    }
}

// Shared, as in a test harness.
static ORDERS: LazyLock<Name> = LazyLock::new(|| "orders".into());
static BILLER: LazyLock<Name> = LazyLock::new(|| "biller".into());
static CUSTOMER: LazyLock<Name> = LazyLock::new(|| "cust-9".into());
static TENANT: LazyLock<Name> = LazyLock::new(|| "default".into());

pub(crate) fn orders() -> Name {
    ORDERS.clone()
}

pub(crate) fn biller() -> Name {
    BILLER.clone()
}

pub(crate) fn id(offset: u64) -> Name {
    format!("m{offset}").into()
}

pub(crate) fn dead_id(dead: u64) -> Name {
    format!("d{dead}").into()
}

pub(crate) fn content(body: u64) -> Content {
    Content { body, key: CUSTOMER.clone(), tenant: TENANT.clone(), extension: "".into() }
}

pub(crate) fn produce(body: u64, key: Option<&str>) -> Op {
    let idem = key.map(Into::into);
    Op::Produce(Produce {
        topic: orders(),
        message: content(body),
        idem,
        nonce: None,
        target: None,
        size: 10,
    })
}

pub(crate) fn redrive(dead: u64) -> Op {
    Op::Redrive { topic: orders(), id: dead_id(dead) }
}

pub(crate) fn produced(offset: u64) -> Reply {
    Reply::Produced { id: id(offset), topic: None, partition: 0, offset, deduplicated: false }
}

pub(crate) fn duplicate_of(offset: u64) -> Reply {
    Reply::Produced { id: id(offset), topic: None, partition: 0, offset, deduplicated: true }
}

pub(crate) fn lease(offset: u64, attempt: u32) -> Lease {
    Lease { topic: orders(), group: biller(), generation: 1, partition: 0, offset, attempt }
}

pub(crate) fn stored(body: u64, offset: u64) -> Stored {
    Stored {
        topic: orders(),
        partition: 0,
        offset,
        id: id(offset),
        message: content(body),
        size: 10,
        asked: None,
        idem: None,
        for_group: None,
        deadline: None,
        retry: Retry { max_attempts: Some(3), backoff_ms: BACKOFF_MS, max_backoff_ms: 8_000 },
        follows_topic: false,
        dead_letter: false,
    }
}

/// Dead letter `dead`, at that offset of the `dlq.` topic.
pub(crate) fn buried(body: u64, dead: u64) -> Fact {
    let topic = "dlq.orders".into();
    Fact::Stored(Stored { topic, id: dead_id(dead), dead_letter: true, ..stored(body, dead) })
}

pub(crate) fn granted(offset: u64, attempt: u32, now: u64) -> Granted {
    Granted {
        lease: lease(offset, attempt),
        spent: attempt,
        until: now + LEASE_MS,
        consumer: 7,
        credit: 10,
        max_in_flight: 100,
    }
}

pub(crate) fn ended(offset: u64, attempt: u32, how: How) -> Fact {
    Fact::Ended { lease: lease(offset, attempt), how }
}

pub(crate) fn died(offset: u64, attempt: u32, reason: &str, dead: u64) -> Fact {
    Fact::Died { lease: lease(offset, attempt), reason: reason.into(), id: dead_id(dead) }
}

pub(crate) fn group_made(generation: u64, offset: u64) -> Fact {
    Fact::GroupMade { topic: orders(), group: biller(), cursors: vec![(generation, offset)] }
}

pub(crate) fn moved(generation: u64, offset: u64) -> Fact {
    Fact::Moved { topic: orders(), group: biller(), partition: 0, generation, offset }
}

/// Counters of a group that has read everything below `high`.
pub(crate) fn counters(high: u64) -> Counters {
    Counters {
        topic: orders(),
        group: biller(),
        partition: 0,
        generation: 1,
        next: high,
        high,
        leased: 0,
        waiting: 0,
        backlog: 0,
        blocked: None,
    }
}

/// Dead letter `dead` of a message rejected by a final nack at its first attempt.
pub(crate) fn letter(offset: u64, dead: u64) -> DeadLetter {
    DeadLetter {
        id: dead_id(dead),
        topic: orders(),
        group: biller(),
        partition: 0,
        offset,
        origin: id(offset),
        reason: "rejected".into(),
        attempts: 1,
        last_error: "card_declined".into(),
        message: content(offset + 1),
        idem: None,
        redriven: None,
    }
}
