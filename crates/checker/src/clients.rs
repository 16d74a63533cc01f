//! Checks what clients saw, in a history without commits: `NoLoss`, `AckSettlesOne`, and for dead
//! letters `DeadLetteredOnce`, `NoEarlyDeadLetter` and `FaithfulDeadLetter`.
//!
//! A cursor that was, or may have been, moved or deleted is not checked: without commits it is
//! unknown which messages it still has to deliver.

use crate::history::Verb;
use crate::ids::{Column, CursorId, FastMap, NameId, ReaderId};
use crate::invariant::Invariant::{
    AckSettlesOne, DeadLetteredOnce, FaithfulDeadLetter, NoEarlyDeadLetter, NoLoss,
};
use crate::report::Findings;
use crate::timeline::{Ask, Outcome, Seen, Timeline};

/// Checks the end of every message, and every dead letter.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut judge = Judge {
        timeline,
        findings,
        fates: FastMap::default(),
        keys: FastMap::default(),
        has_redrives: false,
        read_since: timeline.places.readers.column(None),
        is_disturbed: timeline.places.cursors.column(false),
        is_reader_disturbed: timeline.places.readers.column(false),
    };
    judge.listen();
    judge.dead_letters();
    if let Some(ended) = timeline.ended {
        judge.unsettled(ended);
        judge.unread(ended);
    }
}

struct Judge<'s, 'a> {
    timeline: &'s Timeline<'a>,
    findings: &'s mut Findings,
    fates: FastMap<(CursorId, u64), Fate>,
    /// The idempotency key under which each body was sent.
    keys: FastMap<u64, Option<NameId>>,
    has_redrives: bool,
    /// The event since which a group is known to exist.
    read_since: Column<ReaderId, Option<u64>>,
    is_disturbed: Column<CursorId, bool>,
    is_reader_disturbed: Column<ReaderId, bool>,
}

/// A message in a group, as clients know it.
#[derive(Clone, Copy, Default)]
struct Fate {
    is_delivered: bool,
    /// An ack succeeded, or may have.
    is_acked: bool,
    /// A final nack succeeded, or may have.
    is_final: bool,
    is_dead: bool,
}

impl Fate {
    /// Whether the message has reached the group.
    fn is_reached(&self) -> bool {
        self.is_delivered || self.is_acked || self.is_dead
    }
}

impl Judge<'_, '_> {
    fn listen(&mut self) {
        let places = &self.timeline.places;
        for moment in &self.timeline.moments {
            if let Seen::Delivered { entry, .. } = moment.seen {
                let cursor = places.cursor_of(entry);
                let fate = self.fates.entry((cursor, places.offset_of(entry))).or_default();
                fate.is_delivered = true;
                self.read_since[places.cursors.key(cursor).0].get_or_insert(moment.seq);
            } else if let Seen::Answered(call) = moment.seen
                && let Ask::CreateGroup(reader, _) = self.timeline.calls[call].ask
                && self.timeline.calls[call].outcome.is_done()
            {
                self.read_since[reader].get_or_insert(moment.seq);
            }
        }
        for call in self.timeline.calls.iter().filter(|call| !call.outcome.is_refused()) {
            self.asked(call.ask);
        }
    }

    fn asked(&mut self, ask: Ask<'_>) {
        let places = &self.timeline.places;
        match ask {
            Ask::Settle(settle) => {
                let cursor = places.cursor_of(settle.entry);
                let offset = places.offset_of(settle.entry);
                let fate = self.fates.entry((cursor, offset)).or_default();
                fate.is_acked |= matches!(settle.verb, Verb::Ack);
                fate.is_final |= matches!(settle.verb, Verb::Final);
            }
            Ask::Commit(commit) => {
                let commit = &self.timeline.commits[commit];
                self.asked(Ask::Settle(commit.settle));
                for send in &commit.produce {
                    self.asked(Ask::Produce(*send));
                }
            }
            Ask::Produce(send) => {
                self.keys.insert(send.content.body, send.key);
            }
            Ask::Seek(cursor) => {
                self.is_disturbed[cursor] = true;
                self.is_reader_disturbed[places.cursors.key(cursor).0] = true;
            }
            Ask::DeleteGroup(reader) => {
                self.is_reader_disturbed[reader] = true;
                places.cursors_of(reader).for_each(|cursor| self.is_disturbed[cursor] = true);
            }
            Ask::DeleteTopic(topic) => {
                for cursor in places.cursors_on(topic) {
                    self.is_disturbed[cursor] = true;
                }
                for reader in places.readers.ids().filter(|id| places.readers.key(*id).0 == topic) {
                    self.is_reader_disturbed[reader] = true;
                }
            }
            Ask::Redrive(_) => self.has_redrives = true,
            Ask::SeekAll(reader, _) => {
                self.is_reader_disturbed[reader] = true;
                places.cursors_of(reader).for_each(|cursor| self.is_disturbed[cursor] = true);
            }
            Ask::CreateGroup(..)
            | Ask::Purge { .. }
            | Ask::Inspect(_)
            | Ask::ExplainGroup
            | Ask::ReadPointer { .. }
            | Ask::Settings(_)
            | Ask::Outdated
            | Ask::Begin { .. }
            | Ask::Finish { .. }
            | Ask::ExtendEffect { .. }
            | Ask::Resolve { .. }
            | Ask::Other => {}
        }
    }

