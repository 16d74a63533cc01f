//! The mailbox through which a shard's task receives requests.

use std::sync::Arc;

use driftq_core::change::Delivery;
use driftq_core::command::{Join, LeaseId, Produce};
use driftq_core::{CallError, Command, CommandResult, Rejection};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::budget::{Charge, Pool};

/// Maximum number of calls that wait for the shard, and of calls that it has received and not
/// answered. Further calls are rejected as overload.
pub(super) const CALLS_MAX: usize = 65_536;

/// The receiving end of a mailbox.
pub(super) type Inbox = mpsc::Receiver<ShardRequest>;

/// The deliveries to a consumer, by batch. The consumer's credit bounds them, so the channel is
/// unbounded. If the channel ends without `Dismissed`, the shard was lost.
pub(crate) type Deliveries = mpsc::UnboundedReceiver<ConsumerEvent>;

/// An event for a consumer.
pub(crate) enum ConsumerEvent {
    /// The deliveries of one batch.
    Deliveries(DeliveryBatch),
    /// The consumer must end and not join again, because its group was deleted.
    Dismissed,
}

impl ConsumerEvent {
    /// The leases to give back if the event does not reach the client.
    pub(crate) fn holds(&self) -> impl Iterator<Item = LeaseId> {
        let given = match self {
            ConsumerEvent::Deliveries(given) => given.as_slice(),
            ConsumerEvent::Dismissed => &[],
        };
        given.iter().map(|delivery| delivery.hold)
    }
}

/// The deliveries of one batch to one consumer, boxed as the core returns them.
pub(crate) type DeliveryBatch = Vec<Box<Delivery>>;

/// The sending end of [`Deliveries`].
pub(crate) type Deliver = mpsc::UnboundedSender<ConsumerEvent>;

/// The channel for an answer. It also holds the memory charge of the command, which stays in memory
/// until it is answered.
pub(crate) struct ReplySender {
    to: oneshot::Sender<Result<CommandResult, CallError>>,
    _charge: Option<Charge>,
}

impl ReplySender {
    /// Sends the answer. The caller may have disconnected.
    pub(crate) fn send(self, answered: Result<CommandResult, CallError>) {
        let _gone = self.to.send(answered);
    }
}

impl From<oneshot::Sender<Result<CommandResult, CallError>>> for ReplySender {
    fn from(to: oneshot::Sender<Result<CommandResult, CallError>>) -> ReplySender {
        ReplySender { to, _charge: None }
    }
}

/// A pending answer. If the shard is lost, the outcome is unknown.
pub(super) struct Call(pub(super) oneshot::Receiver<Result<CommandResult, CallError>>);

impl Call {
    /// A call that was rejected before it was sent.
    pub(super) fn rejected(rejection: Rejection) -> Call {
        let (answer, answered) = oneshot::channel();
        let _received = answer.send(Ok(Err(rejection)));
        Call(answered)
    }

    pub(super) async fn answered(self) -> Result<CommandResult, CallError> {
        self.0.await.unwrap_or(Err(CallError::Unknown))
    }
}

/// A request for the shard.
pub(super) enum ShardRequest {
    /// A command whose caller waits for the answer.
    Call(Command, ReplySender),
    /// A consumer joins, with the channel for its deliveries and the channel for the answer.
    Join(Join, Deliver, ReplySender),
    /// A command without an answer.
    Command(Command),
    /// Add what happened to the series, then drop the sender.
    Sample(mpsc::Sender<()>),
}

impl ShardRequest {
    /// Rejects a request that was not accepted, so nothing was stored.
    pub(super) fn refuse(self) {
        match self {
            ShardRequest::Call(_, answer) | ShardRequest::Join(_, _, answer) => {
                answer.send(Err(CallError::NotServing));
            }
            ShardRequest::Command(_) | ShardRequest::Sample(_) => {}
        }
    }
}

/// The sending end of a shard's mailbox.
#[derive(Clone)]
pub(super) struct Mailbox {
    calls: mpsc::Sender<ShardRequest>,
    memory: Arc<Pool>,
}

impl Mailbox {
    pub(super) fn new(calls: mpsc::Sender<ShardRequest>, memory: Arc<Pool>) -> Mailbox {
        Mailbox { calls, memory }
    }

    pub(super) fn call(&self, command: Command) -> Result<Call, CallError> {
        let charge = match weight(&command) {
            0 => None,
            bytes => Some(self.memory.try_take(bytes).ok_or(CallError::Overloaded)?),
        };
        let (to, answered) = oneshot::channel();
        self.enqueue(ShardRequest::Call(command, ReplySender { to, _charge: charge }))?;
        Ok(Call(answered))
    }

    pub(super) fn join(&self, join: Join) -> Result<(Call, Deliveries), CallError> {
        let (answer, answered) = oneshot::channel();
        let (deliver, deliveries) = mpsc::unbounded_channel();
        self.enqueue(ShardRequest::Join(join, deliver, answer.into()))?;
        Ok((Call(answered), deliveries))
    }

    pub(super) fn send(&self, command: Command) {
        let sent = self.calls.try_send(ShardRequest::Command(command));
        if let Err(TrySendError::Full(request)) = sent {
            // The command must not be lost while the shard is served, so a task waits for space in
            // the queue.
            let calls = self.calls.clone();
            tokio::spawn(async move { calls.send(request).await });
        }
    }

    /// Asks for a sample. A full mailbox gets the next request.
    pub(super) fn sample(&self, done: mpsc::Sender<()>) {
        let _full = self.calls.try_send(ShardRequest::Sample(done));
    }

    fn enqueue(&self, request: ShardRequest) -> Result<(), CallError> {
        self.calls.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => CallError::Overloaded,
            TrySendError::Closed(_) => CallError::NotServing,
        })
    }
}

/// Bytes of the messages in a command. Other commands are small, and their number is bounded.
fn weight(command: &Command) -> usize {
    command.produces().iter().map(Produce::size).sum()
}
