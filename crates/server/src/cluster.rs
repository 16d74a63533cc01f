//! Cluster membership of one node: performs the actions of the core's ownership machine.
//!
//! Membership only decides which node serves which shard, and how soon a lost shard is served
//! again. No acknowledged write depends on it, since every commit is fenced by its epoch.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use driftq_core::ownership::{OwnershipAction, OwnershipEvent, Ownerships, RENEW_TIMEOUT_MS};
use driftq_core::{NUMBER_MAX, NodeId, Timestamp};
use driftq_storage::postgres::{Member, Postgres};
use rustls::pki_types::CertificateDer;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::clock::NodeClock;
use crate::config::Config;
use crate::node::{ClusterHandle, Commander, MembershipHandle, Order, Routes};
use crate::node_log::NodeLog;
use crate::outage_log::{Caller, StorageCall, cause};
use crate::telemetry::Telemetry;

/// A node that is about to join the cluster.
pub(crate) struct PendingMember {
    membership: MembershipHandle,
    member: Member,
    lease_ms: u64,
    happened: mpsc::UnboundedReceiver<OwnershipEvent>,
    routes: watch::Sender<Routes>,
    renewed: watch::Sender<Instant>,
    time: NodeClock,
    telemetry: Telemetry,
}

impl PendingMember {
    /// Draws the node id and the address under which other nodes know this node.
    pub(crate) fn new(
        postgres: Arc<Postgres>,
        config: &Config,
        listens: SocketAddr,
        time: &NodeClock,
        telemetry: &Telemetry,
    ) -> PendingMember {
        let (events, happened) = mpsc::unbounded_channel();
        let (renewed, seen) = watch::channel(Instant::now());
        let node = NodeId(fastrand::u64(1..=NUMBER_MAX));
        let address = config.advertise.clone().unwrap_or_else(|| {
            let scheme = if config.tls.is_some() { "https" } else { "http" };
            format!("{scheme}://{listens}")
        });
        let version = env!("CARGO_PKG_VERSION").to_owned();
        PendingMember {
            membership: MembershipHandle::new(postgres, node, events, seen, config.node_lease_ms),
            member: Member { node, address, version },
            lease_ms: config.node_lease_ms,
            happened,
            routes: watch::channel(Routes::default()).0,
            renewed,
            time: time.clone(),
            telemetry: telemetry.clone(),
        }
    }

    /// The handle for this node's shard tasks. It trusts these certificates of other nodes.
    pub(crate) fn handle(&self, trusted: Vec<CertificateDer<'static>>) -> ClusterHandle {
        let (membership, routes) = (self.membership.clone(), self.routes.subscribe());
        ClusterHandle { membership, routes, trusted }
    }

    /// Joins the cluster and sends `orders` to the task of each shard. Returns after `leaving` is
    /// set and every shard is given up.
    pub(crate) async fn join(self, orders: Vec<Commander>, leaving: watch::Receiver<bool>) {
        let PendingMember {
            membership,
            member,
            lease_ms,
            happened,
            routes,
            renewed,
            time,
            telemetry,
        } = self;
        let membership = Membership {
            membership,
            member,
            lease_ms,
            happened,
            routes,
            renewed,
            time,
            telemetry,
            orders,
            leaving,
        };
        membership.run().await;
    }
}

/// A node that has joined the cluster.
struct Membership {
    membership: MembershipHandle,
    member: Member,
    lease_ms: u64,
    happened: mpsc::UnboundedReceiver<OwnershipEvent>,
    routes: watch::Sender<Routes>,
    /// When the node's lease was last renewed.
    renewed: watch::Sender<Instant>,
    time: NodeClock,
    telemetry: Telemetry,
    /// The control channel of each shard's task.
    orders: Vec<Commander>,
    /// True when the process should stop.
    leaving: watch::Receiver<bool>,
}

