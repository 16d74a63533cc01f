//! What a server is told.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use axum::http::uri::Authority;
use driftq_core::limits::{VALUE_BYTES_CAP, VALUE_BYTES_DEFAULT};
use driftq_core::ownership::{NODE_LEASE_MS, NODE_LEASE_MS_MAX};
use driftq_core::{InvalidSetting, RetryPolicy};
pub use driftq_core::{Settings, Unkeyed};
use serde::{Deserialize, Serialize, Serializer};

use crate::budget::BUDGET_BYTES_MIN;

/// Bytes of the disk that are kept free unless told otherwise.
const MIN_FREE_BYTES: u64 = 64 << 20;

/// What requests may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Unsettled bytes one stream may hold.
    pub stream_bytes: u64,
    /// Connections at a time.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { body_bytes: 8 << 20, stream_bytes: 8 << 20, connections: 10_000 }
    }
}

/// Where rows live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineConfig {
    /// In memory: nothing survives.
    Memory,
    /// In a data directory.
    Sqlite(PathBuf),
    /// In a database that many nodes share, at this URL, which may hold a password.
    Postgres(Secret),
}

/// A text that is used and never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("(hidden)")
    }
}

/// What a server is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where rows live.
    pub engine: EngineConfig,
    /// The key that every request must carry.
    pub api_key: Option<Secret>,
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
    /// Memory that requests, messages and consumers may use together; if not set, half of what there is.
    pub memory_budget_bytes: Option<u64>,
    /// Bytes of the disk that are kept free: below, nothing new is stored.
    pub min_free_bytes: u64,
    /// Settings of topics that do not say otherwise.
    pub defaults: Settings,
    /// How many shards a storage gets when it is made; if nobody says, 64 on PostgreSQL, else one. It keeps
    /// their number.
    pub shards: Option<u32>,
    /// Where other nodes reach this one; its listener, if nobody says.
    pub advertise: Option<String>,
    /// For how long this node counts as alive after it was last heard.
    pub node_lease_ms: u64,
    /// The build.
    pub commit: &'static str,
}

/// Shorter, and a pause loses shards; longer, and a loss is noticed late.
const NODE_LEASE_RANGE_MS: RangeInclusive<u64> = 3_000..=NODE_LEASE_MS_MAX;

/// File handles that Linux gives one process at most, unless told otherwise.
const CONNECTIONS_MAX: usize = 1 << 20;

/// Four of the largest values. A longer body would not fit the memory budget.
const BODY_BYTES_MAX: usize = 4 * VALUE_BYTES_CAP;

/// Each shard is a task with its own rows in memory.
const SHARDS_MAX: u32 = 1024;

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
            value_bytes: VALUE_BYTES_DEFAULT,
            memory_budget_bytes: None,
            min_free_bytes: MIN_FREE_BYTES,
            defaults: Settings::default(),
            shards: None,
            advertise: None,
            node_lease_ms: NODE_LEASE_MS,
            commit: "unknown",
        }
    }

    /// Whether everybody on the network could come in, and nobody said that this is meant.
    pub fn is_open_to_all(&self) -> bool {
        !self.listen.ip().is_loopback() && self.api_key.is_none() && !self.insecure
    }

    /// What no server should be started with.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut fault = |key: &str, why: String| faults.push(Fault { key: key.to_owned(), why });
        if self.is_open_to_all() {
            let message = "can be reached from other machines: set api_key_file, or insecure if the network keeps others out";
            fault("listen", format!("{} {message}", self.listen));
        }
        for origin in &self.allowed_origins {
            let host = origin.strip_prefix("https://").or(origin.strip_prefix("http://"));
            if host.is_none_or(|host| host.is_empty() || host.contains('/')) {
                let message =
                    "is not an origin: write it as https://example.com or http://localhost:5173";
                fault("http.allowed_origins", format!("`{origin}` {message}"));
            }
        }
        for host in self.allowed_hosts.iter().filter(|host| host.contains(['/', '*'])) {
            let message = format!("`{host}` is not a host: leave out http://, / and *");
            fault("http.allowed_hosts", message);
        }
        if !(1..=VALUE_BYTES_CAP).contains(&self.value_bytes) {
            let message = format!("{} is not within 1 to {VALUE_BYTES_CAP}", self.value_bytes);
            fault("limits.value_bytes", message);
        } else if !(2 * self.value_bytes..=BODY_BYTES_MAX).contains(&self.limits.body_bytes) {
            let (least, given) = (2 * self.value_bytes, self.limits.body_bytes);
            let message = format!(
                "{given} is not within {least}, twice limits.value_bytes, to {BODY_BYTES_MAX}"
            );
            fault("limits.body_bytes", message);
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.limits.connections) {
            let (given, most) = (self.limits.connections, CONNECTIONS_MAX);
            fault("limits.connections", format!("{given} is not within 1 to {most}"));
        }
        if let Some(bytes) = self.memory_budget_bytes.filter(|bytes| *bytes < BUDGET_BYTES_MIN) {
            let message = format!("must be at least {BUDGET_BYTES_MIN} (got {bytes})");
            fault("memory.budget_bytes", message);
        }
        if let Some(shards) = self.shards
            && !(1..=SHARDS_MAX).contains(&shards)
        {
            fault("storage.shards", format!("{shards} is not within 1 to {SHARDS_MAX}"));
        }
        if !NODE_LEASE_RANGE_MS.contains(&self.node_lease_ms) {
            let (least, most) = NODE_LEASE_RANGE_MS.into_inner();
            let message = format!("{} is not within {least} to {most}", self.node_lease_ms);
            fault("cluster.lease_ms", message);
        }
        let is_postgres = matches!(self.engine, EngineConfig::Postgres(_));
        if is_postgres && self.advertise.is_none() && self.listen.ip().is_unspecified() {
            let message = "is missing: other nodes cannot tell from listen where this one is; write it as http://one.example:8080";
            fault("cluster.advertise", message.to_owned());
        }
        if let Some(given) = self.advertise.as_deref().filter(|given| !is_address(given)) {
            let message =
                format!("{given} is not where a node is: write it as http://one.example:8080");
            fault("cluster.advertise", message);
        }
        if let Err(InvalidSetting { name, why }) = self.defaults.check() {
            fault(&format!("defaults.{name}"), why);
        }
        faults
    }
}

