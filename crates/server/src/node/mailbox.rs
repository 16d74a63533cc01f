//! The way to a shard's task.

use std::sync::Arc;

use driftq_core::change::Delivery;
use driftq_core::command::{Join, LeaseId};
use driftq_core::{CallError, Command, CommandResult};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::budget::{Charge, Pool};

/// Calls that may wait for the shard, and as many more that it has taken; more are refused as overload.
pub(super) const CALLS_MAX: usize = 65_536;

/// What came for the shard.
pub(super) type Inbox = mpsc::Receiver<ShardRequest>;

/// What a consumer is handed, by batch. As long as its credit, so it needs no bound of its own. Where it ends
/// without a word, the shard was lost.
pub(crate) type Deliveries = mpsc::UnboundedReceiver<ConsumerEvent>;

/// What a consumer is handed.
pub(crate) enum ConsumerEvent {
    /// By one batch.
    Deliveries(DeliveryBatch),
    /// It is to go, and not to come again: its group is gone.
    Dismissed,
}

impl ConsumerEvent {
    /// What must go back if nobody sees it.
    pub(crate) fn holds(&self) -> impl Iterator<Item = LeaseId> {
        let given = match self {
            ConsumerEvent::Deliveries(given) => given.as_slice(),
            ConsumerEvent::Dismissed => &[],
        };
        given.iter().map(|delivery| delivery.hold)
    }
}

/// What one batch gave a consumer. Boxed as the core made them.
pub(crate) type DeliveryBatch = Vec<Box<Delivery>>;

/// The other end.
pub(crate) type Deliver = mpsc::UnboundedSender<ConsumerEvent>;

/// Where an answer goes. The command that it answers is in memory until then.
pub(crate) struct Answer {
    to: oneshot::Sender<Result<CommandResult, CallError>>,
    _charge: Option<Charge>,
}

impl Answer {
    /// Answers. The caller may be gone.
    pub(crate) fn send(self, answered: Result<CommandResult, CallError>) {
        let _gone = self.to.send(answered);
    }
}

impl From<oneshot::Sender<Result<CommandResult, CallError>>> for Answer {
    fn from(to: oneshot::Sender<Result<CommandResult, CallError>>) -> Answer {
        Answer { to, _charge: None }
    }
}

/// An answer on its way. It may be lost with the shard.
pub(super) struct Call(pub(super) oneshot::Receiver<Result<CommandResult, CallError>>);

impl Call {
    pub(super) async fn answered(self) -> Result<CommandResult, CallError> {
        self.0.await.unwrap_or(Err(CallError::Unknown))
    }
}

/// Something for the shard.
pub(super) enum ShardRequest {
    /// A command somebody waits for.
    Call(Command, Answer),
    /// A consumer comes: where its deliveries go, and who waits for the answer.
    Join(Join, Deliver, Answer),
    /// A command nobody waits for.
    Command(Command),
}

impl ShardRequest {
    /// It was never taken: nothing happened.
    pub(super) fn refuse(self) {
        match self {
            ShardRequest::Call(_, answer) | ShardRequest::Join(_, _, answer) => {
                answer.send(Err(CallError::NotServing));
            }
            ShardRequest::Command(_) => {}
        }
    }
}

/// Where things for the shard go in.
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
        self.enqueue(ShardRequest::Call(command, Answer { to, _charge: charge }))?;
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
            // It must not be lost while the shard lives: somebody waits until there is room.
            let calls = self.calls.clone();
            tokio::spawn(async move { calls.send(request).await });
        }
    }

    fn enqueue(&self, request: ShardRequest) -> Result<(), CallError> {
        self.calls.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => CallError::Overloaded,
            TrySendError::Closed(_) => CallError::NotServing,
        })
    }
}

/// What a command holds of messages. Other commands are small, and their number is bounded.
fn weight(command: &Command) -> usize {
    if let Command::Produce(produce) = command {
        return produce.key.len() + produce.value.len();
    }
    if let Command::Commit(commit) = command {
        return commit.produce.iter().map(|produce| produce.key.len() + produce.value.len()).sum();
    }
    0
}
