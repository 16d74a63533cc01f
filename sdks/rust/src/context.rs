//! What a handler has besides the value of its message.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use crate::commit::Commit;
use crate::delivery::Delivery;
use crate::effect::Effect;
use crate::http::Client;

/// The delivery that a handler works on. Clones are of the same delivery.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    client: Client,
    owner: Arc<str>,
    delivery: Delivery,
    lost: watch::Receiver<Option<String>>,
    /// Outcomes that wait for the commit.
    pending: Mutex<Vec<Value>>,
    is_committed: AtomicBool,
}

impl Context {
    pub(crate) fn new(
        client: Client,
        owner: Arc<str>,
        delivery: Delivery,
        lost: watch::Receiver<Option<String>>,
    ) -> Context {
        let (pending, is_committed) = (Mutex::default(), AtomicBool::new(false));
        Context(Arc::new(Inner { client, owner, delivery, lost, pending, is_committed }))
    }

    /// The delivery.
    pub fn delivery(&self) -> &Delivery {
        &self.0.delivery
    }

    /// The client of the worker. Its requests continue the trace of the message.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Begins an effect of this message. The key names it among the effects of its tenant and group.
    pub fn effect(&self, key: impl Into<String>) -> Effect<'_> {
        Effect::new(self, key.into())
    }

    /// Begins the commit that acks the message. It is the last thing that a handler does.
    pub fn commit(&self) -> Commit<'_> {
        Commit::new(self)
    }

    /// Whether the lease is lost. What the handler does from now on does not count.
    pub fn is_cancelled(&self) -> bool {
        self.0.lost.borrow().is_some()
    }

    pub(crate) fn owner(&self) -> &str {
        &self.0.owner
    }

    fn pending(&self) -> MutexGuard<'_, Vec<Value>> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn finish_in_commit(&self, finish: Value) {
        self.pending().push(finish);
    }

    pub(crate) fn take_pending(&self) -> Vec<Value> {
        std::mem::take(&mut *self.pending())
    }

    pub(crate) fn committed(&self) {
        self.0.is_committed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.0.is_committed.load(Ordering::Relaxed)
    }
}
