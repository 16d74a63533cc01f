//! The configuration of a server.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::uri::Authority;
use driftq_core::limits::{VALUE_BYTES_CAP, VALUE_BYTES_DEFAULT};
use driftq_core::ownership::{NODE_LEASE_MS, NODE_LEASE_MS_MAX};
use driftq_core::{DedupeCompare, InvalidSetting, RetryPolicy};
pub use driftq_core::{Settings, Unkeyed};

use crate::api_keys::{check_file, weakness};
use crate::budget::BUDGET_BYTES_MIN;
pub use crate::message_router::{HookConfig, Match, OnRouterError, RoutingRule};
pub use crate::secret::Secret;
pub use crate::tls::TlsFiles;

/// Default for the bytes of disk that are kept free.
const MIN_FREE_BYTES: u64 = 64 << 20;

/// Limits on requests and connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum bytes of a request body.
    pub body_bytes: usize,
    /// Maximum unsettled bytes that one stream may hold.
    pub stream_bytes: u64,
    /// Maximum number of concurrent connections.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { body_bytes: 8 << 20, stream_bytes: 8 << 20, connections: 10_000 }
    }
}

/// Where rows are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineConfig {
    /// In memory. All data is lost on exit.
    Memory,
    /// In a data directory.
    Sqlite(PathBuf),
    /// In a PostgreSQL database that several nodes may share. The URL may contain a password.
    Postgres(Secret),
}

/// What decides to which topic a message goes.
#[derive(Debug, Clone, Default)]
pub enum RouterConfig {
    /// Its producer alone.
    #[default]
    None,
    /// The first rule that matches.
    Rules(Vec<RoutingRule>),
    /// A service of the operator.
    Hook(HookConfig),
}

/// The configuration of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Where rows are stored.
    pub engine: EngineConfig,
    /// The key that every request must carry.
    pub api_key: Option<Secret>,
    /// A file with that key, and with the previous one in its second line.
    pub api_key_file: Option<PathBuf>,
    /// The certificate of the server. Without one, it does not encrypt.
    pub tls: Option<TlsFiles>,
    /// Whether to listen on a non-loopback address without a key.
    pub insecure: bool,
    /// Origins of web pages that may send requests.
    pub allowed_origins: Vec<String>,
    /// Host names under which clients may address this server.
    pub allowed_hosts: Vec<String>,
    /// Limits on requests and connections.
    pub limits: Limits,
    /// Maximum bytes of a message value.
    pub value_bytes: usize,
    /// Memory that requests, messages and consumers share. Defaults to half of the available
    /// memory.
    pub memory_budget_bytes: Option<u64>,
    /// Bytes of disk that are kept free. Below this, requests that store new data are rejected.
    pub min_free_bytes: u64,
    /// Default settings of topics.
    pub defaults: Settings,
    /// The setting `unkeyed` of new topics. [`Unkeyed::First`] is not stored, because a topic
    /// without the setting has it.
    pub unkeyed_of_new_topics: Unkeyed,
    /// Whether requests with fields that DriftQ-Core v1 does not have are rejected.
    pub is_v1: bool,
    /// Number of shards, fixed when the storage is created. Defaults to 64 on PostgreSQL and to 1
    /// otherwise.
    pub shards: Option<u32>,
    /// The address at which other nodes reach this one. Defaults to the listener's address.
    pub advertise: Option<String>,
    /// How long this node counts as alive after it last renewed its lease.
    pub node_lease_ms: u64,
    /// An address on which metrics are served without a key.
    pub metrics_listen: Option<SocketAddr>,
    /// The OTLP/HTTP collector that spans are exported to.
    pub otlp_endpoint: Option<String>,
    /// What decides to which topic a message goes.
    pub router: RouterConfig,
    /// What happens to a message that is to be produced if the router fails.
    pub on_router_error: OnRouterError,
    /// Whether clients may advance the clock, to test waits of hours. In memory and on loopback only.
    pub test_clock: bool,
    /// The commit that the server was built from.
    pub commit: &'static str,
}

