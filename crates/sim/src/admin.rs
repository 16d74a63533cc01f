//! The operator client: creates topics, reads, pauses, seeks, deletes, redrives dead letters and
//! resolves effects.

use std::sync::Arc;

use driftq_checker::history::{DeadLetter, Name, Op, What};
use driftq_core::change::Delivery;
use driftq_core::command::{
    CreateTopic, EffectQuery, EffectView, FinishStatus, GroupName, ListEffects, Pause, Redrive,
    Resolve, Seek, SeekTo, TopicName,
};
use driftq_core::effect::{EffectState, ResolvedAs, Scope};
use driftq_core::row::{Place, UNENDING};
use driftq_core::{Command, Reply, Ticket};

use crate::facts::content;
use crate::facts::{effect_of, in_words};
use crate::ledger::status_of;
use crate::node::group_counters;
use crate::plan::END_AT_MS;
use crate::world::{Admin, Client, Outcome, Producer, SimEvent, Task, Worker, World};

/// Before the end of the run: when dead letters start to be read, and when counters are read.
const FUNERAL_BEFORE_END_MS: u64 = 15_000;
const LAST_LOOK_BEFORE_END_MS: u64 = 1_000;

pub(crate) fn admin(world: &mut World, client: usize) -> &mut Admin {
    match &mut world.clients.list[client] {
        Client::Admin(admin) => admin,
        Client::Producer(_) | Client::Worker(_) | Client::Executor(_) => {
            unreachable!("client {client} is an operator")
        }
    }
}

pub(crate) fn topic_name(topic: &Name) -> TopicName {
    TopicName { namespace: "default".into(), topic: topic.clone() }
}

impl World {
    pub(crate) fn wake_admin(&mut self, client: usize) {
        if admin(self, client).made < self.plan.len() {
            self.make_next_topic(client);
        } else if self.clients.is_healed {
            self.wind_up(client);
        } else {
            self.operate(client);
            self.operate_more(client);
            if self.rng.bool() {
                self.look_for_doubt(client);
            }
        }
        let delay = if self.clients.is_healed { 500 } else { self.rng.u64(300..2_500) };
        self.later(delay, SimEvent::Wake { client });
    }

    /// Makes the operator act now, in addition to its own schedule.
    pub(crate) fn operate_now(&mut self) {
        let mut clients = self.clients.list.iter();
        let Some(client) = clients.position(|client| matches!(client, Client::Admin(_))) else {
            return;
        };
        if admin(self, client).made >= self.plan.len() && !self.clients.is_healed {
            match self.rng.u32(0..4) {
                0 => self.operate(client),
                1 => self.look_for_doubt(client),
                _ => self.operate_more(client),
            }
        }
    }

    pub(crate) fn begin(&mut self, client: usize, task: Task, op: Op, command: Command) -> Ticket {
        let ticket = self.call(client, op, command);
        admin(self, client).tasks.insert(ticket, task);
        ticket
    }

    fn make_next_topic(&mut self, client: usize) {
        if !admin(self, client).tasks.is_empty() {
            return;
        }
        let index = admin(self, client).made;
        let plan = self.plan[index].clone();
        let create = CreateTopic {
            name: topic_name(&plan.name.into()),
            partitions: plan.partitions,
            settings: plan.settings,
            retry_policy: None,
        };
        self.begin(
            client,
            Task::MakeTopic(index),
            Op::Look,
            Command::CreateTopic(Box::new(create)),
        );
    }

    pub(crate) fn some_group(&mut self) -> GroupName {
        let plan = &self.plan[self.rng.usize(0..self.plan.len())];
        let group = plan.groups[self.rng.usize(0..plan.groups.len())];
        GroupName { topic: topic_name(&plan.name.into()), group: group.into() }
    }

    fn operate(&mut self, client: usize) {
        let group = self.some_group();
        let (topic, name) = (group.topic.topic.clone(), group.group.clone());
        match self.rng.u32(0..100) {
            0..40 => {
                self.begin(client, Task::Look, Op::Look, Command::ViewGroup(group));
            }
            40..60 => self.redrive_something(client),
            60..68 => self.pause_group(client, group, Task::Resume),
            68..80 => self.pause_group(client, group, Task::PauseToSeek),
            80..83 => {
                let op = Op::DeleteGroup { topic, group: name };
                self.begin(client, Task::DeleteGroup, op, Command::DeleteGroup(group));
            }
            83..90 => self.brief_topic(client),
            _ => {
                let command = Command::ViewTopic(topic_name(&topic));
                self.begin(client, Task::Settings, Op::Patch { topic }, command);
            }
        }
    }

