//! How a shard is.

/// How a shard is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It is being recovered.
    Starting,
    /// It answers.
    Serving,
    /// Another node serves it, or will.
    Elsewhere,
    /// Another node has the address of this one, which takes no shards.
    DuplicateAddress,
    /// It was to be served here and is not; it is claimed again.
    Lost(String),
    /// It does not answer, and says why.
    Failed(String),
    /// It was told to stop.
    Stopped,
}

impl Status {
    /// The one of two that a client should hear of.
    pub(super) fn worse(self, other: Status) -> Status {
        match (self, other) {
            (one, Status::Elsewhere) => one,
            (Status::Elsewhere | Status::Serving, worse) | (worse, _) => worse,
        }
    }

    /// Why a client should go elsewhere, if it should.
    pub fn reason(&self) -> Option<String> {
        match self {
            Status::Starting => {
                let message = "starting: shards are being recovered, or the database is not reached or \
                            another by now; the log says which";
                Some(message.to_owned())
            }
            Status::Serving | Status::Elsewhere => None,
            Status::DuplicateAddress => {
                Some("shards: another node is at this address: set cluster.advertise".to_owned())
            }
            Status::Lost(why) => Some(format!("shards: {why}; claimed again")),
            Status::Failed(why) => Some(format!("storage: {why}, restart needed")),
            Status::Stopped => Some("draining: the server is shutting down".to_owned()),
        }
    }
}
