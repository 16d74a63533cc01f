//! Callers that wait for the outcome of an effect. A hint that something happened to it: whoever gets
//! one asks the shard, and whoever misses one asks a little later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use driftq_core::change::Change;
use driftq_core::effect::EffectName;
use tokio::sync::Notify;

/// What an effect is known by to those who wait: tenant, scope, key.
type Name = (String, String, String);

/// Each effect that somebody waits for, and how many do.
type Waits = HashMap<Name, (usize, Arc<Notify>)>;

/// Effects that somebody waits for.
#[derive(Clone, Default)]
pub(crate) struct EffectWaiters(Arc<Mutex<Waits>>);

impl EffectWaiters {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        // Whatever a panic left behind is a map like any other.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits begin before the effect is looked at, so that nothing is missed in between.
    pub(crate) fn wait(&self, tenant: &str, scope: &str, key: &str) -> Waiting {
        let name = (tenant.to_owned(), scope.to_owned(), key.to_owned());
        let mut awaited = self.lock();
        let (count, changed) = awaited.entry(name.clone()).or_default();
        *count += 1;
        Waiting { changed: changed.clone(), name, awaited: self.clone() }
    }

    /// Something happened to these.
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

/// Somebody waits for an effect.
pub(crate) struct Waiting {
    changed: Arc<Notify>,
    name: Name,
    awaited: EffectWaiters,
}

impl Waiting {
    /// What happens to the effect from now on, once.
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
