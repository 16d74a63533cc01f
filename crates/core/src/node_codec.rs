//! The encoding of commands, replies and deliveries between nodes: MessagePack with field names,
//! after the version that a reader must support.
//!
//! 1. A node trusts its peers. The node that received the request has verified the tokens in a
//!    command.
//! 2. Unknown fields are ignored. A field that must not be ignored requires a higher version.
//! 3. Nothing in this encoding is stored.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::change::Delivery;
use crate::command::Command;
use crate::format::Format;
use crate::pipeline::CommandResult;

/// The highest version that this release reads. It writes the lowest one whose readers understand
/// the content.
pub const NODE_CODEC_VERSION: u32 = Format::NEWEST as u32;

/// Maximum nesting depth. No valid content is deeper, and every stack is large enough for it.
const DEPTH_MAX: usize = 64;

/// Why received bytes cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Only a later release can read the content.
    #[error("unsupported version {0} (supported: up to {NODE_CODEC_VERSION})")]
    Version(u32),
    /// The content is malformed, or has missing or unknown parts.
    #[error("invalid content: {0}")]
    Content(String),
}

/// Encodes a command for a peer.
pub fn pack_call(command: &Command) -> Vec<u8> {
    pack(command, command.format())
}

/// Decodes a command from a peer.
pub fn open_call(bytes: &[u8]) -> Result<Command, DecodeError> {
    open(bytes)
}

/// Encodes the result of a peer's command.
pub fn pack_answer(answered: &CommandResult) -> Vec<u8> {
    pack(answered, Format::V1)
}

/// Decodes the result of a command that a peer decided.
pub fn open_answer(bytes: &[u8]) -> Result<CommandResult, DecodeError> {
    open(bytes)
}

/// Encodes the deliveries of one batch to a peer's consumer. `None` if they need a version above
/// `readable`, the highest one that the peer reads.
pub fn pack_deliveries(given: &[Box<Delivery>], readable: u32) -> Option<Vec<u8>> {
    let format = given.iter().map(|given| given.message.envelope.format()).max();
    let format = format.unwrap_or_default();
    (format as u32 <= readable).then(|| pack(given, format))
}

/// Decodes the deliveries of one batch of a peer to a consumer.
pub fn open_deliveries(bytes: &[u8]) -> Result<Vec<Box<Delivery>>, DecodeError> {
    open(bytes)
}

fn pack<T: Serialize + ?Sized>(what: &T, format: Format) -> Vec<u8> {
    let mut bytes = (format as u32).to_le_bytes().to_vec();
    rmp_serde::encode::write_named(&mut bytes, what).expect("plain values serialize");
    bytes
}

fn open<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (version, content) =
        bytes.split_first_chunk().ok_or_else(|| DecodeError::Content("truncated".into()))?;
    let version = u32::from_le_bytes(*version);
    if version > NODE_CODEC_VERSION {
        return Err(DecodeError::Version(version));
    }
    let mut from = rmp_serde::Deserializer::from_read_ref(content);
    from.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut from).map_err(|error| DecodeError::Content(error.to_string()))
}
