//! Runs the real server, its workers and its database as processes, with temporary directories for
//! their data.

pub mod api;
pub mod broker;
pub mod clock;
pub mod directory;
pub mod flush_disk;
pub mod http2;
pub mod netns;
pub mod node;
pub mod patroni;
pub mod postgres;
pub mod processes;
pub mod proxy;
pub mod server;
pub mod small_disk;
pub mod usage;
pub mod worker;
