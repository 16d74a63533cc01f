//! The ledger in a real PostgreSQL.

mod axum;
mod concurrency;
mod database;
mod table;