impl Membership {
    /// Runs until the node is drained and every shard is given up.
    async fn run(mut self) {
        let began = Instant::now();
        let now = || Timestamp(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
        let mut machine = Ownerships::new(self.member.node, self.lease_ms);
        let mut nodes = NodeLog::new(self.member.node);
        let mut is_leaving = false;
        let mut event = OwnershipEvent::Time;
        loop {
            if let OwnershipEvent::Renewed(rows) = &event {
                self.renewed.send_replace(Instant::now());
                self.telemetry.outages.succeeded(Caller::Lease);
                nodes.seen(rows);
                // An idle node must see a clock jump too. An answer that does not list this node
                // has no time.
                if rows.nodes.contains_key(&self.member.node) {
                    self.time.sample(rows.at);
                }
            }
            for action in machine.on(now(), event) {
                match action {
                    OwnershipAction::Renew { draining } => self.renew(draining),
                    OwnershipAction::Claim { shard, epoch } => {
                        let owner = machine.holder(shard).map(|(owner, _)| owner);
                        let owner = owner.and_then(|owner| nodes.name_of(owner));
                        self.telemetry.ownership.claiming(shard, owner);
                        self.order(shard.0, Order::Claim(epoch))
                    }
                    OwnershipAction::GiveUp { shard, epoch } => {
                        self.order(shard.0, Order::GiveUp(epoch))
                    }
                    OwnershipAction::Abandon(shard) => self.order(shard.0, Order::Drop),
                    OwnershipAction::Leave => return self.leave().await,
                }
            }
            self.publish(&machine, now());
            let until = machine.next_deadline().map(|at| Duration::from_millis(at.since(now())));
            event = tokio::select! {
                biased;
                // `recv` never returns `None`: `self.membership` holds a sender.
                Some(event) = self.happened.recv() => event,
                _ = self.leaving.wait_for(|is_leaving| *is_leaving), if !is_leaving => {
                    is_leaving = true;
                    OwnershipEvent::Drain
                }
                () = tokio::time::sleep(until.unwrap_or(IDLE)) => OwnershipEvent::Time,
            };
        }
    }

    fn order(&self, shard: u32, order: Order) {
        if let Some(to) = self.orders.get(shard as usize) {
            // The task has ended if the process is stopping.
            let _gone = to.send(order);
        }
    }

    fn renew(&self, draining: bool) {
        let MembershipHandle { postgres, events, .. } = self.membership.clone();
        let (member, lease_ms) = (self.member.clone(), self.lease_ms);
        let outages = self.telemetry.outages.clone();
        tokio::spawn(async move {
            let wait = Duration::from_millis(RENEW_TIMEOUT_MS);
            let event = match postgres.renew(&member, draining, lease_ms, wait).await {
                Ok(rows) => OwnershipEvent::Renewed(rows),
                Err(error) => {
                    let message =
                        format_args!("cannot renew the lease of this node: {}", cause(&error));
                    outages.failed(Caller::Lease, StorageCall::Renew, message);
                    OwnershipEvent::RenewFailed
                }
            };
            // The receiver is dropped when the process ends.
            let _gone = events.send(event);
        });
    }

    /// Leaves the cluster, then polls until every shard has a new owner. Requests under way are
    /// forwarded to it.
    async fn leave(&self) {
        let postgres = &self.membership.postgres;
        if let Err(error) = postgres.leave(self.member.node).await {
            tracing::warn!(
                "cannot announce that this node leaves: {error}; other nodes notice when its lease expires"
            );
        }
        for _ in 0..LEAVE_POLLS {
            let Ok(rows) = postgres.look(LOOK_WAIT).await else { return };
            let view = rows.view();
            // This may be the last node.
            let is_last = view.nodes.is_empty();
            let routes = Routes::seen(&view);
            let is_done = is_last || routes.is_complete();
            self.routes.send_replace(routes);
            if is_done {
                return;
            }
            tokio::time::sleep(LEAVE_POLL_DELAY).await;
        }
    }

    fn publish(&self, machine: &Ownerships, now: Timestamp) {
        let routes = Routes::of(machine, self.member.node, self.orders.len(), now);
        if routes.has_duplicate_address() && !self.routes.borrow().has_duplicate_address() {
            let address = &self.member.address;
            tracing::error!(address, "another node uses this address; set cluster.advertise");
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

/// How often a leaving node polls for the new owners of its shards, and the delay between polls.
const LEAVE_POLLS: u32 = 20;
const LEAVE_POLL_DELAY: Duration = Duration::from_millis(150);
const LOOK_WAIT: Duration = Duration::from_secs(2);
/// Wakeup interval when the machine has no deadline.
const IDLE: Duration = Duration::from_secs(1);
