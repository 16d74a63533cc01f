//! Nodes on one database, and the shards they serve: as the database shows them, and what a person asks of them.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use driftq_api::cluster::{DrainNode, MoveShard, Node, Nodes, Shard, Shards};
use driftq_api::error::details::{FailedPrecondition, Unavailable};
use driftq_api::words::{NodeState, Outcome, ShardState};
use driftq_api::{Time, schema};
use driftq_core::ownership::{AdminError, ClusterView, NodeRow, Part, Shown};
use driftq_core::{NodeId, ShardId, Timestamp};
use driftq_storage::EngineError;
use driftq_storage::postgres::Far;

use super::api_error::{ApiError, RETRY_AFTER_MS};
use super::app::App;
use super::input::Input;
use super::operation::{Missing, QueryForm, Unmet};
use super::request::{ApiRequest, Nothing, Param, field};
use crate::node::MembershipHandle;

/// How long the database may take to show them.
const WAIT: Duration = Duration::from_secs(5);

/// What the database shows, and what is made of it.
struct Census {
    me: NodeId,
    shown: Shown,
    view: ClusterView,
    far: Vec<Far>,
}

fn membership(app: &App) -> Result<&MembershipHandle, ApiError> {
    let message = "there is only this node: several share a database with --engine postgres";
    app.membership.as_ref().ok_or_else(|| ApiError::new(FailedPrecondition::default(), message))
}

async fn census(app: &App) -> Result<Census, ApiError> {
    let MembershipHandle { postgres, node, .. } = membership(app)?;
    let (shown, far) =
        postgres.census(WAIT).await.map_err(|error| unanswered(&error, Outcome::None))?;
    Ok(Census { me: *node, view: shown.view(), shown, far })
}

fn unanswered(error: &EngineError, outcome: Outcome) -> ApiError {
    let details = Unavailable { outcome, retry_after_ms: RETRY_AFTER_MS };
    ApiError::new(details, format!("the database did not answer: {error}"))
}

fn id(node: NodeId) -> String {
    format!("n_{:016x}", node.0)
}

/// The node of a text. One that is none is no node.
fn node_of(text: &str) -> Result<NodeId, ApiError> {
    let number = text.strip_prefix("n_").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    number.map(NodeId).filter(|node| id(*node) == text).ok_or_else(|| AdminError::NoNode.into())
}

fn time(at: Timestamp) -> Time {
    Time(at.0)
}

impl Census {
    fn node(&self, node: NodeId, row: &NodeRow) -> Node {
        let held = self.shown.shards.iter().filter(|held| held.node == Some(node)).count();
        Node {
            node: id(node),
            address: row.address.to_string(),
            version: row.version.to_string(),
            state: match self.view.nodes.get(&node).map(|view| view.part) {
                Some(Part::Takes) => NodeState::Active,
                Some(Part::Stops) => NodeState::Stopping,
                Some(Part::Drained) => NodeState::Drained,
                Some(Part::DuplicateAddress(_)) => NodeState::DuplicateAddress,
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
        let far = self.far.get(number);
        Some(Shard {
            shard: number as u32,
            state: match (held.node, holder) {
                (None, _) => ShardState::Free,
                (Some(_), Some(_)) => ShardState::Held,
                (Some(_), None) => ShardState::Lost,
            },
            node: held.node.map(id),
            address: holder.map(|node| node.address.to_string()),
            epoch: held.epoch.0,
            since: far.and_then(|far| far.since).map(time),
            batch: far.map_or(0, |far| far.batch.0),
            // On a node that is gone it is put nowhere.
            pinned_to: held.pinned_to.filter(|node| self.view.nodes.contains_key(node)).map(id),
        })
    }
}

/// The nodes of this storage.
#[utoipa::path(
    get, path = "/v1/nodes", operation_id = "list_nodes", tag = "cluster",
    responses((status = 200, description = "the nodes, by address", body = Nodes), Unmet),
)]
pub(crate) async fn nodes(
    State(app): State<App>,
    _: Input<Nothing>,
) -> Result<Json<Nodes>, ApiError> {
    let census = census(&app).await?;
    let rows = census.shown.nodes.iter();
    let mut nodes: Vec<Node> = rows.map(|(node, row)| census.node(*node, row)).collect();
    nodes.sort_by(|one, other| (&one.address, &one.node).cmp(&(&other.address, &other.node)));
    Ok(Json(Nodes { nodes }))
}

impl ApiRequest for DrainNode {
    const QUERY: &'static [Param] = &[];
}

/// Has a node give its shards up and take none.
#[utoipa::path(
    post, path = "/v1/nodes/{node}/drain", operation_id = "drain_node", tag = "cluster",
    params(("node" = schema::NodeId, Path)),
    request_body = DrainNode,
    responses((status = 200, description = "the node", body = Node), Missing, Unmet),
)]
pub(crate) async fn drain(
    State(app): State<App>,
    Path(node): Path<String>,
    _: Input<DrainNode>,
) -> Result<Json<Node>, ApiError> {
    set_drained(&app, &node, true).await
}

/// Lets a node take shards again.
#[utoipa::path(
    post, path = "/v1/nodes/{node}/undrain", operation_id = "undrain_node", tag = "cluster",
    params(("node" = schema::NodeId, Path)),
    request_body = DrainNode,
    responses((status = 200, description = "the node", body = Node), Missing, Unmet),
)]
pub(crate) async fn undrain(
    State(app): State<App>,
    Path(node): Path<String>,
    _: Input<DrainNode>,
) -> Result<Json<Node>, ApiError> {
    set_drained(&app, &node, false).await
}

async fn set_drained(app: &App, node: &str, drained: bool) -> Result<Json<Node>, ApiError> {
    let before = census(app).await?;
    let node = node_of(node)?;
    if drained {
        before.view.may_drain(node)?
    } else {
        before.view.may_undrain(node)?
    }
    let told = membership(app)?.postgres.drain(node, drained).await;
    told.map_err(|error| unanswered(&error, Outcome::Unknown))?;
    let after = census(app).await?;
    let row = after.shown.nodes.get(&node).ok_or(AdminError::NoNode)?;
    Ok(Json(after.node(node, row)))
}

/// The shards of this storage.
#[utoipa::path(
    get, path = "/v1/shards", operation_id = "list_shards", tag = "cluster",
    responses((status = 200, description = "the shards, in order", body = Shards), Unmet),
)]
pub(crate) async fn shards(
    State(app): State<App>,
    _: Input<Nothing>,
) -> Result<Json<Shards>, ApiError> {
    let census = census(&app).await?;
    let shards = (0..).map_while(|number| census.shard(number)).collect();
    Ok(Json(Shards { shards }))
}

impl ApiRequest for MoveShard {
    const QUERY: &'static [Param] = &[field("node")];
}

/// Puts a shard on a node, where it stays while that takes part.
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
    let before = census(&app).await?;
    let shard = ShardId(shard.parse().map_err(|_| AdminError::NoShard)?);
    let node = input.body.node.as_deref().map(node_of).transpose()?;
    before.view.may_put(shard, node)?;
    let told = membership(&app)?.postgres.put(shard, node).await;
    told.map_err(|error| unanswered(&error, Outcome::Unknown))?;
    let after = census(&app).await?.shard(shard.0 as usize);
    Ok(Json(after.ok_or(AdminError::NoShard)?))
}
