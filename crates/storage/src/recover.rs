//! Recovery of a shard from an engine: the loop around [`Recovery`] that every node runs.

use driftq_core::{Damaged, Recovered, Recovery, ShardConfig, Timestamp};

use crate::{Engine, EngineError, Ownership};

/// Why a shard cannot be recovered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The engine call failed. The caller may claim the shard again.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A row is damaged. Claiming the shard again does not help.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

/// Claims and recovers a shard. Also returns the time of the authority clock at the claim.
pub async fn recover(
    engine: &dyn Engine,
    config: ShardConfig,
) -> Result<(Ownership, Timestamp, Recovered), RecoverError> {
    let (ownership, now) = engine.claim(config.shard).await?;
    let recovered = read_back(engine, ownership, config).await?;
    Ok((ownership, now, recovered))
}

/// Recovers a shard under an existing ownership.
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
