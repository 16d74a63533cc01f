//! The ledger in a real PostgreSQL.

mod concurrency;
mod database;
mod table;
