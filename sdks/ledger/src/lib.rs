//! The effect ledger and the outbox of DriftQ in your own PostgreSQL.
//!
//! [`SCHEMA`] has two tables and the functions that decide. This crate calls the functions in the
//! transaction of the caller, so a write, its outcome and its messages are one commit.
//!
//! ```no_run
//! use driftq_ledger::{Begin, Decision, Key, OnDoubt, Outcome};
//!
//! # async fn charge(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let key = Key { principal: "cust-9", operation: "charge", key: "order-77" };
//! let begin = Begin::new(key, "1200", OnDoubt::Retry);
//! // The right to execute is durable before the provider is called.
//! let transaction = client.transaction().await?;
//! let decision = driftq_ledger::begin(&transaction, &begin).await?;
//! transaction.commit().await?;
//! match decision {
//!     Decision::Execute(execution) => {
//!         let charge = call_provider(&execution.downstream_key).await;
//!         let transaction = client.transaction().await?;
//!         transaction.execute("INSERT INTO charges VALUES ($1)", &[&charge]).await?;
//!         driftq_ledger::enqueue(&transaction, "receipts", charge.as_bytes(), None).await?;
//!         let outcome = Outcome::succeeded(charge.into_bytes());
//!         driftq_ledger::finish(&transaction, key, execution.fence, &outcome).await?;
//!         transaction.commit().await?;
//!     }
//!     Decision::Replay(outcome) => println!("done before: {:?}", outcome.response),
//!     other => println!("not now: {other:?}"),
//! }
//! # Ok(()) }
//! # async fn call_provider(_: &str) -> String { String::new() }
//! ```
//!
//! Two rules of PostgreSQL hold for every caller:
//!
//! 1. A reply counts once the transaction has committed. If the commit has no reply, begin again with
//!    the same nonce.
//! 2. Do not cancel a query while its transaction commits. PostgreSQL then reports success for a
//!    commit that is not replicated. Close the connection instead.

#[cfg(feature = "axum")]
pub mod axum;

use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{GenericClient, Row};

/// The tables and functions. Apply it once, with a migration.
pub const SCHEMA: &str = include_str!("../schema.sql");

/// The names of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// On whose behalf it is executed, for example a customer.
    pub principal: &'a str,
    /// A name such as `charge`, or the full method of a gRPC request.
    pub operation: &'a str,
    /// The idempotency key of the request.
    pub key: &'a str,
}

/// What to do when the outcome of an execution is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDoubt {
    /// Execute again with the same downstream key, because the provider deduplicates by it.
    Retry,
    /// Ask the provider first.
    Probe,
    /// Wait for a person, because the provider does not deduplicate.
    Park,
}

/// A request for the right to execute.
#[derive(Debug, Clone)]
pub struct Begin<'a> {
    /// The names of the effect.
    pub key: Key<'a>,
    /// A hash of the request. The same key with another hash is rejected.
    pub request_hash: &'a str,
    /// What to do when the outcome is unknown.
    pub on_doubt: OnDoubt,
    /// The same for each repeat of this begin, so that a lost reply does not lock the caller out.
    pub nonce: String,
    /// How long the execution may take before its outcome is unknown. 30 s by default.
    pub lease: Duration,
    /// How long the outcome is kept. 7 days by default.
    pub ttl: Duration,
    /// How long the provider remembers the downstream key, if it forgets it at all.
    pub provider_window: Option<Duration>,
}

impl<'a> Begin<'a> {
    /// A request with the defaults and a new nonce.
    pub fn new(key: Key<'a>, request_hash: &'a str, on_doubt: OnDoubt) -> Begin<'a> {
        Begin {
            key,
            request_hash,
            on_doubt,
            nonce: format!("{:032x}", fastrand::u128(..)),
            lease: Duration::from_secs(30),
            ttl: Duration::from_secs(7 * 24 * 3_600),
            provider_window: None,
        }
    }
}

/// The right to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Grows with each execution. `finish` names it.
    pub fence: i64,
    /// The idempotency key for the provider: the same for every execution.
    pub downstream_key: String,
    /// Whether an earlier execution has an unknown outcome.
    pub in_doubt: bool,
}

/// The outcome of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// A number of your choice, for example an HTTP status.
    pub code: i32,
    /// Replayed byte for byte.
    pub response: Option<Vec<u8>>,
    /// Why it failed.
    pub error: Option<String>,
}

impl Outcome {
    /// A success with its response.
    pub fn succeeded(response: Vec<u8>) -> Outcome {
        Outcome { status: Status::Succeeded, code: 0, response: Some(response), error: None }
    }
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It happened.
    Succeeded,
    /// It did not happen, and is not executed again.
    FailedFinal,
    /// It did not happen, and may be executed again.
    FailedRetryable,
    /// It may have happened.
    Unknown,
}

/// The reply to a begin or a reacquire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Execute.
    Execute(Execution),
    /// Ask the provider whether it was executed, then finish under this fence.
    Probe(Execution),
    /// It was executed, with this outcome.
    Replay(Outcome),
    /// It failed, and [`reacquire`] may execute it again.
    Retryable(Outcome),
    /// Another caller executes it.
    InProgress,
    /// Its outcome is unknown, and a person has to find out.
    Parked,
    /// The key has been used with another request.
    Conflict,
    /// There is no such key to reacquire.
    NotFound,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// PostgreSQL reported an error. Roll back. With SQLSTATE 40001, repeat the transaction.
    #[error(transparent)]
    Postgres(#[from] tokio_postgres::Error),
    /// A later execution has the key. Roll back: this result does not count.
    #[error("a later execution has the key")]
    Stale,
    /// The fence has another outcome.
    #[error("another outcome is recorded for this fence")]
    Conflict,
    /// There is no such key.
    #[error("there is no such key")]
    NotFound,
    /// The tables are of another release.
    #[error("the ledger replied {0:?}; apply the schema of this release")]
    Schema(String),
}

