//! More operator actions under load: changes settings, deletes dead letters, creates groups, moves
//! all cursors of a group, pauses for a limited time, and reads.

use driftq_checker::history::{Name, Op, Start as Told};
use driftq_core::command::{
    DeadFilter, DeadState, Explain, GroupName, ListDead, ListPointers, Pause, Peek, PeekFilter,
    PointerQuery, Purge, ReadAudit, Seek, SeekTo, Start,
};
use driftq_core::{Command, DeathReason, MessageId, Reply, ShardId, Timestamp};

use crate::admin::{admin, topic_name};
use crate::commit::some_pointer;
use crate::facts::operator::pointer_text;
use crate::world::{Client, Outcome, Task, Worker, World};

/// Maximum number of guest groups: groups that are created, read for a while and abandoned.
const GUESTS_MAX: usize = 10;

impl World {
    /// Performs a random operator action.
    pub(crate) fn operate_more(&mut self, client: usize) {
        match self.rng.u32(0..100) {
            0..16 => self.patch_something(client),
            16..30 => self.purge_something(client),
            30..34 => self.list_dead(client),
            34..44 => self.explain_something(client),
            44..52 => self.peek_somewhere(client),
            52..62 => self.invite_guest(client),
            62..68 => {
                let group = self.some_group();
                self.pause_group(client, group, Task::PauseToSeekAll);
            }
            68..74 => self.pause_for_a_while(client),
            74..82 => self.read_pointer(client),
            82..88 => self.read_audit(client),
            88..94 => {
                let topic = self.some_plan().into();
                let command = Command::ViewTopic(topic_name(&topic));
                self.begin(client, Task::Settings, Op::Patch { topic }, command);
            }
            _ => {
                let group = self.some_group();
                let command = if self.rng.bool() {
                    Command::WouldDeleteGroup(group)
                } else {
                    Command::WouldDeleteTopic(group.topic)
                };
                self.begin(client, Task::Look, Op::Look, command);
            }
        }
    }

