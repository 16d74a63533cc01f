//! The PostgreSQL engine: for several nodes, on a database that its operators already run,
//! replicate and back up.
//!
//! 1. A commit is one transaction. It locks the shard's row under its epoch, so that no claim can
//!    overtake it. Then it inserts the head, which checks the predecessor, and applies the changes.
//! 2. **Every failure that is not a definite rejection is unknown**: a lost connection, any error,
//!    a warning during a commit, a timeout. The connection is closed and never cancelled, and the
//!    ownership ends. The next owner must claim first. A claim is a write, so it waits for all
//!    earlier writes, also on standbys.
//! 3. Commits of a shard are sent one after the other, on any of a few connections.
//! 4. All reads and writes go to the primary.
//! 5. A database that was restored or replaced is not written to: each new connection and each
//!    claim of a node checks the identity of the storage.

mod cells;
mod check;
#[cfg(feature = "sqlite")]
mod copy;
mod error;
mod fixed;
mod inspect;
mod members;
mod operations;
#[cfg(test)]
mod plans;
mod ranges;
mod reading;
mod restored;
mod schema;
mod session;
mod sql;
mod statements;
mod target;
mod writing;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driftq_core::row::{Read, Row, Write};
use driftq_core::{BatchNo, ShardId, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::{Answer, Engine, EngineError, Identity, Ownership, StoredAct};
#[cfg(feature = "sqlite")]
pub use copy::{CopyError, copy};
pub use error::OpenError;
use error::PgError;
use fixed::{ACTS, META, PUT_META};
pub use inspect::{Inspected, inspect};
pub use members::Member;
pub use operations::ShardProgress;
pub use restored::restored;
pub use session::connect;
use session::{Pool, PooledSession, Session};
use statements::All;
use target::Target;

/// Number of connections that commit and claim.
const WRITERS: usize = 4;
/// Number of connections that read.
const READERS: usize = 4;
/// Number of connections that renew a node's lease.
const MEMBERS: usize = 2;
/// Default number of shards of a new storage.
const SHARDS: u32 = 64;
/// Timeout of a call, after which its outcome is unknown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of loading a shard.
const LOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// The PostgreSQL engine. Its calls run on the runtime on which it was opened.
pub struct Postgres {
    inside: Arc<Inside>,
    runtime: Handle,
    identity: Identity,
    durability: &'static str,
    servers: String,
    is_here: bool,
    /// The end of the last commit of each shard, for which the next commit waits.
    last: Mutex<HashMap<ShardId, oneshot::Receiver<()>>>,
}

struct Inside {
    writers: Pool,
    readers: Pool,
    /// Separate, because the renewal of a node's lease must not wait for commits.
    members: Pool,
    statements: All,
}

impl Inside {
    /// Closes all idle connections after a timeout. They may lead to a server that is dead, or that
    /// is paused and no longer the primary.
    fn forget(&self) {
        for pool in [&self.writers, &self.readers, &self.members] {
            pool.forget();
        }
    }
}

impl Postgres {
    /// Connects, checks that the server is durable, and creates missing tables with `shards`
    /// shards, or 64 by default. Fails if the tables exist with another number of shards.
    pub async fn open(url: &str, shards: Option<u32>) -> Result<Postgres, OpenError> {
        let target = Target::read(url)?;
        let mut first = Session::open(&target).await?;
        let second = Session::open(&target).await?;
        let (is_here, servers) = (target.is_here(), target.names());
        let durability = check::durability(&first.client, &second.client).await?;
        let identity = schema::prepare(&mut first.client, shards.unwrap_or(SHARDS)).await?;
        if shards.is_some_and(|shards| shards != identity.shards) {
            return Err(OpenError::Shards(identity.shards));
        }
        Ok(Postgres {
            inside: Arc::new(Inside {
                writers: Pool::new(target.clone(), WRITERS, identity.clone()),
                readers: Pool::new(target.clone(), READERS, identity.clone()),
                members: Pool::new(target, MEMBERS, identity.clone()),
                statements: All::new(),
            }),
            runtime: Handle::current(),
            identity,
            durability,
            servers,
            is_here,
            last: Mutex::default(),
        })
    }

    /// Returns the identity of the storage.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The servers and the database of the URL, without the password.
    pub fn servers(&self) -> &str {
        &self.servers
    }

    /// Whether the server runs on this machine.
    pub fn is_here(&self) -> bool {
        self.is_here
    }

    /// Describes what an acknowledged commit survives.
    pub fn durability(&self) -> &'static str {
        self.durability
    }

    /// Runs `work` with a timeout. It continues if the caller drops the result, so that a
    /// transaction is not cut off.
    fn ask<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl Future<Output = Result<T, PgError>> + Send + 'static,
    ) -> Answer<'_, T> {
        let inside = self.inside.clone();
        let done = self.runtime.spawn(async move {
            let done = tokio::time::timeout(timeout, work).await;
            if done.is_err() {
                inside.forget();
            }
            done
        });
        Box::pin(async move {
            let unknown = |why: &str| EngineError::Unknown(why.to_owned());
            match done.await {
                Ok(Ok(done)) => Ok(done?),
                Ok(Err(_)) => Err(unknown(
                    "PostgreSQL did not respond in time; check its log, its locks and its disk",
                )),
                Err(_) => Err(unknown("the engine has stopped")),
            }
        })
    }

    /// Queues a commit behind the last one of its shard. Returns the end of that commit, and the
    /// handle that signals the end of this one.
    fn line_up(&self, shard: ShardId) -> (Option<oneshot::Receiver<()>>, oneshot::Sender<()>) {
        let (ends, end) = oneshot::channel();
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        (last.insert(shard, end), ends)
    }
}