    fn redrive_something(&mut self, client: usize) {
        if self.facts.dead.is_empty() {
            return;
        }
        let (topic, id) = self.facts.dead[self.rng.usize(0..self.facts.dead.len())].clone();
        self.saw_id(id);
        let name: Name = id.to_string().into();
        let op = Op::Redrive { topic: topic.clone(), id: name };
        let (by, reason, force) = ("ops".into(), "fixed".into(), self.rng.u32(0..3) == 0);
        let command =
            Command::Redrive(Redrive { topic: topic_name(&topic), id, force, by, reason });
        self.begin(client, Task::Redrive, op, command);
    }

    fn look_for_doubt(&mut self, client: usize) {
        let state = if self.rng.bool() { EffectState::Parked } else { EffectState::InDoubt };
        let since = self.followed_now().0.saturating_sub(self.rng.u64(0..=self.now));
        let from = Place { bucket: UNENDING + since, ..Place::FIRST };
        let namespace = "default".into();
        let list = ListEffects {
            shard: self.some_shard(),
            namespace,
            state,
            scope: None,
            tenant: None,
            from,
            limit: 4,
        };
        let command = Command::ListEffects(Box::new(list));
        self.begin(client, Task::FindDoubt, Op::Look, command);
    }

    /// Resolves an effect in doubt. The resolution is random.
    fn end_doubt(&mut self, client: usize, effect: &EffectView) {
        let (resolve_as, status) = match self.rng.u32(0..4) {
            // Leaves it in doubt, so that other clients see it.
            0 => return,
            1 => (ResolvedAs::Succeeded, FinishStatus::Succeeded),
            2 => (ResolvedAs::Failed, FinishStatus::FailedFinal),
            _ => (ResolvedAs::Retry, FinishStatus::FailedRetryable { renew: false }),
        };
        let (name, fence) = (&effect.row.name, effect.row.fence);
        let Ok(scope) = Scope::parse(&name.namespace, &name.scope) else {
            return;
        };
        let outcome = self.some_result(status);
        let op = Op::Resolve {
            effect: Box::new(effect_of(name)),
            fence,
            status: status_of(status),
            outcome: in_words(&outcome, false),
        };
        let (tenant, key) = (name.tenant.clone(), name.key.clone());
        let name = EffectQuery { namespace: name.namespace.clone(), tenant, scope, key };
        let (by, reason) = ("ops".into(), "looked".into());
        let resolve = Resolve { name, fence, resolve_as, outcome, by, reason };
        self.begin(client, Task::Resolve, op, Command::Resolve(Box::new(resolve)));
    }

    pub(crate) fn pause_group(
        &mut self,
        client: usize,
        group: GroupName,
        then: fn(GroupName) -> Task,
    ) {
        let op = Op::Pause {
            topic: group.topic.topic.clone(),
            group: group.group.clone(),
            paused: true,
        };
        let (by, reason) = ("ops".into(), "trouble".into());
        let command = Command::Pause(Pause { name: group.clone(), by, reason, until: None });
        admin(self, client).paused.push(group.clone());
        self.begin(client, then(group), op, command);
    }

    pub(crate) fn resume_group(&mut self, client: usize, group: GroupName) {
        let op = Op::Pause {
            topic: group.topic.topic.clone(),
            group: group.group.clone(),
            paused: false,
        };
        self.begin(client, Task::Go(group.clone()), op, Command::Resume(group));
    }

    /// Creates or deletes a short-lived topic.
    fn brief_topic(&mut self, client: usize) {
        let me = admin(self, client);
        if let Some(brief) = me.brief.take() {
            let op = Op::DeleteTopic { topic: brief.clone() };
            let command = Command::DeleteTopic(topic_name(&brief));
            self.begin(client, Task::DeleteBrief(brief), op, command);
            return;
        }
        me.briefs += 1;
        let brief: Name = format!("brief-{}", me.briefs).into();
        let settings = self.plan[0].settings.clone();
        let name = topic_name(&brief);
        let create = CreateTopic { name, partitions: 2, settings, retry_policy: None };
        self.begin(
            client,
            Task::CreateShortLived(brief),
            Op::Look,
            Command::CreateTopic(Box::new(create)),
        );
    }

