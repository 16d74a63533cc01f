//! The lifecycle of a server, from its configuration to its shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driftq_core::command::CreateTopic;
use driftq_core::{Command, Reply, SettingsPatch, ShardConfig};
use driftq_storage::postgres::{self, Postgres};
use driftq_storage::sqlite::{OpenError, Sqlite};
use driftq_storage::{Engine, Identity, Memory, wall_clock};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::api_keys::ApiKeys;
use crate::budget::{self, Budget};
use crate::clock::{ClockWatch, NodeClock};
use crate::cluster::PendingMember;
use crate::config::TlsFiles;
use crate::config::Unkeyed;
use crate::config::{Config, EngineConfig, RouterConfig};
use crate::disk_space::Watch;
use crate::http::{
    self, About, AccessRules, AllowedHosts, AllowedOrigins, App, Listener, ListenerRoutes, Parts,
    RejectionLog,
};
use crate::message_router::MessageRouter;
use crate::node::{Node, ShardTasks, Status, sample_regularly};
use crate::telemetry::Telemetry;
use crate::traces::{Traces, TracesError};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be opened.
    #[error(transparent)]
    Storage(#[from] OpenError),
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] postgres::OpenError),
    /// The server cannot listen on the address.
    #[error("cannot listen on {0}: {1}; choose another address with --listen")]
    Listen(SocketAddr, #[source] io::Error),
    /// Other machines could reach the server without a key.
    #[error(
        "{0} is reachable from other machines; set DRIFTQ_API_KEY_FILE, or pass --insecure if the network is trusted"
    )]
    Open(SocketAddr),
    /// Other nodes could not reach this one.
    #[error(
        "other nodes on this database cannot reach {0}; listen on another address, or set cluster.advertise"
    )]
    Hidden(SocketAddr),
    /// A key or a certificate cannot be read.
    #[error("{0}")]
    File(String),
    /// The router hook cannot be called.
    #[error("router.url: {0}")]
    Router(String),
    /// Spans cannot be exported.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// The shard cannot be recovered.
    #[error("cannot recover the stored data: {0}")]
    Recovery(String),
}

/// Connections to the listener for metrics.
const METRICS_CONNECTIONS: usize = 64;

/// How long a node may take to give up its shards. Bounded because its database may be failing.
const LEAVE_WITHIN: Duration = Duration::from_secs(15);

/// A running server.
pub struct Server {
    address: SocketAddr,
    is_encrypted: bool,
    node: Node,
    shards: ShardTasks,
    draining: watch::Sender<bool>,
    http: JoinHandle<()>,
    /// Background tasks: disk space, clock, log of rejections.
    beside: JoinSet<()>,
    /// Set to true to give up all shards.
    leaving: watch::Sender<bool>,
    /// The cluster membership, if the engine is shared.
    member: Option<JoinHandle<()>>,
    telemetry: Telemetry,
    started: Instant,
}