/// With a shorter lease, a pause loses shards. With a longer one, a dead node is detected late.
const NODE_LEASE_RANGE_MS: RangeInclusive<u64> = 3_000..=NODE_LEASE_MS_MAX;

/// A produce waits for the router, so it must not take long.
const ROUTER_TIMEOUT_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(60);

/// The default maximum of file handles per process on Linux.
const CONNECTIONS_MAX: usize = 1 << 20;

/// Four of the largest values. A longer body would not fit into the memory budget.
const BODY_BYTES_MAX: usize = 4 * VALUE_BYTES_CAP;

/// Each shard is a task with its own rows in memory.
const SHARDS_MAX: u32 = 1024;

impl Config {
    /// The default configuration: listens on loopback only.
    pub fn local(engine: EngineConfig) -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            engine,
            api_key: None,
            api_key_file: None,
            tls: None,
            insecure: false,
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            limits: Limits::default(),
            value_bytes: VALUE_BYTES_DEFAULT,
            memory_budget_bytes: None,
            min_free_bytes: MIN_FREE_BYTES,
            is_v1: false,
            defaults: Settings::default(),
            unkeyed_of_new_topics: Unkeyed::Spread,
            shards: None,
            advertise: None,
            metrics_listen: None,
            otlp_endpoint: None,
            router: RouterConfig::None,
            on_router_error: OnRouterError::Accept,
            node_lease_ms: NODE_LEASE_MS,
            test_clock: false,
            commit: "unknown",
        }
    }

    /// Whether other machines can reach the server without a key, and `insecure` is not set.
    pub fn is_open_to_all(&self) -> bool {
        let has_key = self.api_key.is_some() || self.api_key_file.is_some();
        !self.listen.ip().is_loopback() && !has_key && !self.insecure
    }

    /// Lists the invalid values. A server does not start with any.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut fault = |key: &str, why: String| faults.push(Fault { key: key.to_owned(), why });
        if self.is_open_to_all() {
            let message = "is reachable from other machines; set --api-key-file, or --insecure if the network is trusted";
            fault("listen", format!("{} {message}", self.listen));
        }
        if self.test_clock
            && !(matches!(self.engine, EngineConfig::Memory) && self.listen.ip().is_loopback())
        {
            fault("test-clock", "needs the engine memory and a loopback address".to_owned());
        }
        if let Some(key) = &self.api_key
            && let Some(why) = weakness(key.reveal())
        {
            fault("DRIFTQ_API_KEY", why);
        }
        if self.api_key.is_some() && self.api_key_file.is_some() {
            fault(
                "api_key_file",
                "is set, and DRIFTQ_API_KEY too; set only one of them".to_owned(),
            );
        } else if let Some(file) = &self.api_key_file
            && let Err(why) = check_file(file)
        {
            fault("api_key_file", why);
        }
        if let Some(files) = &self.tls
            && let Err(Fault { key, why }) = files.check()
        {
            fault(&key, why);
        }
        for origin in &self.allowed_origins {
            let host = origin.strip_prefix("https://").or(origin.strip_prefix("http://"));
            if host.is_none_or(|host| host.is_empty() || host.contains('/')) {
                let message =
                    "is not an origin; write it as https://example.com or http://localhost:5173";
                fault("http.allowed_origins", format!("`{origin}` {message}"));
            }
        }
        for host in self.allowed_hosts.iter().filter(|host| host.contains(['/', '*'])) {
            let message = format!("`{host}` is not a host name; remove http://, / and *");
            fault("http.allowed_hosts", message);
        }
        if !(1..=VALUE_BYTES_CAP).contains(&self.value_bytes) {
            let message =
                format!("must be between 1 and {VALUE_BYTES_CAP} (got {})", self.value_bytes);
            fault("limits.value_bytes", message);
        } else if !(2 * self.value_bytes..=BODY_BYTES_MAX).contains(&self.limits.body_bytes) {
            let (least, given) = (2 * self.value_bytes, self.limits.body_bytes);
            let message = format!(
                "must be between {least} (twice limits.value_bytes) and {BODY_BYTES_MAX} (got {given})"
            );
            fault("limits.body_bytes", message);
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.limits.connections) {
            let (given, most) = (self.limits.connections, CONNECTIONS_MAX);
            fault("limits.connections", format!("must be between 1 and {most} (got {given})"));
        }
        if let Some(bytes) = self.memory_budget_bytes.filter(|bytes| *bytes < BUDGET_BYTES_MIN) {
            let message = format!("must be at least {BUDGET_BYTES_MIN} (got {bytes})");
            fault("memory.budget_bytes", message);
        }
        if let Some(shards) = self.shards
            && !(1..=SHARDS_MAX).contains(&shards)
        {
            fault("storage.shards", format!("must be between 1 and {SHARDS_MAX} (got {shards})"));
        }
        if !NODE_LEASE_RANGE_MS.contains(&self.node_lease_ms) {
            let (least, most) = NODE_LEASE_RANGE_MS.into_inner();
            let message =
                format!("must be between {least} and {most} (got {})", self.node_lease_ms);
            fault("cluster.lease_ms", message);
        }
        let is_postgres = matches!(self.engine, EngineConfig::Postgres(_));
        if is_postgres && self.advertise.is_none() && self.listen.ip().is_unspecified() {
            let message = "is required because `listen` is not a specific address; set it to an address that other nodes can reach, such as http://one.example:8080";
            fault("cluster.advertise", message.to_owned());
        }
        if let Some(given) = self.advertise.as_deref().filter(|given| !is_address(given)) {
            let message = format!(
                "{given} is not the address of a node; write it as http://one.example:8080"
            );
            fault("cluster.advertise", message);
        }
        if let Some(given) = self.otlp_endpoint.as_deref().filter(|given| !is_address(given)) {
            let message = format!(
                "{given} is not the address of a collector; write it as http://127.0.0.1:4318"
            );
            fault("otlp_endpoint", message);
        }
        match &self.router {
            RouterConfig::None => {}
            RouterConfig::Rules(rules) => {
                for (number, rule) in (1..).zip(rules) {
                    if let Some(why) = rule.fault() {
                        fault("router.rules", format!("rule {number}: {why}"));
                    }
                }
            }
            RouterConfig::Hook(hook) => {
                if hook.parsed().is_none() {
                    let message = "is not a URL; write it as http://127.0.0.1:9000/route";
                    fault("router.url", message.to_owned());
                }
                if !ROUTER_TIMEOUT_RANGE.contains(&hook.timeout) {
                    let got = hook.timeout.as_millis();
                    fault("router.timeout_ms", format!("must be between 10 and 60000 (got {got})"));
                }
            }
        }
        if let Err(InvalidSetting { name, why }) = self.defaults.check() {
            fault(&format!("defaults.{name}"), why);
        }
        faults
    }
}

/// An invalid configuration value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The name of the value in a configuration file.
    pub key: String,
    /// Why the value is invalid.
    pub why: String,
}

/// Whether `text` is a base URL without a path. Request paths are appended to it. Nodes also
/// identify each other by it.
fn is_address(text: &str) -> bool {
    let rest = text
        .strip_prefix("http://")
        .or(text.strip_prefix("https://"))
        .filter(|rest| !rest.contains('/'));
    rest.is_some_and(|authority| authority.parse::<Authority>().is_ok())
}

/// The defaults that the v1 examples were written with.
pub fn v1_defaults() -> Settings {
    Settings {
        lease_ms: 2_000,
        max_in_flight: 2,
        // A message is in flight until it is acked, also while it waits for a retry.
        max_open: 2,
        max_backlog_messages: 2,
        max_backlog_bytes: 20,
        dedupe_ttl_ms: 600_000,
        dedupe_compare: DedupeCompare::Key,
        effect_ttl_ms: 600_000,
        retry_policy: RetryPolicy { max_attempts: -1, backoff_ms: 250, max_backoff_ms: 250 },
        ..Settings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the keys that `change` makes invalid.
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
        let key = Some("0123456789abcdef0123456789abcdef".to_owned().into());
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
