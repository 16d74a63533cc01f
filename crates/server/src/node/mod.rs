//! A node: the shards it serves, and the way to them.
//!
//! One task per shard performs what the core's pipeline says. Callers reach it through a mailbox; a call
//! that is not answered is *unknown*: the shard was lost between taking it and its commit.

mod awaited;
mod lost;
mod mailbox;
mod shard_task;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driftq_core::command::Join;
use driftq_core::{Answered, Command, ConsumerId, ShardConfig, TokenKeys};
use driftq_storage::Engine;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use awaited::{Awaited, Waiting};

pub use lost::Lost;
pub use mailbox::{Deliveries, Given};
pub use status::Status;

use crate::metrics::Metrics;
use mailbox::{Mail, Mailbox};

/// Calls that may wait for the shard; more are refused as overload.
const CALLS_MAX: usize = 65_536;

/// The shards of this node. For now there is one.
#[derive(Clone)]
pub struct Node {
    mailbox: Mailbox,
    consumers: Arc<AtomicU64>,
    status: watch::Receiver<Status>,
    keys: Arc<TokenKeys>,
    awaited: Awaited,
}

/// The task that serves the shard.
pub struct ShardTask {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl ShardTask {
    /// Lets what is decided be committed and released, then ends.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // It does not panic; if it did, there is nothing left to wait for.
        let _ended = self.task.await;
    }
}

impl Node {
    /// Serves a shard on an engine.
    pub fn start(
        engine: Arc<dyn Engine>,
        config: ShardConfig,
        keys: TokenKeys,
        metrics: Arc<Metrics>,
    ) -> (Node, ShardTask) {
        let (send, receive) = mpsc::channel(CALLS_MAX);
        let (status, seen) = watch::channel(Status::Starting);
        let (stop, stopped) = watch::channel(false);
        let mailbox = Mailbox::new(send);
        let awaited = Awaited::default();
        let task = shard_task::ShardTask {
            engine,
            config,
            mailbox: mailbox.clone(),
            inbox: receive,
            status,
            stop: stopped,
            metrics,
            awaited: awaited.clone(),
        };
        let node = Node {
            mailbox,
            consumers: Arc::new(AtomicU64::new(0)),
            status: seen,
            keys: Arc::new(keys),
            awaited,
        };
        (node, ShardTask { stop, task: tokio::spawn(task.run()) })
    }

    /// Has a command decided, and waits until the answer may be shown.
    pub async fn call(&self, command: Command) -> Result<Answered, Lost> {
        self.mailbox.call(command)?.answered().await
    }

    /// Sends commands one after the other, so that a batch can decide them together, then waits for all.
    pub async fn call_all(&self, commands: Vec<Command>) -> Vec<Result<Answered, Lost>> {
        let sent: Vec<_> = commands.into_iter().map(|command| self.mailbox.call(command)).collect();
        let mut answers = Vec::with_capacity(sent.len());
        for call in sent {
            answers.push(match call {
                Ok(call) => call.answered().await,
                Err(lost) => Err(lost),
            });
        }
        answers
    }

    /// A number no consumer of this process has had.
    pub fn next_consumer(&self) -> ConsumerId {
        ConsumerId(self.consumers.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Lets a consumer take part. What it is given comes through the second; it ends when the consumer is
    /// dismissed or the shard is lost.
    pub async fn join(&self, join: Join) -> Result<(Answered, Deliveries), Lost> {
        let (call, deliveries) = self.mailbox.join(join)?;
        Ok((call.answered().await?, deliveries))
    }

    /// Tells the shard something nobody waits for. If the shard is gone, so is what this was about.
    pub fn tell(&self, command: Command) {
        self.mailbox.tell(command);
    }

    /// How the shard is.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Waits until the shard serves, or will not.
    pub async fn until_decided(&self) -> Status {
        let mut status = self.status.clone();
        match status.wait_for(|status| !matches!(status, Status::Starting)).await {
            Ok(status) => status.clone(),
            Err(_) => Status::Stopped,
        }
    }

    /// Waits for something to happen to an effect.
    pub(crate) fn await_effect(&self, tenant: &str, scope: &str, key: &str) -> Waiting {
        self.awaited.wait(tenant, scope, key)
    }

    /// The keys of lease tokens.
    pub fn keys(&self) -> &TokenKeys {
        &self.keys
    }
}

/// What came for the shard.
type Inbox = mpsc::Receiver<Mail>;