impl Server {
    /// Opens the storage, recovers the shards, and listens. On a shared engine it also joins the
    /// cluster, and [`Server::served`] waits until every shard is served. No shard is claimed from
    /// another node before this returns, so the server may be dropped until then.
    pub async fn start(config: Config) -> Result<Server, StartError> {
        let is_loopback = config.listen.ip().is_loopback();
        if config.is_open_to_all() {
            return Err(StartError::Open(config.listen));
        }
        let started = Instant::now();
        // Before the storage is opened: a busy port must not leave a new data directory behind.
        let failed = |error| StartError::Listen(config.listen, error);
        let listener = Listener::bind(config.listen, config.limits.connections).map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        let metrics_listener = match config.metrics_listen {
            Some(address) => {
                let failed = |error| StartError::Listen(address, error);
                Some(Listener::bind(address, METRICS_CONNECTIONS).map_err(failed)?)
            }
            None => None,
        };
        let Opened { engine, identity, about, data, postgres } = open(&config).await?;
        let budget = Budget::new(config.memory_budget_bytes.unwrap_or_else(budget::default_bytes));
        let keys = identity.token_keys().expect("checked when it was opened");
        let shard = ShardConfig {
            shards: identity.shards,
            restore: identity.restore,
            defaults: config.defaults.clone(),
            unkeyed_of_new_topics: (config.unkeyed_of_new_topics == Unkeyed::Spread)
                .then_some(Unkeyed::Spread),
            value_bytes_max: config.value_bytes,
            read_ahead_bytes: budget.read_ahead_bytes(identity.shards),
            ..ShardConfig::default()
        };
        log_start(&about, address, &data, &identity);
        let api_keys = match (&config.api_key, config.api_key_file.clone()) {
            (Some(key), _) => ApiKeys::fixed(key),
            (None, Some(file)) => ApiKeys::read(file).map_err(StartError::File)?,
            (None, None) => ApiKeys::default(),
        };
        let tls = config.tls.as_ref().map(TlsFiles::read).transpose().map_err(StartError::File)?;
        let traces = match &config.otlp_endpoint {
            Some(collector) => Traces::start(collector, &address.to_string())?,
            None => Traces::default(),
        };
        let telemetry = Telemetry::new(about.engine, traces);
        let metrics = telemetry.metrics.clone();
        let router = match &config.router {
            RouterConfig::None => None,
            RouterConfig::Rules(rules) => {
                let rules =
                    MessageRouter::of_rules(rules.clone(), config.on_router_error, metrics.clone());
                Some(rules)
            }
            RouterConfig::Hook(hook) => {
                let hook = MessageRouter::of_hook(
                    hook,
                    config.on_router_error,
                    http::router_message,
                    metrics.clone(),
                );
                Some(hook.map_err(|error| StartError::Router(error.to_string()))?)
            }
        };
        let mut beside = JoinSet::new();
        beside.spawn(telemetry.clone().run());
        let (leaving, is_leaving) = watch::channel(false);
        let is_shared = postgres.is_some();
        let (clock, stored) = NodeClock::start(engine.clone(), &metrics).await;
        let joining = postgres
            .map(|postgres| PendingMember::new(postgres, &config, address, &clock, &telemetry));
        let trusted = config.tls.as_ref().map(TlsFiles::certificates).transpose();
        let trusted = trusted.map_err(StartError::File)?.unwrap_or_default();
        let cluster = joining.as_ref().map(|joining| joining.handle(trusted));
        let membership = cluster.as_ref().map(|cluster| cluster.membership.clone());
        let (node, shards) =
            Node::start(engine.clone(), &shard, keys, &telemetry, &clock, &budget, cluster);
        let is_clustered = joining.is_some();
        if !is_clustered && let Status::Failed(why) = node.until_decided().await {
            return Err(StartError::Recovery(why));
        }
        let mut space = Watch {
            engine: engine.clone(),
            node: node.clone(),
            metrics: metrics.clone(),
            min_free_bytes: config.min_free_bytes,
            is_low: false,
        };
        // Checked once before the first request.
        space.look().await;
        beside.spawn(space.run());
        let outages = telemetry.outages.clone();
        let watch = ClockWatch { clock: clock.clone(), stored, is_shared, reported: None, outages };
        beside.spawn(watch.run());
        let (draining, is_draining) = watch::channel(false);
        let access = AccessRules {
            api_keys: api_keys.clone(),
            origins: AllowedOrigins(config.allowed_origins),
            hosts: AllowedHosts { names: config.allowed_hosts, is_loopback },
        };
        let rejections = Arc::new(RejectionLog::default());
        let app = App::from(Parts {
            node: node.clone(),
            router,
            limits: config.limits,
            is_v1: config.is_v1,
            has_test_clock: config.test_clock,
            budget: budget.clone(),
            about,
            access,
            draining: is_draining.clone(),
            metrics,
            traces: telemetry.traces.clone(),
            rejections: rejections.clone(),
            overview: Default::default(),
            storage: engine,
            clock: clock.clone(),
            membership,
        });
        beside.spawn(rejections.run());
        beside.spawn(api_keys.run());
        if let Some(tls) = tls.clone() {
            beside.spawn(tls.run());
        }
        beside.spawn(sample_regularly(node.clone(), clock.clone()));
        if let Some(listener) = metrics_listener {
            let routes = ListenerRoutes::metrics(app.clone());
            beside.spawn(http::serve(listener, None, routes, is_draining.clone()));
        }
        let http = tokio::spawn(http::serve(listener, tls, ListenerRoutes::all(app), is_draining));
        // Other nodes send requests as soon as this node serves a shard, so it answers before it
        // joins.
        let member = joining.map(|joining| tokio::spawn(joining.join(shards.orders(), is_leaving)));
        Ok(Server {
            address,
            is_encrypted: config.tls.is_some(),
            node,
            shards,
            draining,
            http,
            beside,
            leaving,
            member,
            telemetry,
            started,
        })
    }

