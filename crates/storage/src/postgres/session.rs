//! Connections of this engine: settings, prepared statements, warnings, and connection pools.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::{Client, Statement};

use super::error::{OpenError, PgError, with_cause};
use super::fixed::IDENTITY;
use super::sql::Sql;
use super::target::{CONNECT_TIMEOUT, Target};
use crate::Identity;

/// The settings of every connection.
///
/// The statements of this engine address rows by full keys. The planner's alternatives are
/// disabled, so that no plan scans a table.
///
/// A process that is stopped in the middle of a transaction must not block the next owner of the
/// shard. Statements that lock are sent together, so a transaction that waits for its client has
/// lost it, and `idle_in_transaction_session_timeout` ends it.
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
    "the database was restored or replaced since this process started; restart the process";

const SILENT: &str =
    "the server accepts the connection but does not respond; check whether it is paused";

/// A connection with one user at a time.
pub(super) struct Session {
    pub(super) client: Client,
    statements: HashMap<String, Statement>,
    warnings: Arc<AtomicU64>,
}

impl Session {
    /// Connects and applies [`SETTINGS`].
    pub(super) async fn open(target: &Target) -> Result<Session, PgError> {
        let warnings = Arc::new(AtomicU64::new(0));
        let client = open(target, SETTINGS, &warnings).await?;
        Ok(Session { client, statements: HashMap::new(), warnings })
    }

    /// Fails if the database does not contain the storage with this identity.
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

    /// Returns the number of warnings so far. After a warning during a commit, the commit may not
    /// be replicated: if the wait for a standby is cancelled, PostgreSQL reports success and a
    /// warning.
    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::SeqCst)
    }

    /// Returns a prepared statement. Each statement is prepared once per connection.
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

/// Connects to a database of the user that has no DriftQ storage. Returns a count of warnings as well:
/// after one during a commit, the commit may not be replicated.
pub async fn connect(url: &str) -> Result<(Client, Arc<AtomicU64>), OpenError> {
    let settings = "SET synchronous_commit = 'on'; SET client_min_messages = warning;
        SET idle_in_transaction_session_timeout = '60s'";
    let warnings = Arc::default();
    Ok((open(&Target::read(url)?, settings, &warnings).await?, warnings))
}

async fn open(
    target: &Target,
    settings: &str,
    warnings: &Arc<AtomicU64>,
) -> Result<Client, PgError> {
    let connecting = async {
        let client = target.connect(warnings).await?;
        client.batch_execute(settings).await?;
        Ok::<_, tokio_postgres::Error>(client)
    };
    // A paused server accepts the connection and does not respond.
    let failed = |why: &str| PgError::Database(format!("{}: {why}", target.names()));
    let client = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
    let client = client.map_err(|_| failed(SILENT))?;
    client.map_err(|error| failed(&with_cause(&error)))
}

/// A connection pool. A connection whose last use failed is closed.
pub(super) struct Pool {
    target: Target,
    identity: Identity,
    idle: Mutex<Vec<Session>>,
    free: Semaphore,
}

impl Pool {
    /// Creates a pool of at most `size` connections to the storage with this identity.
    pub(super) fn new(target: Target, size: usize, identity: Identity) -> Pool {
        Pool { target, identity, idle: Mutex::default(), free: Semaphore::new(size) }
    }

    /// Waits for a free connection.
    pub(super) async fn take(&self) -> Result<PooledSession<'_>, PgError> {
        let permit = self.free.acquire().await.expect("the semaphore is never closed");
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
        Ok(PooledSession { pool: self, session, _permit: permit })
    }

    /// Closes all idle connections.
    pub(super) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A connection in use. If it is dropped, the connection is closed, and the outcome of its
/// transaction is unknown.
pub(super) struct PooledSession<'a> {
    pool: &'a Pool,
    pub(super) session: Session,
    _permit: SemaphorePermit<'a>,
}

impl PooledSession<'_> {
    /// Returns the connection to the pool. The outcome of its transaction must be known.
    pub(super) fn give_back(self) {
        self.pool.lock().push(self.session);
    }
}
