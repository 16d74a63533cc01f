//! One consumer's connection: the core's session machine, fed from the shard and drained by the client.

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

/// The wait before a consumer whose shard was lost looks for it again.
const FOLLOW_AGAIN: Duration = Duration::from_millis(100);

/// How long a consumer that leaves waits for what is on its way.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// A consumer that takes part. Dropped, it leaves, and what the client never saw goes back.
pub(crate) struct Connection {
    node: Node,
    shard: ShardId,
    session: Session,
    deliveries: Deliveries,
    began: Instant,
    /// Said again where the shard has gone.
    join: Join,
    /// Where it joined, unless here, and the number it has there.
    there: Option<RemoteShard>,
    number: ConsumerId,
    is_dismissed: bool,
    has_left: bool,
    share: Arc<ConsumerShare>,
}

impl Connection {
    /// Joins, and begins with `session` of the new consumer.
    pub(crate) async fn open(
        app: &App,
        share: Arc<ConsumerShare>,
        join: impl FnOnce(ConsumerId) -> Join,
        session: impl FnOnce(ConsumerId, Timestamp) -> Session,
    ) -> Result<Connection, ApiError> {
        let consumer = app.node.next_consumer();
        // Made before the answer, so that it leaves even if the caller goes while it waits.
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
        Ok(Connection {
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
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// The next line of a stream. None: it is over.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        loop {
            self.take_what_came();
            if let Some(line) = self.session.pull(self.now()) {
                return Some(line);
            }
            if !self.wait(self.session.next_deadline()).await {
                return None;
            }
        }
    }

    /// A line that is there without waiting.
    pub(crate) fn next_at_once(&mut self) -> Option<Box<Delivery>> {
        self.take_what_came();
        match self.session.pull(self.now()) {
            Some(Line::Delivery(delivery)) => Some(delivery),
            Some(Line::Heartbeat) | None => None,
        }
    }

    /// Whether nothing is there without waiting.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.take_what_came();
        self.session.is_empty()
    }

    /// Waits for something to come.
    pub(crate) async fn wait_for_some(&mut self) {
        if let Some(handed) = self.deliveries.recv().await {
            self.take(handed);
        }
    }

    /// Is given nothing more, and takes what it was given before.
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
        // If it was not heard, it leaves by being dropped.
        let _heard = tokio::time::timeout(LEAVE_WITHIN, leave).await;
    }

    /// Waits until a poll has its answer.
    pub(crate) async fn answered(&mut self) {
        loop {
            self.take_what_came();
            if self.session.is_due(self.now()) {
                return;
            }
            if !self.wait(self.session.next_deadline()).await {
                return;
            }
        }
    }

    /// Waits while the client takes nothing. Returns when the connection is over.
    pub(crate) async fn stalled(&mut self) {
        loop {
            self.take_what_came();
            let until = self.session.stalled_at();
            if until <= self.now() || !self.wait(until).await {
                return;
            }
        }
    }

    /// The client has taken everything that it was sent.
    pub(crate) fn confirm(&mut self) {
        self.session.confirm();
        if self.session.is_empty() {
            self.share.taken();
        }
    }

    /// Gives back what the client has not taken of what it was sent.
    pub(crate) fn give_back_unconfirmed(&mut self) {
        drop(self.unconfirmed());
    }

    /// What the client has not taken of what it was sent.
    pub(crate) fn unconfirmed(&mut self) -> Unconfirmed {
        let patience = Duration::from_millis(self.session.patience_ms());
        let commands = self.session.take_unconfirmed();
        Unconfirmed { node: self.node.clone(), shard: self.shard, commands, patience }
    }

    /// Until something came, or until then. False: nothing will come any more.
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

    /// Joins where the shard is served by now. False: it has nothing to come back to.
    async fn follow(&mut self) -> bool {
        if !self.node.is_among_others() {
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

    fn take_what_came(&mut self) {
        while let Ok(handed) = self.deliveries.try_recv() {
            self.take(handed);
        }
    }

    fn take(&mut self, handed: ConsumerEvent) {
        match handed {
            ConsumerEvent::Deliveries(given) => self.deliver(given),
            ConsumerEvent::Dismissed => self.is_dismissed = true,
        }
    }

    fn deliver(&mut self, deliveries: DeliveryBatch) {
        let now = self.now();
        for delivery in deliveries {
            let bytes = delivery.message.key.len() + delivery.message.value.len();
            if !self.share.fits(bytes) {
                // Uncounted. From the fourth time on it waits for its backoff.
                self.node.send(self.shard, Command::GiveBack(delivery.hold));
                continue;
            }
            if let Some(command) = self.session.deliver(now, delivery) {
                self.node.send(self.shard, command);
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // From here on the shard finds nobody and gives back by itself.
        self.deliveries.close();
        self.take_what_came();
        for command in self.session.end() {
            if !(self.has_left && matches!(command, Command::Leave(_))) {
                self.node.send(self.shard, command);
            }
        }
    }
}

/// Deliveries that a client was sent and may not have taken. Dropped, they go back.
pub(crate) struct Unconfirmed {
    node: Node,
    shard: ShardId,
    commands: Vec<Command>,
    /// How long it may leave them where they are.
    pub(crate) patience: Duration,
}

impl Unconfirmed {
    /// The client has taken them.
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

/// Leaves, unless told not to.
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
