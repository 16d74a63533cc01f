//! What Patroni is told, in JSON, which is YAML as well.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use super::Replication;

/// Seconds after which a primary that says nothing is none.
const TTL: u32 = 7;
/// Seconds between two looks, and for which a failing one is repeated, which must fit into the former twice.
const LOOP_WAIT: u32 = 1;
const RETRY_TIMEOUT: u32 = 3;
/// Bytes by which a standby may be behind and still be promoted: what is lost without synchronous replication is to be
/// lost, not to be waited for.
const LAG_MAX: u32 = 1 << 30;

/// One of its nodes.
pub(super) struct Settings<'a> {
    pub(super) name: &'a str,
    /// Of the whole: programs, files, the store of decisions.
    pub(super) binaries: &'a Path,
    pub(super) directory: &'a Path,
    pub(super) etcd: SocketAddr,
    pub(super) replication: Replication,
    /// Of this node.
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
            // Not `etcd3`: there Patroni 3.0.2 writes the leader's key without a look at whose it is by now. A primary
            // that was paused takes the lead back, and what was acknowledged meanwhile is lost (patroni#2689).
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
                        // One that was killed comes back as a standby, whatever it had written last.
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
