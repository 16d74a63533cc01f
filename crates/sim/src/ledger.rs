//! Client behaviour for effects: begin, execute, and finish in time, late, twice, with another
//! outcome, or never.
//!
//! Shared by workers, which begin effects under a delivery, and executors, which use the ledger
//! directly. Clients misbehave on purpose: they reuse old tokens, and repeat a begin whose reply
//! was lost.

use driftq_checker::history::{self, Begin as CommandContext, Op, Right, Status};
use driftq_core::command::{
    Began, Begin, BeginDecision, BeginOf, ExtendEffect, Finish, FinishStatus, Request,
};
use driftq_core::effect::{EffectResult, Outcome as Result};
use driftq_core::{Command, OnDoubt, Rejection, Reply, Text, Ticket};

use crate::facts::{effect_of, in_words};
use crate::world::{Act, Book, Client, Held, Intent, Outcome, ReportedOutcome, SimEvent, World};

/// Ended rights, kept for reuse.
const OLD_RIGHTS: usize = 12;
/// How often a begin without a reply is sent at most.
const BEGINS_MAX: u32 = 4;

impl ReportedOutcome {
    /// The finish of an execution, as recorded in the history and as sent.
    pub(crate) fn of(&self, held: &Held) -> (history::Finish, Finish) {
        let ReportedOutcome { status, result } = self.clone();
        let renews = matches!(status, FinishStatus::FailedRetryable { renew: true });
        let (right, outcome) = (held.right.clone(), in_words(&result, renews));
        let told = history::Finish { right, status: status_of(status), outcome };
        (told, Finish { token: held.token.clone(), status, outcome: result })
    }
}

pub(crate) fn status_of(status: FinishStatus) -> Status {
    match status {
        FinishStatus::Succeeded => Status::Succeeded,
        FinishStatus::FailedFinal => Status::FailedFinal,
        FinishStatus::FailedRetryable { .. } => Status::FailedRetryable,
        FinishStatus::Unknown => Status::Unknown,
    }
}

fn book(world: &mut World, client: usize) -> &mut Book {
    match &mut world.clients.list[client] {
        Client::Worker(worker) => &mut worker.book,
        Client::Executor(executor) => &mut executor.book,
        Client::Producer(_) | Client::Admin(_) => unreachable!("client {client} has no effects"),
    }
}

impl World {
    pub(crate) fn some_policy(&mut self) -> OnDoubt {
        match self.rng.u32(0..3) {
            0 => OnDoubt::Retry,
            1 => OnDoubt::Probe,
            _ => OnDoubt::Park,
        }
    }

    /// Returns a nonce that is new for each begin that is not a repeat.
    pub(crate) fn some_nonce(&mut self) -> Option<Text> {
        self.clients.next_nonce += 1;
        let nonce = format!("n{}", self.clients.next_nonce);
        (self.rng.u32(0..3) != 0).then(|| nonce.into())
    }

    /// Returns a unique outcome.
    pub(crate) fn some_result(&mut self, status: FinishStatus) -> Result {
        self.clients.next_result += 1;
        let number = self.clients.next_result;
        let code = (number % 3) as i32;
        match status {
            FinishStatus::Succeeded | FinishStatus::FailedFinal => {
                let result = match number % 2 {
                    0 => EffectResult::Json(format!("{{\"charge\":{number}}}").into()),
                    _ => EffectResult::Base64(format!("{:0>8}", number % 100_000_000).into()),
                };
                Result { code, result: Some(result), error: Text::default() }
            }
            FinishStatus::FailedRetryable { .. } | FinishStatus::Unknown => {
                Result { code, result: None, error: format!("busy {number}").into() }
            }
        }
    }

    fn some_end(&mut self) -> ReportedOutcome {
        let status = match self.rng.u32(0..20) {
            0..12 => FinishStatus::Succeeded,
            12..14 => FinishStatus::FailedFinal,
            14..17 => FinishStatus::FailedRetryable { renew: self.rng.bool() },
            _ => FinishStatus::Unknown,
        };
        ReportedOutcome { status, result: self.some_result(status) }
    }

