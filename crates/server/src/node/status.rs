//! The status of a shard.

/// The status of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// The shard is being recovered.
    Starting,
    /// The shard is served here.
    Serving,
    /// Another node serves the shard, or will.
    Elsewhere,
    /// Another node uses the address of this one, so this node claims no shards.
    DuplicateAddress,
    /// The shard should be served here and was lost. It is being claimed again.
    Lost(String),
    /// The shard cannot be served, with the reason.
    Failed(String),
    /// The shard's task has stopped.
    Stopped,
}

impl Status {
    /// The status that is more urgent for a client.
    pub(super) fn worse(self, other: Status) -> Status {
        match (self, other) {
            (one, Status::Elsewhere) => one,
            (Status::Elsewhere | Status::Serving, worse) | (worse, _) => worse,
        }
    }

    /// Why clients should use another node, if they should.
    pub fn reason(&self) -> Option<String> {
        match self {
            Status::Starting => {
                let message = "starting: shards are being recovered, or the database is unreachable or \
                            was replaced; see the log";
                Some(message.to_owned())
            }
            Status::Serving | Status::Elsewhere => None,
            Status::DuplicateAddress => {
                Some("shards: another node uses this address; set cluster.advertise".to_owned())
            }
            Status::Lost(why) => Some(format!("shards: {why}; claiming it again")),
            Status::Failed(why) => Some(format!("storage: {why}; trying again")),
            Status::Stopped => Some("draining: the server is shutting down".to_owned()),
        }
    }
}