impl Engine for Postgres {
    fn claim(&self, shard: ShardId) -> Answer<'_, (Ownership, Timestamp)> {
        let inside = self.inside.clone();
        self.ask(ANSWER_TIMEOUT, async move {
            let mut taken = inside.writers.take().await?;
            let claimed = writing::claim(&mut taken.session, shard).await?;
            taken.give_back();
            Ok(claimed)
        })
    }

    fn load<'a>(
        &'a self,
        ownership: Ownership,
        each: &'a mut (dyn FnMut(Row) + Send),
    ) -> Answer<'a, ()> {
        let inside = self.inside.clone();
        let (send, mut rows) = mpsc::unbounded_channel();
        let loaded = self.ask(LOAD_TIMEOUT, async move {
            let mut taken = inside.readers.take().await?;
            let PooledSession { session, .. } = &mut taken;
            // The caller may have dropped the receiver.
            let mut hand_over = |row| drop(send.send(row));
            reading::load(session, &inside.statements, ownership, &mut hand_over).await?;
            taken.give_back();
            Ok(())
        });
        Box::pin(async move {
            while let Some(row) = rows.recv().await {
                each(row);
            }
            loaded.await
        })
    }

    fn read(&self, ownership: Ownership, reads: Vec<Read>) -> Answer<'_, Vec<Vec<Row>>> {
        let inside = self.inside.clone();
        self.ask(ANSWER_TIMEOUT, async move {
            let mut taken = inside.readers.take().await?;
            let PooledSession { session, .. } = &mut taken;
            let rows = reading::read(session, &inside.statements, ownership, &reads).await?;
            taken.give_back();
            Ok(rows)
        })
    }

    fn commit(
        &self,
        ownership: Ownership,
        batch: BatchNo,
        writes: Vec<Write>,
    ) -> Answer<'_, Timestamp> {
        let inside = self.inside.clone();
        let (before, ends) = self.line_up(ownership.shard);
        self.ask(ANSWER_TIMEOUT, async move {
            let _ends = ends;
            if let Some(before) = before {
                // Nothing is sent on the channel. It closes when the previous commit ends.
                let _ended = before.await;
            }
            let mut taken = inside.writers.take().await?;
            let PooledSession { session, .. } = &mut taken;
            let now =
                writing::commit(session, &inside.statements, ownership, batch, &writes).await?;
            taken.give_back();
            Ok(now)
        })
    }

    fn meta(&self, name: &'static str) -> Answer<'_, Option<String>> {
        let inside = self.inside.clone();
        self.ask(ANSWER_TIMEOUT, async move {
            let mut taken = inside.members.take().await?;
            let statement = taken.session.prepared(&META).await?;
            let row = taken.session.client.query_opt(&statement, &[&name]).await?;
            taken.give_back();
            Ok(row.map(|row| row.try_get(0)).transpose()?)
        })
    }

    fn put_meta(&self, name: &'static str, text: String, act: Option<String>) -> Answer<'_, ()> {
        let inside = self.inside.clone();
        self.ask(ANSWER_TIMEOUT, async move {
            let mut taken = inside.members.take().await?;
            let statement = taken.session.prepared(&PUT_META).await?;
            taken.session.client.execute(&statement, &[&name, &text, &act]).await?;
            taken.give_back();
            Ok(())
        })
    }

    fn acts(&self, below: u64, limit: u32) -> Answer<'_, Vec<StoredAct>> {
        let inside = self.inside.clone();
        let below = i64::try_from(below).unwrap_or(i64::MAX);
        self.ask(ANSWER_TIMEOUT, async move {
            let mut taken = inside.members.take().await?;
            let statement = taken.session.prepared(&ACTS).await?;
            let rows = taken.session.client.query(&statement, &[&below, &i64::from(limit)]).await?;
            taken.give_back();
            let act = |row: &tokio_postgres::Row| {
                let number = row.try_get::<_, i64>(0)?.cast_unsigned();
                Ok(StoredAct { number, record: row.try_get(1)? })
            };
            rows.iter().map(act).collect()
        })
    }
}