    fn later_to_effect(&mut self, client: usize, delay_ms: u64, act: Act) {
        let book = book(self, client);
        book.next_act += 1;
        let number = book.next_act;
        book.acts.insert(number, act);
        self.later(delay_ms, SimEvent::Act { client, act: number });
    }

    /// Performs a planned action.
    pub(crate) fn act(&mut self, client: usize, act: u64) {
        match book(self, client).acts.remove(&act) {
            Some(Act::Begin(intent)) => self.begin_effect(client, intent),
            Some(Act::Finish(held, said)) => self.finish_effect(client, &held, &said),
            Some(Act::Extend(held, lease_ms)) => self.extend_effect(client, &held, lease_ms),
            None => {}
        }
    }

    pub(crate) fn begin_effect_later(&mut self, client: usize, delay_ms: u64, intent: Intent) {
        self.later_to_effect(client, delay_ms, Act::Begin(intent));
    }

    pub(crate) fn begin_effect(&mut self, client: usize, intent: Intent) {
        let begin = Begin {
            of: intent.of.clone(),
            // Uses the plain request as the hash, so that the record shows what it was begun for.
            request: intent.request.clone().map(Request::Hash),
            on_doubt: (!intent.is_again()).then_some(intent.on_doubt),
            ttl_ms: intent.ttl_ms,
            window_ms: intent.window_ms,
            owner: None,
            nonce: intent.nonce.clone(),
        };
        let asked = CommandContext {
            effect: intent.effect.clone(),
            lease: intent.under.as_ref().map(|(lease, _)| lease.clone()),
            request: intent.request.clone(),
            nonce: intent.nonce.clone(),
            again: intent.is_again(),
        };
        let restore = match &intent.of {
            BeginOf::Delivery { token, .. } => token.restore,
            BeginOf::Scope { .. } => self.restore,
        };
        let is_current = restore == self.restore;
        let op = if is_current { Op::Begin(Box::new(asked)) } else { Op::Outdated };
        let ticket = self.call(client, op, Command::Begin(Box::new(begin)));
        let intent = Intent { times: intent.times + 1, ..intent };
        book(self, client).begins.insert(ticket, intent);
    }

    fn finish_effect(&mut self, client: usize, held: &Held, said: &ReportedOutcome) {
        let (history::Finish { right, status, outcome }, finish) = said.of(held);
        let op = if held.token.restore == self.restore {
            Op::Finish { right: Box::new(right), status, outcome }
        } else {
            Op::Outdated
        };
        self.call(client, op, Command::Finish(Box::new(finish)));
    }

    fn extend_effect(&mut self, client: usize, held: &Held, lease_ms: Option<u64>) {
        let op = if held.token.restore == self.restore {
            Op::ExtendEffect { right: Box::new(held.right.clone()) }
        } else {
            Op::Outdated
        };
        let extend = ExtendEffect { token: held.token.clone(), lease_ms };
        self.call(client, op, Command::ExtendEffect(Box::new(extend)));
    }

    /// Handles the reply to a call that may be a begin.
    pub(crate) fn on_effect_reply(&mut self, client: usize, ticket: Ticket, outcome: &Outcome) {
        let Some(intent) = book(self, client).begins.remove(&ticket) else {
            return;
        };
        match outcome {
            Outcome::Done(Reply::Began(began)) => self.began(client, intent, began),
            Outcome::Refused(Rejection::InProgress { .. } | Rejection::Parked { .. }) => {
                self.must_wait(client, &intent);
            }
            // Only a caller with a nonce can repeat a begin.
            Outcome::Unknown | Outcome::NotSent
                if intent.nonce.is_some() && intent.times < BEGINS_MAX =>
            {
                let delay = self.rng.u64(5..800);
                self.begin_effect_later(client, delay, intent);
            }
            Outcome::Done(_) | Outcome::Refused(_) | Outcome::Unknown | Outcome::NotSent => {}
        }
    }

