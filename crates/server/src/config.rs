//! What a server is told.

use std::net::SocketAddr;
use std::path::PathBuf;

use driftq_core::{RetryPolicy, Settings};

use crate::http::Limits;

/// Bytes of the disk that are kept free unless told otherwise.
const MIN_FREE_BYTES: u64 = 64 << 20;

/// Where rows live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineConfig {
    /// In memory: nothing survives.
    Memory,
    /// In a data directory.
    Sqlite(PathBuf),
}

/// What a server is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where rows live.
    pub engine: EngineConfig,
    /// The key that every request must carry.
    pub api_key: Option<String>,
    /// Listen to other machines without a key.
    pub insecure: bool,
    /// Web pages that may come.
    pub allowed_origins: Vec<String>,
    /// Names this server may be called by.
    pub allowed_hosts: Vec<String>,
    /// Bounds.
    pub limits: Limits,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes of the disk that are kept free: below, nothing new is stored.
    pub min_free_bytes: u64,
    /// Settings of topics that do not say otherwise.
    pub defaults: Settings,
    /// The build.
    pub commit: &'static str,
}

impl Config {
    /// A server for this machine.
    pub fn local(engine: EngineConfig) -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            engine,
            api_key: None,
            insecure: false,
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            limits: Limits::default(),
            value_bytes: driftq_core::limits::VALUE_BYTES_DEFAULT,
            min_free_bytes: MIN_FREE_BYTES,
            defaults: Settings::default(),
            commit: "unknown",
        }
    }
}

/// The defaults that the examples of the first contract were written with.
pub fn v1_defaults() -> Settings {
    Settings {
        lease_ms: 2_000,
        max_in_flight: 2,
        max_backlog_messages: 2,
        max_backlog_bytes: 20,
        dedupe_ttl_ms: 600_000,
        effect_ttl_ms: 600_000,
        retry_policy: RetryPolicy { max_attempts: -1, backoff_ms: 250, max_backoff_ms: 250 },
        ..Settings::default()
    }
}
