//! Calls in a cluster: any node accepts a call and forwards it to the node that it believes to
//! serve the shard. The call may be lost, late or answered twice, or may reach a node that has lost
//! the shard since.

use driftq_core::command::CommandTarget;
use driftq_core::{CallError, Command, CommandResult, Epoch, NodeId, Reply, ShardId, Ticket};

use crate::world::{AcceptedCall, CallReply, SimEvent, World};

/// How often a node checks whether a moving shard is served again.
const LOOK_MS: u64 = 100;

impl World {
    /// A request of a client reaches some node.
    pub(crate) fn enter(&mut self, ticket: Ticket, command: Command) {
        let Some(entry) = self.some_host() else {
            return self.later(1, SimEvent::Answer { ticket, reply: CallReply::NotServing });
        };
        let since = self.now;
        self.hosts.passing.insert(ticket, AcceptedCall { entry, since, command });
        if self.hosts.stopped_until(entry, since).is_some() {
            self.give_up_call(ticket);
        }
        self.later(0, SimEvent::Pass { ticket });
    }

    /// The node that accepted a call processes it or forwards it.
    pub(crate) fn pass(&mut self, ticket: Ticket) {
        let Some(passing) = self.hosts.passing.get(&ticket) else { return };
        let (entry, command) = (passing.entry, passing.command.clone());
        let shard = self.shard_of(ticket, &command);
        let Some((to, epoch)) = self.hosts.route(entry, shard) else {
            self.stats.saw("call held while its shard moved");
            return self.back(ticket, Err(CallError::NotServing));
        };
        if to == entry {
            match self.life_at(entry, shard) {
                Some(life) => self.take(life, ticket, command, Some(entry)),
                None => self.back(ticket, Err(CallError::NotServing)),
            }
            return;
        }
        self.stats.saw("call passed on to another node");
        if self.is_lost_between_nodes() {
            self.stats.saw("call lost between nodes");
            return self.commit_times_out_of(ticket);
        }
        if self.hosts.stopped_until(to, self.now).is_some() {
            self.commit_times_out_of(ticket);
        }
        let delay = self.delay(3);
        let command = Box::new(command);
        self.later(delay, SimEvent::Forwarded { ticket, to, epoch, command });
    }

    /// A call reaches the node that is believed to serve its shard.
    pub(crate) fn forwarded(&mut self, ticket: Ticket, to: NodeId, epoch: Epoch, command: Command) {
        let shard = self.shard_of(ticket, &command);
        let life = self.life_at(to, shard).filter(|_| self.hosts.serves(to, shard, epoch));
        let entry = self.hosts.passing.get(&ticket).map(|passing| passing.entry);
        match life {
            Some(life) => self.take(life, ticket, command, entry),
            None => {
                if self.hosts.get(to).is_some() {
                    self.stats.saw("call refused by a former owner");
                }
                let delay = self.delay(2);
                let answered = Err(CallError::NotServing);
                self.later(delay, SimEvent::Back { ticket, answered });
            }
        }
    }

    /// Sends a reply of a shard to the node that accepted the call.
    pub(crate) fn send_back(&mut self, from: NodeId, ticket: Ticket, answered: CommandResult) {
        let Some(passing) = self.hosts.passing.get(&ticket) else { return };
        if passing.entry == from {
            return self.back(ticket, Ok(answered));
        }
        if self.is_lost_between_nodes() {
            self.stats.saw("answer lost between nodes");
            return self.commit_times_out_of(ticket);
        }
        let is_last = !matches!(answered, Ok(Reply::Elsewhere(_)));
        if is_last && self.is_lost_between_nodes() {
            self.stats.saw("answered twice between nodes");
            let again = self.rng.u64(0..500);
            let answered = Ok(answered.clone());
            self.later(again, SimEvent::Back { ticket, answered });
        }
        let delay = self.delay(3);
        self.later(delay, SimEvent::Back { ticket, answered: Ok(answered) });
    }

    /// A reply reaches the node that accepted the call.
    pub(crate) fn back(&mut self, ticket: Ticket, answered: Result<CommandResult, CallError>) {
        let now = self.now;
        let Some(passing) = self.hosts.passing.get_mut(&ticket) else { return };
        let reply = match answered {
            Err(lost) if lost.should_retry(now - passing.since) => {
                return self.later(LOOK_MS, SimEvent::Pass { ticket });
            }
            Ok(Ok(Reply::Elsewhere(ask))) => {
                (passing.command, passing.since) = (*ask, now);
                let delay = self.delay(2);
                return self.later(delay, SimEvent::Pass { ticket });
            }
            Ok(answered) => CallReply::Answer(Box::new(answered)),
            Err(CallError::NotServing | CallError::Overloaded) => CallReply::NotServing,
            Err(CallError::Unknown) => CallReply::Nothing,
        };
        self.hosts.passing.remove(&ticket);
        let delay = self.delay(5);
        self.later(delay, SimEvent::Answer { ticket, reply });
    }

    /// A process is stopped. Callers that wait for it may give up.
    pub(crate) fn leave_in_doubt(&mut self, id: NodeId) {
        let taken = self.hosts.passing.iter().filter(|(_, passing)| passing.entry == id);
        for ticket in taken.map(|(ticket, _)| *ticket).collect::<Vec<Ticket>>() {
            self.give_up_call(ticket);
        }
        let nodes = self.nodes.iter().flatten().filter(|node| node.host == Some(id));
        let pending = nodes.flat_map(|node| node.pending.iter().copied());
        for ticket in pending.collect::<Vec<Ticket>>() {
            let passing = self.hosts.passing.get(&ticket);
            if passing.is_some_and(|passing| passing.entry != id) {
                self.commit_times_out_of(ticket);
            }
        }
    }

    /// A client gives up after a while. Its call may still be executed.
    fn give_up_call(&mut self, ticket: Ticket) {
        if self.rng.bool() {
            self.stats.saw("call given up by its caller");
            let delay = self.rng.u64(300..6_000);
            self.later(delay, SimEvent::Answer { ticket, reply: CallReply::Nothing });
        }
    }

    /// The node that accepted a call times out without a reply.
    fn commit_times_out_of(&mut self, ticket: Ticket) {
        let noticed = self.rng.u64(500..6_000);
        self.later(noticed, SimEvent::Back { ticket, answered: Err(CallError::Unknown) });
    }

    fn is_lost_between_nodes(&mut self) -> bool {
        !self.clients.is_healed && self.rng.u32(0..50) == 0
    }

    pub(crate) fn shard_of(&self, ticket: Ticket, command: &Command) -> ShardId {
        match command.place(self.nodes.len() as u32) {
            CommandTarget::Shard(shard) => shard,
            CommandTarget::Every => self.clients.leaves[&ticket],
            CommandTarget::Known => unreachable!("no client sends it"),
        }
    }
}

/// Whether a call may be decided after its caller has given up. An operator's call may not: it
/// could be decided after the operator's next call. A join may not: its consumer has already
/// disconnected.
pub(crate) fn may_be_delayed(command: &Command) -> bool {
    matches!(
        command,
        Command::Produce(_)
            | Command::ProduceWithNonce(_)
            | Command::Ack(_)
            | Command::Nack(_)
            | Command::Extend(_)
            | Command::Commit(_)
            | Command::Begin(_)
            | Command::Finish(_)
            | Command::ExtendEffect(_)
    )
}
