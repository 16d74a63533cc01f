//! Every engine passes the conformance suite. Guarantees of one engine have their own file.

mod before;
mod memory;
mod postgres;
mod sqlite;

driftq_storage::conformance!(
    memory_engine,
    driftq_storage::Memory::new(|| driftq_core::Timestamp(0))
);
driftq_storage::conformance!(sqlite_engine, crate::sqlite::Fresh::new());
driftq_storage::conformance!(postgres_engine, crate::postgres::fresh());
