//! One consumer's connection: a stream of deliveries, or a poll that is answered once.
//!
//! A state machine like the pipeline. Its inputs are deliveries from the shard, the time, when the
//! client can read another line, and when it disconnects. Its outputs are the lines to write and
//! the commands to send.
//!
//! # Guarantees
//!
//! 1. A delivery is yielded at most once. If it was never yielded, it is given back, uncounted,
//!    when the connection ends.
//! 2. A delivery that was yielded is not given back, because its worker may have it. The exception
//!    is a client that stalls before it has read the line ([`Session::confirm`]).
//! 3. The queue is bounded: the shard sends no more than the consumer's credit.
//! 4. A delivery that the client does not read is given back before its lease expires. If the
//!    client reads nothing for a quarter of a lease, at most 30 s, the connection ends. So no
//!    attempt is counted that the client has not received.
//!
//! Times are from the shell's own clock; only differences matter.

use std::collections::VecDeque;

use crate::change::Delivery;
use crate::command::{Command, LeaseId};
use crate::id::ConsumerId;
use crate::time::Timestamp;

/// Heartbeat interval of an idle stream, so that proxies and clients know that it is alive.
pub const HEARTBEAT_MS: u64 = 15_000;
/// A client that reads nothing for this long, while a line waits for it, is disconnected.
pub const STALLED_MS: u64 = 30_000;

/// The next line for a client.
#[derive(Debug)]
pub enum Line {
    /// A delivery.
    Delivery(Box<Delivery>),
    /// A blank line.
    Heartbeat,
}

/// How a connection receives its deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One after the other, until the connection ends.
    Stream,
    /// The deliveries of one batch, or none if there are none by `until`.
    Poll { until: Timestamp },
}

/// One consumer's connection.
#[derive(Debug)]
pub struct Session {
    consumer: ConsumerId,
    kind: Kind,
    /// Delivered by the shard, but not yet yielded.
    queue: VecDeque<Box<Delivery>>,
    /// Yielded, but perhaps still in the server's buffers.
    unconfirmed: Vec<LeaseId>,
    /// The shortest read timeout of these deliveries.
    unconfirmed_ms: u64,
    /// When a line was last yielded.
    yielded_at: Timestamp,
    /// Since when a delivery waits to be read.
    waits_since: Option<Timestamp>,
    is_over: bool,
}

impl Session {
    /// Creates the stream of a consumer that joined.
    pub fn stream(consumer: ConsumerId, now: Timestamp) -> Session {
        Session::new(consumer, Kind::Stream, now)
    }

    /// Creates a poll that waits for `wait_ms`.
    pub fn poll(consumer: ConsumerId, now: Timestamp, wait_ms: u64) -> Session {
        Session::new(consumer, Kind::Poll { until: now.after(wait_ms) }, now)
    }

    fn new(consumer: ConsumerId, kind: Kind, now: Timestamp) -> Session {
        Session {
            consumer,
            kind,
            queue: VecDeque::new(),
            unconfirmed: Vec::new(),
            unconfirmed_ms: STALLED_MS,
            yielded_at: now,
            waits_since: None,
            is_over: false,
        }
    }

    /// Queues a delivery from the shard. After the end of the connection, returns the command that
    /// gives it back.
    #[must_use = "the command must be sent"]
    pub fn deliver(&mut self, now: Timestamp, delivery: Box<Delivery>) -> Option<Command> {
        if self.is_over {
            return Some(Command::GiveBack(delivery.hold));
        }
        self.waits_since.get_or_insert(now);
        self.queue.push_back(delivery);
        None
    }

    /// Returns the next line for a client that can read one, or None if there is none yet.
    pub fn pull(&mut self, now: Timestamp) -> Option<Line> {
        if self.is_over {
            return None;
        }
        let line = match self.queue.pop_front() {
            Some(delivery) => {
                self.unconfirmed.push(delivery.hold);
                self.unconfirmed_ms = self.unconfirmed_ms.min(read_timeout_ms(&delivery));
                Line::Delivery(delivery)
            }
            None if self.heartbeat_at() <= now => Line::Heartbeat,
            None => return None,
        };
        self.yielded_at = now;
        self.waits_since = (!self.queue.is_empty()).then_some(now);
        Some(line)
    }