    pub(crate) fn some_plan(&mut self) -> &'static str {
        self.plan[self.rng.usize(0..self.plan.len())].name
    }

    fn some_letter(&mut self) -> Option<(Name, MessageId)> {
        let dead = &self.facts.dead;
        (!dead.is_empty()).then(|| dead[self.rng.usize(0..dead.len())].clone())
    }

    /// Deletes dead letters by id: some that exist, and some that no longer do.
    fn purge_something(&mut self, client: usize) {
        let Some((topic, id)) = self.some_letter() else { return };
        let mut ids = vec![id];
        let others = self.facts.dead.iter().filter(|(of, other)| *of == topic && *other != id);
        let others: Vec<MessageId> = others.map(|(_, id)| *id).collect();
        for _ in 0..self.rng.usize(0..3).min(others.len()) {
            ids.push(others[self.rng.usize(0..others.len())]);
        }
        let dry_run = self.rng.u32(0..3) == 0;
        self.purge(client, topic, ids, dry_run);
    }

    /// Counts ids that were issued before a restore.
    pub(crate) fn saw_id(&mut self, id: MessageId) {
        if id.restore != self.restore {
            self.stats.saw("id from before a restore presented");
        }
    }

    fn purge(&mut self, client: usize, topic: Name, ids: Vec<MessageId>, dry_run: bool) {
        ids.iter().for_each(|id| self.saw_id(*id));
        let names = ids.iter().map(|id| id.to_string().into()).collect();
        let op = Op::Purge { topic: topic.clone(), ids: names, dry_run };
        let (topic, by, reason) = (topic_name(&topic), "ops".into(), "done with".into());
        let purge = Box::new(Purge { topic, ids, by, reason });
        let command = if dry_run { Command::WouldPurge(purge) } else { Command::Purge(purge) };
        self.begin(client, Task::Purge { dry_run }, op, command);
    }

    /// Lists dead letters by a filter, to delete them.
    fn list_dead(&mut self, client: usize) {
        let Some((topic, _)) = self.some_letter() else { return };
        let reasons = [DeathReason::Exhausted, DeathReason::Final, DeathReason::Deadline];
        let filter = DeadFilter {
            reason: Some(reasons[self.rng.usize(0..reasons.len())]),
            tenant_id: self.rng.bool().then(|| "acme".into()),
            state: if self.rng.bool() { DeadState::Dead } else { DeadState::All },
            ..DeadFilter::default()
        };
        let name = topic_name(&topic);
        let list = ListDead { topic: name, below: None, filter, limit: 4, values: false };
        let command = Command::ListDead(Box::new(list));
        self.begin(client, Task::PurgeListed(topic), Op::Look, command);
    }

    fn explain_something(&mut self, client: usize) {
        let group = self.some_group();
        let topic = group.topic.topic.clone();
        let (explain, op) = match self.rng.u32(0..4) {
            0 => {
                let op = Op::ExplainGroup { topic, group: group.group.clone() };
                (Explain::Group(group), op)
            }
            1 => {
                let Some((topic, id)) = self.some_letter() else { return };
                let (topic, partition) = (format!("dlq.{topic}").into(), id.lane.partition());
                let namespace = "default".into();
                (Explain::Id { namespace, id }, Op::Inspect { topic, partition })
            }
            _ => {
                let (partition, offset) = self.some_place(&group);
                let explain = Explain::Message { topic: group.topic, partition, offset };
                (explain, Op::Inspect { topic, partition })
            }
        };
        self.begin(client, Task::Explain, op, Command::Explain(Box::new(explain)));
    }

    /// A position near the cursor of a group.
    fn some_place(&mut self, group: &GroupName) -> (u32, u64) {
        let partitions = self.facts.partitions(&group.topic.topic).unwrap_or(1);
        let partition = self.rng.u32(0..partitions);
        let next = self.facts.next(&group.topic.topic, &group.group, partition).unwrap_or(0);
        let back = self.rng.u64(0..12);
        (partition, (next + 3).saturating_sub(back))
    }

    fn peek_somewhere(&mut self, client: usize) {
        let group = self.some_group();
        let (partition, from) = self.some_place(&group);
        let topic = group.topic.topic.clone();
        let name = group.group.clone();
        let peek = Peek {
            topic: group.topic,
            partition,
            from,
            group: Some(name.clone()),
            filter: PeekFilter::default(),
            limit: 5,
            scan: 20,
        };
        let op = Op::Inspect { topic, partition };
        let ticket = self.begin(client, Task::Peek, op, Command::Peek(Box::new(peek)));
        self.clients.peeks.insert(ticket, name);
    }

    /// Creates a group for a consumer that reads for a while and then disconnects.
    fn invite_guest(&mut self, client: usize) {
        if admin(self, client).guests.len() >= GUESTS_MAX {
            return;
        }
        admin(self, client).invited += 1;
        let topic: Name = match self.rng.u32(0..5) {
            0 => format!("dlq.{}", self.some_plan()).into(),
            1 => self.some_plan().into(),
            _ => "wide".into(),
        };
        let group: Name = format!("guest-{}", admin(self, client).invited).into();
        let since = self.followed_now().0.saturating_sub(self.rng.u64(0..20_000));
        let (start, op) = match self.rng.u32(0..4) {
            0 => {
                let op =
                    Op::CreateGroup { topic: topic.clone(), group: group.clone(), latest: false };
                (Start::Earliest, op)
            }
            1 => {
                let op = Op::CreateGroupAt { topic: topic.clone(), group: group.clone(), since };
                (Start::Time(Timestamp(since)), op)
            }
            _ => {
                let op =
                    Op::CreateGroup { topic: topic.clone(), group: group.clone(), latest: true };
                (Start::Latest, op)
            }
        };
        let name = GroupName { topic: topic_name(&topic), group };
        admin(self, client).guests.push(name.clone());
        self.begin(client, Task::Invite(name.clone()), op, Command::CreateGroup(name, start));
    }

    pub(crate) fn guest_joins(&mut self, name: &GroupName) {
        let (topic, group) = (name.topic.topic.clone(), name.group.clone());
        let mut worker = Worker::new(self, topic, group, 0);
        worker.stays_until = Some(self.now + self.rng.u64(2_000..25_000));
        self.add_client(Client::Worker(Box::new(worker)));
    }

    /// Deletes the guest groups that were not deleted as idle.
    pub(crate) fn dismiss_guests(&mut self, client: usize) {
        for name in std::mem::take(&mut admin(self, client).guests) {
            let (topic, group) = (name.topic.topic.clone(), name.group.clone());
            let op = Op::DeleteGroup { topic, group };
            self.begin(client, Task::Dismiss(name.clone()), op, Command::DeleteGroup(name));
        }
    }

    pub(crate) fn seek_everything(&mut self, client: usize, group: GroupName) {
        let since = self.followed_now().0.saturating_sub(self.rng.u64(0..30_000));
        let (to, told) = match self.rng.u32(0..5) {
            0 => (SeekTo::Earliest, Told::Earliest),
            1..3 => (SeekTo::Latest, Told::Latest),
            _ => (SeekTo::Time(Timestamp(since)), Told::Time(since)),
        };
        let (topic, name) = (group.topic.topic.clone(), group.group.clone());
        let op = Op::SeekAll { topic, group: name, to: told };
        let command = Command::Seek(Seek { name: group.clone(), to, dry_run: false });
        self.begin(client, Task::SeekAll(group), op, command);
    }

    /// Pauses a group until a given time.
    fn pause_for_a_while(&mut self, client: usize) {
        let group = self.some_group();
        let (topic, name) = (group.topic.topic.clone(), group.group.clone());
        let until = Some(self.followed_now().after(self.rng.u64(500..15_000)));
        let (by, reason) = ("ops".into(), "a short break".into());
        let op = Op::Pause { topic, group: name, paused: true };
        let command = Command::Pause(Pause { name: group, by, reason, until });
        self.begin(client, Task::PauseForAWhile, op, command);
    }

    fn read_pointer(&mut self, client: usize) {
        let topic: Name = self.some_plan().into();
        let name = some_pointer(&mut self.rng);
        if self.rng.u32(0..4) == 0 {
            let (dataset, version) = (name.dataset, name.version);
            let topic = topic_name(&topic);
            let list = ListPointers { topic, dataset, version, after: None, limit: 3 };
            self.begin(client, Task::Look, Op::Look, Command::ListPointers(Box::new(list)));
            return;
        }
        let op = Op::ReadPointer { topic: topic.clone(), name: pointer_text(&name) };
        let query = PointerQuery { topic: topic_name(&topic), name };
        self.begin(client, Task::ReadPointer, op, Command::ViewPointer(Box::new(query)));
    }

    fn read_audit(&mut self, client: usize) {
        let shard = self.some_shard();
        let namespace = "default".into();
        let command = Command::ViewChain { shard, namespace };
        self.begin(client, Task::Chain(shard), Op::Look, command);
    }

    fn read_chain(&mut self, client: usize, shard: ShardId, to: u64) {
        let from = to.saturating_sub(self.rng.u64(0..20)).max(1);
        let read = ReadAudit { shard, namespace: "default".into(), from, to };
        let task = Task::Audit { from, to, restore: self.restore };
        self.begin(client, task, Op::Look, Command::ReadAudit(Box::new(read)));
    }

    /// Handles the replies to these actions.
    pub(crate) fn on_operator_reply(&mut self, client: usize, task: Task, outcome: Outcome) {
        let done = matches!(outcome, Outcome::Done(_));
        match (task, outcome) {
            (Task::Patch(setting), Outcome::Done(_)) => self.stats.saw(setting),
            (Task::Purge { dry_run: true }, Outcome::Done(_)) => {
                self.stats.saw("purge tried without effect");
            }
            (Task::Purge { .. }, Outcome::Done(Reply::Purged { purged: 0 })) => {
                self.stats.saw("purge of what is gone");
            }
            (Task::Purge { .. }, Outcome::Done(_)) => self.stats.saw("purge by id"),
            (Task::PurgeListed(topic), Outcome::Done(Reply::DeadLetters(found))) => {
                let ids: Vec<MessageId> = found.letters.iter().map(|letter| letter.id).collect();
                if !ids.is_empty() {
                    self.stats.saw("purge by filter");
                    self.purge(client, topic, ids, false);
                }
            }
            (Task::Explain, Outcome::Done(_)) => self.stats.saw("message or group explained"),
            (Task::Peek, Outcome::Done(_)) => self.stats.saw("messages peeked at"),
            (Task::Settings, Outcome::Done(_)) => self.stats.saw("settings read"),
            (Task::Invite(name), Outcome::Done(_)) => {
                self.stats.saw("group created");
                self.guest_joins(&name);
            }
            (Task::Dismiss(name), Outcome::NotSent | Outcome::Unknown) => {
                admin(self, client).guests.push(name);
            }
            (Task::PauseToSeekAll(group), _) => self.seek_everything(client, group),
            (Task::SeekAll(group), _) => {
                if done {
                    self.stats.saw("all cursors of a group moved");
                }
                self.resume_group(client, group);
            }
            (Task::PauseForAWhile, Outcome::Done(_)) => self.stats.saw("pause with an end"),
            (Task::ReadPointer, Outcome::Done(_)) => self.stats.saw("pointer read"),
            (Task::Chain(shard), Outcome::Done(Reply::Chain(tip))) if tip.seq > 0 => {
                self.read_chain(client, shard, tip.seq);
            }
            (Task::Audit { from, to, restore }, Outcome::Done(Reply::Audit(slice))) => {
                self.stats.saw("audit read");
                let seqs = slice.records.iter().map(|(_, tip)| tip.seq);
                // The tip is durable once it is shown. So no record up to it may be missing, unless
                // the storage was restored since.
                let is_gap = restore == self.restore && slice.next.is_none() && !seqs.eq(from..=to);
                self.gaps += u64::from(is_gap);
            }
            (_, _) => {}
        }
    }
}
