//! Summaries of messages and groups for people: the state, its reason, and what happens next and
//! when.
//!
//! Times are relative to now, so that readers need not compare clocks. Programs read the other
//! fields.

use crate::change::{DeadRow, Entry, EntryState, Paused};
use crate::command::EffectView;
use crate::effect::EffectState;
use crate::id::Text;
use crate::message::{Death, DeathReason};
use crate::shard::{Group, ledger};
use crate::time::{Timestamp, span};
use crate::view::{Blocked, CursorView, GroupView, OwnerView};

/// State of a message in one group.
pub(crate) enum MessageState<'a> {
    /// Not delivered yet. `before` messages are ahead of it.
    Fresh { before: u64 },
    /// Leased, or waiting for a retry.
    Open(&'a Entry),
    /// Redriven for another group.
    NotMeant(Text),
    /// Below the offset at which the group started.
    Earlier,
    /// Settled, with the number of attempts if it is known.
    Done(Option<u32>),
    /// A dead letter; its row, unless it was purged.
    Dead { attempts: u32, row: Option<Box<DeadRow>> },
    /// No longer kept.
    Trimmed,
}

/// Everything that the summary of a message in one group depends on.
pub(crate) struct MessageSummary<'a> {
    pub(crate) now: Timestamp,
    pub(crate) group: &'a Group,
    pub(crate) known: &'a MessageState<'a>,
    pub(crate) max_attempts: i32,
    pub(crate) last_error: &'a Text,
    pub(crate) last_owner: &'a Text,
    pub(crate) blocked: Option<Blocked>,
    /// The effects that were begun under its delivery.
    pub(crate) effects: &'a [EffectView],
}

impl MessageSummary<'_> {
    pub(crate) fn summary(&self) -> Text {
        let said = match self.known {
            MessageState::Fresh { before: 0 } => {
                format!("not delivered yet, and next in line{}", self.held_back())
            }
            MessageState::Fresh { before } => {
                format!("not delivered yet, with {before} ahead of it{}", self.held_back())
            }
            MessageState::Open(entry) if entry.is_leased() => self.leased(entry),
            MessageState::Open(entry) => self.waiting(entry),
            MessageState::NotMeant(group) => {
                format!("not for this group: it was redriven for {group}")
            }
            MessageState::Earlier => "not for this group: the group started after it".into(),
            MessageState::Done(Some(attempts)) => format!("settled at attempt {attempts}"),
            MessageState::Done(None) => "settled".into(),
            MessageState::Dead { row: Some(row), .. } => self.dead(row),
            MessageState::Dead { row: None, .. } => "dead-lettered, then purged or expired".into(),
            MessageState::Trimmed => "settled by every group and deleted".into(),
        };
        let unknown = self.effects.iter().filter_map(|effect| self.unknown_effect(effect));
        unknown.fold(said, |said, effect| format!("{said}; {effect}")).into()
    }

    /// An effect whose outcome is unknown: its name, why, and what happens next.
    fn unknown_effect(&self, effect: &EffectView) -> Option<String> {
        let state = match effect.state {
            EffectState::InDoubt => "in doubt",
            EffectState::Parked => "parked",
            _ => return None,
        };
        let name = &effect.row.name;
        let why = ledger::of_effect(self.now, effect);
        Some(format!("effect {} {} is {state}: {why}", name.scope, name.key))
    }

    /// `attempt 3 of 20`, or `attempt 3` if the number of attempts is unlimited.
    fn nth(&self, attempt: u32) -> String {
        match self.max_attempts {
            -1 => format!("attempt {attempt}"),
            most => format!("attempt {attempt} of {most}"),
        }
    }

    fn leased(&self, entry: &Entry) -> String {
        let (attempt, owner) = (self.nth(entry.spent), self.last_owner);
        if entry.at > self.now {
            format!("{attempt} is leased to {owner} for {} more", span(entry.at.since(self.now)))
        } else {
            format!("{attempt} is leased to {owner}, and the lease has expired")
        }
    }

    fn waiting(&self, entry: &Entry) -> String {
        let spent = entry.spent;
        let failed = match entry.state {
            EntryState::Expired
                if !self.last_error.is_empty() && **self.last_error != *"ack_timeout" =>
            {
                format!("attempt {spent} timed out ({})", self.last_error)
            }
            EntryState::Expired => format!("attempt {spent} timed out"),
            EntryState::Nacked => format!("attempt {spent} failed ({})", self.last_error),
            EntryState::Returned | EntryState::Leased => "it was returned to the queue".into(),
        };
        if entry.is_past_deadline(self.now) {
            return format!("{failed}; its deadline has passed, so it becomes a dead letter");
        }
        let next = self.nth(spent + 1);
        if entry.at > self.now {
            let paused = self.blocked.filter(|why| *why == Blocked::Paused);
            let held_back = paused.map_or(String::new(), |_| self.held_back());
            format!("{failed}; {next} is due in {}{held_back}", span(entry.at.since(self.now)))
        } else {
            format!("{failed}; {next} is due now{}", self.held_back())
        }
    }

    fn dead(&self, row: &DeadRow) -> String {
        let (why, ago) = (row.reason.as_str(), span(self.now.since(row.at)));
        let error = if row.error.is_empty() { String::new() } else { format!(": {}", row.error) };
        let after = match &row.redriven {
            None => String::new(),
            Some(redriven) => format!("; redriven by {} as {}", redriven.by, redriven.new),
        };
        format!("a dead letter for {ago} ({why}{error}){after}")
    }

    fn held_back(&self) -> String {
        let paused = self.group.row.paused.as_ref();
        match self.blocked {
            None => String::new(),
            Some(why) => {
                let is_connected = !self.group.consumers.is_empty();
                let because = because(self.now, why, paused, is_connected);
                format!("; nothing is delivered: {because}")
            }
        }
    }
}

