//! Commits of several nodes in the database. Each life has a connection that executes its commits
//! one after another, even if the node has ended. A claim waits between the two halves of a commit.

use driftq_storage::EngineError;

use crate::hosts::LOCK_LOOK_MS;
use crate::world::{Commit, SimEvent, World};

impl World {
    /// A commit reaches the database, unless the database is unreachable.
    pub(crate) fn commit_reaches(&mut self, life: u64, commit: Box<Commit>) {
        if commit.host.is_some_and(|host| self.hosts.is_cut(host, self.now)) {
            self.stats.saw("commit that never reached the database");
            return self.commit_times_out(life);
        }
        let session = self.hosts.sessions.entry(life).or_default();
        session.push_back(commit);
        if session.len() == 1 {
            self.commit_begins(life);
        }
    }

    /// The first half: the fence check.
    pub(crate) fn commit_begins(&mut self, life: u64) {
        let session = self.hosts.sessions.get(&life);
        let Some(commit) = session.and_then(|session| session.front()) else { return };
        match self.engine.begin(commit.ownership) {
            Ok(()) => {
                let work = self.delay(3) + self.faults.slow_disk_ms(self.now);
                self.later(work, SimEvent::CommitEnds { life });
            }
            Err(EngineError::Unknown(_)) => {
                self.later(LOCK_LOOK_MS, SimEvent::CommitBegins { life });
            }
            Err(EngineError::Fenced) => {
                let commit = self.take_first(life);
                self.commit_refused(life, &commit);
                self.commit_begins(life);
            }
        }
    }

    /// The second half: the write.
    pub(crate) fn commit_ends(&mut self, life: u64) {
        let mut commit = self.take_first(life);
        let (ownership, no) = (commit.ownership, commit.batch.no);
        if self.faults.takes_commit(life, no.0) {
            self.engine.end(ownership, None).expect("nothing is written");
            self.stats.saw("unknown commit that had not happened");
        } else {
            let writes = std::mem::take(&mut commit.writes);
            match self.engine.end(ownership, Some((no, writes))) {
                Ok(()) => self.commit_ended(life, *commit),
                Err(_) => self.commit_refused(life, &commit),
            }
        }
        self.commit_begins(life);
    }

    fn commit_ended(&mut self, life: u64, mut commit: Commit) {
        let slow = self.faults.slow_disk_ms(self.now) / 4;
        let answered_at = self.now + self.delay(3) + slow;
        let node = self.alive(life);
        commit.answer_at = node.map_or(answered_at, |node| node.next_answer_at(answered_at));
        let is_cut = commit.host.is_some_and(|host| self.hosts.is_cut(host, self.now));
        self.made_durable(life, commit, !is_cut);
        if is_cut {
            self.stats.saw("commit that happened and was not heard of");
            self.commit_times_out(life);
        }
    }

    fn commit_refused(&mut self, life: u64, commit: &Commit) {
        self.stats.saw("commit of an old owner refused");
        if self.hosts.holder(commit.ownership.shard) != commit.host {
            self.stats.saw("commit refused after another node's claim");
        }
        let delay = self.delay(3);
        self.later(delay, SimEvent::CommitTimedOut { life, fenced: true });
    }

    fn take_first(&mut self, life: u64) -> Box<Commit> {
        let session = self.hosts.sessions.get_mut(&life).expect("the life has a queued commit");
        let commit = session.pop_front().expect("the life has a queued commit");
        if session.is_empty() {
            self.hosts.sessions.remove(&life);
        }
        commit
    }

    /// The life receives no reply and times out after a while.
    pub(crate) fn commit_times_out(&mut self, life: u64) {
        let noticed = self.rng.u64(500..3_000);
        self.later(noticed, SimEvent::CommitTimedOut { life, fenced: false });
    }
}
