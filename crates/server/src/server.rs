//! A server, from its configuration to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use driftq_core::command::CreateTopic;
use driftq_core::{Command, Reply, SettingsPatch, ShardConfig};
use driftq_storage::postgres::{self, Postgres};
use driftq_storage::sqlite::{OpenError, Sqlite};
use driftq_storage::{Engine, Identity, Memory, wall_clock};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::budget::{self, Budget};
use crate::clock::{ClockWatch, NodeClock};
use crate::cluster::Joining;
use crate::config::{Config, EngineConfig};
use crate::disk_space::Watch;
use crate::http::{
    self, About, AccessRules, AllowedHosts, AllowedOrigins, App, Listener, Parts, RejectionLog,
};
use crate::metrics::Metrics;
use crate::node::{Node, ShardTasks, Status};

/// A server that does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be opened.
    #[error(transparent)]
    Storage(#[from] OpenError),
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] postgres::OpenError),
    /// Nothing can listen there.
    #[error("cannot listen at {0}: {1}; give --listen another address")]
    Listen(SocketAddr, #[source] io::Error),
    /// Everybody could come in.
    #[error(
        "{0} can be reached from other machines: set DRIFTQ_API_KEY_FILE, or say --insecure if the network keeps others out"
    )]
    Open(SocketAddr),
    /// Other nodes could not find it.
    #[error(
        "other nodes on this database cannot reach {0}: listen at another address, or set cluster.advertise"
    )]
    Hidden(SocketAddr),
    /// The shard cannot be recovered.
    #[error("the data cannot be served: {0}")]
    Recovery(String),
}

/// How long a node has to give its shards up to the others. Its database may be in trouble.
const LEAVE_WITHIN: Duration = Duration::from_secs(15);

/// A server at work.
pub struct Server {
    address: SocketAddr,
    node: Node,
    shards: ShardTasks,
    draining: watch::Sender<bool>,
    http: JoinHandle<()>,
    /// What goes on beside requests.
    beside: JoinSet<()>,
    /// True: it gives its shards up to the others.
    leaving: watch::Sender<bool>,
    /// Its part among them, if there are others.
    member: Option<JoinHandle<()>>,
}

impl Server {
    /// Opens the storage, recovers, listens; among others it joins them, and [`Server::served`] says when all is
    /// served. Until this returns nothing was claimed from anybody: it may be dropped.
    pub async fn start(config: Config) -> Result<Server, StartError> {
        let is_loopback = config.listen.ip().is_loopback();
        if config.is_open_to_all() {
            return Err(StartError::Open(config.listen));
        }
        let Opened { engine, identity, about, postgres } = open(&config).await?;
        let budget = Budget::new(config.memory_budget_bytes.unwrap_or_else(budget::default_bytes));
        let keys = identity.token_keys().expect("looked at when it was opened");
        let shard = ShardConfig {
            shards: identity.shards,
            restore: identity.restore,
            defaults: config.defaults.clone(),
            value_bytes_max: config.value_bytes,
            read_ahead_bytes: budget.read_ahead_bytes(identity.shards),
            ..ShardConfig::default()
        };
        let failed = |error| StartError::Listen(config.listen, error);
        let listener = Listener::bind(config.listen, config.limits.connections).map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        let metrics = Arc::new(Metrics::default());
        let (leaving, is_leaving) = watch::channel(false);
        let is_shared = postgres.is_some();
        let (clock, stored) = NodeClock::start(engine.clone(), &metrics).await;
        let joining = postgres.map(|postgres| Joining::new(postgres, &config, address, &clock));
        let cluster = joining.as_ref().map(Joining::handle);
        let membership = cluster.as_ref().map(|cluster| cluster.membership.clone());
        let (node, shards) =
            Node::start(engine.clone(), &shard, keys, &metrics, &clock, &budget, cluster);
        let is_among_others = joining.is_some();
        if !is_among_others && let Status::Failed(why) = node.until_decided().await {
            return Err(StartError::Recovery(why));
        }
        let mut beside = JoinSet::new();
        let mut space = Watch {
            engine,
            node: node.clone(),
            metrics: metrics.clone(),
            min_free_bytes: config.min_free_bytes,
            is_low: false,
        };
        // Before the first request.
        space.look().await;
        beside.spawn(space.run());
        let watch = ClockWatch { clock: clock.clone(), stored, is_shared, reported: None };
        beside.spawn(watch.run());
        let (draining, is_draining) = watch::channel(false);
        let access = AccessRules {
            api_key: config.api_key,
            origins: AllowedOrigins(config.allowed_origins),
            hosts: AllowedHosts { names: config.allowed_hosts, is_loopback },
        };
        let rejections = Arc::new(RejectionLog::default());
        let app = App::from(Parts {
            node: node.clone(),
            limits: config.limits,
            budget: budget.clone(),
            about,
            access,
            draining: is_draining.clone(),
            metrics,
            rejections: rejections.clone(),
            clock,
            membership,
        });
        beside.spawn(rejections.tell());
        let http = tokio::spawn(http::serve(listener, http::router(app), is_draining));
        // Others ask it as soon as it serves something: it answers before it joins.
        let member = joining.map(|joining| tokio::spawn(joining.join(shards.orders(), is_leaving)));
        Ok(Server { address, node, shards, draining, http, beside, leaving, member })
    }

