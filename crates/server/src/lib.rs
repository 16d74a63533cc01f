//! The server shell: one task per shard, and the HTTP API. It performs the I/O; the core makes the
//! decisions.

pub mod budget;
mod clock;
mod cluster;
pub mod config;
pub mod http;
/// Connections to a database of the user.
pub mod database {
    pub use driftq_storage::postgres::connect;
}
pub mod message_router;
pub mod metrics;
pub mod node;
/// Operations on data directories and databases without a running server.
pub mod offline {
    pub use driftq_core::ShardId;
    pub use driftq_core::command::Act;
    pub use driftq_storage::postgres::{
        CopyError, Inspected, OpenError as DatabaseError, copy, inspect,
        restored as database_restored,
    };
    pub use driftq_storage::sqlite::{
        BackupError, Checked, OpenError, back_up, check, dump, restored as directory_restored,
        tables,
    };

    pub use crate::http::act_of;
}
mod api_keys;
mod disk_space;
mod node_log;
mod outage_log;
mod ownership_log;
mod reloaded;
mod secret;
mod secret_file;
mod series;
mod server;
mod shard_stats;
mod telemetry;
mod tls;
mod traces;

pub use server::{Server, StartError};
