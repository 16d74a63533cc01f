//! The identity of a storage. It is created once and stored with the rows.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use driftq_core::{Timestamp, TokenKeys};
use serde::{Deserialize, Serialize};

/// Bits for the epochs between two restores. With the 32 bits of a restore generation, epochs stay
/// below 2^53, which every JSON client can represent.
const EPOCH_BITS: u32 = 20;

/// The identity of a storage, with the keys of its lease tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Random, so that no two storages have the same.
    pub storage: String,
    /// The restore generation. It increases when the storage is restored from a backup, so that ids
    /// and tokens issued after the backup are invalid in the restored storage.
    pub restore: u32,
    /// The number of shards. It never changes, because the shard of a name depends on it.
    #[serde(default = "one")]
    pub shards: u32,
    current_key: u8,
    /// Token keys in hex, by number.
    keys: BTreeMap<u8, String>,
}

impl Identity {
    /// Creates an identity for a new storage.
    pub fn random(shards: u32) -> Identity {
        let key = HEXLOWER.encode(&random::<32>());
        let storage = HEXLOWER.encode(&random::<16>());
        Identity { storage, restore: 0, shards, current_key: 1, keys: BTreeMap::from([(1, key)]) }
    }

    /// Starts a new restore generation, greater than all earlier ones.
    pub fn begin_again(&mut self, at: Timestamp) {
        let seconds = u32::try_from(at.0 / 1_000).unwrap_or(u32::MAX);
        self.restore = seconds.max(self.restore.saturating_add(1));
    }

    /// The least epoch of this restore generation. It is greater than every epoch issued before the
    /// restore, so earlier ownerships are fenced.
    pub fn least_epoch(&self) -> u64 {
        u64::from(self.restore) << EPOCH_BITS
    }

    /// Whether both are the same storage in the same restore generation.
    pub fn is_still(&self, other: &Identity) -> bool {
        (&self.storage, self.restore) == (&other.storage, other.restore)
    }

    /// Returns the keys that sign and verify lease tokens, or `None` if the stored keys are
    /// invalid.
    pub fn token_keys(&self) -> Option<TokenKeys> {
        let key = |hex: &String| -> Option<[u8; 32]> {
            HEXLOWER.decode(hex.as_bytes()).ok()?.try_into().ok()
        };
        let current = key(self.keys.get(&self.current_key)?)?;
        let others = self.keys.iter().filter(|(number, _)| **number != self.current_key);
        others
            .into_iter()
            .try_fold(TokenKeys::new(self.current_key, current), |keys, (number, hex)| {
                Some(keys.and(*number, key(hex)?))
            })
    }
}

/// The number of shards of storages that were created before the field existed.
fn one() -> u32 {
    1
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system provides random bytes");
    bytes
}
