//! Nodes on one database and the shards they serve: listing them, draining nodes, moving shards.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use driftq_api::cluster::{DrainNode, MoveShard, Node, Nodes, Shard, Shards};
use driftq_api::error::details::{FailedPrecondition, Unavailable};
use driftq_api::words::{NodeState, Outcome, ShardState};
use driftq_api::{Time, schema};
use driftq_core::command::StorageAct;
use driftq_core::ownership::{AdminError, ClusterRows, ClusterView, NodeRole, NodeRow};
use driftq_core::{NodeId, ShardId, Timestamp};
use driftq_storage::EngineError;
use driftq_storage::postgres::ShardProgress;

use super::api_error::{ApiError, RETRY_AFTER_MS};
use super::app::App;
use super::input::Input;
use super::operation::{Missing, QueryForm, Unmet};
use super::request::{ApiRequest, Nothing, Param, field};
use super::request_log::{act_of, log_act};
use crate::node::MembershipHandle;

/// How long the database may take to answer.
const WAIT: Duration = Duration::from_secs(5);

/// The cluster as stored in the database, and the view computed from it.
struct ClusterSnapshot {
    me: NodeId,
    cluster_rows: ClusterRows,
    view: ClusterView,
    progress: Vec<ShardProgress>,
}

fn membership(app: &App) -> Result<&MembershipHandle, ApiError> {
    let message = "this server is a single node; to run several, use --engine postgres";
    app.membership.as_ref().ok_or_else(|| ApiError::new(FailedPrecondition::default(), message))
}

async fn snapshot(app: &App) -> Result<ClusterSnapshot, ApiError> {
    let MembershipHandle { postgres, node, .. } = membership(app)?;
    let (cluster_rows, progress) =
        postgres.snapshot(WAIT).await.map_err(|error| unanswered(&error, Outcome::None))?;
    Ok(ClusterSnapshot { me: *node, view: cluster_rows.view(), cluster_rows, progress })
}

fn unanswered(error: &EngineError, outcome: Outcome) -> ApiError {
    let details = Unavailable { outcome, retry_after_ms: RETRY_AFTER_MS };
    ApiError::new(details, format!("the database did not answer: {error}"))
}

/// Parses a node id. An invalid id is reported as an unknown node.
fn node_of(text: &str) -> Result<NodeId, ApiError> {
    let number = text.strip_prefix("n_").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    number.map(NodeId).filter(|node| node.name() == text).ok_or_else(|| AdminError::NoNode.into())
}

fn time(at: Timestamp) -> Time {
    Time(at.0)
}

impl ClusterSnapshot {
    fn node(&self, node: NodeId, row: &NodeRow) -> Node {
        let held = self.cluster_rows.shards.iter().filter(|held| held.node == Some(node)).count();
        Node {
            node: node.name(),
            address: row.address.to_string(),
            version: row.version.to_string(),
            state: match self.view.nodes.get(&node).map(|view| view.part) {
                Some(NodeRole::Takes) => NodeState::Active,
                Some(NodeRole::Stops) => NodeState::Stopping,
                Some(NodeRole::Drained) => NodeState::Drained,
                Some(NodeRole::DuplicateAddress(_)) => NodeState::DuplicateAddress,
                None => NodeState::Gone,
            },
            shards: held as u32,
            joined_at: time(row.joined_at),
            renewed_at: time(row.renewed_at),
            lease_until: time(row.until),
            here: node == self.me,
        }
    }

    fn shard(&self, number: usize) -> Option<Shard> {
        let held = self.view.shards.get(number)?;
        let holder = held.node.and_then(|node| self.view.nodes.get(&node));
        let progress = self.progress.get(number);
        Some(Shard {
            shard: number as u32,
            state: match (held.node, holder) {
                (None, _) => ShardState::Free,
                (Some(_), Some(_)) => ShardState::Held,
                (Some(_), None) => ShardState::Lost,
            },
            node: held.node.map(NodeId::name),
            address: holder.map(|node| node.address.to_string()),
            epoch: held.epoch.0,
            since: progress.and_then(|progress| progress.since).map(time),
            batch: progress.map_or(0, |progress| progress.batch.0),
            // A pin to a node that is no longer alive has no effect.
            pinned_to: held
                .pinned_to
                .filter(|node| self.view.nodes.contains_key(node))
                .map(NodeId::name),
        })
    }
}

/// Lists the nodes of this storage.
#[utoipa::path(
    get, path = "/v1/nodes", operation_id = "list_nodes", tag = "cluster",
    responses((status = 200, description = "the nodes, by address", body = Nodes), Unmet),
)]
pub(crate) async fn nodes(
    State(app): State<App>,
    _: Input<Nothing>,
) -> Result<Json<Nodes>, ApiError> {
    Ok(Json(Nodes { nodes: all_nodes(&app).await? }))
}

