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
use crate::pipeline::Answered;

/// The highest version that is read here, and the one that is written.
pub const TRAVEL_VERSION: u32 = 1;

/// Nothing that travels is deeper, and no stack is too small for it.
const DEPTH_MAX: usize = 64;

/// Why something that came cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The peer says what only a later release understands.
    #[error("version {0} is not known here: up to {TRAVEL_VERSION} is")]
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
pub fn open_call(bytes: &[u8]) -> Result<Command, Unreadable> {
    open(bytes)
}

/// What a peer is answered.
pub fn pack_answer(answered: &Answered) -> Vec<u8> {
    pack(answered)
}

/// What a peer answers.
pub fn open_answer(bytes: &[u8]) -> Result<Answered, Unreadable> {
    open(bytes)
}

/// What one batch gives a peer's consumer.
pub fn pack_deliveries(given: &[Box<Delivery>]) -> Vec<u8> {
    pack(given)
}

/// What one batch of a peer gives a consumer.
pub fn open_deliveries(bytes: &[u8]) -> Result<Vec<Box<Delivery>>, Unreadable> {
    open(bytes)
}

fn pack<T: Serialize + ?Sized>(what: &T) -> Vec<u8> {
    let mut bytes = TRAVEL_VERSION.to_le_bytes().to_vec();
    rmp_serde::encode::write_named(&mut bytes, what).expect("memory takes plain values");
    bytes
}

fn open<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    let (version, content) =
        bytes.split_first_chunk().ok_or_else(|| Unreadable::Content("cut short".into()))?;
    let version = u32::from_le_bytes(*version);
    if version > TRAVEL_VERSION {
        return Err(Unreadable::Version(version));
    }
    let mut from = rmp_serde::Deserializer::from_read_ref(content);
    from.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut from).map_err(|error| Unreadable::Content(error.to_string()))
}