/// Summarizes a dead letter: where it failed, why, and whether it was redriven.
pub(crate) fn of_dead_letter(now: Timestamp, death: &Death, row: &DeadRow) -> Text {
    let Death { topic, group, reason, attempts, last_error, .. } = death;
    let whose = match reason {
        DeathReason::Undeliverable => format!("of {topic}"),
        DeathReason::Exhausted | DeathReason::Final | DeathReason::Deadline => {
            format!("of group {group} of {topic}")
        }
    };
    let attempts = match attempts {
        0 => String::new(),
        1 => " after 1 attempt".into(),
        _ => format!(" after {attempts} attempts"),
    };
    let error = if last_error.is_empty() { String::new() } else { format!(": {last_error}") };
    let (ago, why) = (span(now.since(row.at)), reason.as_str());
    let after = match &row.redriven {
        None => String::new(),
        Some(redriven) => format!("; redriven by {} as {}", redriven.by, redriven.new),
    };
    format!("a dead letter {whose} for {ago} ({why}{attempts}{error}){after}").into()
}

/// `is_connected` is whether the group has a stream or a waiting poll.
fn because(now: Timestamp, why: Blocked, paused: Option<&Paused>, is_connected: bool) -> String {
    match (why, paused) {
        (Blocked::Paused, Some(paused)) => {
            let Paused { by, reason, since, until } = paused;
            let until = until
                .map_or(String::new(), |until| format!(", for {} more", span(until.since(now))));
            let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
            let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
            format!("paused{by} {} ago{reason}{until}", span(now.since(*since)))
        }
        (Blocked::Paused, None) => "paused".into(),
        (Blocked::NoConsumers, _) => "no consumer is connected".into(),
        (Blocked::NoCredit, _) if is_connected => {
            "every consumer is busy: no stream has room, and no receive waits".into()
        }
        // Workers that poll are not connected while they work, and neither are dead ones.
        (Blocked::NoCredit, _) => {
            "every consumer is busy or gone: no stream is connected, and no receive waits".into()
        }
        (Blocked::InFlightLimit, _) => "max_in_flight is reached".into(),
        (Blocked::MaxOpen, _) => "max_open is reached".into(),
        (Blocked::OpenLimit, _) => "the group has reached its share of open messages".into(),
        (Blocked::NothingNew, _) => "everything was delivered".into(),
        (Blocked::Loading, _) => "messages are being loaded".into(),
        (Blocked::Quarantined, _) => "stored rows are damaged; run `driftq shard repair`".into(),
    }
}

