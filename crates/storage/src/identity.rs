//! Who a storage is: made once, kept with the rows, gone with them.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use driftq_core::TokenKeys;
use serde::{Deserialize, Serialize};

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