    fn dead_letters(&mut self) {
        for told in self.timeline.dead_letters.iter().filter(|told| !told.is_undeliverable()) {
            let letter = told.letter;
            let text = self.timeline.places.position_text(told.at);
            let group = &letter.group;
            let fate = self.fates.entry((told.cursor, letter.offset)).or_default();
            if fate.is_dead && !self.is_disturbed[told.cursor] {
                let detail = format_args!("{text} was dead-lettered in group {group} twice");
                self.findings.add(DeadLetteredOnce, told.seq, detail);
            }
            fate.is_dead = true;
            if &*letter.reason == "rejected" && !fate.is_final {
                let detail = format_args!(
                    "{text} was dead-lettered in group {group} as rejected, but no worker rejected it"
                );
                self.findings.add(NoEarlyDeadLetter, told.seq, detail);
            }
            if letter.attempts > 0 && letter.last_error.is_empty() {
                let detail =
                    format_args!("the dead letter of {text} in group {group} has no last error");
                self.findings.add(FaithfulDeadLetter, told.seq, detail);
            }
            // A redriven message may lack its key.
            let may_lack_key = self.has_redrives && told.key.is_none();
            let key = self.keys.get(&letter.message.body);
            if key.is_some_and(|key| *key != told.key) && !may_lack_key {
                let detail =
                    format_args!("the dead letter of {text} in group {group} has a different key");
                self.findings.add(FaithfulDeadLetter, told.seq, detail);
            }
        }
    }

    /// Finds messages that were delivered but neither acked nor dead-lettered.
    fn unsettled(&mut self, ended: u64) {
        let places = &self.timeline.places;
        for (&(cursor, offset), fate) in &self.fates {
            let is_settled = fate.is_acked || fate.is_dead;
            if fate.is_delivered && !is_settled && !self.is_disturbed[cursor] {
                let text = places.cursor_text(cursor);
                let detail =
                    format_args!("offset {offset} of {text} was delivered but never settled");
                self.findings.add(AckSettlesOne, ended, detail);
            }
        }
    }

    /// Finds messages that were produced but never delivered.
    fn unread(&mut self, ended: u64) {
        let places = &self.timeline.places;
        let mut readers = places.names.column(Vec::new());
        for reader in places.readers.ids().filter(|id| !self.is_reader_disturbed[*id]) {
            if let Some(since) = self.read_since[reader] {
                readers[places.readers.key(reader).0].push((reader, since));
            }
        }
        for call in self.timeline.calls.iter() {
            let (Ask::Produce(_), Outcome::Produced { at, deduplicated: false, .. }) =
                (call.ask, call.outcome)
            else {
                continue;
            };
            let (lane, offset) = places.positions.key(at);
            for &(reader, since) in &readers[places.lanes.key(lane).0] {
                if since > call.invoked {
                    continue;
                }
                let cursor = places.cursors.find((reader, lane));
                let fate = cursor.and_then(|cursor| self.fates.get(&(cursor, offset)));
                if !fate.is_some_and(Fate::is_reached) {
                    let text = places.position_text(at);
                    let group = places.names.key(places.readers.key(reader).1);
                    let detail = format_args!("{text} was never delivered to group {group}");
                    self.findings.add(NoLoss, ended, detail);
                }
            }
        }
    }
}