    fn heartbeat_at(&self) -> Timestamp {
        match self.kind {
            Kind::Stream => self.yielded_at.after(HEARTBEAT_MS),
            Kind::Poll { .. } => Timestamp::MAX,
        }
    }

    /// Whether the connection must end: the client stalls, or the poll has its answer.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let is_stalled = self.stalled_at() <= now;
        let is_answered = match self.kind {
            Kind::Stream => false,
            Kind::Poll { until } => !self.queue.is_empty() || now >= until,
        };
        is_stalled || is_answered
    }

    /// Returns when a client counts as stalled if it reads nothing before. Never while nothing
    /// waits for it.
    pub fn stalled_at(&self) -> Timestamp {
        let shortest = self.queue.iter().map(|delivery| read_timeout_ms(delivery)).min();
        let shortest = shortest.unwrap_or(STALLED_MS).min(STALLED_MS);
        let waits = self.waits_since.map(|since| since.after(shortest));
        let is_unconfirmed = !self.unconfirmed.is_empty() && self.kind == Kind::Stream;
        let yielded = is_unconfirmed.then(|| self.yielded_at.after(self.unconfirmed_ms));
        [waits, yielded].into_iter().flatten().min().unwrap_or(Timestamp::MAX)
    }

    /// Confirms all yielded lines: a client that can read another line has read those before it.
    pub fn confirm(&mut self) {
        self.unconfirmed.clear();
        self.unconfirmed_ms = STALLED_MS;
    }

    /// Returns how long the client may leave yielded lines unread.
    pub fn read_timeout_ms(&self) -> u64 {
        self.unconfirmed_ms
    }

    /// Gives back the yielded lines that a stalled or disconnected client has not read.
    #[must_use = "the commands must be sent"]
    pub fn take_unconfirmed(&mut self) -> Vec<Command> {
        self.unconfirmed_ms = STALLED_MS;
        self.unconfirmed.drain(..).map(Command::GiveBack).collect()
    }

    /// Whether no delivery waits to be read.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns when to check again if nothing happens before.
    pub fn next_deadline(&self) -> Timestamp {
        let until = match self.kind {
            Kind::Stream => self.heartbeat_at(),
            Kind::Poll { until } => until,
        };
        self.stalled_at().min(until)
    }

    /// Ends the connection: the consumer leaves, and deliveries that were not yielded are given
    /// back. A second call returns nothing.
    #[must_use = "the commands must be sent"]
    pub fn end(&mut self) -> Vec<Command> {
        if std::mem::replace(&mut self.is_over, true) {
            return Vec::new();
        }
        let unyielded = self.queue.drain(..).map(|delivery| Command::GiveBack(delivery.hold));
        std::iter::once(Command::Leave(self.consumer)).chain(unyielded).collect()
    }
}

