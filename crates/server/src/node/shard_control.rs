//! What the task of a shard is told to do about it. Each order is done, one after the other: whoever gives one
//! waits for its end.

use driftq_core::Epoch;
use tokio::sync::mpsc;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Serve it, and claim it again whenever it is lost: there is no other node.
    Always,
    /// Claim it if its epoch is still this one, and serve it, once.
    Claim(Epoch),
    /// Stop serving it when what is decided has been committed, and tell the others if its epoch is still
    /// this one.
    GiveUp(Epoch),
    /// Drop it at once.
    Drop,
    /// Stop serving it when what is decided has been committed, for good.
    Stop,
}

/// Where orders go in.
pub(crate) type Commander = mpsc::UnboundedSender<Order>;

/// ShardControl as they come.
pub(super) struct ShardControl {
    queue: mpsc::UnboundedReceiver<Order>,
    /// Heard while the shard was served, and not done yet.
    heard: Option<Order>,
}

/// What an order means to a shard that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serve {
    On,
    /// When what is decided has been committed.
    End,
    /// At once.
    Drop,
}

impl ShardControl {
    pub(super) fn new(first: Order) -> (Commander, ShardControl) {
        let (commander, queue) = mpsc::unbounded_channel();
        (commander, ShardControl { queue, heard: Some(first) })
    }

    /// The next to be done.
    pub(super) async fn next(&mut self) -> Order {
        match self.heard.take() {
            Some(order) => order,
            // Nobody is left to give any.
            None => self.queue.recv().await.unwrap_or(Order::Stop),
        }
    }

    /// The next one that comes while the shard is served.
    pub(super) async fn hear(&mut self) -> Serve {
        let order = self.queue.recv().await.unwrap_or(Order::Stop);
        match order {
            Order::Always => Serve::On,
            Order::Drop => Serve::Drop,
            Order::GiveUp(_) | Order::Stop => {
                self.heard = Some(order);
                Serve::End
            }
            Order::Claim(_) => {
                self.heard = Some(order);
                Serve::Drop
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever said it waits for the end of it.
    #[tokio::test]
    async fn what_is_dropped_while_it_is_given_up_is_still_given_up() {
        let (commander, mut orders) = ShardControl::new(Order::Claim(Epoch(1)));
        assert_eq!(orders.next().await, Order::Claim(Epoch(1)));
        for order in [Order::GiveUp(Epoch(2)), Order::Drop, Order::Claim(Epoch(2))] {
            commander.send(order).expect("it listens");
        }
        assert_eq!(orders.hear().await, Serve::End);
        assert_eq!(orders.hear().await, Serve::Drop);
        assert_eq!(orders.next().await, Order::GiveUp(Epoch(2)));
        assert_eq!(orders.next().await, Order::Claim(Epoch(2)));
        drop(commander);
        assert_eq!(orders.next().await, Order::Stop);
    }
}
