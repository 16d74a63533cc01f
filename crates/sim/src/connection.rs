//! Connections of consumers: when deliveries are written, and how connections end.

use driftq_checker::history::What;
use driftq_core::{ConsumerId, Line, Timestamp};

use crate::consumer::lease_of;
use crate::world::{SimEvent, World};

impl World {
    /// Writes to every connection what its client can take, and ends the connections that are due.
    pub(crate) fn write_lines(&mut self, life: u64) {
        let Some(node) = self.alive(life) else { return };
        let consumers: Vec<ConsumerId> = node.connections.keys().copied().collect();
        for consumer in consumers {
            let now = self.now;
            let Some(connection) =
                self.alive(life).and_then(|node| node.connections.get_mut(&consumer))
            else {
                continue;
            };
            let mut lines = Vec::new();
            let is_answered = connection.session.is_due(Timestamp(now));
            if connection.stalled_until <= now {
                while let Some(line) = connection.session.pull(Timestamp(now)) {
                    if let Line::Delivery(delivery) = line {
                        lines.push(delivery);
                    } else {
                        break;
                    }
                }
            }
            let mut at = connection.last_line_at.max(now);
            for delivery in lines {
                at += self.rng.u64(0..4);
                self.record(0, What::Written { lease: lease_of(&delivery) });
                self.later(at - now, SimEvent::Line { consumer, delivery });
            }
            if let Some(connection) =
                self.alive(life).and_then(|node| node.connections.get_mut(&consumer))
            {
                connection.last_line_at = at;
            }
            if is_answered {
                self.hang_up_after(consumer, at);
            }
        }
    }

    /// Ends a connection. Its consumer notices at `at`.
    fn hang_up_after(&mut self, consumer: ConsumerId, at: u64) {
        let mut nodes = self.nodes.iter_mut().flatten();
        let Some((life, connection)) =
            nodes.find_map(|node| Some((node.life, node.connections.remove(&consumer)?)))
        else {
            return;
        };
        self.record(0, What::Left { consumer: consumer.0 });
        let mut session = connection.session;
        let commands = session.end();
        if commands.len() > 1 {
            self.stats.saw("give-back");
        }
        for command in commands {
            self.send_command(life, command);
        }
        let wait_ms = at.saturating_sub(self.now) + 1;
        self.later(wait_ms, SimEvent::Hangup { consumer });
    }

    /// Ends a connection now.
    pub(crate) fn hang_up(&mut self, consumer: ConsumerId) {
        self.hang_up_after(consumer, self.now);
    }
}
