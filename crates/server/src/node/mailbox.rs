//! The way to a shard's task.

use driftq_core::change::Delivery;
use driftq_core::command::{Hold, Join};
use driftq_core::{Answered, Command};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::Lost;

/// What a consumer is handed, by batch. As long as its credit, so it needs no bound of its own. Where it ends
/// without a word, the shard was lost.
pub(crate) type Deliveries = mpsc::UnboundedReceiver<Handed>;

/// What a consumer is handed.
pub(crate) enum Handed {
    /// By one batch.
    Given(Given),
    /// It is to go, and not to come again: its group is gone.
    Dismissed,
}

impl Handed {
    /// What must go back if nobody sees it.
    pub(crate) fn holds(&self) -> impl Iterator<Item = Hold> {
        let given = match self {
            Handed::Given(given) => given.as_slice(),
            Handed::Dismissed => &[],
        };
        given.iter().map(|delivery| delivery.hold)
    }
}

/// What one batch gave a consumer. Boxed as the core made them.
pub(crate) type Given = Vec<Box<Delivery>>;

/// The other end.
pub(crate) type Deliver = mpsc::UnboundedSender<Handed>;

/// Where an answer goes.
pub(crate) type Answer = oneshot::Sender<Result<Answered, Lost>>;

/// An answer on its way. It may be lost with the shard.
pub(super) struct Call(pub(super) oneshot::Receiver<Result<Answered, Lost>>);

impl Call {
    pub(super) async fn answered(self) -> Result<Answered, Lost> {
        self.0.await.unwrap_or(Err(Lost::Unknown))
    }
}

/// Something for the shard.
pub(super) enum Mail {
    /// A command somebody waits for.
    Call(Command, Answer),
    /// A consumer comes: where its deliveries go, and who waits for the answer.
    Join(Join, Deliver, Answer),
    /// A command nobody waits for.
    Tell(Command),
}

impl Mail {
    /// It was never taken: nothing happened.
    pub(super) fn refuse(self) {
        match self {
            Mail::Call(_, answer) | Mail::Join(_, _, answer) => {
                // Whoever asked may be gone.
                let _gone = answer.send(Err(Lost::NotServing));
            }
            Mail::Tell(_) => {}
        }
    }
}

/// Where things for the shard go in.
#[derive(Clone)]
pub(super) struct Mailbox {
    calls: mpsc::Sender<Mail>,
}

impl Mailbox {
    pub(super) fn new(calls: mpsc::Sender<Mail>) -> Mailbox {
        Mailbox { calls }
    }

    pub(super) fn call(&self, command: Command) -> Result<Call, Lost> {
        let (answer, answered) = oneshot::channel();
        self.send(Mail::Call(command, answer))?;
        Ok(Call(answered))
    }

    pub(super) fn join(&self, join: Join) -> Result<(Call, Deliveries), Lost> {
        let (answer, answered) = oneshot::channel();
        let (deliver, deliveries) = mpsc::unbounded_channel();
        self.send(Mail::Join(join, deliver, answer))?;
        Ok((Call(answered), deliveries))
    }

    pub(super) fn tell(&self, command: Command) {
        let sent = self.calls.try_send(Mail::Tell(command));
        if let Err(TrySendError::Full(mail)) = sent {
            // It must not be lost while the shard lives: somebody waits until there is room.
            let calls = self.calls.clone();
            tokio::spawn(async move { calls.send(mail).await });
        }
    }

    fn send(&self, mail: Mail) -> Result<(), Lost> {
        self.calls.try_send(mail).map_err(|error| match error {
            TrySendError::Full(_) => Lost::Overloaded,
            TrySendError::Closed(_) => Lost::NotServing,
        })
    }
}
