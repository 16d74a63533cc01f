//! Creates the clients and dispatches events to them.

use driftq_core::change::Delivery;
use driftq_core::{ConsumerId, Ticket};

use crate::plan::consumers_at_ms;
use crate::world::{Admin, Client, Outcome, Producer, SimEvent, Worker, World};

impl World {
    pub(crate) fn add_client(&mut self, client: Client) -> usize {
        self.add_client_later(client, 0)
    }

    fn add_client_later(&mut self, client: Client, at_ms: u64) -> usize {
        self.clients.list.push(client);
        let index = self.clients.list.len() - 1;
        let delay = at_ms + self.rng.u64(0..500);
        self.later(delay, SimEvent::Wake { client: index });
        index
    }

    /// Adds all clients of a plan: an operator, executors, producers, and workers of every group.
    pub(crate) fn add_clients(&mut self) {
        self.add_client(Client::Admin(Admin::default()));
        for _ in 0..2 {
            self.add_client(Client::executor());
        }
        for topic in self.plan.clone() {
            // With several nodes, producers wait longer for replies, so there are more of them.
            let busy = if self.hosts.are_many() { 6 } else { 4 };
            let producers = if topic.name == "wide" { busy } else { 1 };
            for _ in 0..producers {
                let producer = Producer::new(topic.name.into());
                self.add_client(Client::Producer(producer));
            }
            for group in topic.groups {
                for number in 0..topic.consumers {
                    let worker = Worker::new(self, topic.name.into(), (*group).into(), number);
                    let at_ms = if topic.name == "wide" { consumers_at_ms(self.shape) } else { 0 };
                    self.add_client_later(Client::Worker(Box::new(worker)), at_ms);
                }
            }
        }
    }

    pub(crate) fn wake(&mut self, client: usize) {
        match &self.clients.list[client] {
            Client::Producer(_) => self.wake_producer(client),
            Client::Worker(_) => self.wake_worker(client),
            Client::Admin(_) => self.wake_admin(client),
            Client::Executor(_) => self.wake_executor(client),
        }
    }

    pub(crate) fn on_reply(&mut self, client: usize, ticket: Ticket, outcome: Outcome) {
        match &self.clients.list[client] {
            Client::Producer(_) => self.on_producer_reply(client, ticket, outcome),
            Client::Worker(_) => self.on_worker_reply(client, ticket, outcome),
            Client::Admin(_) => self.on_admin_reply(client, ticket, outcome),
            Client::Executor(_) => self.on_effect_reply(client, ticket, &outcome),
        }
    }

    pub(crate) fn line(&mut self, consumer: ConsumerId, delivery: Box<Delivery>) {
        if let Some(&client) = self.clients.connections.get(&consumer) {
            self.worker_gets(client, delivery);
        }
    }

    pub(crate) fn hung_up(&mut self, consumer: ConsumerId) {
        if let Some(client) = self.clients.connections.remove(&consumer) {
            self.worker_lost_connection(client, consumer);
        }
    }
}
