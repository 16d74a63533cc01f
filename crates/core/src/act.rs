//! Administrative acts: who did what to topics, groups, dead letters and effects, and why.
//!
//! Every act that changes something is a record in the commit that performs it. The records of a
//! namespace form one audit chain per shard, beside the chain of the ledger. An act that takes
//! several commands, such as a redrive of many messages, has one record per command, all with the
//! same act id.
//!
//! Acts that no shard commits, such as the drain of a node, are rows of the storage. The statement
//! that performs such an act stores its record. These records form no chain.

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, ShardId, Text, cut};
use crate::limits::REASON_BYTES_MAX;
use crate::time::Timestamp;

/// Who performs a command, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// The same for all commands of one act.
    pub id: Text,
    /// The person or program, as it names itself. May be empty.
    pub by: Text,
    /// The reason. May be empty.
    pub reason: Text,
    /// The id of the request.
    pub request_id: Text,
}

impl Act {
    /// Returns the act with texts of limited length.
    pub(crate) fn shortened(&self) -> Act {
        Act {
            id: self.id.clone(),
            by: cut(&self.by, REASON_BYTES_MAX),
            reason: cut(&self.reason, REASON_BYTES_MAX),
            request_id: cut(&self.request_id, REASON_BYTES_MAX),
        }
    }
}

/// An act that no shard commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageAct {
    /// A held forward jump of the clock is accepted.
    ConfirmClock {
        /// How far the authority clock was ahead.
        ahead_ms: u64,
    },
    /// A node gives up its shards.
    DrainNode(NodeId),
    /// A drained node takes shards again.
    UndrainNode(NodeId),
    /// A shard is pinned to a node, or unpinned.
    MoveShard(ShardId, Option<NodeId>),
    /// The storage continues from a backup.
    MarkRestored {
        /// The new restore generation.
        restore: u32,
    },
}

impl StorageAct {
    /// Returns the text of its record.
    pub fn record(self, at: Timestamp, act: &Act) -> String {
        let (verb, details) = match self {
            StorageAct::ConfirmClock { ahead_ms } => {
                ("confirm_clock", vec![("ahead_ms", ahead_ms.to_string())])
            }
            StorageAct::DrainNode(node) => ("drain_node", vec![("node", node.name())]),
            StorageAct::UndrainNode(node) => ("undrain_node", vec![("node", node.name())]),
            StorageAct::MoveShard(shard, node) => {
                let node = node.map_or_else(|| "any".to_owned(), NodeId::name);
                ("move_shard", vec![("shard", shard.to_string()), ("node", node)])
            }
            StorageAct::MarkRestored { restore } => {
                ("mark_restored", vec![("restore", restore.to_string())])
            }
        };
        let details = details.into_iter().map(|(name, text)| (name.into(), text.into())).collect();
        let (topic, group, counts) = Default::default();
        let (verb, act) = (verb.into(), act.shortened());
        ActRecord { at, verb, topic, group, act, counts, details }.render(None)
    }
}

/// The record of one command of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActRecord {
    /// When it was decided.
    pub at: Timestamp,
    /// The name of the act.
    pub verb: Text,
    /// The topic, or empty.
    pub topic: Text,
    /// The group, or empty.
    pub group: Text,
    /// Who did it, and why.
    pub act: Act,
    /// What it affected.
    pub counts: Vec<(Text, u64)>,
    /// Parameters.
    pub details: Vec<(Text, Text)>,
}

/// A record as it is hashed and shown. The order of the fields is part of the hash.
#[derive(Serialize)]
struct ActText<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    at_ms: Timestamp,
    act: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    topic: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    by: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_id: &'a str,
    act_id: &'a str,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    counts: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    details: serde_json::Map<String, serde_json::Value>,
}

impl ActRecord {
    /// Returns the text that is hashed.
    pub(crate) fn text(&self, seq: u64) -> String {
        self.render(Some(seq))
    }

    fn render(&self, seq: Option<u64>) -> String {
        let ActRecord { at, verb, topic, group, act, counts, details } = self;
        let shown = ActText {
            seq,
            at_ms: *at,
            act: verb,
            topic,
            group,
            by: &act.by,
            reason: &act.reason,
            request_id: &act.request_id,
            act_id: &act.id,
            counts: counts
                .iter()
                .map(|(name, count)| (name.to_string(), (*count).into()))
                .collect(),
            details: details
                .iter()
                .map(|(name, text)| (name.to_string(), (**text).into()))
                .collect(),
        };
        serde_json::to_string(&shown).expect("plain values can be written as JSON")
    }
}
