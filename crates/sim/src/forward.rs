//! Calls among several nodes: any node takes a call and passes it on to where it believes the shard to be. On
//! the way it is lost, late, answered twice, or comes to a node that has lost the shard since.

use driftq_core::command::Place;
use driftq_core::{CallError, Command, CommandResult, Epoch, NodeId, Reply, ShardId, Ticket};

use crate::world::{Heard, Passing, SimEvent, World};

/// How often a node looks whether a shard that moves is served again.
const LOOK_MS: u64 = 100;

impl World {
    /// A client's request reaches some node.
    pub(crate) fn enter(&mut self, ticket: Ticket, command: Command) {
        let Some(entry) = self.some_host() else {
            return self.later(1, SimEvent::Answer { ticket, heard: Heard::NobodyListens });
        };
        let since = self.now;
        self.hosts.passing.insert(ticket, Passing { entry, since, command });
        if self.hosts.stopped_until(entry, since).is_some() {
            self.give_up_call(ticket);
        }
        self.later(0, SimEvent::Pass { ticket });
    }

    /// The node that took a call does something about it.
    pub(crate) fn pass(&mut self, ticket: Ticket) {
        let Some(passing) = self.hosts.passing.get(&ticket) else { return };
        let (entry, command) = (passing.entry, passing.command.clone());
        let shard = self.shard_of(&command);
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
            return self.hear_nothing_of(ticket);
        }
        if self.hosts.stopped_until(to, self.now).is_some() {
            self.hear_nothing_of(ticket);
        }
        let delay = self.delay(3);
        let command = Box::new(command);
        self.later(delay, SimEvent::Forwarded { ticket, to, epoch, command });
    }

    /// A call comes to the node that is said to serve its shard.
    pub(crate) fn forwarded(&mut self, ticket: Ticket, to: NodeId, epoch: Epoch, command: Command) {
        let shard = self.shard_of(&command);
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

    /// A shard's answer goes back to the node that took the call.
    pub(crate) fn send_back(&mut self, from: NodeId, ticket: Ticket, answered: CommandResult) {
        let Some(passing) = self.hosts.passing.get(&ticket) else { return };
        if passing.entry == from {
            return self.back(ticket, Ok(answered));
        }
        if self.is_lost_between_nodes() {
            self.stats.saw("answer lost between nodes");
            return self.hear_nothing_of(ticket);
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

    /// The node that took a call hears of it.
    pub(crate) fn back(&mut self, ticket: Ticket, answered: Result<CommandResult, CallError>) {
        let now = self.now;
        let Some(passing) = self.hosts.passing.get_mut(&ticket) else { return };
        let heard = match answered {
            Err(lost) if lost.should_retry(now - passing.since) => {
                return self.later(LOOK_MS, SimEvent::Pass { ticket });
            }
            Ok(Ok(Reply::Elsewhere(ask))) => {
                (passing.command, passing.since) = (*ask, now);
                let delay = self.delay(2);
                return self.later(delay, SimEvent::Pass { ticket });
            }
            Ok(answered) => Heard::Answer(Box::new(answered)),
            Err(CallError::NotServing | CallError::Overloaded) => Heard::NobodyListens,
            Err(CallError::Unknown) => Heard::Nothing,
        };
        self.hosts.passing.remove(&ticket);
        let delay = self.delay(5);
        self.later(delay, SimEvent::Answer { ticket, heard });
    }

    /// A process is stopped: who waits for it gives up, or not.
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
                self.hear_nothing_of(ticket);
            }
        }
    }

    /// A client does not wait for ever. Its call may be taken all the same.
    fn give_up_call(&mut self, ticket: Ticket) {
        if self.rng.bool() {
            self.stats.saw("call given up by its caller");
            let delay = self.rng.u64(300..6_000);
            self.later(delay, SimEvent::Answer { ticket, heard: Heard::Nothing });
        }
    }

    /// The node that took a call notices after a while that no answer comes.
    fn hear_nothing_of(&mut self, ticket: Ticket) {
        let noticed = self.rng.u64(500..6_000);
        self.later(noticed, SimEvent::Back { ticket, answered: Err(CallError::Unknown) });
    }

    fn is_lost_between_nodes(&mut self) -> bool {
        !self.clients.is_healed && self.rng.u32(0..50) == 0
    }

    pub(crate) fn shard_of(&self, command: &Command) -> ShardId {
        let Place::Shard(shard) = command.place(self.nodes.len() as u32) else {
            unreachable!("clients ask of one shard at a time");
        };
        shard
    }
}

/// Whether a call is decided though its caller has given up. An operator's is not: the next thing it says must not
/// be overtaken by what it said before, and neither must a consumer come that is gone.
pub(crate) fn may_come_late(command: &Command) -> bool {
    matches!(
        command,
        Command::Produce(_)
            | Command::Ack(_)
            | Command::Nack(_)
            | Command::Extend(_)
            | Command::Commit(_)
            | Command::Begin(_)
            | Command::Finish(_)
            | Command::ExtendEffect(_)
    )
}
