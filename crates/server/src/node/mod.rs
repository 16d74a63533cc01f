//! A node: the shards it serves, and the way to them.
//!
//! One task per shard performs what the core's pipeline says. Callers reach it through a mailbox; a call
//! that is not answered is *unknown*: the shard was lost between taking it and its commit.

mod around;
mod awaited;
mod lost;
mod mailbox;
mod shard_task;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driftq_core::command::{GroupName, Join};
use driftq_core::placement::{Place, together};
use driftq_core::{Answered, Command, ConsumerId, ShardConfig, ShardId, TokenKeys};
use driftq_storage::Engine;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use awaited::{Awaited, Waiting};

pub use lost::Lost;
pub use mailbox::{Deliveries, Given};
pub use status::Status;

use crate::metrics::Metrics;
use mailbox::{Call, Mail, Mailbox};

/// Calls that may wait for the shard; more are refused as overload.
const CALLS_MAX: usize = 65_536;

/// The shards of this node: all of them.
#[derive(Clone)]
pub struct Node {
    shards: Arc<[Shard]>,
    consumers: Arc<AtomicU64>,
    keys: Arc<TokenKeys>,
    awaited: Awaited,
}

/// The way to one shard, and how it is.
struct Shard {
    mailbox: Mailbox,
    status: watch::Receiver<Status>,
}

/// The tasks that serve the shards.
pub struct ShardTasks {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl ShardTasks {
    /// Lets what is decided be committed and released, then ends.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            // It does not panic; if it did, there is nothing left to wait for.
            let _ended = task.await;
        }
    }
}

impl Node {
    /// Serves the shards of an engine. `config` is that of each but for its number.
    pub fn start(
        engine: Arc<dyn Engine>,
        config: &ShardConfig,
        keys: TokenKeys,
        metrics: &Arc<Metrics>,
    ) -> (Node, ShardTasks) {
        let (stop, stopped) = watch::channel(false);
        let awaited = Awaited::default();
        let numbers = (0..config.shards.max(1)).map(ShardId);
        let (mailboxes, inboxes): (Vec<Mailbox>, Vec<Inbox>) = numbers
            .clone()
            .map(|_| mpsc::channel(CALLS_MAX))
            .map(|(send, receive)| (Mailbox::new(send), receive))
            .unzip();
        let (mut shards, mut tasks) = (Vec::new(), Vec::new());
        for (number, inbox) in numbers.zip(inboxes) {
            let (status, seen) = watch::channel(Status::Starting);
            let mailbox = mailboxes[number.0 as usize].clone();
            let task = shard_task::ShardTask {
                engine: engine.clone(),
                config: ShardConfig { shard: number, ..config.clone() },
                mailbox: mailbox.clone(),
                peers: mailboxes.clone(),
                inbox,
                status,
                stop: stopped.clone(),
                metrics: metrics.clone(),
                awaited: awaited.clone(),
            };
            shards.push(Shard { mailbox, status: seen });
            tasks.push(tokio::spawn(task.run()));
        }
        let consumers = Arc::new(AtomicU64::new(0));
        let node = Node { shards: shards.into(), consumers, keys: Arc::new(keys), awaited };
        (node, ShardTasks { stop, tasks })
    }

    /// How many shards there are.
    pub fn shards(&self) -> u32 {
        self.shards.len() as u32
    }

    fn mailbox(&self, shard: ShardId) -> &Mailbox {
        // A number from a token or an id may be of another storage: the core says that it knows nothing.
        &self.shards.get(shard.0 as usize).unwrap_or(&self.shards[0]).mailbox
    }

    fn send(&self, command: Command) -> Result<Call, Lost> {
        if self.shards() == 1 {
            return self.mailbox(ShardId(0)).call(command);
        }
        match command.place(self.shards()) {
            Place::Shard(shard) => self.mailbox(shard).call(command),
            Place::Every | Place::Known => self.mailbox(ShardId(0)).call(command),
        }
    }

    /// Has a command decided, and waits until the answer may be shown.
    pub async fn call(&self, mut command: Command) -> Result<Answered, Lost> {
        if self.shards() == 1 {
            return self.send(command)?.answered().await;
        }
        if command.place(self.shards()) != Place::Every {
            self.look_around(&mut command).await;
            return self.follow(self.send(command)?.answered().await?).await;
        }
        let mut replies = Vec::with_capacity(self.shards.len());
        for shard in &*self.shards {
            match shard.mailbox.call(command.clone())?.answered().await? {
                Ok(reply) => replies.push(reply),
                Err(rejection) => return Ok(Err(rejection)),
            }
        }
        Ok(Ok(together(replies)))
    }

    /// Sends commands one after the other, so that a batch can decide them together, then waits for all.
    pub async fn call_all(&self, mut commands: Vec<Command>) -> Vec<Result<Answered, Lost>> {
        if self.shards() > 1 {
            for command in &mut commands {
                self.look_around(command).await;
            }
        }
        let sent: Vec<_> = commands.into_iter().map(|command| self.send(command)).collect();
        let mut answers = Vec::with_capacity(sent.len());
        for call in sent {
            answers.push(match call {
                Ok(call) => match call.answered().await {
                    Ok(answered) => self.follow(answered).await,
                    Err(lost) => Err(lost),
                },
                Err(lost) => Err(lost),
            });
        }
        answers
    }

    /// A number no consumer of this process has had.
    pub fn next_consumer(&self) -> ConsumerId {
        ConsumerId(self.consumers.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Where a group is served.
    pub fn shard_of(&self, name: &GroupName) -> ShardId {
        name.topic.shard(self.shards())
    }

    /// Lets a consumer take part. What it is given comes through the second; it ends when the consumer is
    /// dismissed or the shard is lost.
    pub async fn join(&self, join: Join) -> Result<(Answered, Deliveries), Lost> {
        let (call, deliveries) = self.mailbox(self.shard_of(&join.name)).join(join)?;
        Ok((call.answered().await?, deliveries))
    }

    /// Tells a shard something nobody waits for. If the shard is gone, so is what this was about.
    pub fn tell(&self, shard: ShardId, command: Command) {
        self.mailbox(shard).tell(command);
    }

    /// Tells every shard.
    pub fn tell_every(&self, command: &Command) {
        for shard in &*self.shards {
            shard.mailbox.tell(command.clone());
        }
    }

    /// How the shards are: as the first that does not serve, if there is one.
    pub fn status(&self) -> Status {
        let all = self.shards.iter().map(|shard| shard.status.borrow().clone());
        all.reduce(Status::worse).unwrap_or(Status::Stopped)
    }

    /// Waits until every shard serves, or one will not.
    pub async fn until_decided(&self) -> Status {
        for shard in &*self.shards {
            let mut status = shard.status.clone();
            if status.wait_for(|status| !matches!(status, Status::Starting)).await.is_err() {
                return Status::Stopped;
            }
        }
        self.status()
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