/// Summarizes a group: messages are being delivered, or why they are not. `full` are the partitions
/// that the backlog of the group fills.
pub(crate) fn of_group(now: Timestamp, view: &GroupView, full: &[u32]) -> Text {
    let sum = |count: fn(&CursorView) -> u64| view.partitions.iter().map(count).sum::<u64>();
    let fresh = sum(|cursor| cursor.high - cursor.next);
    let (leased, waiting) = (sum(|cursor| cursor.leased), sum(|cursor| cursor.waiting));
    let counts = counts(fresh, leased, waiting);
    let is_idle = fresh + leased + waiting == 0;
    let is_active = view.recent.delivered + view.recent.acked > 0;
    let is_connected = !view.consumers.is_empty();
    let stopped_by = stopped_by(now, view);
    let mut summary = match stopped_by {
        Some(Blocked::NoConsumers) if is_idle => {
            "everything is settled; no consumer is connected".into()
        }
        // What a group at work looks like between two deliveries.
        Some(why @ (Blocked::InFlightLimit | Blocked::Loading)) if is_active => {
            let because = because(now, why, None, is_connected);
            format!("messages are being delivered; {because}; {counts}")
        }
        Some(why @ Blocked::NoCredit) => {
            format!("{}; {counts}", because(now, why, None, is_connected))
        }
        Some(why) => {
            let because = because(now, why, view.paused.as_ref(), is_connected);
            format!("nothing is delivered: {because}; {counts}")
        }
        None if fresh > 0 => format!("messages are being delivered; {counts}"),
        None if leased + waiting == 0 => "everything is settled".into(),
        None => {
            let due = view.partitions.iter().filter_map(|cursor| cursor.next_retry_at).min();
            let due = due.filter(|due| *due > now).map(|due| span(due.since(now)));
            let due = due.map_or(String::new(), |due| format!(", the first is due in {due}"));
            format!("everything was delivered; {counts}{due}")
        }
    };
    let consumer = match stopped_by {
        Some(Blocked::NoConsumers) => last_seen(now, view),
        Some(
            Blocked::NoCredit | Blocked::InFlightLimit | Blocked::MaxOpen | Blocked::OpenLimit,
        ) => slowest(now, view),
        // The workers may be dead although nothing else is left to deliver.
        None if fresh == 0 => slowest(now, view),
        _ => None,
    };
    let filled = match full {
        [] => None,
        [one] => Some(format!("partition {one} is full: produce requests to it get 429")),
        more => {
            Some(format!("{} partitions are full: produce requests to them get 429", more.len()))
        }
    };
    for part in consumer.into_iter().chain(filled) {
        summary = format!("{summary}; {part}");
    }
    summary.into()
}

/// The consumer that was seen last, if one is remembered.
fn last_seen(now: Timestamp, view: &GroupView) -> Option<String> {
    let last = view.owners.iter().max_by_key(|owner| owner.last_seen_at)?;
    Some(format!("{} was seen last, {} ago", last.owner, span(now.since(last.last_seen_at))))
}

/// The consumer with leases that has been silent, or that usually holds a message, longest.
fn slowest(now: Timestamp, view: &GroupView) -> Option<String> {
    let holders = view.owners.iter().filter(|owner| owner.leased > 0);
    let slowness = |owner: &&OwnerView| {
        now.since(owner.last_seen_at).max(owner.hold_p50_ms.unwrap_or_default())
    };
    let OwnerView { owner, leased, next_expiry_at, hold_p50_ms, last_seen_at, .. } =
        holders.max_by_key(slowness)?;
    let hold = hold_p50_ms
        .map_or(String::new(), |ms| format!(", usually holds a message for {}", span(ms)));
    let expiry = next_expiry_at.filter(|end| *end > now);
    let expiry = expiry.map_or(String::new(), |end| {
        format!(", its first lease expires in {}", span(end.since(now)))
    });
    let seen = span(now.since(*last_seen_at));
    Some(format!("the slowest is {owner}: {leased} leased{hold}, last seen {seen} ago{expiry}"))
}

/// Returns why no message is delivered that is fresh or due. `None` if some are delivered or there are
/// none.
fn stopped_by(now: Timestamp, view: &GroupView) -> Option<Blocked> {
    let is_deserted = |why: &Blocked| matches!(why, Blocked::Paused | Blocked::NoConsumers);
    let deserted = view.partitions.iter().find_map(|cursor| cursor.blocked.filter(is_deserted));
    let is_due = |cursor: &CursorView| cursor.next_retry_at.is_some_and(|due| due <= now);
    let ready = |cursor: &&CursorView| cursor.next < cursor.high || is_due(cursor);
    let ready = view.partitions.iter().filter(ready);
    let reasons: Option<Vec<Blocked>> = ready.map(|cursor| cursor.blocked).collect();
    let reason = reasons.and_then(|reasons| reasons.first().copied());
    deserted.or(reason.filter(|reason| *reason != Blocked::NothingNew))
}

fn counts(fresh: u64, leased: u64, waiting: u64) -> String {
    let counts = [
        (fresh, "not delivered yet"),
        (leased, "leased to consumers"),
        (waiting, "waiting for a retry"),
    ];
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some.map(|(count, what)| format!("{count} {what}")).collect();
    if words.is_empty() { "no messages are waiting".into() } else { words.join(", ") }
}
