//! Free space for new rows.
//!
//! The file does not shrink when rows are deleted. Its empty pages are reused, so they count as
//! free. Pages that are only in the WAL will extend the file, so they are subtracted.

use std::path::Path;

use rusqlite::Connection;

pub(super) fn room(connection: &Connection, database: &Path) -> Result<u64, std::io::Error> {
    let pragma = |name: &str| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, u64>(0))
            .map_err(std::io::Error::other)
    };
    let page = pragma("page_size")?;
    let empty = pragma("freelist_count")? * page;
    let length = pragma("page_count")? * page;
    let grows = length.saturating_sub(database.metadata()?.len());
    let disk = rustix::fs::statvfs(database)?;
    Ok((disk.f_bavail * disk.f_frsize + empty).saturating_sub(grows))
}
