//! The connection of one consumer. The shard feeds the core's session machine, and the client
//! drains it.

use std::sync::Arc;
use std::time::Duration;

use driftq_core::change::Delivery;
use driftq_core::command::Join;
use driftq_core::{Command, ConsumerId, Line, Reply, Session, ShardId, Timestamp};
use tokio::time::Instant;

use super::api_error::{ApiError, Subject, internal_error};
use super::app::{App, WRONG_REPLY};
use crate::budget::ConsumerShare;
use crate::node::RemoteShard;
use crate::node::{ConsumerEvent, Deliveries, DeliveryBatch, Node};
use crate::traces::Traces;

/// Delay before a consumer whose shard was lost tries to join again.
const FOLLOW_AGAIN: Duration = Duration::from_millis(100);

/// How long a leaving consumer waits for deliveries that are still under way.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// A consumer that has joined. When it is dropped, it leaves, and deliveries that the client never
/// received are given back.
pub(crate) struct ConsumerConnection {
    node: Node,
    shard: ShardId,
    session: Session,
    deliveries: Deliveries,
    began: Instant,
    /// Used to join again after the shard has moved.
    join: Join,
    /// The remote shard that it joined, if any, and its number there.
    there: Option<RemoteShard>,
    number: ConsumerId,
    is_dismissed: bool,
    has_left: bool,
    share: Arc<ConsumerShare>,
    traces: Arc<Traces>,
}

