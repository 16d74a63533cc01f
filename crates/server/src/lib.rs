//! The shell: tasks around shards, HTTP around tasks. It performs; the core decides.

pub mod budget;
mod clock;
mod cluster;
pub mod config;
pub mod http;
pub mod metrics;
pub mod node;
/// Data directories and databases, without a server.
pub mod offline {
    pub use driftq_core::ShardId;
    pub use driftq_storage::postgres::{
        CopyError, Inspected, OpenError as DatabaseError, copy, inspect,
        restored as database_restored,
    };
    pub use driftq_storage::sqlite::{
        BackupError, Checked, OpenError, back_up, check, dump, restored as directory_restored,
        tables,
    };
}
mod disk_space;
mod server;
mod shard_stats;

pub use server::{Server, StartError};
