//! Errors of the PostgreSQL engine.

use driftq_core::ShardId;
use tokio_postgres::error::SqlState;

use crate::EngineError;

/// A database cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum OpenError {
    #[error("the database URL cannot be used: {0}")]
    Url(String),
    #[error("the database cannot be used: {0}")]
    Unfit(String),
    #[error("the database cannot be used: {0}")]
    Database(String),
    #[error("the database has format {version}, this driftq knows {known}: use a newer driftq")]
    Newer { version: usize, known: usize },
    #[error("the database has {0} shards and keeps their number: leave storage.shards out")]
    Shards(u32),
    #[error("the database does not hold what it should: {0}; restore it from a backup")]
    Damaged(String),
    #[error("the database holds no storage of DriftQ: give the URL of one that does")]
    Missing,
    #[error("there is no shard {shard}: the database has {shards}, from 0")]
    NoShard { shard: ShardId, shards: usize },
    #[error("the database holds a storage already: give an empty one")]
    Taken,
    #[error(
        "the tables come from another database: if they were restored from a backup, say so by `driftq mark-restored`"
    )]
    Restored,
    #[error("the node at {0} runs on the database: stop it, or wait until its lease is over")]
    Alive(String),
}

/// Not done.
#[derive(Debug)]
pub(super) enum PgError {
    Fenced,
    Database(String),
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> PgError {
        if is_fenced(&error) { PgError::Fenced } else { PgError::Database(whole(&error)) }
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
        OpenError::Database(whole(&error))
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

/// An error with its causes.
pub(super) fn whole(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(database), _) => database.to_string(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Whether the head was refused: its predecessor is not the last, or another has claimed the shard.
fn is_fenced(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        let refused = [SqlState::NOT_NULL_VIOLATION, SqlState::UNIQUE_VIOLATION];
        error.table() == Some("head") && refused.contains(error.code())
    })
}
