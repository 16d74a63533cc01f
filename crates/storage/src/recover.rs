//! From an engine back to a shard: the one loop around [`Recovery`] that every node runs.

use driftq_core::{Damaged, Recovered, Recovery, ShardConfig, Timestamp};

use crate::{Engine, EngineError, Ownership};

/// A shard cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The engine did not answer. Claim again.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A row is not what was written. Claiming again does not help.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

/// Takes a shard over and reads it back. The time is what the authority said at the claim.
pub async fn recover(
    engine: &dyn Engine,
    config: ShardConfig,
) -> Result<(Ownership, Timestamp, Recovered), RecoverError> {
    let (ownership, now) = engine.claim(config.shard).await?;
    let recovered = read_back(engine, ownership, config).await?;
    Ok((ownership, now, recovered))
}

/// Reads a shard back under an ownership that is already there.
pub async fn read_back(
    engine: &dyn Engine,
    ownership: Ownership,
    config: ShardConfig,
) -> Result<Recovered, RecoverError> {
    let mut recovery = Recovery::new(config);
    let mut damaged = None;
    let mut each = |row| {
        if damaged.is_none() {
            damaged = recovery.row(row).err();
        }
    };
    engine.load(ownership, &mut each).await?;
    if let Some(damaged) = damaged {
        return Err(damaged.into());
    }
    recovery.loaded()?;
    while let Some(read) = recovery.next_read() {
        let mut answers = engine.read(ownership, vec![read]).await?;
        recovery.read(&answers.remove(0))?;
    }
    Ok(recovery.finish())
}
