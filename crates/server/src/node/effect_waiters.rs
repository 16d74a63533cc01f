//! Callers that wait for the outcome of an effect. A notification is only a hint. A notified caller
//! asks the shard, and a caller that misses a hint asks a little later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use driftq_core::change::Change;
use driftq_core::effect::EffectName;
use tokio::sync::Notify;

/// The name of an effect for its waiters: tenant, scope, key.
type Name = (String, String, String);

/// The awaited effects, each with its number of waiters.
type Waits = HashMap<Name, (usize, Arc<Notify>)>;

/// The effects that callers wait for.
#[derive(Clone, Default)]
pub(crate) struct EffectWaiters(Arc<Mutex<Waits>>);

impl EffectWaiters {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        // A panic cannot leave the map in an invalid state.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Registers a waiter. Must be called before the effect is loaded, so that no change in between
    /// is missed.
    pub(crate) fn wait(&self, tenant: &str, scope: &str, key: &str) -> Waiting {
        let name = (tenant.to_owned(), scope.to_owned(), key.to_owned());
        let mut awaited = self.lock();
        let (count, changed) = awaited.entry(name.clone()).or_default();
        *count += 1;
        Waiting { changed: changed.clone(), name, awaited: self.clone() }
    }

    /// Notifies the waiters of the effects that `changes` contains.
    pub(crate) fn send(&self, changes: &[Change]) {
        let awaited = self.lock();
        if awaited.is_empty() {
            return;
        }
        for change in changes {
            if let Change::Effect(row) = change {
                let EffectName { tenant, scope, key, .. } = &row.name;
                let name = (tenant.to_string(), scope.to_string(), key.to_string());
                if let Some((_, changed)) = awaited.get(&name) {
                    changed.notify_waiters();
                }
            }
        }
    }
}

/// A registered waiter. Dropping it ends the registration.
pub(crate) struct Waiting {
    changed: Arc<Notify>,
    name: Name,
    awaited: EffectWaiters,
}

impl Waiting {
    /// Returns the handle that is notified on the next change of the effect.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut awaited = self.awaited.lock();
        if let Some((count, _)) = awaited.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                awaited.remove(&self.name);
            }
        }
    }
}
