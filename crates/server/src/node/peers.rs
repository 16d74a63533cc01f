//! Routes requests to every shard, whichever node serves it.

use std::sync::Arc;
use std::time::Duration;

use driftq_core::command::Join;
use driftq_core::{
    CallError, Command, ConsumerId, Epoch, Format, Rejection, ShardId, TokenVersion,
};
use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};

use crate::series::{CountedSeries, SeriesRequest};

use super::client::{Client, RemoteShard};
use super::mailbox::{Call, Deliveries, Mailbox};
use super::routes::{Route, Routes};

/// How often a command without an answer is sent, and the delay between attempts.
const SENDS_MAX: u32 = 15;
const SEND_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The connections to every shard.
#[derive(Clone)]
pub(super) struct Peers {
    mailboxes: Arc<[Mailbox]>,
    /// `None` if all shards are served here.
    others: Option<Others>,
}

/// The other nodes of the cluster.
#[derive(Clone)]
pub(super) struct Others {
    pub(super) routes: watch::Receiver<Routes>,
    pub(super) client: Client,
}

/// Where requests for one shard are sent.
enum ShardLocation<'a> {
    Local(&'a Mailbox),
    Remote(&'a Client, RemoteShard),
}

impl Peers {
    pub(super) fn new(mailboxes: Vec<Mailbox>, others: Option<Others>) -> Peers {
        Peers { mailboxes: mailboxes.into(), others }
    }

    /// The number of shards.
    pub(super) fn count(&self) -> u32 {
        self.mailboxes.len() as u32
    }

    /// Whether shards may be served by other nodes.
    pub(super) fn is_clustered(&self) -> bool {
        self.others.is_some()
    }

    /// The version of tokens to mint. Without other nodes, the newest.
    pub(super) fn token_version(&self) -> TokenVersion {
        match &self.others {
            Some(others) => others.routes.borrow().token_version,
            None => TokenVersion::V2,
        }
    }

    /// The newest format that all nodes read. `None` if it is unknown.
    pub(super) fn format(&self) -> Option<Format> {
        self.others.as_ref().map_or(Some(Format::NEWEST), |others| others.routes.borrow().format)
    }

    /// Sends commands to one shard with `send`, except those that an older node cannot read. Checked
    /// by the node that received the request and by the node of the shard, for every attempt,
    /// because nodes may join between.
    fn send_readable(
        &self,
        mut commands: Vec<Command>,
        send: impl FnOnce(Vec<Command>) -> Vec<Result<Call, CallError>>,
    ) -> Vec<Result<Call, CallError>> {
        let all = self.format();
        if all == Some(Format::NEWEST) {
            return send(commands);
        }
        let checks: Result<Vec<_>, CallError> =
            commands.iter().map(|command| command.check_format(all)).collect();
        let checks = match checks {
            Ok(checks) => checks,
            // All wait, so that they stay in order.
            Err(lost) => return commands.iter().map(|_| Err(lost)).collect(),
        };
        let mut at = checks.iter();
        commands.retain(|_| at.next().is_some_and(Result::is_ok));
        let commands = commands.into_iter().map(|command| command.readable_by(all)).collect();
        let mut sent = send(commands).into_iter();
        let call = |check: Result<(), Rejection>| match check {
            Ok(()) => sent.next(),
            Err(rejection) => Some(Ok(Call::rejected(rejection))),
        };
        checks.into_iter().filter_map(call).collect()
    }

    /// Notifies when shards move. `None` if they do not move.
    pub(super) fn routes(&self) -> Option<watch::Receiver<Routes>> {
        self.others.as_ref().map(|others| others.routes.clone())
    }

    /// The mailbox of a shard in this process.
    pub(super) fn here(&self, shard: ShardId) -> &Mailbox {
        // A number from a token or an id may belong to another storage. Shard 0 then answers that
        // the message is unknown.
        self.mailboxes.get(shard.0 as usize).unwrap_or(&self.mailboxes[0])
    }

    /// Whether this process serves the shard under this epoch.
    pub(super) fn serves(&self, shard: ShardId, epoch: Epoch) -> bool {
        let Some(others) = &self.others else { return false };
        matches!(others.routes.borrow().to(shard), Some(Route::Local(served)) if *served == epoch)
    }

    fn way(&self, shard: ShardId) -> Result<ShardLocation<'_>, CallError> {
        let here = self.here(shard);
        let Some(Others { routes, client }) = &self.others else {
            return Ok(ShardLocation::Local(here));
        };
        // As in `here`.
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
        let all = self.format();
        if let Err(rejection) = command.check_format(all)? {
            return Ok(Call::rejected(rejection));
        }
        let command = command.readable_by(all);
        match self.way(shard)? {
            ShardLocation::Local(mailbox) => mailbox.call(command),
            ShardLocation::Remote(client, there) => {
                let (answer, answered) = oneshot::channel();
                client.call(there, command, answer.into());
                Ok(Call(answered))
            }
        }
    }

    /// Also returns the remote shard; `None` if the shard is local.
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

    /// Removes a consumer from the node that it joined. On another node, its number belongs to a
    /// different consumer.
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

    /// Returns when every shard that is served here has added to the series.
    pub(super) async fn sample(&self) {
        let (done, mut all) = mpsc::channel(1);
        self.mailboxes.iter().for_each(|mailbox| mailbox.sample(done.clone()));
        drop(done);
        let _all_dropped = all.recv().await;
    }

    /// Asks the other nodes that serve shards for a series.
    pub(super) async fn series_elsewhere(&self, request: &SeriesRequest) -> Vec<CountedSeries> {
        let Some(Others { routes, client }) = &self.others else { return Vec::new() };
        let addresses = routes.borrow().addresses();
        let asked = addresses.iter().map(|address| client.series(address, request));
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// Sends a command to every shard that is served here.
    pub(super) fn send_to_local(&self, command: &Command) {
        // The task of a shard that is not served drops the command.
        for mailbox in &*self.mailboxes {
            mailbox.send(command.clone());
        }
    }

    /// Sends a command without waiting for an answer. If the shard is lost, the command has no
    /// purpose any more.
    pub(super) fn send(&self, shard: ShardId, command: Command) {
        match self.way(shard) {
            Ok(ShardLocation::Local(mailbox)) => mailbox.send(command),
            // A remote consumer has another number there, and leaves when its stream ends.
            _ if matches!(command, Command::Leave(_)) => {}
            Ok(ShardLocation::Remote(..)) | Err(_) => {
                let peers = self.clone();
                tokio::spawn(async move { peers.send_remote(shard, command).await });
            }
        }
    }

    /// Retries for a while if the shard is moving, so that an unused lease is returned before it
    /// expires.
    async fn send_remote(&self, shard: ShardId, command: Command) {
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

    /// Sends a command to a shard of this process.
    pub(super) fn call_here(&self, shard: ShardId, command: Command) -> Result<Call, CallError> {
        if let Err(rejection) = command.check_format(self.format())? {
            return Ok(Call::rejected(rejection));
        }
        self.here(shard).call(command)
    }

    /// Sends commands to a shard of this process, which decides them in order.
    pub(super) fn call_all_here(
        &self,
        shard: ShardId,
        commands: Vec<Command>,
    ) -> Vec<Result<Call, CallError>> {
        self.send_readable(commands, |commands| send_all(self.here(shard), commands))
    }

    /// Sends commands to one shard, which decides them in order.
    pub(super) fn call_all(
        &self,
        shard: ShardId,
        commands: Vec<Command>,
    ) -> Vec<Result<Call, CallError>> {
        self.send_readable(commands, |commands| self.route_all(shard, commands))
    }

    fn route_all(&self, shard: ShardId, commands: Vec<Command>) -> Vec<Result<Call, CallError>> {
        match self.way(shard) {
            Ok(ShardLocation::Local(mailbox)) => send_all(mailbox, commands),
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

fn send_all(mailbox: &Mailbox, commands: Vec<Command>) -> Vec<Result<Call, CallError>> {
    commands.into_iter().map(|command| mailbox.call(command)).collect()
}
