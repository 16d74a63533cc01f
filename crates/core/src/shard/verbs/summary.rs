//! One sentence for people: what it is, why, and what happens next and when.
//!
//! Times are told from now, so that nobody has to compare clocks. Programs read the fields beside it.

use crate::change::{DeadRow, Entry, EntryState, Paused};
use crate::id::Text;
use crate::shard::Group;
use crate::time::{Timestamp, span};
use crate::view::{Blocked, CursorView, GroupView};

/// What is known of a message in one group.
pub(crate) enum MessageState<'a> {
    /// It waits for its turn.
    Fresh { before: u64 },
    /// It is open.
    Open(&'a Entry),
    /// The group was not meant to have it: it is for another.
    NotMeant(Text),
    /// The group began behind it.
    Earlier,
    /// Done, at the last of so many attempts where that is known.
    Done(Option<u32>),
    /// A dead letter; its row, unless it was purged.
    Dead { attempts: u32, row: Option<Box<DeadRow>> },
    /// No longer kept.
    Trimmed,
}

/// What is told about a message in one group.
pub(crate) struct MessageSummary<'a> {
    pub(crate) now: Timestamp,
    pub(crate) group: &'a Group,
    pub(crate) known: &'a MessageState<'a>,
    pub(crate) max_attempts: i32,
    pub(crate) last_error: &'a Text,
    pub(crate) last_owner: &'a Text,
    pub(crate) blocked: Option<Blocked>,
}

impl MessageSummary<'_> {
    pub(crate) fn summary(&self) -> Text {
        let said = match self.known {
            MessageState::Fresh { before: 0 } => {
                format!("not delivered yet, and next in line{}", self.held_back())
            }
            MessageState::Fresh { before } => {
                format!("not delivered yet, with {before} before it{}", self.held_back())
            }
            MessageState::Open(entry) if entry.is_leased() => self.leased(entry),
            MessageState::Open(entry) => self.waiting(entry),
            MessageState::NotMeant(group) => {
                format!("not for this group: it was redriven for {group}")
            }
            MessageState::Earlier => "not for this group: the group began behind it".into(),
            MessageState::Done(Some(attempts)) => format!("done at attempt {attempts}"),
            MessageState::Done(None) => "done".into(),
            MessageState::Dead { row: Some(row), .. } => self.dead(row),
            MessageState::Dead { row: None, .. } => "a dead letter, which is purged".into(),
            MessageState::Trimmed => "done by every group and no longer kept".into(),
        };
        said.into()
    }

    /// `3 of 20`, or `3` where there may be any number.
    fn nth(&self, attempt: u32) -> String {
        match self.max_attempts {
            -1 => format!("attempt {attempt}"),
            most => format!("attempt {attempt} of {most}"),
        }
    }

    fn leased(&self, entry: &Entry) -> String {
        let (attempt, owner) = (self.nth(entry.spent), self.last_owner);
        if entry.at > self.now {
            format!("{attempt} is with {owner} for {} more", span(entry.at.since(self.now)))
        } else {
            format!("{attempt} is with {owner}, and its time is over")
        }
    }

    fn waiting(&self, entry: &Entry) -> String {
        let spent = entry.spent;
        let failed = match entry.state {
            EntryState::Expired
                if !self.last_error.is_empty() && **self.last_error != *"ack_timeout" =>
            {
                format!("attempt {spent} ran out of time ({})", self.last_error)
            }
            EntryState::Expired => format!("attempt {spent} ran out of time"),
            EntryState::Nacked => format!("attempt {spent} failed ({})", self.last_error),
            EntryState::Returned | EntryState::Leased => "it was given back".into(),
        };
        if entry.is_past_deadline(self.now) {
            return format!("{failed}; its deadline has passed, so it becomes a dead letter");
        }
        let next = self.nth(spent + 1);
        if entry.at > self.now {
            format!("{failed}; {next} is due in {}", span(entry.at.since(self.now)))
        } else {
            format!("{failed}; {next} is due now{}", self.held_back())
        }
    }

    fn dead(&self, row: &DeadRow) -> String {
        let (why, ago) = (row.reason.as_str(), span(self.now.since(row.at)));
        let error = if row.error.is_empty() { String::new() } else { format!(": {}", row.error) };
        let after = match &row.redriven {
            None => String::new(),
            Some(redriven) => format!("; brought back by {} as {}", redriven.by, redriven.new),
        };
        format!("a dead letter for {ago} ({why}{error}){after}")
    }

    fn held_back(&self) -> String {
        let paused = self.group.row.paused.as_ref();
        match self.blocked {
            None => String::new(),
            Some(why) => format!("; nothing is delivered: {}", because(self.now, why, paused)),
        }
    }
}

