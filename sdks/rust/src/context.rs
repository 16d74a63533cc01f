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
    /// Whether the worker stops and no longer waits for its handlers.
    cancelling: watch::Receiver<bool>,
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
        cancelling: watch::Receiver<bool>,
    ) -> Context {
        let (pending, is_committed) = (Mutex::default(), AtomicBool::new(false));
        Context(Arc::new(Inner {
            client,
            owner,
            delivery,
            lost,
            cancelling,
            pending,
            is_committed,
        }))
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

    /// Whether the handler has to end: its lease is lost, or the worker stops and no longer waits.
    pub fn is_cancelled(&self) -> bool {
        let Inner { lost, cancelling, .. } = &*self.0;
        // Without a sender, the worker was dropped, and renews no lease.
        lost.borrow().is_some() || *cancelling.borrow() || cancelling.has_changed().is_err()
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

    /// The outcomes that wait for the commit. They stay until it has succeeded or failed, because the
    /// handler can be cancelled while it commits.
    pub(crate) fn pending_outcomes(&self) -> Vec<Value> {
        self.pending().clone()
    }

    pub(crate) fn take_outcomes(&self) -> Vec<Value> {
        std::mem::take(&mut *self.pending())
    }

    pub(crate) fn committed(&self) {
        self.0.is_committed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.0.is_committed.load(Ordering::Relaxed)
    }
}