    /// Waits until every shard is served somewhere, though not for long: others may be in trouble.
    pub async fn served(&self) {
        self.node.until_decided().await;
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a topic with default settings. Says why not, if not.
    pub async fn create_topic(&self, name: &str, partitions: u32) -> Result<(), String> {
        let name = http::topic_name(name);
        let create = CreateTopic { name, partitions, settings: SettingsPatch::default() };
        match self.node.call(Command::CreateTopic(Box::new(create))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(rejection)) => Err(rejection.to_string()),
            Err(lost) => Err(lost.to_string()),
        }
    }

    /// How many messages it holds.
    pub async fn messages(&self) -> u64 {
        let list = Command::ListTopics { namespace: http::NAMESPACE.into() };
        let Ok(Ok(Reply::Topics(topics))) = self.node.call(list).await else { return 0 };
        let partitions = topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.high - partition.first).sum()
    }

    /// Takes nothing new, lets what is under way end, commits what was decided.
    pub async fn stop(mut self) {
        self.leaving.send_replace(true);
        if let Some(member) = self.member {
            // First, so that what comes meanwhile is passed on, and no other node's stream is cut.
            let _ended = tokio::time::timeout(LEAVE_WITHIN, member).await;
        }
        self.draining.send_replace(true);
        // It does not panic; if it did, there is nothing left to wait for.
        let _ended = self.http.await;
        self.beside.shutdown().await;
        self.shards.stop().await;
    }
}

struct Opened {
    engine: Arc<dyn Engine>,
    identity: Identity,
    about: About,
    /// The engine, if other nodes use it too.
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
            postgres: None,
        },
        EngineConfig::Sqlite(directory) => {
            let engine = Sqlite::open(directory, config.shards)?;
            let identity = engine.identity().clone();
            let about = about("sqlite", "fsync before every acknowledgement");
            Opened { engine: Arc::new(engine), identity, about, postgres: None }
        }
        EngineConfig::Postgres(url) => {
            let engine = Arc::new(Postgres::open(url.reveal(), config.shards).await?);
            let is_hidden = config.listen.ip().is_loopback() && config.advertise.is_none();
            if is_hidden && !engine.is_here() {
                return Err(StartError::Hidden(config.listen));
            }
            let identity = engine.identity().clone();
            let about = about("postgres", engine.durability());
            Opened { engine: engine.clone(), identity, about, postgres: Some(engine) }
        }
    })
}
