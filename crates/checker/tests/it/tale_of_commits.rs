//! Builds commits: by default of attempt 1 of the message at offset 0, which is acked. `orders` is
//! on shard 0, `receipts` on shard 1, where ids are `r0`, `r1`, … by offset.

use driftq_checker::history::{
    Commit, DeadLetter, Fact, How, Name, Op, Produce, Reply, Stored, Verb,
};

use crate::tale::{Tale, content, ended, id, lease, letter, orders, stored};

/// How long a repeated commit is answered.
pub(crate) const KEPT_MS: u64 = 600_000;

/// A commit that produces messages: (body, topic).
pub(crate) fn commit<const N: usize>(messages: [(u64, &str); N]) -> Commit {
    let produce = messages.map(|(body, topic)| {
        let (topic, message) = (topic.into(), content(body));
        Produce { topic, message, idem: None, nonce: None, target: None, size: 10 }
    });
    Commit {
        lease: lease(0, 1),
        verb: Verb::Ack,
        finishes: Vec::new(),
        produce: produce.into(),
        pointers: Vec::new(),
    }
}

pub(crate) fn committed<const N: usize>(produced: [Option<Name>; N], repeated: bool) -> Reply {
    Reply::Committed { produced: produced.into(), repeated }
}

/// A message of a commit, stored in the other shard.
pub(crate) fn arrived_there(body: u64, offset: u64) -> Fact {
    let (topic, id) = ("receipts".into(), format!("r{offset}").into());
    Fact::Stored(Stored { topic, id, ..stored(body, offset) })
}

/// Dead letter `dead` of a message of the commit that the other shard rejected.
pub(crate) fn came_back(body: u64, dead: u64) -> DeadLetter {
    let (reason, last_error) = ("undeliverable".into(), "no such topic".into());
    DeadLetter { reason, last_error, attempts: 0, message: content(body), ..letter(0, dead) }
}

impl Tale {
    /// Delivers a message that can be committed.
    pub(crate) fn has_something_to_commit(&mut self) {
        self.makes_group();
        self.produces(1);
        self.leases(0, 1);
    }

    pub(crate) fn asks_to_commit(&mut self, commit: &Commit) -> u64 {
        self.asks(Op::Commit(Box::new(commit.clone())))
    }

    /// The batch of a correct commit; `change` alters it.
    pub(crate) fn is_committed(
        &mut self,
        call: u64,
        commit: &Commit,
        change: impl FnOnce(&mut Vec<Fact>),
    ) {
        let lease = commit.lease.clone();
        let mut facts = vec![Fact::Ended { lease, how: How::Acked }];
        let mut number = 0;
        for produce in &commit.produce {
            let body = produce.message.body;
            if produce.topic == orders() {
                facts.push(Fact::Stored(stored(body, self.high)));
                self.high += 1;
            } else {
                let (topic, message) = (produce.topic.clone(), produce.message.clone());
                facts.push(Fact::Sent { to: 1, number, topic, message });
                number += 1;
            }
        }
        facts.push(Fact::Decided { calls: vec![call] });
        facts.push(Fact::Committed { call, until: self.now + KEPT_MS });
        change(&mut facts);
        self.commits(facts);
    }

    /// Commits offset 0 with two messages for the other shard.
    pub(crate) fn sends_two(&mut self) -> Commit {
        self.has_something_to_commit();
        let commit = commit([(60, "receipts"), (61, "receipts")]);
        let call = self.asks_to_commit(&commit);
        self.is_committed(call, &commit, |_| ());
        self.is_done(call, committed([None, None], false));
        commit
    }

    /// Delivers and acks the message at offset 1, which a commit produced.
    pub(crate) fn reads_the_next(&mut self, body: u64) {
        self.grants(1, 1, |_| ());
        self.delivers(1, 1, |delivery| delivery.message = content(body));
        let call = self.asks_to(Verb::Ack, 1, 1);
        self.commits([ended(1, 1, How::Acked)]);
        self.is_done(call, Reply::Settled);
    }
}

/// `m1`, the id of the first message a commit stores.
pub(crate) fn next() -> Option<Name> {
    Some(id(1))
}
