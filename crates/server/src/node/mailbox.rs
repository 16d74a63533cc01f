//! The way to a shard's task.

use driftq_core::change::Delivery;
use driftq_core::command::Join;
use driftq_core::{Answered, Command};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::Lost;

/// What a consumer is given, by batch. As long as its credit, so it needs no bound of its own.
pub type Deliveries = mpsc::UnboundedReceiver<Given>;

/// What one batch gave a consumer. Boxed as the core made them.
pub type Given = Vec<Box<Delivery>>;

/// The other end.
pub(super) type Deliver = mpsc::UnboundedSender<Given>;

/// Where an answer goes.
pub(super) type Answer = oneshot::Sender<Result<Answered, Lost>>;

/// An answer on its way. It may be lost with the shard.
pub(super) struct Call(oneshot::Receiver<Result<Answered, Lost>>);

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
