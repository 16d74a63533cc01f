//! Who a storage is: made once, kept with the rows, gone with them.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use driftq_core::{Timestamp, TokenKeys};
use serde::{Deserialize, Serialize};

/// Epochs between two restores, as bits: with the 32 of a restore they are below 2^53, which every client can hold.
const EPOCH_BITS: u32 = 20;

/// What a storage knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Random: two storages are never taken for one.
    pub storage: String,
    /// Grows when the storage begins again from a backup, so that no id and no token of after the backup
    /// is taken for one of now.
    pub restore: u32,
    /// How many shards it has. Names are found by it, so it never changes.
    #[serde(default = "one")]
    pub shards: u32,
    current_key: u8,
    /// In hex, by number.
    keys: BTreeMap<u8, String>,
}

impl Identity {
    /// A new one.
    pub fn random(shards: u32) -> Identity {
        let key = HEXLOWER.encode(&random::<32>());
        let storage = HEXLOWER.encode(&random::<16>());
        Identity { storage, restore: 0, shards, current_key: 1, keys: BTreeMap::from([(1, key)]) }
    }

    /// Begins again from a backup: all that is given out from now on is above what was given out before.
    pub fn begin_again(&mut self, at: Timestamp) {
        let seconds = u32::try_from(at.0 / 1_000).unwrap_or(u32::MAX);
        self.restore = seconds.max(self.restore.saturating_add(1));
    }

    /// Epochs of a storage that was restored are above all that were given out before: whoever still has one
    /// of those has none of now.
    pub fn least_epoch(&self) -> u64 {
        u64::from(self.restore) << EPOCH_BITS
    }

    /// Whether it is the same storage in the same life of it.
    pub fn is_still(&self, other: &Identity) -> bool {
        (&self.storage, self.restore) == (&other.storage, other.restore)
    }

    /// The keys that make and prove lease tokens. None if what is stored are no keys.
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

/// What storages were made with before they knew.
fn one() -> u32 {
    1
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes
}
