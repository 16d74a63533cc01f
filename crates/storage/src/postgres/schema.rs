//! The tables of a database: made, brought up to date, and refused where they are too new.

use driftq_core::NUMBER_MAX;
use tokio_postgres::Client;

use super::OpenError;
use crate::Identity;

/// What each version adds, in this order, for good: a step that was released never changes.
const STEPS: [&str; 1] = [include_str!("migrations/0001_begin.sql")];

/// The oldest version whose programs can still work with these tables. Raised by a step that breaks them.
const OLDEST_THAT_FITS: usize = 1;

/// Any number; whoever makes tables holds it.
const LOCK: i64 = 0x6472_6674;

/// Makes what is not there, with that many shards, and says whose storage it is.
pub(super) async fn prepare(client: &mut Client, shards: u32) -> Result<Identity, OpenError> {
    // Unlike all else here, this must see a lock that is held for long: many nodes start together.
    client.batch_execute("SET lock_timeout = 0").await?;
    let making = client.transaction().await?;
    making.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    making.batch_execute("CREATE SCHEMA IF NOT EXISTS driftq").await?;
    let is_there = "SELECT to_regclass('driftq.meta') IS NOT NULL";
    let is_there: bool = making.query_one(is_there, &[]).await?.get(0);
    let stored = |name: &'static str| {
        let making = &making;
        async move {
            let select = "SELECT value FROM driftq.meta WHERE name = $1";
            let row = making.query_opt(select, &[&name]).await?;
            Ok::<Option<String>, tokio_postgres::Error>(row.map(|row| row.get(0)))
        }
    };
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
    let (version, fits): (usize, usize) = match is_there {
        true => (number(stored("version").await?), number(stored("oldest_that_fits").await?)),
        false => (0, 0),
    };
    if fits > STEPS.len() {
        return Err(OpenError::Newer { version, known: STEPS.len() });
    }
    for step in STEPS.iter().skip(version) {
        making.batch_execute(step).await?;
    }
    let put = "INSERT INTO driftq.meta (name, value) VALUES ($1, $2)
               ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value";
    if version < STEPS.len() {
        making.execute(put, &[&"version", &STEPS.len().to_string()]).await?;
        making.execute(put, &[&"oldest_that_fits", &OLDEST_THAT_FITS.to_string()]).await?;
    }
    let identity = match stored("identity").await? {
        Some(identity) => serde_json::from_str(&identity)
            .map_err(|error| OpenError::Damaged(format!("identity: {error}")))?,
        None => {
            let identity = Identity::random(shards);
            let text = serde_json::to_string(&identity).expect("plain fields");
            making.execute(put, &[&"identity", &text]).await?;
            let all = "INSERT INTO driftq.shard (shard, epoch)
                       SELECT generate_series(0, $1::int8 - 1), 0";
            making.execute(all, &[&i64::from(shards)]).await?;
            identity
        }
    };
    making.commit().await?;
    if identity.token_keys().is_none() {
        return Err(OpenError::Damaged("identity: no token keys".to_owned()));
    }
    Ok(identity)
}

const _: () = assert!(NUMBER_MAX == i64::MAX as u64, "an index of 0001 names the bucket of no end");
