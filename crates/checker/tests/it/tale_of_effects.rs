//! Builds the history of one effect: `op/charge` `order-77` of `default`, begun for `1200`, with a
//! lease of 30 s.

use driftq_checker::history::{
    Begin, Decision, Effect, Fact, Op, Progress, Record, Reply, Right, Status,
};

use crate::tale::{LEASE_MS, Tale};

pub(crate) const TTL_MS: u64 = 600_000;

impl Tale {
    /// A new holder, named by the number of the fence, begins the effect and is granted the
    /// execution.
    pub(crate) fn executes(&mut self, fence: u64) {
        let nonce = if fence == 1 { "a".to_owned() } else { format!("n{fence}") };
        let lease = self.under.clone();
        let call = self.asks(begin(|begin| {
            begin.nonce = Some(nonce.as_str().into());
            begin.lease = lease;
        }));
        let granted = self.grants_effect(fence, &nonce);
        self.decides(call, [granted]);
        self.is_done(call, self.told(Decision::Execute, fence, ""));
    }

    pub(crate) fn finishes(&mut self, fence: u64, status: Status, outcome: &str) {
        let call = self.asks(finish(self, fence, status, outcome));
        let ended = self.ends_effect(fence, status, outcome);
        self.decides(call, [ended]);
        self.is_done(call, Reply::Ok);
    }

    pub(crate) fn replays(&mut self, fence: u64, status: Status, outcome: &str) {
        let call = self.asks(begin(|_| ()));
        self.decides(call, []);
        self.is_done(call, self.told(Decision::Replay(status), fence, outcome));
    }

    pub(crate) fn told(&self, decision: Decision, fence: u64, outcome: &str) -> Reply {
        let right = Box::new(right(self.life, fence));
        Reply::Began { decision, right, outcome: outcome.into() }
    }

    /// Commits the decision of a call.
    pub(crate) fn decides(&mut self, call: u64, records: impl IntoIterator<Item = Record>) {
        let mut facts: Vec<Fact> = records.into_iter().map(Told::into_fact).collect();
        facts.push(Fact::Decided { calls: vec![call] });
        self.commits(facts);
    }

    pub(crate) fn grants_effect(&mut self, fence: u64, nonce: &str) -> Record {
        self.holder = Some(nonce.into());
        self.until = self.now + LEASE_MS;
        record(self, fence, Progress::InProgress, "")
    }

    pub(crate) fn ends_effect(&mut self, fence: u64, status: Status, outcome: &str) -> Record {
        let progress = match status {
            Status::Unknown => Progress::InDoubt,
            Status::Succeeded | Status::FailedFinal | Status::FailedRetryable => {
                Progress::Known(status)
            }
        };
        let is_kept = status != Status::Unknown && self.under.is_none();
        let kept_until = is_kept.then_some(self.now + TTL_MS);
        Record { kept_until, ..record(self, fence, progress, outcome) }
    }
}

/// Converts a record to a fact.
pub(crate) trait Told {
    fn into_fact(self) -> Fact;
    fn resolved(self) -> Self;
}

impl Told for Record {
    fn into_fact(self) -> Fact {
        Fact::Recorded(Box::new(self))
    }

    fn resolved(self) -> Self {
        Record { resolved: true, ..self }
    }
}

pub(crate) fn effect() -> Effect {
    Effect { tenant: "default".into(), scope: "op/charge".into(), key: "order-77".into() }
}

pub(crate) fn right(life: u64, fence: u64) -> Right {
    Right { effect: effect(), life, fence }
}

pub(crate) fn begin(change: impl FnOnce(&mut Begin)) -> Op {
    let request = Some("1200".into());
    let mut begin = Begin { effect: effect(), lease: None, request, nonce: None, again: false };
    change(&mut begin);
    Op::Begin(Box::new(begin))
}

pub(crate) fn finish(tale: &Tale, fence: u64, status: Status, outcome: &str) -> Op {
    let right = Box::new(right(tale.life, fence));
    Op::Finish { right, status, outcome: outcome.into() }
}

pub(crate) fn resolve(fence: u64, status: Status, outcome: &str) -> Op {
    Op::Resolve { effect: Box::new(effect()), fence, status, outcome: outcome.into() }
}

pub(crate) fn record(tale: &Tale, fence: u64, progress: Progress, outcome: &str) -> Record {
    Record {
        right: right(tale.life, fence),
        progress,
        request: Some("1200".into()),
        nonce: tale.holder.clone(),
        on_doubt: tale.on_doubt,
        window_until: tale.window_until,
        under: tale.under.clone(),
        until: tale.until,
        outcome: outcome.into(),
        ttl_ms: TTL_MS,
        kept_until: None,
        resolved: false,
    }
}
