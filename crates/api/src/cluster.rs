//! Nodes on one database, and the shards they serve.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::schema::NodeId;
use crate::words::{NodeState, ShardState};

/// `GET /v1/nodes`.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Nodes {
    pub nodes: Vec<Node>,
}

/// A process that serves shards.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Node {
    #[schema(value_type = NodeId)]
    pub node: String,
    pub address: String,
    pub version: String,
    pub state: NodeState,
    pub shards: u32,
    pub joined_at: Time,
    pub renewed_at: Time,
    pub lease_until: Time,
    pub here: bool,
}

/// `POST /v1/nodes/{node}/drain`, and `…/undrain`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainNode {
    /// The name of the operator.
    pub by: Option<String>,
    /// The reason, for the audit record.
    pub reason: Option<String>,
}

/// `GET /v1/shards`.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Shards {
    pub shards: Vec<Shard>,
}

/// A shard, and the node that serves it.
#[derive(Debug, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Shard {
    pub shard: u32,
    pub state: ShardState,
    #[schema(value_type = Option<NodeId>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    pub epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    pub batch: u64,
    #[schema(value_type = Option<NodeId>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_to: Option<String>,
}

/// `POST /v1/shards/{shard}/move`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveShard {
    /// The node to pin the shard to. If absent, the shard is assigned like the others.
    #[schema(value_type = Option<NodeId>)]
    pub node: Option<String>,
    /// The name of the operator.
    pub by: Option<String>,
    /// The reason, for the audit record.
    pub reason: Option<String>,
}
