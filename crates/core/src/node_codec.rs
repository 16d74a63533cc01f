//! How commands, answers and deliveries go from one node to another: MessagePack with the names of the
//! fields, behind the version of the reader it takes.
//!
//! 1. A node trusts its peers: a token in a command was proved by the node that took the request.
//! 2. Unknown fields are passed over. What must not be passed over comes with a higher version.
//! 3. Nothing of this is stored.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::change::Delivery;
use crate::command::Command;
use crate::pipeline::CommandResult;

/// The highest version that is read here, and the one that is written.
pub const NODE_CODEC_VERSION: u32 = 1;

/// Nothing that travels is deeper, and no stack is too small for it.
const DEPTH_MAX: usize = 64;

/// Why something that came cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The peer says what only a later release understands.
    #[error("version {0} is not known here: up to {NODE_CODEC_VERSION} is")]
    Version(u32),
    /// It is something else, or something is missing or unknown that may not be.
    #[error("not what was expected: {0}")]
    Content(String),
}

/// What a peer is asked.
pub fn pack_call(command: &Command) -> Vec<u8> {
    pack(command)
}

/// What a peer asks.
pub fn open_call(bytes: &[u8]) -> Result<Command, DecodeError> {
    open(bytes)
}

/// What a peer is answered.
pub fn pack_answer(answered: &CommandResult) -> Vec<u8> {
    pack(answered)
}

/// What a peer answers.
pub fn open_answer(bytes: &[u8]) -> Result<CommandResult, DecodeError> {
    open(bytes)
}

/// What one batch gives a peer's consumer.
pub fn pack_deliveries(given: &[Box<Delivery>]) -> Vec<u8> {
    pack(given)
}

/// What one batch of a peer gives a consumer.
pub fn open_deliveries(bytes: &[u8]) -> Result<Vec<Box<Delivery>>, DecodeError> {
    open(bytes)
}

fn pack<T: Serialize + ?Sized>(what: &T) -> Vec<u8> {
    let mut bytes = NODE_CODEC_VERSION.to_le_bytes().to_vec();
    rmp_serde::encode::write_named(&mut bytes, what).expect("memory takes plain values");
    bytes
}

fn open<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (version, content) =
        bytes.split_first_chunk().ok_or_else(|| DecodeError::Content("cut short".into()))?;
    let version = u32::from_le_bytes(*version);
    if version > NODE_CODEC_VERSION {
        return Err(DecodeError::Version(version));
    }
    let mut from = rmp_serde::Deserializer::from_read_ref(content);
    from.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut from).map_err(|error| DecodeError::Content(error.to_string()))
}
