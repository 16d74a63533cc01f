//! The shell: tasks around shards, HTTP around tasks. It performs; the core decides.

pub mod config;
pub mod http;
pub mod metrics;
pub mod node;
mod server;

pub use server::{Server, StartError};
