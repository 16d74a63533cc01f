//! Errors of the PostgreSQL engine.

use driftq_core::ShardId;
use tokio_postgres::error::{DbError, SqlState};

use crate::EngineError;

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names describe the fields")]
pub enum OpenError {
    #[error("invalid database URL: {0}")]
    Url(String),
    #[error("the database cannot be used: {0}")]
    Unfit(String),
    #[error("the database cannot be used: {0}")]
    Database(String),
    #[error(
        "the database has format {version}, but this driftq supports {known}; use a newer driftq"
    )]
    Newer { version: usize, known: usize },
    #[error("the database has {0} shards, which cannot be changed; remove storage.shards")]
    Shards(u32),
    #[error("the database is damaged: {0}; restore it from a backup")]
    Damaged(String),
    #[error("the database contains no DriftQ storage; check the database URL")]
    Missing,
    #[error("shard {shard} does not exist; the database has {shards} shards, numbered from 0")]
    NoShard { shard: ShardId, shards: usize },
    #[error("the database already contains a DriftQ storage; use an empty database")]
    NotEmpty,
    #[error(
        "the tables were created in another database; if they were restored from a backup, run `driftq mark-restored`"
    )]
    Restored,
    #[error(
        "the node at {0} has a lease that has not expired; stop the node if it runs on this database, and repeat when the lease has expired (cluster.lease_ms, 10 s by default)"
    )]
    Alive(String),
}

/// Why a call failed.
#[derive(Debug)]
pub(super) enum PgError {
    Fenced,
    Database(String),
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> PgError {
        if is_fenced(&error) { PgError::Fenced } else { PgError::Database(with_cause(&error)) }
    }
}

impl From<PgError> for OpenError {
    fn from(failed: PgError) -> OpenError {
        OpenError::Database(match failed {
            PgError::Fenced => "another node claimed the shard first".to_owned(),
            PgError::Database(why) => why,
        })
    }
}

impl From<tokio_postgres::Error> for OpenError {
    fn from(error: tokio_postgres::Error) -> OpenError {
        OpenError::Database(with_cause(&error))
    }
}

impl From<PgError> for EngineError {
    fn from(failed: PgError) -> EngineError {
        match failed {
            PgError::Fenced => EngineError::Fenced,
            PgError::Database(why) => EngineError::Unknown(why),
        }
    }
}

/// Formats an error with its cause.
pub(super) fn with_cause(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(database), _) if is_denied(database) => {
            let grant = "let its owner run: GRANT CONNECT, CREATE ON DATABASE <database> TO <role>";
            format!("{database}; {grant}")
        }
        (Some(database), _) => database.to_string(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Whether the role may not use the database.
fn is_denied(error: &DbError) -> bool {
    *error.code() == SqlState::INSUFFICIENT_PRIVILEGE && error.message().contains("for database")
}

/// Whether the head was rejected: its predecessor is not the last batch, or another node has
/// claimed the shard.
fn is_fenced(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        let refused = [SqlState::NOT_NULL_VIOLATION, SqlState::UNIQUE_VIOLATION];
        error.table() == Some("head") && refused.contains(error.code())
    })
}
