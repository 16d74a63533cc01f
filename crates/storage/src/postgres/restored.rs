//! Marking a database as restored from a backup.

use driftq_core::Timestamp;
use driftq_core::command::{Act, StorageAct};

use super::error::OpenError;
use super::fixed::LOOK;
use super::members::cluster_rows;
use super::schema::{begin, migrate, place, put_act, put_identity, put_place};
use super::session::Session;
use super::target::Target;

/// Marks the database as restored from a backup. Ids, tokens and epochs issued from now on are
/// greater than all that were issued before, also after the backup. Fails while a node runs on the
/// database. Records `act`. Returns the new restore generation.
pub async fn restored(url: &str, act: &Act) -> Result<u32, OpenError> {
    let mut session = Session::open(&Target::read(url)?).await?;
    let place = place(&session.client).await;
    let restoring = begin(&mut session.client).await?;
    let Some(mut identity) = migrate(&restoring).await? else { return Err(OpenError::Missing) };
    let seen = cluster_rows(restoring.query(&*LOOK.text, &[]).await?)?;
    if let Some(node) = seen.view().nodes.into_values().next() {
        return Err(OpenError::Alive(node.address.to_string()));
    }
    let now: i64 = restoring
        .query_one("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8", &[])
        .await?
        .get(0);
    identity.begin_again(Timestamp(now.cast_unsigned()));
    put_identity(&restoring, &identity).await?;
    put_place(&restoring, place).await?;
    let least = identity.least_epoch().cast_signed();
    let epochs = "UPDATE shard SET epoch = greatest(epoch + 1, $1), node = NULL, put = NULL";
    restoring.execute(epochs, &[&least]).await?;
    restoring.execute("DELETE FROM node", &[]).await?;
    let done = StorageAct::MarkRestored { restore: identity.restore };
    put_act(&restoring, &done.record(Timestamp(now.cast_unsigned()), act)).await?;
    restoring.commit().await?;
    Ok(identity.restore)
}
