//! Tokens: what a worker shows to settle a delivery, or to finish an effect.
//!
//! 1. A token needs nothing beside it: that of a lease names the message, the group, the generation of
//!    its cursor, the attempt and when the lease was granted; that of an effect its record and fence.
//! 2. A token that was not minted with one of the storage's keys is refused before the core sees it.
//! 3. The fields are in clear: a token is proof, not a secret about its content.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::id::{Generation, GroupId, Lane, Offset, ShardId, Text, TopicId};
use crate::row::Hash16;
use crate::time::Timestamp;

const VERSION: u8 = 1;
const MAC_BYTES: usize = 32;

/// Longest text of a token; nothing longer is looked at.
pub const TOKEN_CHARS_MAX: usize = 512;

/// One lease: one attempt of one message in one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseToken {
    /// Restore generation of the storage that granted it.
    pub restore: u32,
    /// The namespace of the topic.
    pub namespace: Text,
    /// Where it is decided.
    pub shard: ShardId,
    /// The topic's life.
    pub topic: TopicId,
    /// The message's lane.
    pub lane: Lane,
    /// The message's place.
    pub offset: Offset,
    /// The group's life.
    pub group: GroupId,
    /// The cursor's life.
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
    /// Where it is decided.
    pub shard: ShardId,
    /// The effect's record.
    pub hash: Hash16,
    /// The life of that record.
    pub born: Timestamp,
    /// The fence.
    pub fence: u64,
}

/// Something that can be proved.
pub trait Token: Serialize + DeserializeOwned {
    /// How its text begins.
    const PREFIX: &'static str;

    /// The namespace of what it is a right to.
    fn namespace(&self) -> &str;
}

impl Token for LeaseToken {
    const PREFIX: &'static str = "lt_";

    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Token for EffectToken {
    const PREFIX: &'static str = "et_";

    fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// The keys that make and prove tokens. They are rows of the storage: they survive restart, failover
/// and backup.
#[derive(Clone)]
pub struct TokenKeys {
    current: u8,
    keys: BTreeMap<u8, [u8; 32]>,
}

impl std::fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenKeys {{ current: {}, keys: {} }}", self.current, self.keys.len())
    }
}

/// The text is not a token of this storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a token of this server: send it as it was given, unchanged")]
pub struct NotAToken;

impl TokenKeys {
    /// Mints with `key` under number `current`.
    pub fn new(current: u8, key: [u8; 32]) -> TokenKeys {
        TokenKeys { current, keys: BTreeMap::from([(current, key)]) }
    }

    /// Accepts tokens made with an older key too.
    #[must_use]
    pub fn and(mut self, number: u8, key: [u8; 32]) -> TokenKeys {
        self.keys.insert(number, key);
        self
    }

    /// What only nodes of this storage know, and say to each other.
    pub fn peer_secret(&self) -> String {
        let secret = blake3::derive_key("driftq peers v1", &self.keys[&self.current]);
        BASE64URL_NOPAD.encode(&secret)
    }

    /// The text of a token.
    pub fn mint<T: Token>(&self, token: &T) -> String {
        let mut bytes = vec![VERSION, self.current];
        bytes = postcard::to_extend(token, bytes).expect("a token has only plain fields");
        bytes.extend_from_slice(prove::<T>(&self.keys[&self.current], &bytes).as_bytes());
        format!("{}{}", T::PREFIX, BASE64URL_NOPAD.encode(&bytes))
    }

    /// The token of a text, if it was minted here.
    pub fn verify<T: Token>(&self, text: &str) -> Result<T, NotAToken> {
        let digits = text.strip_prefix(T::PREFIX).filter(|_| text.len() <= TOKEN_CHARS_MAX);
        let digits = digits.ok_or(NotAToken)?;
        let bytes = BASE64URL_NOPAD.decode(digits.as_bytes()).map_err(|_| NotAToken)?;
        let split = bytes.len().checked_sub(MAC_BYTES).ok_or(NotAToken)?;
        let (signed, mac) = bytes.split_at(split);
        let [VERSION, number, fields @ ..] = signed else {
            return Err(NotAToken);
        };
        let key = self.keys.get(number).ok_or(NotAToken)?;
        let mac = blake3::Hash::from_slice(mac).map_err(|_| NotAToken)?;
        // `blake3::Hash` compares in constant time.
        if prove::<T>(key, signed) != mac {
            return Err(NotAToken);
        }
        postcard::from_bytes(fields).map_err(|_| NotAToken)
    }
}

/// The kind of token is proved too, except for leases, which were first.
fn prove<T: Token>(key: &[u8; 32], bytes: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(bytes);
    if T::PREFIX != LeaseToken::PREFIX {
        hasher.update(T::PREFIX.as_bytes());
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> LeaseToken {
        LeaseToken {
            restore: 1,
            namespace: "default".into(),
            shard: ShardId(3),
            topic: TopicId(4),
            lane: Lane::of(5),
            offset: 6,
            group: GroupId(7),
            generation: Generation(8),
            attempt: 9,
            granted_at: Timestamp(10),
        }
    }

    #[test]
    fn a_token_proves_what_it_says_under_current_and_older_keys() {
        let old = TokenKeys::new(1, [1; 32]);
        let new = TokenKeys::new(2, [2; 32]).and(1, [1; 32]);
        assert_eq!(old.verify::<LeaseToken>(&old.mint(&token())), Ok(token()));
        assert_eq!(new.verify::<LeaseToken>(&old.mint(&token())), Ok(token()));
        assert_eq!(old.verify::<LeaseToken>(&new.mint(&token())), Err(NotAToken));
    }

    #[test]
    fn the_token_of_a_lease_is_none_of_an_effect() {
        let keys = TokenKeys::new(1, [1; 32]);
        let token = EffectToken {
            restore: 1,
            namespace: "default".into(),
            shard: ShardId(3),
            hash: [4; 16],
            born: Timestamp(5),
            fence: 6,
        };
        let text = keys.mint(&token);
        assert_eq!(keys.verify(&text), Ok(token));
        let renamed = text.replacen("et_", "lt_", 1);
        assert_eq!(keys.verify::<LeaseToken>(&renamed), Err(NotAToken));
        assert_eq!(keys.verify::<LeaseToken>(&text), Err(NotAToken));
    }

    #[test]
    fn a_token_with_one_changed_character_is_refused() {
        let keys = TokenKeys::new(1, [1; 32]);
        let text = keys.mint(&token());
        for at in 0..text.len() {
            let mut changed: Vec<u8> = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(keys.verify::<LeaseToken>(&changed), Err(NotAToken), "character {at}");
        }
        assert_eq!(keys.verify::<LeaseToken>(""), Err(NotAToken));
        assert_eq!(keys.verify::<LeaseToken>("lt_"), Err(NotAToken));
    }
}