/// Requests the right to execute. Commit before you execute.
pub async fn begin(client: &impl GenericClient, begin: &Begin<'_>) -> Result<Decision, Error> {
    let Begin { key, request_hash, on_doubt, nonce, lease, ttl, provider_window } = begin;
    let on_doubt = match on_doubt {
        OnDoubt::Retry => "retry",
        OnDoubt::Probe => "probe",
        OnDoubt::Park => "park",
    };
    let window = provider_window.map(|window| window.as_secs_f64());
    let call = "SELECT * FROM driftq_begin($1, $2, $3, $4, $5, $6, \
        make_interval(secs => $7), make_interval(secs => $8), make_interval(secs => $9))";
    let (lease, ttl) = (lease.as_secs_f64(), ttl.as_secs_f64());
    let parameters: &[&(dyn ToSql + Sync)] = &[
        &key.principal,
        &key.operation,
        &key.key,
        request_hash,
        &on_doubt,
        nonce,
        &lease,
        &ttl,
        &window,
    ];
    decision(&client.query_one(call, parameters).await?)
}

/// Requests the right to execute again. Unlike [`begin`], it also executes what has failed and may be
/// executed again. `nonce` is the same for each repeat of this request.
pub async fn reacquire(
    client: &impl GenericClient,
    key: Key<'_>,
    request_hash: &str,
    nonce: &str,
    lease: Duration,
) -> Result<Decision, Error> {
    let call = "SELECT * FROM driftq_reacquire($1, $2, $3, $4, $5, make_interval(secs => $6))";
    let lease = lease.as_secs_f64();
    let parameters: &[&(dyn ToSql + Sync)] =
        &[&key.principal, &key.operation, &key.key, &request_hash, &nonce, &lease];
    decision(&client.query_one(call, parameters).await?)
}

/// Records the outcome of an execution.
pub async fn finish(
    client: &impl GenericClient,
    key: Key<'_>,
    fence: i64,
    outcome: &Outcome,
) -> Result<(), Error> {
    let Outcome { status, code, response, error } = outcome;
    let status = match status {
        Status::Succeeded => "SUCCEEDED",
        Status::FailedFinal => "FAILED_FINAL",
        Status::FailedRetryable => "FAILED_RETRYABLE",
        Status::Unknown => "UNKNOWN",
    };
    let call = "SELECT driftq_finish($1, $2, $3, $4, $5, $6, $7, $8)";
    let parameters: &[&(dyn ToSql + Sync)] =
        &[&key.principal, &key.operation, &key.key, &fence, &status, code, response, error];
    done(&client.query_one(call, parameters).await?)
}

/// Extends the lease of an execution.
pub async fn extend(
    client: &impl GenericClient,
    key: Key<'_>,
    fence: i64,
    lease: Duration,
) -> Result<(), Error> {
    let call = "SELECT driftq_extend($1, $2, $3, $4, make_interval(secs => $5))";
    let lease = lease.as_secs_f64();
    let parameters: &[&(dyn ToSql + Sync)] =
        &[&key.principal, &key.operation, &key.key, &fence, &lease];
    done(&client.query_one(call, parameters).await?)
}

/// Enqueues a message, which `driftq relay` moves to DriftQ. Returns its idempotency key.
pub async fn enqueue(
    client: &impl GenericClient,
    topic: &str,
    value: &[u8],
    message_key: Option<&str>,
) -> Result<String, Error> {
    let call = "SELECT driftq_enqueue($1, $2, $3)";
    let row = client.query_one(call, &[&topic, &value, &message_key.unwrap_or_default()]).await?;
    Ok(row.try_get(0)?)
}

fn done(row: &Row) -> Result<(), Error> {
    match row.try_get(0)? {
        "DONE" => Ok(()),
        "STALE" => Err(Error::Stale),
        "CONFLICT" => Err(Error::Conflict),
        "NOT_FOUND" => Err(Error::NotFound),
        other => Err(Error::Schema(other.to_owned())),
    }
}

fn decision(row: &Row) -> Result<Decision, Error> {
    let execution = || -> Result<Execution, Error> {
        Ok(Execution {
            fence: row.try_get("fence")?,
            downstream_key: row.try_get("downstream_key")?,
            in_doubt: row.try_get("in_doubt")?,
        })
    };
    Ok(match row.try_get("decision")? {
        "EXECUTE" => Decision::Execute(execution()?),
        "PROBE" => Decision::Probe(execution()?),
        "REPLAY" => Decision::Replay(outcome(row)?),
        "RETRYABLE" => Decision::Retryable(outcome(row)?),
        "IN_PROGRESS" => Decision::InProgress,
        "PARKED" => Decision::Parked,
        "CONFLICT" => Decision::Conflict,
        "NOT_FOUND" => Decision::NotFound,
        other => return Err(Error::Schema(other.to_owned())),
    })
}

fn outcome(row: &Row) -> Result<Outcome, Error> {
    let status = match row.try_get("status")? {
        "SUCCEEDED" => Status::Succeeded,
        "FAILED_FINAL" => Status::FailedFinal,
        "FAILED_RETRYABLE" => Status::FailedRetryable,
        other => return Err(Error::Schema(other.to_owned())),
    };
    Ok(Outcome {
        status,
        code: row.try_get("response_code")?,
        response: row.try_get("response")?,
        error: row.try_get("error")?,
    })
}