/// A value that no server should be started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which, by its name in a configuration file.
    pub key: String,
    /// What is wrong with it.
    pub why: String,
}

/// Nodes add the path to it, and take it for the name of a node.
fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("http://").filter(|rest| !rest.contains('/'));
    rest.is_some_and(|authority| authority.parse::<Authority>().is_ok())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that `change` makes wrong.
    fn wrong(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::local(EngineConfig::Memory);
        change(&mut config);
        config.faults().into_iter().map(|fault| fault.key).collect()
    }

    #[test]
    fn what_a_server_starts_with_by_itself_is_right() {
        assert_eq!(wrong(|_| {}), [""; 0]);
        assert_eq!(wrong(|config| config.defaults = v1_defaults()), [""; 0]);
    }

    #[test]
    fn a_listener_for_all_needs_a_key_or_a_word() {
        let listen = SocketAddr::from(([0, 0, 0, 0], 8080));
        assert_eq!(wrong(|config| config.listen = listen), ["listen"]);
        let key = Some("0123456789abcdef".to_owned().into());
        let with_key = |config: &mut Config| (config.listen, config.api_key) = (listen, key);
        assert_eq!(wrong(with_key), [""; 0]);
        let insecure = |config: &mut Config| (config.listen, config.insecure) = (listen, true);
        assert_eq!(wrong(insecure), [""; 0]);
    }

    #[test]
    fn secrets_are_not_shown() {
        let url = "postgresql://driftq:secret@db.example/driftq".to_owned();
        let mut config = Config::local(EngineConfig::Postgres(url.into()));
        config.api_key = Some("secret".to_owned().into());
        let shown = format!("{config:?} {config:#?}");
        assert!(shown.contains("(hidden)") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn sizes_are_bounded_and_a_body_holds_two_values() {
        for bytes in [0, VALUE_BYTES_CAP + 1] {
            assert_eq!(wrong(|config| config.value_bytes = bytes), ["limits.value_bytes"]);
        }
        let edge = |config: &mut Config| config.limits.body_bytes = 2 * VALUE_BYTES_DEFAULT;
        assert_eq!(wrong(edge), [""; 0]);
        let under = |config: &mut Config| config.limits.body_bytes = 2 * VALUE_BYTES_DEFAULT - 1;
        assert_eq!(wrong(under), ["limits.body_bytes"]);
        let over = |config: &mut Config| config.limits.body_bytes = BODY_BYTES_MAX + 1;
        assert_eq!(wrong(over), ["limits.body_bytes"]);
        for connections in [0, usize::MAX] {
            let fault = wrong(|config| config.limits.connections = connections);
            assert_eq!(fault, ["limits.connections"]);
        }
    }

    #[test]
    fn a_budget_is_at_least_256_mebibytes() {
        let with = |bytes| wrong(|config| config.memory_budget_bytes = Some(bytes));
        assert_eq!(with(BUDGET_BYTES_MIN - 1), ["memory.budget_bytes"]);
        assert_eq!(with(BUDGET_BYTES_MIN), [""; 0]);
    }

    #[test]
    fn origins_and_hosts_have_their_forms() {
        let origins = |origins: &[&str]| {
            let origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
            wrong(|config| config.allowed_origins = origins)
        };
        assert_eq!(origins(&["https://example.com", "http://localhost:5173"]), [""; 0]);
        assert_eq!(origins(&["example.com", "https://example.com/"]).len(), 2);
        let hosts = vec!["http://localhost".to_owned()];
        assert_eq!(wrong(|config| config.allowed_hosts = hosts), ["http.allowed_hosts"]);
    }

    #[test]
    fn the_core_says_which_default_is_out_of_range() {
        assert_eq!(wrong(|config| config.defaults.lease_ms = 249), ["defaults.lease_ms"]);
        let attempts = |config: &mut Config| config.defaults.retry_policy.max_attempts = 0;
        assert_eq!(wrong(attempts), ["defaults.retry_policy"]);
    }
}