    fn began(&mut self, client: usize, intent: Intent, began: &Began) {
        let row = &began.effect.row;
        let right = Right { effect: effect_of(&row.name), life: row.born.0, fence: row.fence };
        self.saw_begin(&intent, began);
        match (began.decision, &began.token) {
            (BeginDecision::Execute | BeginDecision::Probe, Some(token)) => {
                let lease_ms = row.lease_ms.max(400);
                let held = Held { right, token: token.clone() };
                let work = intent.under.as_ref().map(|(_, work)| *work);
                self.execute(client, held, lease_ms, work);
            }
            (BeginDecision::Retryable, _) if self.rng.u32(0..3) != 0 => {
                self.take_again(client, intent);
            }
            (
                BeginDecision::Execute
                | BeginDecision::Probe
                | BeginDecision::Replay
                | BeginDecision::Retryable,
                _,
            ) => {}
        }
    }

    fn saw_begin(&mut self, intent: &Intent, began: &Began) {
        let row = &began.effect.row;
        let is_after_doubt = row.doubt.is_some();
        self.stats.saw(match began.decision {
            BeginDecision::Replay => "effect replayed",
            BeginDecision::Retryable => "effect may be taken again",
            BeginDecision::Probe => "effect probed",
            BeginDecision::Execute if is_after_doubt => "effect executed again after doubt",
            BeginDecision::Execute if row.fence > 1 => "effect executed again after a failure",
            BeginDecision::Execute => "effect executed",
        });
        if intent.times > 1 && began.token.is_some() && row.nonce == intent.nonce {
            self.stats.saw("begin repeated by its nonce");
        }
    }

    /// Simulates an execution and plans its finish.
    fn execute(&mut self, client: usize, held: Held, lease_ms: u64, work: Option<u64>) {
        let said = self.some_end();
        if let Some(work) = work
            && self.rng.u32(0..3) == 0
            && self.leave_to_commit(client, work, &held, &said)
        {
            self.show_an_old_right(client, held);
            return;
        }
        let soon = self.rng.u64(1..lease_ms.min(300));
        match self.rng.u32(0..20) {
            0..11 => self.later_to_effect(client, soon, Act::Finish(held.clone(), said)),
            11..13 => {
                let more = (self.rng.u32(0..2) == 0).then(|| self.rng.u64(250..4_000));
                self.later_to_effect(client, soon / 2, Act::Extend(held.clone(), more));
                let end = self.rng.u64(1..lease_ms * 2);
                self.later_to_effect(client, soon + end, Act::Finish(held.clone(), said));
            }
            13..14 => {
                self.later_to_effect(client, soon, Act::Finish(held.clone(), said.clone()));
                let again = if self.rng.bool() { said } else { self.some_end() };
                self.later_to_effect(client, soon + 5, Act::Finish(held.clone(), again));
            }
            14..17 => {
                let late = lease_ms + self.rng.u64(0..lease_ms * 3);
                self.later_to_effect(client, late, Act::Finish(held.clone(), said));
            }
            // The executor dies.
            _ => {}
        }
        self.show_an_old_right(client, held);
    }

    fn show_an_old_right(&mut self, client: usize, held: Held) {
        let old = &mut book(self, client).old;
        old.push_back(held);
        if old.len() > OLD_RIGHTS {
            old.pop_front();
        }
        if self.rng.u32(0..6) == 0 {
            let known = book(self, client).old.len();
            let index = self.rng.usize(0..known);
            let old = book(self, client).old[index].clone();
            match self.rng.u32(0..4) {
                0 => self.extend_effect(client, &old, None),
                _ => {
                    let said = self.some_end();
                    self.finish_effect(client, &old, &said);
                }
            }
        }
    }
}