impl ConsumerConnection {
    /// Joins, and starts the session of the new consumer.
    pub(crate) async fn open(
        app: &App,
        share: Arc<ConsumerShare>,
        join: impl FnOnce(ConsumerId) -> Join,
        session: impl FnOnce(ConsumerId, Timestamp) -> Session,
    ) -> Result<ConsumerConnection, ApiError> {
        let consumer = app.node.next_consumer();
        // Created before the answer arrives, so that the consumer leaves even if the caller
        // disconnects meanwhile.
        let join = join(consumer);
        let shard = app.node.shard_of(&join.name);
        let mut leaving = Leaving { node: app.node.clone(), shard, consumer: Some(consumer) };
        let (answered, deliveries, there) = app.node.join(join.clone()).await?;
        let name = &join.name;
        let subject = Subject { topic: Some(&name.topic.topic), group: Some(&name.group) };
        let rejected = |rejection| ApiError::rejected(rejection, subject);
        let Reply::Joined { consumer: number, .. } = answered.map_err(rejected)? else {
            return Err(internal_error(WRONG_REPLY));
        };
        leaving.consumer = None;
        let session = session(consumer, Timestamp(0));
        let node = app.node.clone();
        Ok(ConsumerConnection {
            node,
            shard,
            session,
            deliveries,
            began: Instant::now(),
            join,
            there,
            number,
            is_dismissed: false,
            has_left: false,
            share,
            traces: app.traces.clone(),
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Waits for the next line of a stream. Returns `None` at its end.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        loop {
            self.receive_pending();
            if let Some(line) = self.session.pull(self.now()) {
                return Some(line);
            }
            if !self.wait(self.session.next_deadline()).await {
                return None;
            }
        }
    }

    /// Returns a delivery that is available without waiting.
    pub(crate) fn next_at_once(&mut self) -> Option<Box<Delivery>> {
        self.receive_pending();
        match self.session.pull(self.now()) {
            Some(Line::Delivery(delivery)) => Some(delivery),
            Some(Line::Heartbeat) | None => None,
        }
    }

    /// Whether no delivery is available without waiting.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.receive_pending();
        self.session.is_empty()
    }

    /// Waits for the next event.
    pub(crate) async fn wait_for_some(&mut self) {
        if let Some(handed) = self.deliveries.recv().await {
            self.take(handed);
        }
    }

    /// Leaves, and receives the deliveries that were sent before.
    pub(crate) async fn leave(&mut self) {
        let leave = async {
            let left = self.node.leave(self.shard, self.there.as_ref(), self.number);
            self.has_left = left.await.is_ok();
            while self.has_left
                && let Some(handed) = self.deliveries.recv().await
            {
                self.take(handed);
            }
        };
        // If the command is not answered, the consumer leaves when it is dropped.
        let _heard = tokio::time::timeout(LEAVE_WITHIN, leave).await;
    }

    /// Waits until a poll has its answer.
    pub(crate) async fn answered(&mut self) {
        loop {
            self.receive_pending();
            if self.session.is_due(self.now()) {
                return;
            }
            if !self.wait(self.session.next_deadline()).await {
                return;
            }
        }
    }

    /// Waits while the client reads nothing. Returns when the session must end.
    pub(crate) async fn stalled(&mut self) {
        loop {
            self.receive_pending();
            let until = self.session.stalled_at();
            if until <= self.now() || !self.wait(until).await {
                return;
            }
        }
    }

    /// Records that the client has received everything sent so far.
    pub(crate) fn confirm(&mut self) {
        self.session.confirm();
        if self.session.is_empty() {
            self.share.release_large();
        }
    }

    /// Gives back the deliveries that the client has not confirmed.
    pub(crate) fn give_back_unconfirmed(&mut self) {
        drop(self.unconfirmed());
    }

    /// Returns the deliveries that were sent and not confirmed.
    pub(crate) fn unconfirmed(&mut self) -> Unconfirmed {
        let patience = Duration::from_millis(self.session.read_timeout_ms());
        let commands = self.session.take_unconfirmed();
        Unconfirmed { node: self.node.clone(), shard: self.shard, commands, patience }
    }

    /// Waits for an event, or until `until`. Returns false if no event will follow.
    async fn wait(&mut self, until: Timestamp) -> bool {
        let until = until.since(self.now());
        tokio::select! {
            handed = self.deliveries.recv() => match handed {
                Some(handed) => self.take(handed),
                None if self.is_dismissed => return false,
                None => return self.follow().await,
            },
            () = tokio::time::sleep(Duration::from_millis(until)) => {}
        }
        true
    }

    /// Joins again on the node that now serves the shard. Returns false if that is not possible.
    async fn follow(&mut self) -> bool {
        if !self.node.is_clustered() {
            return false;
        }
        match self.node.join(self.join.clone()).await {
            Ok((Ok(Reply::Joined { consumer, .. }), deliveries, there)) => {
                (self.number, self.deliveries, self.there) = (consumer, deliveries, there);
                true
            }
            Ok(_) => false,
            Err(_) => {
                tokio::time::sleep(FOLLOW_AGAIN).await;
                true
            }
        }
    }

    fn receive_pending(&mut self) {
        while let Ok(handed) = self.deliveries.try_recv() {
            self.take(handed);
        }
    }

    fn take(&mut self, handed: ConsumerEvent) {
        match handed {
            ConsumerEvent::Deliveries(given) => self.deliver(given),
            ConsumerEvent::Dismissed => {
                self.is_dismissed = true;
                // What the client has not received goes to other consumers.
                for command in self.session.end() {
                    self.node.send(self.shard, command);
                }
            }
        }
    }

    fn deliver(&mut self, deliveries: DeliveryBatch) {
        let now = self.now();
        for delivery in deliveries {
            let bytes = delivery.message.size() as usize;
            if !self.share.fits(bytes) {
                // Given back without counting an attempt. From the fourth time on, the message
                // waits for its backoff.
                self.node.send(self.shard, Command::GiveBack(delivery.hold));
                continue;
            }
            self.traces.delivered(&delivery);
            if let Some(command) = self.session.deliver(now, delivery) {
                self.node.send(self.shard, command);
            }
        }
    }
}

impl Drop for ConsumerConnection {
    fn drop(&mut self) {
        // From here on, sends by the shard fail, and the shard gives back their deliveries itself.
        self.deliveries.close();
        self.receive_pending();
        for command in self.session.end() {
            if !(self.has_left && matches!(command, Command::Leave(_))) {
                self.node.send(self.shard, command);
            }
        }
    }
}

/// Deliveries that were sent to a client and not confirmed. Dropping them gives them back.
pub(crate) struct Unconfirmed {
    node: Node,
    shard: ShardId,
    commands: Vec<Command>,
    /// How long the client may take before the deliveries are given back.
    pub(crate) patience: Duration,
}

impl Unconfirmed {
    /// Records that the client has received the deliveries.
    pub(crate) fn confirm(mut self) {
        self.commands.clear();
    }
}

impl Drop for Unconfirmed {
    fn drop(&mut self) {
        for command in self.commands.drain(..) {
            self.node.send(self.shard, command);
        }
    }
}

/// Leaves when it is dropped, unless `consumer` was cleared.
struct Leaving {
    node: Node,
    shard: ShardId,
    consumer: Option<ConsumerId>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(consumer) = self.consumer {
            self.node.send(self.shard, Command::Leave(consumer));
        }
    }
}
