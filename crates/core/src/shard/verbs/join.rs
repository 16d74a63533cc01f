//! Consumers join and leave a group.

use crate::change::{Action, Change, Decision, VolatileChange};
use crate::command::{Join, Missing, Rejection, Reply, Start, Worker};
use crate::id::{ConsumerId, OwnerId, Text};
use crate::limits::{CREDIT_MAX, WORKER_LEFT_MS};
use crate::refusal::Decided;
use crate::shard::context::Context;
use crate::shard::done;
use crate::shard::verbs::create_group::{earliest, latest};
use crate::validate::{check_lease, check_owner, check_worker, check_worker_text};

impl Context<'_> {
    /// Returns the id of an owner. Stores the name if it is new.
    pub(crate) fn owner_named(
        &self,
        name: &Text,
        ids: &mut u64,
        changes: &mut Vec<Change>,
    ) -> OwnerId {
        if let Some(owner) = self.owners.by_name.get(name) {
            return *owner;
        }
        let owner = OwnerId(*ids);
        *ids += 1;
        changes.push(Change::Owner { owner, name: name.clone() });
        owner
    }

    /// Adds a consumer. Creates its group if it does not exist and the topic has
    /// `auto_create_groups`.
    pub(crate) fn join(&self, join: &Join) -> Decided {
        check_owner(&join.owner)?;
        if let Some(worker) = &join.peer.worker {
            check_worker(worker)?;
        }
        if !(1..=CREDIT_MAX).contains(&join.credit) {
            return Err(Rejection::invalid("credit", "must be between 1 and 10000").into());
        }
        let mut changes = Vec::new();
        let mut ids = self.ids;
        let topic = &*self.topic_to_read(&join.name.topic, &mut ids, &mut changes)?;
        if let Some(lease_ms) = join.lease_ms {
            check_lease(lease_ms)?;
        }

        let group = match topic.groups.get(&join.name.group) {
            Some(group) => *group,
            None if !topic.settings.auto_create_groups.0 => {
                return Err(Rejection::NotFound(Missing::Group).into());
            }
            None => {
                let starts = match join.start {
                    Start::Earliest => earliest(topic),
                    Start::Latest => latest(topic),
                    // A start by time needs reads, and a join must not wait for reads.
                    Start::Time(_) => {
                        return Err(
                            Rejection::invalid("start", "must be earliest or latest").into()
                        );
                    }
                };
                let row = self.new_group(topic, &join.name, &starts, &mut ids)?;
                let group = row.id;
                self.unmark_all(topic, &row, &mut changes);
                changes.push(Change::Group(Box::new(row)));
                group
            }
        };
        let owner = self.owner_named(&join.owner, &mut ids, &mut changes);
        if ids != self.ids {
            changes.push(Change::Ids(ids));
        }
        let reply = Reply::Joined { group, consumer: join.consumer };
        if self.has_left(join.peer.worker.as_deref()) {
            // It gets an empty answer. The group exists, as after any other join.
            let actions = vec![Action::Dismiss(join.consumer)];
            return Ok(Decision { reply, changes, volatile: Vec::new(), actions });
        }
        let joined = VolatileChange::Joined {
            consumer: join.consumer,
            group,
            owner,
            lease_ms: join.lease_ms.map(|lease_ms| lease_ms as u32),
            credit: join.credit,
            credit_bytes: join.credit_bytes,
            peer: join.peer.clone(),
        };
        Ok(Decision { reply, changes, volatile: vec![joined], actions: Vec::new() })
    }

    /// Ends the streams and polls of a worker. For a while it gets nothing, so that a request that
    /// is still on its way leases no message to a process that ends.
    pub(crate) fn leave_worker(&self, worker: &Text) -> Decided {
        check_worker_text("worker", worker)?;
        let consumers = self.volatile.consumers.iter();
        let left: Vec<ConsumerId> = consumers
            .filter(|(_, consumer)| {
                consumer.peer.worker.as_deref().is_some_and(|of| of.id == *worker)
            })
            .map(|(id, _)| *id)
            .collect();
        let until = self.now.after(WORKER_LEFT_MS);
        let mut volatile = vec![VolatileChange::WorkerLeft { worker: worker.clone(), until }];
        volatile.extend(left.iter().map(|id| VolatileChange::Left(*id)));
        let actions = left.into_iter().map(Action::Dismiss).collect();
        Ok(Decision { volatile, actions, ..done() })
    }

    fn has_left(&self, worker: Option<&Worker>) -> bool {
        let until = worker.and_then(|worker| self.volatile.left.get(&worker.id));
        until.is_some_and(|until| self.now < *until)
    }

    pub(crate) fn leave(&self, consumer: ConsumerId) -> Decision {
        Decision { volatile: vec![VolatileChange::Left(consumer)], ..done() }
    }
}
