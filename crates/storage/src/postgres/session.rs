//! A connection as this engine uses it: settings, statements, warnings, and the pool of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::{Client, Statement};

use super::error::PgError;
use super::fixed::IDENTITY;
use super::sql::Sql;
use super::target::{CONNECT_TIMEOUT, Target};
use crate::Identity;

/// The statements of this engine name their rows by full keys. What is left to the planner is forbidden, so
/// that no plan walks a table. A process that is stopped in the middle of a transaction must not keep a shard
/// from its next owner: what locks is sent in one piece, so a transaction that waits for its client has lost it.
const SETTINGS: &str = "
    SET search_path = driftq;
    SET synchronous_commit = 'on';
    SET client_min_messages = warning;
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET enable_bitmapscan = off;
    SET enable_sort = off;
    SET jit = off;
    SET statement_timeout = 0;
    SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '2s'";

const ANOTHER: &str =
    "the database was restored, or is another than this process began with: restart it";

const SILENT: &str = "the server takes the connection and says nothing: is it paused?";

/// A connection that nobody else uses meanwhile.
pub(super) struct Session {
    pub(super) client: Client,
    statements: HashMap<String, Statement>,
    warnings: Arc<AtomicU64>,
}

impl Session {
    /// Connects.
    pub(super) async fn open(target: &Target) -> Result<Session, PgError> {
        let warnings = Arc::new(AtomicU64::new(0));
        let connecting = async {
            let client = target.connect(&warnings).await?;
            client.batch_execute(SETTINGS).await?;
            Ok::<_, tokio_postgres::Error>(client)
        };
        // A server that is paused takes the connection and says nothing.
        let client = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let client = client.map_err(|_| PgError::Database(SILENT.to_owned()))??;
        Ok(Session { client, statements: HashMap::new(), warnings })
    }

    /// Refuses a database that is not the storage it should be, or not any more.
    pub(super) async fn expect(&mut self, identity: &Identity) -> Result<(), PgError> {
        let statement = self.prepared(&IDENTITY).await?;
        let row = self.client.query_opt(&statement, &[]).await?;
        let text: Option<&str> = row.as_ref().map(|row| row.try_get(0)).transpose()?;
        let found = text.and_then(|text| serde_json::from_str::<Identity>(text).ok());
        if found.is_some_and(|found| found.is_still(identity)) {
            Ok(())
        } else {
            Err(PgError::Database(ANOTHER.to_owned()))
        }
    }

    /// How many warnings came so far. One during a commit says that it may be only half done: PostgreSQL
    /// answers a commit whose wait for a standby was cut short with success and a warning.
    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::SeqCst)
    }

    /// A statement, prepared once.
    pub(super) async fn prepared(&mut self, sql: &Sql) -> Result<Statement, tokio_postgres::Error> {
        let text = &*sql.text;
        if let Some(statement) = self.statements.get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(text).await?;
        self.statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// A few connections. One whose use did not end well is not used again.
pub(super) struct Pool {
    target: Target,
    identity: Identity,
    idle: Mutex<Vec<Session>>,
    free: Semaphore,
}

impl Pool {
    /// To a storage of this identity.
    pub(super) fn new(target: Target, size: usize, identity: Identity) -> Pool {
        Pool { target, identity, idle: Mutex::default(), free: Semaphore::new(size) }
    }

    /// A connection, when one is free.
    pub(super) async fn take(&self) -> Result<Taken<'_>, PgError> {
        let permit = self.free.acquire().await.expect("it is never closed");
        let idle = loop {
            match self.lock().pop() {
                Some(session) if session.client.is_closed() => {}
                idle => break idle,
            }
        };
        let session = match idle {
            Some(session) => session,
            None => {
                let mut session = Session::open(&self.target).await?;
                session.expect(&self.identity).await?;
                session
            }
        };
        Ok(Taken { pool: self, session, _permit: permit })
    }

    /// Closes what nobody uses.
    pub(super) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A connection in use. Dropped it is closed, and its transaction ends however PostgreSQL sees fit.
pub(super) struct Taken<'a> {
    pool: &'a Pool,
    pub(super) session: Session,
    _permit: SemaphorePermit<'a>,
}

impl Taken<'_> {
    /// Its transaction has ended and was understood.
    pub(super) fn give_back(self) {
        self.pool.lock().push(self.session);
    }
}