pub(super) async fn all_nodes(app: &App) -> Result<Vec<Node>, ApiError> {
    let snapshot = snapshot(app).await?;
    let rows = snapshot.cluster_rows.nodes.iter();
    let mut nodes: Vec<Node> = rows.map(|(node, row)| snapshot.node(*node, row)).collect();
    nodes.sort_by(|one, other| (&one.address, &one.node).cmp(&(&other.address, &other.node)));
    Ok(nodes)
}

impl ApiRequest for DrainNode {
    const QUERY: &'static [Param] = &[field("by"), field("reason")];
}

/// Drains a node: it gives up its shards and claims no others.
#[utoipa::path(
    post, path = "/v1/nodes/{node}/drain", operation_id = "drain_node", tag = "cluster",
    params(("node" = schema::NodeId, Path), QueryForm<DrainNode>),
    request_body = DrainNode,
    responses((status = 200, description = "the node", body = Node), Missing, Unmet),
)]
pub(crate) async fn drain(
    State(app): State<App>,
    Path(node): Path<String>,
    input: Input<DrainNode>,
) -> Result<Json<Node>, ApiError> {
    set_drained(&app, &node, true, input.body).await
}

/// Ends the drain of a node, so that it claims shards again.
#[utoipa::path(
    post, path = "/v1/nodes/{node}/undrain", operation_id = "undrain_node", tag = "cluster",
    params(("node" = schema::NodeId, Path), QueryForm<DrainNode>),
    request_body = DrainNode,
    responses((status = 200, description = "the node", body = Node), Missing, Unmet),
)]
pub(crate) async fn undrain(
    State(app): State<App>,
    Path(node): Path<String>,
    input: Input<DrainNode>,
) -> Result<Json<Node>, ApiError> {
    set_drained(&app, &node, false, input.body).await
}

async fn set_drained(
    app: &App,
    node: &str,
    drained: bool,
    DrainNode { by, reason }: DrainNode,
) -> Result<Json<Node>, ApiError> {
    let act = act_of(by.as_deref(), reason.as_deref());
    let before = snapshot(app).await?;
    let node = node_of(node)?;
    if drained {
        before.view.may_drain(node)?
    } else {
        before.view.may_undrain(node)?
    }
    let done = if drained { StorageAct::DrainNode(node) } else { StorageAct::UndrainNode(node) };
    let record = done.record(app.clock.now(), &act);
    let result = membership(app)?.postgres.drain(node, drained, record).await;
    result.map_err(|error| unanswered(&error, Outcome::Unknown))?;
    let node_id = node.name();
    if drained {
        log_act!(act, "node drained", node = %node_id);
    } else {
        log_act!(act, "node undrained", node = %node_id);
    }
    let after = snapshot(app).await?;
    let row = after.cluster_rows.nodes.get(&node).ok_or(AdminError::NoNode)?;
    Ok(Json(after.node(node, row)))
}

/// Lists the shards of this storage.
#[utoipa::path(
    get, path = "/v1/shards", operation_id = "list_shards", tag = "cluster",
    responses((status = 200, description = "the shards, in order", body = Shards), Unmet),
)]
pub(crate) async fn shards(
    State(app): State<App>,
    _: Input<Nothing>,
) -> Result<Json<Shards>, ApiError> {
    let snapshot = snapshot(&app).await?;
    let shards = (0..).map_while(|number| snapshot.shard(number)).collect();
    Ok(Json(Shards { shards }))
}

impl ApiRequest for MoveShard {
    const QUERY: &'static [Param] = &[field("node"), field("by"), field("reason")];
}

/// Moves a shard to a node, where it stays while that node is active.
#[utoipa::path(
    post, path = "/v1/shards/{shard}/move", operation_id = "move_shard", tag = "cluster",
    params(("shard" = u32, Path), QueryForm<MoveShard>),
    request_body = MoveShard,
    responses((status = 200, description = "the shard", body = Shard), Missing, Unmet),
)]
pub(crate) async fn put(
    State(app): State<App>,
    Path(shard): Path<String>,
    input: Input<MoveShard>,
) -> Result<Json<Shard>, ApiError> {
    let before = snapshot(&app).await?;
    let shard = ShardId(shard.parse().map_err(|_| AdminError::NoShard)?);
    let MoveShard { node, by, reason } = input.body;
    let node = node.as_deref().map(node_of).transpose()?;
    before.view.may_put(shard, node)?;
    let act = act_of(by.as_deref(), reason.as_deref());
    let record = StorageAct::MoveShard(shard, node).record(app.clock.now(), &act);
    let result = membership(&app)?.postgres.put(shard, node, record).await;
    result.map_err(|error| unanswered(&error, Outcome::Unknown))?;
    match node.map(NodeId::name) {
        Some(node) => log_act!(act, "shard pinned to a node", %shard, %node),
        None => log_act!(act, "shard unpinned", %shard),
    }
    let after = snapshot(&app).await?.shard(shard.0 as usize);
    Ok(Json(after.ok_or(AdminError::NoShard)?))
}
