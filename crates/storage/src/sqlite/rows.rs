//! Reads all rows of a data directory, to copy them to a database.

use std::path::Path;

use driftq_core::row::{Row, Table};
use driftq_core::{Epoch, ShardId};

use super::cells::Line;
use super::error::OpenError;
use super::{COPIED, Sqlite, directory, schema, writing};
use crate::layout::{layout, row_of};
use crate::{Engine as _, EngineError, Identity, Ownership, StoredAct, wall_clock};

/// A data directory that is read completely. No server can start on it meanwhile.
pub(crate) struct DirectoryReader {
    engine: Sqlite,
    connection: rusqlite::Connection,
}

impl DirectoryReader {
    /// Opens the directory, and migrates it to the newest version.
    pub(crate) fn open(data: &Path) -> Result<DirectoryReader, OpenError> {
        let database = directory::database(data);
        if !database.exists() {
            return Err(OpenError::Missing(data.to_owned()));
        }
        let engine = Sqlite::open_to_copy(data)?;
        let connection = schema::reader(&database)?;
        Ok(DirectoryReader { engine, connection })
    }

    pub(crate) fn identity(&self) -> &Identity {
        self.engine.identity()
    }

    /// Returns the text stored under a name, which belongs to no shard.
    pub(crate) fn meta(&self, name: &str) -> Result<Option<String>, OpenError> {
        Ok(writing::meta(&self.connection, name)?)
    }

    /// Returns all records of acts that no shard committed, oldest first.
    pub(crate) fn acts(&self) -> Result<Vec<StoredAct>, OpenError> {
        let mut acts = writing::acts(&self.connection, u64::MAX, u32::MAX)?;
        acts.reverse();
        Ok(acts)
    }

    /// Marks the directory as copied, so that no server starts on it.
    pub(crate) async fn mark_copied(&self) -> Result<(), EngineError> {
        self.engine.put_meta(COPIED, wall_clock().to_string(), None).await
    }

    /// Returns the last ownership of each shard that was ever claimed.
    pub(crate) fn shards(&self) -> Result<Vec<Ownership>, OpenError> {
        let mut select =
            self.connection.prepare("SELECT shard, epoch FROM shard ORDER BY shard")?;
        let shards = select.query_map([], |row| {
            Ok(Ownership { shard: ShardId(row.get(0)?), epoch: Epoch(row.get(1)?) })
        })?;
        Ok(shards.collect::<rusqlite::Result<_>>()?)
    }

    /// Passes the rows of a table of a shard to `each`, until it returns false.
    pub(crate) fn rows(
        &self,
        shard: ShardId,
        table: Table,
        each: &mut dyn FnMut(Row) -> bool,
    ) -> Result<(), OpenError> {
        let layout = layout(table);
        let names = layout.names().join(", ");
        let select = format!("SELECT {names}, body FROM {} WHERE shard = ?1", layout.name);
        let mut select = self.connection.prepare(&select)?;
        let mut lines = select.query([shard.0])?;
        while let Some(line) = lines.next()? {
            if !each(row_of(table, Line::of(line), true)?) {
                break;
            }
        }
        Ok(())
    }
}
