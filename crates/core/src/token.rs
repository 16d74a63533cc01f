//! Tokens: what a worker sends to settle a delivery, or to finish an effect.
//!
//! 1. A token is self-contained. A lease token names the message, the group, the generation of its
//!    cursor, the attempt and when the lease was granted. An effect token names its record and
//!    fence.
//! 2. A token that was not minted with one of the storage's keys is rejected before the core sees it.
//! 3. A token of one kind is never valid as another kind. In version 2 each kind has a key of its own. In
//!    version 1 all kinds share one key, so a text is accepted only if its fields encode to exactly its bytes.
//! 4. The fields are not encrypted: a token is a proof, and its content is not secret.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::id::{Generation, GroupId, Lane, Offset, ShardId, Text, TopicId};
use crate::row::Hash16;
use crate::time::Timestamp;

const MAC_BYTES: usize = 32;

/// Longest text of a token. A longer text is rejected without decoding.
pub const TOKEN_CHARS_MAX: usize = 512;

/// The encoding of a token. Every release reads all versions up to its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TokenVersion {
    /// One key for all kinds.
    #[default]
    V1 = 1,
    /// A derived key per kind.
    V2 = 2,
}

/// One lease: one attempt of one message in one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseToken {
    /// Restore generation of the storage that granted it.
    pub restore: u32,
    /// The namespace of the topic.
    pub namespace: Text,
    /// The shard that decides its commands.
    pub shard: ShardId,
    /// The topic.
    pub topic: TopicId,
    /// The message's lane.
    pub lane: Lane,
    /// The message's offset.
    pub offset: Offset,
    /// The group.
    pub group: GroupId,
    /// The cursor's generation.
    pub generation: Generation,
    /// The fence.
    pub attempt: u32,
    /// When the lease was granted.
    pub granted_at: Timestamp,
}

/// The right to finish an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectToken {
    /// Restore generation of the storage that granted it.
    pub restore: u32,
    /// The namespace of the effect.
    pub namespace: Text,
    /// The shard that decides its commands.
    pub shard: ShardId,
    /// The effect's record.
    pub hash: Hash16,
    /// When that record was created.
    pub born: Timestamp,
    /// The fence.
    pub fence: u64,
}

/// What kind of right a token proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// To settle a delivery.
    Lease,
    /// To finish an effect.
    Effect,
}

/// A right that a token can prove.
pub trait Token: Serialize + DeserializeOwned {
    /// Its kind.
    const KIND: TokenKind;
    /// The start of its text.
    const PREFIX: &'static str;

    /// Returns the namespace of the message or effect.
    fn namespace(&self) -> &str;
}

impl Token for LeaseToken {
    const KIND: TokenKind = TokenKind::Lease;
    const PREFIX: &'static str = "lt_";

    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Token for EffectToken {
    const KIND: TokenKind = TokenKind::Effect;
    const PREFIX: &'static str = "et_";

    fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// The keys that mint and verify tokens. They are rows of the storage: they survive restart, failover
/// and backup.
#[derive(Clone)]
pub struct TokenKeys {
    current: u8,
    keys: BTreeMap<u8, Key>,
}

impl std::fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenKeys {{ current: {}, keys: {} }}", self.current, self.keys.len())
    }
}

/// A stored key, and the keys of version 2 that derive from it.
#[derive(Clone)]
struct Key {
    stored: [u8; 32],
    lease: [u8; 32],
    effect: [u8; 32],
}

impl Key {
    fn new(stored: [u8; 32]) -> Key {
        Key {
            stored,
            lease: blake3::derive_key("driftq lease token v2", &stored),
            effect: blake3::derive_key("driftq effect token v2", &stored),
        }
    }

    fn mac(&self, version: TokenVersion, kind: TokenKind, bytes: &[u8]) -> blake3::Hash {
        match (version, kind) {
            (TokenVersion::V2, TokenKind::Lease) => blake3::keyed_hash(&self.lease, bytes),
            (TokenVersion::V2, TokenKind::Effect) => blake3::keyed_hash(&self.effect, bytes),
            (TokenVersion::V1, TokenKind::Lease) => blake3::keyed_hash(&self.stored, bytes),
            (TokenVersion::V1, TokenKind::Effect) => {
                let mut hasher = blake3::Hasher::new_keyed(&self.stored);
                hasher.update(bytes).update(EffectToken::PREFIX.as_bytes()).finalize()
            }
        }
    }
}

/// The text is not a token of this storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a token of this server; send the token exactly as received")]
pub struct NotAToken;

impl TokenKeys {
    /// Creates keys that mint with `key` under number `current`.
    pub fn new(current: u8, key: [u8; 32]) -> TokenKeys {
        TokenKeys { current, keys: BTreeMap::from([(current, Key::new(key))]) }
    }

    /// Adds an older key, whose tokens are accepted too.
    #[must_use]
    pub fn and(mut self, number: u8, key: [u8; 32]) -> TokenKeys {
        self.keys.insert(number, Key::new(key));
        self
    }

    /// Returns the secret by which nodes of this storage authenticate to each other.
    pub fn peer_secret(&self) -> String {
        let secret = blake3::derive_key("driftq peers v1", &self.keys[&self.current].stored);
        BASE64URL_NOPAD.encode(&secret)
    }

    /// Returns the text of a token.
    pub fn mint<T: Token>(&self, version: TokenVersion, token: &T) -> String {
        let mut bytes = vec![version as u8, self.current];
        bytes = postcard::to_extend(token, bytes).expect("a token has only plain fields");
        let mac = self.keys[&self.current].mac(version, T::KIND, &bytes);
        bytes.extend_from_slice(mac.as_bytes());
        format!("{}{}", T::PREFIX, BASE64URL_NOPAD.encode(&bytes))
    }

    /// Returns the token of a text, if it was minted with one of these keys.
    pub fn verify<T: Token>(&self, text: &str) -> Result<T, NotAToken> {
        let digits = text.strip_prefix(T::PREFIX).filter(|_| text.len() <= TOKEN_CHARS_MAX);
        let digits = digits.ok_or(NotAToken)?;
        let bytes = BASE64URL_NOPAD.decode(digits.as_bytes()).map_err(|_| NotAToken)?;
        let (signed, mac) = bytes.split_last_chunk::<MAC_BYTES>().ok_or(NotAToken)?;
        let [version, number, fields @ ..] = signed else {
            return Err(NotAToken);
        };
        let version = match version {
            1 => TokenVersion::V1,
            2 => TokenVersion::V2,
            _ => return Err(NotAToken),
        };
        let key = self.keys.get(number).ok_or(NotAToken)?;
        // `blake3::Hash` compares in constant time.
        if key.mac(version, T::KIND, signed) != *mac {
            return Err(NotAToken);
        }
        let token: T = postcard::from_bytes(fields).map_err(|_| NotAToken)?;
        // Decoding ignores trailing bytes. The signed bytes of a version 1 effect token followed by `et_` carry
        // a valid MAC of a lease token, whose fields would be the first bytes of the effect's record hash.
        let encoded = postcard::to_stdvec(&token).expect("a token has only plain fields");
        if encoded == fields { Ok(token) } else { Err(NotAToken) }
    }
}

#[cfg(test)]
mod tests;
