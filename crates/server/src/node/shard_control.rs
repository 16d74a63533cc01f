//! Orders to the task of a shard. The task completes one order before it starts the next, and the
//! sender waits for each one to complete.

use driftq_core::Epoch;
use tokio::sync::mpsc;

/// An order to the task of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Serve the shard, and claim it again whenever it is lost, because there is no other node.
    Always,
    /// If the epoch of the shard is still this one, claim it and serve it once.
    Claim(Epoch),
    /// Stop serving the shard after decided commands are committed. Then, if its epoch is still
    /// this one, clear its holder, so that other nodes may claim it.
    GiveUp(Epoch),
    /// Drop the shard immediately.
    Drop,
    /// Stop serving the shard after decided commands are committed, and end the task.
    Stop,
}

/// The sending end of the orders.
pub(crate) type Commander = mpsc::UnboundedSender<Order>;

/// The orders to one shard's task.
pub(super) struct ShardControl {
    queue: mpsc::UnboundedReceiver<Order>,
    /// An order received while the shard was served, and not performed yet.
    pending: Option<Order>,
}

/// What an order means for a shard that is being served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serve {
    On,
    /// Stop after decided commands are committed.
    End,
    /// Stop immediately.
    Drop,
}

impl ShardControl {
    pub(super) fn new(first: Order) -> (Commander, ShardControl) {
        let (commander, queue) = mpsc::unbounded_channel();
        (commander, ShardControl { queue, pending: Some(first) })
    }

    /// Waits for the next order to perform.
    pub(super) async fn next(&mut self) -> Order {
        match self.pending.take() {
            Some(order) => order,
            // All senders are dropped.
            None => self.queue.recv().await.unwrap_or(Order::Stop),
        }
    }

    /// Waits for the next order that arrives while the shard is served.
    pub(super) async fn next_while_serving(&mut self) -> Serve {
        let order = self.queue.recv().await.unwrap_or(Order::Stop);
        match order {
            Order::Always => Serve::On,
            Order::Drop => Serve::Drop,
            Order::GiveUp(_) | Order::Stop => {
                self.pending = Some(order);
                Serve::End
            }
            Order::Claim(_) => {
                self.pending = Some(order);
                Serve::Drop
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sender of `GiveUp` waits for its completion.
    #[tokio::test]
    async fn what_is_dropped_while_it_is_given_up_is_still_given_up() {
        let (commander, mut orders) = ShardControl::new(Order::Claim(Epoch(1)));
        assert_eq!(orders.next().await, Order::Claim(Epoch(1)));
        for order in [Order::GiveUp(Epoch(2)), Order::Drop, Order::Claim(Epoch(2))] {
            commander.send(order).expect("the receiver exists");
        }
        assert_eq!(orders.next_while_serving().await, Serve::End);
        assert_eq!(orders.next_while_serving().await, Serve::Drop);
        assert_eq!(orders.next().await, Order::GiveUp(Epoch(2)));
        assert_eq!(orders.next().await, Order::Claim(Epoch(2)));
        drop(commander);
        assert_eq!(orders.next().await, Order::Stop);
    }
}
