//! One node among others: performs what the core's ownership machine says.
//!
//! It only decides who serves what, and how soon after a loss. Nothing that was acknowledged depends on it:
//! every commit is fenced by its epoch.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use driftq_core::ownership::{Action, Event, Ownerships, RENEW_WAIT_MS};
use driftq_core::{NUMBER_MAX, NodeId, Timestamp};
use driftq_storage::postgres::{Member, Postgres};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::clock::NodeClock;
use crate::config::Config;
use crate::node::{ClusterHandle, Commander, MembershipHandle, Order, Routes};

/// A node that is about to join.
pub(crate) struct Joining {
    membership: MembershipHandle,
    member: Member,
    lease_ms: u64,
    happened: mpsc::UnboundedReceiver<Event>,
    routes: watch::Sender<Routes>,
    renewed: watch::Sender<Instant>,
    time: NodeClock,
}

impl Joining {
    /// As the others will know it.
    pub(crate) fn new(
        postgres: Arc<Postgres>,
        config: &Config,
        listens: SocketAddr,
        time: &NodeClock,
    ) -> Joining {
        let (events, happened) = mpsc::unbounded_channel();
        let (renewed, seen) = watch::channel(Instant::now());
        let node = NodeId(fastrand::u64(1..=NUMBER_MAX));
        let address = config.advertise.clone().unwrap_or_else(|| format!("http://{listens}"));
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Joining {
            membership: MembershipHandle::new(postgres, node, events, seen, config.node_lease_ms),
            member: Member { node, address, version },
            lease_ms: config.node_lease_ms,
            happened,
            routes: watch::channel(Routes::default()).0,
            renewed,
            time: time.clone(),
        }
    }

    /// What its tasks need to know.
    pub(crate) fn handle(&self) -> ClusterHandle {
        ClusterHandle { membership: self.membership.clone(), routes: self.routes.subscribe() }
    }

    /// Takes part, and gives `orders` to the task of each shard, until `leaving` and everything is given up.
    pub(crate) async fn join(self, orders: Vec<Commander>, leaving: watch::Receiver<bool>) {
        let Joining { membership, member, lease_ms, happened, routes, renewed, time } = self;
        let membership = Membership {
            membership,
            member,
            lease_ms,
            happened,
            routes,
            renewed,
            time,
            orders,
            leaving,
        };
        membership.run().await;
    }
}

/// A node that takes part.
struct Membership {
    membership: MembershipHandle,
    member: Member,
    lease_ms: u64,
    happened: mpsc::UnboundedReceiver<Event>,
    routes: watch::Sender<Routes>,
    /// When its lease was last renewed.
    renewed: watch::Sender<Instant>,
    time: NodeClock,
    /// What each shard's task is told.
    orders: Vec<Commander>,
    /// True: the process is to stop.
    leaving: watch::Receiver<bool>,
}

impl Membership {
    /// Takes part until told to drain, and then until everything is given up.
    async fn run(mut self) {
        let began = Instant::now();
        let now = || Timestamp(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
        let mut machine = Ownerships::new(self.member.node, self.lease_ms);
        let mut is_leaving = false;
        let mut event = Event::Time;
        loop {
            if let Event::Renewed(shown) = &event {
                self.renewed.send_replace(Instant::now());
                // An idle node sees a jump too. An answer without this node has no time.
                if shown.nodes.contains_key(&self.member.node) {
                    self.time.sample(shown.at);
                }
            }
            for action in machine.on(now(), event) {
                match action {
                    Action::Renew { draining } => self.renew(draining),
                    Action::Claim { shard, epoch } => self.order(shard.0, Order::Claim(epoch)),
                    Action::GiveUp { shard, epoch } => self.order(shard.0, Order::GiveUp(epoch)),
                    Action::Abandon(shard) => self.order(shard.0, Order::Drop),
                    Action::Leave => return self.leave().await,
                }
            }
            self.publish(&machine, now());
            let until = machine.next_deadline().map(|at| Duration::from_millis(at.since(now())));
            event = tokio::select! {
                biased;
                // The others are counted on to come: one of these tasks holds each sender.
                Some(event) = self.happened.recv() => event,
                _ = self.leaving.wait_for(|is_leaving| *is_leaving), if !is_leaving => {
                    is_leaving = true;
                    Event::Drain
                }
                () = tokio::time::sleep(until.unwrap_or(IDLE)) => Event::Time,
            };
        }
    }

    fn order(&self, shard: u32, order: Order) {
        if let Some(to) = self.orders.get(shard as usize) {
            // Gone when the process ends.
            let _gone = to.send(order);
        }
    }

    fn renew(&self, draining: bool) {
        let MembershipHandle { postgres, events, .. } = self.membership.clone();
        let (member, lease_ms) = (self.member.clone(), self.lease_ms);
        tokio::spawn(async move {
            let wait = Duration::from_millis(RENEW_WAIT_MS);
            let event = match postgres.renew(&member, draining, lease_ms, wait).await {
                Ok(shown) => Event::Renewed(shown),
                Err(error) => {
                    tracing::warn!(why = %error, "the lease of this node was not renewed");
                    Event::RenewFailed
                }
            };
            // Gone when the process ends.
            let _gone = events.send(event);
        });
    }

    /// Leaves, and looks where its shards have gone: what is under way is passed on to there.
    async fn leave(&self) {
        let postgres = &self.membership.postgres;
        if let Err(error) = postgres.leave(self.member.node).await {
            tracing::warn!(why = %error, "the others learn of the end when the lease is over");
        }
        for _ in 0..LOOKS {
            let Ok(shown) = postgres.look(LOOK_WAIT).await else { return };
            let view = shown.view();
            // There may be no others.
            let is_last = view.nodes.is_empty();
            let routes = Routes::seen(&view);
            let is_done = is_last || routes.is_whole();
            self.routes.send_replace(routes);
            if is_done {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn publish(&self, machine: &Ownerships, now: Timestamp) {
        let routes = Routes::of(machine, self.member.node, self.orders.len(), now);
        if routes.has_duplicate_address() && !self.routes.borrow().has_duplicate_address() {
            let address = &self.member.address;
            tracing::error!(address, "another node is at this address: set cluster.advertise");
        }
        self.routes.send_if_modified(|known| {
            let is_new = *known != routes;
            if is_new {
                *known = routes;
            }
            is_new
        });
    }
}

/// How often a node that leaves looks where its shards have gone, and how long after each other.
const LOOKS: u32 = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(150);
const LOOK_WAIT: Duration = Duration::from_secs(2);
/// How long nothing may happen.
const IDLE: Duration = Duration::from_secs(1);
