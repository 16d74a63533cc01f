//! Creation and migration of the tables of a database. Tables that are too new, or that were
//! restored without `driftq mark-restored`, are rejected.

use driftq_core::NUMBER_MAX;
use tokio_postgres::{Client, Transaction};

use super::error::OpenError;
use crate::Identity;

/// The migrations in order. A released migration never changes.
const STEPS: [&str; 5] = [
    include_str!("migrations/0001_begin.sql"),
    include_str!("migrations/0002_operations.sql"),
    include_str!("migrations/0003_unending_by_age.sql"),
    include_str!("migrations/0004_expiry_by_time.sql"),
    include_str!("migrations/0005_acts.sql"),
];

/// The oldest version whose binaries can still use these tables. A migration that breaks them
/// raises it.
const OLDEST_THAT_FITS: usize = 1;

/// The advisory lock of nodes that create or migrate tables. The number is arbitrary.
const LOCK: i64 = 0x6472_6674;

const PUT: &str = "INSERT INTO driftq.meta (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value";

/// Creates or migrates the tables, with `shards` shards in a new storage. Returns the identity of
/// the storage.
pub(super) async fn prepare(client: &mut Client, shards: u32) -> Result<Identity, OpenError> {
    let place = place(client).await;
    let making = begin(client).await?;
    let identity = match migrate(&making).await? {
        Some(identity) => identity,
        None => {
            let identity = Identity::random(shards);
            put_identity(&making, &identity).await?;
            put_shards(&making, &identity).await?;
            identity
        }
    };
    let known = stored(&making, "place").await?;
    match (known, &place) {
        (Some(known), Some(place)) if known != *place => return Err(OpenError::Restored),
        (Some(_), _) => {}
        (None, _) => put_place(&making, place).await?,
    }
    making.commit().await?;
    Ok(identity)
}

/// Returns which database of which server this is, if the server reports it. Tables with another
/// place were restored or copied.
pub(super) async fn place(client: &Client) -> Option<String> {
    let place = "SELECT system_identifier || '/' || pg_database.oid
                 FROM pg_control_system(), pg_database WHERE datname = current_database()";
    client.query_one(place, &[]).await.ok()?.try_get(0).ok()
}

/// Begins a transaction in which no other node creates or migrates tables.
pub(super) async fn begin(client: &mut Client) -> Result<Transaction<'_>, OpenError> {
    // Unlike other statements, this one may wait long for its lock, because many nodes start
    // together.
    client
        .batch_execute("SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0")
        .await?;
    let making = client.transaction().await?;
    making.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    Ok(making)
}

/// Migrates the tables to the newest version. Returns the identity of the storage, or `None` if it
/// is new.
pub(super) async fn migrate(making: &Transaction<'_>) -> Result<Option<Identity>, OpenError> {
    making.batch_execute("CREATE SCHEMA IF NOT EXISTS driftq").await?;
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
    let (version, fits): (usize, usize) = if is_made(making).await? {
        (
            number(stored(making, "version").await?),
            number(stored(making, "oldest_that_fits").await?),
        )
    } else {
        (0, 0)
    };
    if fits > STEPS.len() {
        return Err(OpenError::Newer { version, known: STEPS.len() });
    }
    for step in STEPS.iter().skip(version) {
        making.batch_execute(step).await?;
    }
    if version < STEPS.len() {
        making.execute(PUT, &[&"version", &STEPS.len().to_string()]).await?;
        making.execute(PUT, &[&"oldest_that_fits", &OLDEST_THAT_FITS.to_string()]).await?;
    }
    read_identity(making).await
}

/// Whether the tables exist.
pub(super) async fn is_made(making: &Transaction<'_>) -> Result<bool, OpenError> {
    let is_made = "SELECT to_regclass('driftq.meta') IS NOT NULL";
    Ok(making.query_one(is_made, &[]).await?.get(0))
}

/// Returns the identity of the storage, or `None` if it is new.
pub(super) async fn read_identity(making: &Transaction<'_>) -> Result<Option<Identity>, OpenError> {
    let Some(text) = stored(making, "identity").await? else { return Ok(None) };
    let identity: Identity = serde_json::from_str(&text)
        .map_err(|error| OpenError::Damaged(format!("identity: {error}")))?;
    match identity.token_keys() {
        Some(_) => Ok(Some(identity)),
        None => Err(OpenError::Damaged("identity: no token keys".to_owned())),
    }
}

pub(super) async fn put_identity(
    making: &Transaction<'_>,
    identity: &Identity,
) -> Result<(), OpenError> {
    let text = serde_json::to_string(identity).expect("an identity serializes to JSON");
    put_meta(making, "identity", &text).await
}

pub(super) async fn put_meta(
    making: &Transaction<'_>,
    name: &str,
    text: &str,
) -> Result<(), OpenError> {
    making.execute(PUT, &[&name, &text]).await?;
    Ok(())
}

/// Stores the record of an act.
pub(super) async fn put_act(making: &Transaction<'_>, record: &str) -> Result<(), OpenError> {
    making.execute("INSERT INTO driftq.act (body) VALUES ($1)", &[&record]).await?;
    Ok(())
}

/// Records the place of the tables.
pub(super) async fn put_place(
    making: &Transaction<'_>,
    place: Option<String>,
) -> Result<(), OpenError> {
    if let Some(place) = place {
        put_meta(making, "place", &place).await?;
    }
    Ok(())
}

/// Inserts a row for each shard, unclaimed.
pub(super) async fn put_shards(
    making: &Transaction<'_>,
    identity: &Identity,
) -> Result<(), OpenError> {
    let all = "INSERT INTO driftq.shard (shard, epoch) SELECT generate_series(0, $1::int8 - 1), 0";
    making.execute(all, &[&i64::from(identity.shards)]).await?;
    Ok(())
}

async fn stored(
    making: &Transaction<'_>,
    name: &str,
) -> Result<Option<String>, tokio_postgres::Error> {
    let select = "SELECT value FROM driftq.meta WHERE name = $1";
    Ok(making.query_opt(select, &[&name]).await?.map(|row| row.get(0)))
}

const _: () =
    assert!(NUMBER_MAX == i64::MAX as u64, "an index of migration 0001 contains this number");
