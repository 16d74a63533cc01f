//! The way to every shard, wherever it is served.

use std::sync::Arc;
use std::time::Duration;

use driftq_core::command::Join;
use driftq_core::{CallError, Command, ConsumerId, Epoch, ShardId, TokenVersion};
use tokio::sync::{mpsc, oneshot, watch};

use super::client::{Client, RemoteShard};
use super::mailbox::{Call, Deliveries, Mailbox};
use super::routes::{Route, Routes};

/// How often something that nobody waits for is told, and how long after each other.
const SENDS_MAX: u32 = 15;
const SEND_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The way to every shard.
#[derive(Clone)]
pub(super) struct Peers {
    mailboxes: Arc<[Mailbox]>,
    /// None: all are served here.
    others: Option<Others>,
}

/// Other nodes.
#[derive(Clone)]
pub(super) struct Others {
    pub(super) routes: watch::Receiver<Routes>,
    pub(super) client: Client,
}

/// The way to one shard.
enum ShardLocation<'a> {
    Local(&'a Mailbox),
    Remote(&'a Client, RemoteShard),
}

impl Peers {
    pub(super) fn new(mailboxes: Vec<Mailbox>, others: Option<Others>) -> Peers {
        Peers { mailboxes: mailboxes.into(), others }
    }

    /// How many shards there are.
    pub(super) fn count(&self) -> u32 {
        self.mailboxes.len() as u32
    }

    /// Whether shards may be served by others.
    pub(super) fn is_among_others(&self) -> bool {
        self.others.is_some()
    }

    /// The version of tokens to mint: without other nodes, the newest.
    pub(super) fn token_version(&self) -> TokenVersion {
        match &self.others {
            Some(others) => others.routes.borrow().token_version,
            None => TokenVersion::V2,
        }
    }

    /// Tells when shards move. None: they do not.
    pub(super) fn routes(&self) -> Option<watch::Receiver<Routes>> {
        self.others.as_ref().map(|others| others.routes.clone())
    }

    /// The mailbox in this process.
    pub(super) fn here(&self, shard: ShardId) -> &Mailbox {
        // A number from a token or an id may be of another storage: the core says that it knows nothing.
        self.mailboxes.get(shard.0 as usize).unwrap_or(&self.mailboxes[0])
    }

    /// Whether this process serves it under this epoch.
    pub(super) fn serves(&self, shard: ShardId, epoch: Epoch) -> bool {
        let Some(others) = &self.others else { return false };
        matches!(others.routes.borrow().to(shard), Some(Route::Local(served)) if *served == epoch)
    }

    fn way(&self, shard: ShardId) -> Result<ShardLocation<'_>, CallError> {
        let here = self.here(shard);
        let Some(Others { routes, client }) = &self.others else {
            return Ok(ShardLocation::Local(here));
        };
        // As with mailboxes.
        let shard = if shard.0 < self.count() { shard } else { ShardId(0) };
        match routes.borrow().to(shard) {
            Some(Route::Local(_)) => Ok(ShardLocation::Local(here)),
            Some(Route::Remote { address, epoch }) => {
                let there = RemoteShard { address: address.clone(), shard, epoch: *epoch };
                Ok(ShardLocation::Remote(client, there))
            }
            None => Err(CallError::NotServing),
        }
    }

    pub(super) fn call(&self, shard: ShardId, command: Command) -> Result<Call, CallError> {
        match self.way(shard)? {
            ShardLocation::Local(mailbox) => mailbox.call(command),
            ShardLocation::Remote(client, there) => {
                let (answer, answered) = oneshot::channel();
                client.call(there, command, answer.into());
                Ok(Call(answered))
            }
        }
    }

    /// Says also where it is, unless it is here.
    pub(super) fn join(
        &self,
        shard: ShardId,
        join: Join,
    ) -> Result<(Call, Deliveries, Option<RemoteShard>), CallError> {
        match self.way(shard)? {
            ShardLocation::Local(mailbox) => {
                let (call, deliveries) = mailbox.join(join)?;
                Ok((call, deliveries, None))
            }
            ShardLocation::Remote(client, there) => {
                let (answer, answered) = oneshot::channel();
                let (deliver, deliveries) = mpsc::unbounded_channel();
                let peers = self.clone();
                let unseen = move |hold| peers.send(shard, Command::GiveBack(hold));
                client.join(there.clone(), join, deliver, answer.into(), unseen);
                Ok((Call(answered), deliveries, Some(there)))
            }
        }
    }

    /// Lets a consumer go where it joined: elsewhere its number is another's.
    pub(super) fn leave(
        &self,
        shard: ShardId,
        there: Option<&RemoteShard>,
        number: ConsumerId,
    ) -> Result<Call, CallError> {
        let leave = Command::Leave(number);
        match (there, &self.others) {
            (Some(there), Some(others)) => {
                let (answer, answered) = oneshot::channel();
                others.client.call(there.clone(), leave, answer.into());
                Ok(Call(answered))
            }
            _ => self.here(shard).call(leave),
        }
    }

    /// Tells every shard that is served here.
    pub(super) fn send_to_local(&self, command: &Command) {
        // One that is not served drops it.
        for mailbox in &*self.mailboxes {
            mailbox.send(command.clone());
        }
    }

    /// Tells a shard something nobody waits for. If the shard is gone, so is what this was about.
    pub(super) fn send(&self, shard: ShardId, command: Command) {
        match self.way(shard) {
            Ok(ShardLocation::Local(mailbox)) => mailbox.send(command),
            // Consumers have other numbers there, and leave by ending their stream.
            _ if matches!(command, Command::Leave(_)) => {}
            Ok(ShardLocation::Remote(..)) | Err(_) => {
                let peers = self.clone();
                tokio::spawn(async move { peers.tell_there(shard, command).await });
            }
        }
    }

    /// Retries for a while if the shard is moving, so that an unused lease is returned before it expires.
    async fn tell_there(&self, shard: ShardId, command: Command) {
        for _ in 0..SENDS_MAX {
            let answered = match self.call(shard, command.clone()) {
                Ok(call) => call.answered().await,
                Err(lost) => Err(lost),
            };
            if !matches!(answered, Err(CallError::NotServing | CallError::Overloaded)) {
                return;
            }
            tokio::time::sleep(SEND_RETRY_DELAY).await;
        }
    }

    /// Has commands decided by one shard, in their order.
    pub(super) fn call_all(
        &self,
        shard: ShardId,
        commands: Vec<Command>,
    ) -> Vec<Result<Call, CallError>> {
        match self.way(shard) {
            Ok(ShardLocation::Local(mailbox)) => {
                commands.into_iter().map(|command| mailbox.call(command)).collect()
            }
            Ok(ShardLocation::Remote(client, there)) => {
                let (answers, calls): (Vec<oneshot::Sender<_>>, Vec<_>) =
                    commands.iter().map(|_| oneshot::channel()).unzip();
                let answers = answers.into_iter().map(Into::into).collect();
                client.call_all(there, commands, answers);
                calls.into_iter().map(|answered| Ok(Call(answered))).collect()
            }
            Err(lost) => commands.iter().map(|_| Err(lost)).collect(),
        }
    }
}