    pub(crate) fn on_admin_reply(&mut self, client: usize, ticket: Ticket, outcome: Outcome) {
        let Some(task) = admin(self, client).tasks.remove(&ticket) else {
            return;
        };
        let done = matches!(outcome, Outcome::Done(_));
        match task {
            Task::MakeTopic(index) => {
                admin(self, client).made += usize::from(done && index == admin(self, client).made)
            }
            Task::CreateShortLived(brief) if done => {
                admin(self, client).brief = Some(brief.clone());
                self.add_client(Client::Producer(Producer::new(brief.clone())));
                let worker = Worker::new(self, brief, "passer".into(), 0);
                self.add_client(Client::Worker(Box::new(worker)));
            }
            Task::DeleteBrief(brief) => match outcome {
                Outcome::Done(_) => self.stats.saw("topic deleted"),
                // The topic was created after the backup that was restored.
                Outcome::Refused(_) => {}
                Outcome::NotSent | Outcome::Unknown => admin(self, client).brief = Some(brief),
            },
            Task::PauseToSeek(group) => self.seek_group(client, group),
            Task::Resume(group) => {
                self.stats.saw("group paused");
                self.resume_group(client, group);
            }
            Task::Seek(group) => {
                if done {
                    self.stats.saw("seek under load");
                }
                self.resume_group(client, group);
            }
            Task::DeleteGroup if done => self.stats.saw("group deleted"),
            Task::Redrive => {
                if matches!(outcome, Outcome::Done(Reply::Redriven { already: true, .. })) {
                    self.stats.saw("redrive repeated");
                }
            }
            Task::FindDoubt => {
                if let Outcome::Done(Reply::Effects(found)) = outcome {
                    for effect in &found.effects {
                        self.end_doubt(client, effect);
                    }
                }
            }
            Task::Repair(damage) => self.on_repair_reply(damage, outcome),
            Task::Resolve if done => self.stats.saw("effect resolved"),
            Task::Look => {
                if let Outcome::Done(Reply::Group(view)) = outcome
                    && self.clients.is_healed
                {
                    for counters in group_counters(&view) {
                        self.record(client as u32 + 1, What::Counted { batch: None, counters });
                    }
                }
            }
            Task::Go(group) if matches!(outcome, Outcome::NotSent | Outcome::Unknown) => {
                admin(self, client).paused.push(group);
            }
            Task::CreateShortLived(_) | Task::DeleteGroup | Task::Go(_) | Task::Resolve => {}
            task @ (Task::Patch(_)
            | Task::Purge { .. }
            | Task::PurgeListed(_)
            | Task::Explain
            | Task::Peek
            | Task::Settings
            | Task::Invite(_)
            | Task::Dismiss(_)
            | Task::PauseToSeekAll(_)
            | Task::SeekAll(_)
            | Task::PauseForAWhile
            | Task::ReadPointer
            | Task::Chain(_)
            | Task::Audit { .. }) => self.on_operator_reply(client, task, outcome),
        }
    }

    fn seek_group(&mut self, client: usize, group: GroupName) {
        let topic = group.topic.topic.clone();
        let partition = 0;
        let offset = self.rng.u64(0..400);
        let to = SeekTo::Offset { partition, offset };
        let op = Op::Seek { topic, group: group.group.clone(), partition, offset };
        let command = Command::Seek(Seek { name: group.clone(), to, dry_run: false });
        self.begin(client, Task::Seek(group), op, command);
    }

    /// Ends a run after the faults: resumes groups, reads dead letters and counters.
    fn wind_up(&mut self, client: usize) {
        let paused = std::mem::take(&mut admin(self, client).paused);
        for group in paused {
            self.resume_group(client, group);
        }
        self.dismiss_guests(client);
        if self.now + FUNERAL_BEFORE_END_MS >= END_AT_MS && !admin(self, client).has_undertakers {
            admin(self, client).has_undertakers = true;
            let topics: Vec<Name> = self.facts.topics_with_dead_letters();
            for topic in topics {
                let worker = Worker::undertaker(self, format!("dlq.{topic}").into());
                self.add_client(Client::Worker(Box::new(worker)));
            }
        }
        if self.now + LAST_LOOK_BEFORE_END_MS >= END_AT_MS && !admin(self, client).has_looked {
            admin(self, client).has_looked = true;
            for (topic, group) in self.facts.live_groups() {
                let name = GroupName { topic: topic_name(&topic), group };
                self.begin(client, Task::Look, Op::Look, Command::ViewGroup(name));
            }
        }
    }

    /// Records a dead letter as its reader sees it.
    pub(crate) fn write_down(&mut self, delivery: &Delivery) {
        let Some(death) = &delivery.message.death else {
            return;
        };
        let id: Name = delivery.id.to_string().into();
        let redriven = self.facts.redriven.get(&id).cloned();
        if !self.facts.written_down.insert(id.clone()) {
            return;
        }
        self.record(
            0,
            What::DeadLetter(DeadLetter {
                id,
                topic: death.topic.clone(),
                group: death.group.clone(),
                partition: death.id.lane.partition(),
                offset: death.id.offset,
                origin: death.id.to_string().into(),
                reason: Arc::from(death.reason.as_str()),
                attempts: death.attempts,
                last_error: death.last_error.clone(),
                message: content(&delivery.message),
                idem: delivery.message.envelope.idempotency_key.clone(),
                redriven,
            }),
        );
    }
}