fn because(now: Timestamp, why: Blocked, paused: Option<&Paused>) -> String {
    match (why, paused) {
        (Blocked::Paused, Some(paused)) => {
            let Paused { by, reason, since, until } = paused;
            let until = until
                .map_or(String::new(), |until| format!(", for {} more", span(until.since(now))));
            format!("paused by {by} {} ago ({reason}){until}", span(now.since(*since)))
        }
        (Blocked::Paused, None) => "paused".into(),
        (Blocked::NoConsumers, _) => "no consumer is there".into(),
        (Blocked::NoCredit, _) => "every consumer holds as much as it may".into(),
        (Blocked::InFlightLimit, _) => "as many are in flight as may be".into(),
        (Blocked::MaxOpen, _) => "as many are open as may be".into(),
        (Blocked::OpenLimit, _) => "the group has as many open as its shard allows".into(),
        (Blocked::NothingNew, _) => "everything was delivered".into(),
        (Blocked::Loading, _) => "messages are being read".into(),
        (Blocked::Quarantined, _) => "stored rows are damaged; run `driftq shard repair`".into(),
    }
}

/// Why nothing comes, or that it does.
pub(crate) fn of_group(now: Timestamp, view: &GroupView) -> Text {
    let sum = |count: fn(&CursorView) -> u64| view.partitions.iter().map(count).sum::<u64>();
    let fresh = sum(|cursor| cursor.high - cursor.next);
    let (leased, waiting) = (sum(|cursor| cursor.leased), sum(|cursor| cursor.waiting));
    let counts = counts(fresh, leased, waiting);
    let summary = match stopped_by(view) {
        Some(why) => {
            let because = because(now, why, view.paused.as_ref());
            format!("nothing is delivered: {because}; {counts}")
        }
        None if fresh > 0 => format!("messages are being delivered; {counts}"),
        None if leased + waiting == 0 => "everything is settled".into(),
        None => {
            let due = view.partitions.iter().filter_map(|cursor| cursor.next_retry_at).min();
            let due = due.filter(|due| *due > now).map(|due| span(due.since(now)));
            let due = due.map_or(String::new(), |due| format!(", the first for {due} more"));
            format!("everything was delivered; {counts}{due}")
        }
    };
    summary.into()
}

/// What keeps all fresh messages back; None: some flow, or there are none.
fn stopped_by(view: &GroupView) -> Option<Blocked> {
    let is_deserted = |why: &Blocked| matches!(why, Blocked::Paused | Blocked::NoConsumers);
    let deserted = view.partitions.iter().find_map(|cursor| cursor.blocked.filter(is_deserted));
    let fresh = view.partitions.iter().filter(|cursor| cursor.next < cursor.high);
    let reasons: Option<Vec<Blocked>> = fresh.map(|cursor| cursor.blocked).collect();
    deserted.or_else(|| reasons?.first().copied())
}

fn counts(fresh: u64, leased: u64, waiting: u64) -> String {
    let counts = [
        (fresh, "not delivered yet"),
        (leased, "with consumers"),
        (waiting, "waiting for a retry"),
    ];
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some.map(|(count, what)| format!("{count} {what}")).collect();
    if words.is_empty() { "nothing waits".into() } else { words.join(", ") }
}
