//! Runs one seed, or many.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use driftq_checker::history::{Event, What};
use driftq_checker::{Report, check};
use driftq_core::ShardId;

use crate::plan::{END_AT_MS, HEAL_AT_MS, Shape};
use crate::stats::{Stats, Summary};
use crate::world::{SimEvent, World};

/// The minimum activity of a valid run.
const PRODUCED_MIN: u64 = 1_000;
/// Accepted, or rejected because the backlog was full.
const PRODUCES_ANSWERED_MIN: u64 = 2_000;
const GROUPS_MIN: u64 = 3;
const TELLING_FAULTS_MIN: u64 = 50;

/// A run and its history.
pub struct Outcome {
    /// The recorded events.
    pub history: Vec<Event>,
    /// The states and faults that the run reached.
    pub stats: Stats,
}

/// The result of a seed.
pub struct Verdict {
    /// The seed.
    pub seed: u64,
    /// The report of the checker.
    pub report: Report,
    /// Why the run proves nothing, if it is invalid.
    pub invalid: Option<String>,
    /// The text of the panic, if the run panicked.
    pub panicked: Option<String>,
    /// The states and faults that the run reached.
    pub stats: Stats,
}

/// Runs a seed.
pub fn run(seed: u64, is_strict: bool) -> Outcome {
    let mut world = World::new(seed, is_strict);
    world.record(0, What::Limits { open_max: world.open_max });
    world.record_time();
    if world.hosts.are_many() {
        world.start_hosts();
    } else {
        for shard in 0..world.nodes.len() as u32 {
            world.start_node(ShardId(shard));
        }
    }
    world.add_clients();
    world.plan_fault();
    world.plan_restore();
    world.plan_corruption();
    world.later(HEAL_AT_MS, SimEvent::Heal);
    while let Some(happening) = world.next(END_AT_MS) {
        world.happen(happening);
    }
    world.now = END_AT_MS;
    world.look_for_leaks();
    world.record(0, What::Ended);
    match world.shape {
        Shape::Partitions => world.stats.saw("shape: hundreds of partitions"),
        Shape::OpenLimit => world.stats.saw("shape: open limit"),
        Shape::Backlog => world.stats.saw("shape: long backlog"),
        Shape::Usual => {}
    }
    world.stats.simulated_ms = END_AT_MS;
    assert_eq!(world.defects, 0, "deciding panicked");
    assert_eq!(world.gaps, 0, "an audit chain has gaps");
    world.stats.groups = world.facts.live_groups().len() as u64;
    Outcome { history: world.history, stats: world.stats }
}

impl World {
    fn happen(&mut self, happening: SimEvent) {
        match happening {
            SimEvent::BackUp => self.back_up(),
            SimEvent::Restore => self.restore_backup(),
            SimEvent::Corrupt => self.corrupt(),
            SimEvent::Repair { damage, from } => self.repair(damage, from),
            SimEvent::Goes { consumer } => self.hang_up(consumer),
            SimEvent::Turn { life } => {
                self.write_lines(life);
                self.turn_node(life);
            }
            SimEvent::CommitSent { life, commit } => self.commit_sent(life, commit),
            SimEvent::CommitReaches { life, commit } => self.commit_reaches(life, commit),
            SimEvent::CommitBegins { life } => self.commit_begins(life),
            SimEvent::CommitEnds { life } => self.commit_ends(life),
            SimEvent::CommitTimedOut { life, fenced } => self.end_life(life, fenced),
            SimEvent::CommitApplied { life, commit } => self.commit_applied(life, *commit),
            SimEvent::CommitAnswered { life, batch } => self.commit_answered(life, batch),
            SimEvent::ReadTaken { life, read, reads, answer_at } => {
                self.read_accepted(life, read, reads, answer_at);
            }
            SimEvent::ReadAnswered { life, read, rows } => self.read_answered(life, read, rows),
            SimEvent::Request { ticket, command } => self.request(ticket, *command),
            SimEvent::Answer { ticket, reply } => self.answer(ticket, reply),
            SimEvent::Line { consumer, delivery } => self.line(consumer, delivery),
            SimEvent::Hangup { consumer } => self.hung_up(consumer),
            SimEvent::Wake { client } => self.wake(client),
            SimEvent::Planned { client, plan } => self.send_planned(client, plan),
            SimEvent::Worked { client, work } => self.worked(client, work),
            SimEvent::Act { client, act } => self.act(client, act),
            SimEvent::Fault => self.arm_fault(),
            SimEvent::Carried { target, arrive, between } => {
                self.carried(target, arrive, between);
            }
            SimEvent::Told { source, arrived, at } => self.source_answered(source, arrived, at),
            SimEvent::HostStarts => self.start_host(),
            SimEvent::Host(host, event) => self.host_event(host, event),
            SimEvent::Pass { ticket } => self.pass(ticket),
            SimEvent::Forwarded { ticket, to, epoch, command } => {
                self.forwarded(ticket, to, epoch, *command);
            }
            SimEvent::Back { ticket, answered } => self.back(ticket, answered),
            SimEvent::Restart { shard } => {
                if self.node(shard).is_none() {
                    self.start_node(shard);
                }
            }
            SimEvent::JumpEnds { number, is_right } => self.end_jump(number, is_right),
            SimEvent::Heal => {
                self.heal();
                self.clients.is_healed = true;
                self.hurry_workers();
            }
        }
    }
}

/// Runs a seed and checks its history.
pub fn judge(seed: u64, is_strict: bool) -> Verdict {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(seed, is_strict)));
    match outcome {
        Ok(Outcome { history, stats }) => {
            let report = check(&history);
            let full = ["backlog full: messages", "backlog full: bytes"];
            let full: u64 = full.iter().map(|state| stats.sometimes[state]).sum();
            let shortfalls = [
                ("accepted produces", stats.produced, PRODUCED_MIN),
                ("answered produces", stats.produced + full, PRODUCES_ANSWERED_MIN),
                ("groups", stats.groups, GROUPS_MIN),
                ("faults with work in progress", stats.faults_under_load, TELLING_FAULTS_MIN),
            ];
            let invalid = shortfalls
                .into_iter()
                .find(|(_, is, least)| is < least)
                .map(|(what, is, least)| format!("{is} {what}, required {least}"));
            Verdict { seed, report, invalid, panicked: None, stats }
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let panicked = Some(text.unwrap_or_else(|| "a panic without a message".to_owned()));
            let (report, stats) = (check(&[]), Stats::default());
            Verdict { seed, report, invalid: None, panicked, stats }
        }
    }
}

/// Runs `count` seeds starting at `first`, on `threads` threads. `each` receives every verdict and
/// returns whether to continue.
pub fn run_many(
    first: u64,
    count: u64,
    threads: usize,
    is_strict: bool,
    each: impl Fn(&Verdict) -> bool + Sync,
) -> Summary {
    let next = AtomicU64::new(first);
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let verdict = judge(seed, is_strict);
                    if !each(&verdict) {
                        next.store(first + count, Ordering::Relaxed);
                    }
                    let mut summary =
                        summary.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    summary.seeds += 1;
                    summary.stats.add(&verdict.stats);
                    summary.invalid.extend(verdict.invalid.map(|why| (seed, why)));
                    let first_violation = verdict.report.violations.first();
                    let broken =
                        first_violation.map(|v| (seed, v.invariant.to_string(), v.detail.clone()));
                    let panic = verdict.panicked.map(|text| (seed, "panic".to_owned(), text));
                    summary.violations.extend(broken.or(panic));
                }
            });
        }
    });
    summary.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}
