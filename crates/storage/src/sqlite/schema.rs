//! The schema of the database file: its version, and its creation and migration.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::OpenError;

/// "drft", by which `file` and other programs identify the database.
const APPLICATION: i32 = 0x6472_6674;
/// The migrations in order. An older file is migrated to the newest version when it is opened to
/// write.
const STEPS: [&str; 8] = [
    include_str!("schema.sql"),
    include_str!("effects.sql"),
    include_str!("version_3.sql"),
    include_str!("version_4.sql"),
    include_str!("version_5.sql"),
    include_str!("version_6.sql"),
    // No change of a table: pages and outbox rows may have version 2, which earlier releases cannot
    // read. They reject the file instead of a partition.
    "",
    include_str!("version_8.sql"),
];
const VERSION: i32 = STEPS.len() as i32;

/// Page cache of the writer. The operating system caches the rest.
const WRITER_CACHE_KIB: i32 = 64 << 10;

/// Bytes of the WAL file that are kept when the WAL restarts.
pub(super) const WAL_BYTES_KEPT: i64 = 64 << 20;

/// How long a statement waits for a lock of another process, such as a backup.
const BUSY_MS: u32 = 5_000;

/// Opens the connection that writes. Creates or migrates the tables.
pub(super) fn writer(path: &Path) -> Result<Connection, OpenError> {
    let mut connection = Connection::open(path)?;
    configure(&connection)?;
    check(&connection, path)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    // Checkpoints run on a separate thread.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.set_prepared_statement_cache_capacity(128);
    let version: usize = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version < STEPS.len() {
        let making = connection.transaction()?;
        for step in &STEPS[version..] {
            making.execute_batch(step)?;
        }
        making.pragma_update(None, "application_id", APPLICATION)?;
        making.pragma_update(None, "user_version", VERSION)?;
        making.commit()?;
    }
    Ok(connection)
}

/// Opens a read-only connection.
pub(super) fn reader(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection)?;
    check(&connection, path)?;
    connection.pragma_update(None, "cache_size", -8_192)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

fn configure(connection: &Connection) -> Result<(), OpenError> {
    connection.busy_timeout(std::time::Duration::from_millis(u64::from(BUSY_MS)))?;
    // Without this, SQLite recompiles a statement whenever a parameter is bound that its planner
    // has used. That took a fifth of the writer's time.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Rejects a file that is not a DriftQ database, or has an unknown version.
fn check(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 && application != APPLICATION {
        return Err(OpenError::Foreign(path.to_owned()));
    }
    if version > VERSION {
        return Err(OpenError::Newer { path: path.to_owned(), version, known: VERSION });
    }
    Ok(())
}
