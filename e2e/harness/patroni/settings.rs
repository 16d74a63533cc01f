//! The configuration of a Patroni node, as JSON, which is valid YAML.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use super::Replication;

/// Seconds after which a primary that does not renew its key loses the leadership.
const TTL: u32 = 7;
/// Seconds between two checks, and for how long a failing operation is retried. Patroni requires
/// `LOOP_WAIT` + 2 × `RETRY_TIMEOUT` ≤ `TTL`.
const LOOP_WAIT: u32 = 1;
const RETRY_TIMEOUT: u32 = 3;
/// How many bytes a standby may lag behind and still be promoted. Large, because without
/// synchronous replication the tests want commits to be lost, not failover to wait.
const LAG_MAX: u32 = 1 << 30;

/// The configuration of one node.
pub(super) struct Settings<'a> {
    pub(super) name: &'a str,
    /// Common to all nodes: programs, files, etcd.
    pub(super) binaries: &'a Path,
    pub(super) directory: &'a Path,
    pub(super) etcd: SocketAddr,
    pub(super) replication: Replication,
    /// Of this node only.
    pub(super) postgres: SocketAddr,
    pub(super) api: SocketAddr,
}

impl Settings<'_> {
    pub(super) fn to_json(&self) -> Value {
        let is_synchronous = self.replication == Replication::Synchronous;
        let (postgres, api) = (self.postgres.to_string(), self.api.to_string());
        json!({
            "scope": "driftq",
            "name": self.name,
            "restapi": { "listen": api, "connect_address": api },
            // Not `etcd3`: with it Patroni 3.0.2 writes the leader key without checking its owner.
            // A primary that was paused takes the leadership back, and commits acknowledged
            // meanwhile are lost (patroni#2689).
            "etcd": { "host": self.etcd.to_string() },
            "watchdog": { "mode": "off" },
            "bootstrap": {
                "dcs": {
                    "ttl": TTL,
                    "loop_wait": LOOP_WAIT,
                    "retry_timeout": RETRY_TIMEOUT,
                    "maximum_lag_on_failover": LAG_MAX,
                    "check_timeline": true,
                    "synchronous_mode": is_synchronous,
                    "synchronous_mode_strict": is_synchronous,
                    "postgresql": {
                        // A killed primary rejoins as a standby, whatever it wrote last.
                        "use_pg_rewind": true,
                        "parameters": { "synchronous_commit": "on", "dynamic_shared_memory_type": "mmap" },
                    },
                },
                "initdb": ["data-checksums", "no-locale", { "encoding": "UTF8" }],
            },
            "postgresql": {
                "listen": postgres,
                "connect_address": postgres,
                "bin_dir": self.binaries,
                "data_dir": self.directory.join(self.name),
                "pgpass": self.directory.join(format!("{}.pgpass", self.name)),
                "authentication": {
                    "superuser": { "username": "postgres" },
                    "replication": { "username": "replicator" },
                    "rewind": { "username": "postgres" },
                },
                "pg_hba": [
                    "local all all trust",
                    "host all all samenet trust",
                    "host replication all samenet trust",
                ],
                "parameters": { "unix_socket_directories": self.directory },
            },
        })
    }
}