    /// The URL of the listener.
    pub fn url(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Waits until every shard is served by some node. The wait is bounded because other nodes may
    /// be failing.
    pub async fn served(&self) {
        self.node.until_decided().await;
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates a topic with default settings. The error says why it was rejected.
    pub async fn create_topic(&self, name: &str, partitions: u32) -> Result<(), String> {
        let name = http::topic_name(name);
        let create = CreateTopic {
            name,
            partitions,
            settings: SettingsPatch::default(),
            retry_policy: None,
        };
        match self.node.call(Command::CreateTopic(Box::new(create))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(rejection)) => Err(rejection.to_string()),
            Err(lost) => Err(lost.to_string()),
        }
    }

    /// The number of stored messages.
    pub async fn messages(&self) -> u64 {
        let list = Command::ListTopics { namespace: http::NAMESPACE.into() };
        let Ok(Ok(Reply::Topics(topics))) = self.node.call(list).await else { return 0 };
        let partitions = topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.high - partition.first).sum()
    }

    /// Stops accepting requests, finishes those under way, and commits what was decided.
    pub async fn stop(mut self) {
        self.leaving.send_replace(true);
        if let Some(member) = self.member {
            // First, so that requests received meanwhile are forwarded, and no stream of another
            // node is cut.
            let _ended = tokio::time::timeout(LEAVE_WITHIN, member).await;
        }
        self.draining.send_replace(true);
        // The task does not panic. If it did, there would be nothing left to wait for.
        let _ended = self.http.await;
        self.beside.shutdown().await;
        self.shards.stop().await;
        self.telemetry.ownership.flush();
        self.telemetry.traces.stop().await;
        let after = self.started.elapsed().as_secs();
        tracing::info!("stopped after {after} s");
    }
}

/// The first line of the log.
fn log_start(about: &About, address: SocketAddr, data: &str, identity: &Identity) {
    let About { engine, durability, commit, .. } = about;
    let (version, shards) = (env!("CARGO_PKG_VERSION"), identity.shards);
    tracing::info!(%version, %commit, %engine, %address, data, durability, shards, "DriftQ started");
}

struct Opened {
    engine: Arc<dyn Engine>,
    identity: Identity,
    about: About,
    /// Where the data is, for the log.
    data: String,
    /// The engine, if several nodes share it.
    postgres: Option<Arc<Postgres>>,
}

async fn open(config: &Config) -> Result<Opened, StartError> {
    let started_at = driftq_api::Time(wall_clock().0);
    let commit = config.commit;
    let about = |engine, durability| About { engine, durability, started_at, commit };
    Ok(match &config.engine {
        EngineConfig::Memory => Opened {
            engine: Arc::new(Memory::new(wall_clock)),
            identity: Identity::random(config.shards.unwrap_or(1)),
            about: about("memory", "none: everything is in memory"),
            data: "memory".to_owned(),
            postgres: None,
        },
        EngineConfig::Sqlite(directory) => {
            let engine = Sqlite::open(directory, config.shards)?;
            let identity = engine.identity().clone();
            let about = about("sqlite", "fsync before every acknowledgement");
            let data = directory.display().to_string();
            Opened { engine: Arc::new(engine), identity, about, data, postgres: None }
        }
        EngineConfig::Postgres(url) => {
            let engine = Arc::new(Postgres::open(url.reveal(), config.shards).await?);
            let is_hidden = config.listen.ip().is_loopback() && config.advertise.is_none();
            if is_hidden && !engine.is_here() {
                return Err(StartError::Hidden(config.listen));
            }
            let identity = engine.identity().clone();
            let about = about("postgres", engine.durability());
            let data = engine.servers().to_owned();
            Opened { engine: engine.clone(), identity, about, data, postgres: Some(engine) }
        }
    })
}