/// Returns how long a client may leave a delivery unread. Half of its lease may have passed during
/// the commit.
fn read_timeout_ms(delivery: &Delivery) -> u64 {
    u64::from(delivery.lease_ms) / 4
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::id::{Generation, GroupId, Lane, MessageId, ShardId, TopicId};
    use crate::message::Message;
    use crate::token::LeaseToken;

    fn delivery(offset: u64) -> Box<Delivery> {
        let (topic, lane, group, generation) = (TopicId(1), Lane(0), GroupId(2), Generation(3));
        Box::new(Delivery {
            token: LeaseToken {
                restore: 0,
                namespace: "default".into(),
                shard: ShardId(0),
                topic,
                lane,
                offset,
                group,
                generation,
                attempt: 1,
                granted_at: Timestamp(0),
            },
            hold: LeaseId { group, lane, generation, offset, attempt: 1 },
            topic: "orders".into(),
            group: "biller".into(),
            id: MessageId { restore: 0, shard: ShardId(0), topic, lane, offset },
            spent: 1,
            lease_ms: 120_000,
            expires_at: Timestamp(120_000),
            last_error: "".into(),
            message: Arc::new(Message {
                restore: 0,
                produced_at: Timestamp(0),
                key: Default::default(),
                value: Default::default(),
                envelope: Default::default(),
                routing: None,
                trace: None,
                origin: None,
                redriven: 0,
                for_group: None,
                death: None,
            }),
        })
    }

    fn given_back(commands: &[Command]) -> Vec<u64> {
        let offset = |command: &Command| {
            let Command::GiveBack(hold) = command else { return None };
            Some(hold.offset)
        };
        commands.iter().filter_map(offset).collect()
    }

    #[test]
    fn what_was_never_yielded_goes_back_once() {
        let mut session = Session::stream(ConsumerId(1), Timestamp(0));
        for offset in 0..3 {
            assert!(session.deliver(Timestamp(1), delivery(offset)).is_none());
        }
        assert!(
            matches!(session.pull(Timestamp(2)), Some(Line::Delivery(d)) if d.hold.offset == 0)
        );
        let commands = session.end();
        assert!(matches!(commands[0], Command::Leave(ConsumerId(1))));
        assert_eq!(given_back(&commands), [1, 2]);
        assert!(session.end().is_empty());
        assert!(session.pull(Timestamp(3)).is_none());
        let late = session.deliver(Timestamp(4), delivery(9));
        assert!(matches!(late, Some(Command::GiveBack(hold)) if hold.offset == 9));
    }

    #[test]
    fn an_idle_stream_says_something_every_15_seconds() {
        let mut session = Session::stream(ConsumerId(1), Timestamp(0));
        assert!(session.pull(Timestamp(14_999)).is_none());
        assert_eq!(session.next_deadline(), Timestamp(15_000));
        assert!(matches!(session.pull(Timestamp(15_000)), Some(Line::Heartbeat)));
        assert!(session.pull(Timestamp(29_999)).is_none());
        assert!(!session.is_due(Timestamp(3_600_000)), "idle is not stalled");
    }

    #[test]
    fn a_client_that_takes_nothing_for_30_seconds_is_dropped() {
        let mut session = Session::stream(ConsumerId(1), Timestamp(0));
        let _ = session.deliver(Timestamp(5_000), delivery(0));
        let _ = session.deliver(Timestamp(20_000), delivery(1));
        assert!(!session.is_due(Timestamp(34_999)));
        assert!(session.is_due(Timestamp(35_000)));
        session.pull(Timestamp(35_000));
        assert!(!session.is_due(Timestamp(64_999)), "the client reads again");
        assert!(session.is_due(Timestamp(65_000)));
    }

    #[test]
    fn a_delivery_that_is_not_taken_goes_back_before_its_lease_expires() {
        let mut session = Session::stream(ConsumerId(1), Timestamp(0));
        let _ = session.deliver(Timestamp(1_000), delivery(0));
        let short = Box::new(Delivery { lease_ms: 4_000, ..*delivery(1) });
        let _ = session.deliver(Timestamp(1_500), short);
        assert_eq!(session.next_deadline(), Timestamp(2_000));
        assert!(!session.is_due(Timestamp(1_999)));
        assert!(session.is_due(Timestamp(2_000)));
        assert_eq!(given_back(&session.end()), [0, 1]);
    }

    /// One line may be yielded to a client that has no buffer space at all.
    #[test]
    fn a_line_that_was_yielded_and_not_taken_goes_back_when_the_client_stalls() {
        let mut session = Session::stream(ConsumerId(1), Timestamp(0));
        for offset in 0..3 {
            let short = Box::new(Delivery { lease_ms: 4_000, ..*delivery(offset) });
            let _ = session.deliver(Timestamp(1_000), short);
        }
        session.pull(Timestamp(1_000));
        session.confirm();
        session.pull(Timestamp(1_500));
        assert_eq!(session.stalled_at(), Timestamp(2_500));
        assert_eq!(given_back(&session.take_unconfirmed()), [1]);
        assert_eq!(given_back(&session.end()), [2]);
    }

    #[test]
    fn a_poll_ends_with_its_first_messages_or_its_time() {
        let mut session = Session::poll(ConsumerId(1), Timestamp(0), 20_000);
        assert!(!session.is_due(Timestamp(19_999)));
        assert!(session.is_due(Timestamp(20_000)));
        let _ = session.deliver(Timestamp(1), delivery(0));
        assert!(session.is_due(Timestamp(1)));
        assert!(session.pull(Timestamp(1)).is_some());
        assert_eq!(given_back(&session.end()), [] as [u64; 0]);
    }
}
