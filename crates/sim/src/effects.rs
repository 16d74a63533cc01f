//! Effects that a worker begins under a delivery, and its reaction when it has to wait.

use driftq_checker::history::{Effect, Lease, Name, Verb};
use driftq_core::change::Delivery;
use driftq_core::command::BeginOf;

use crate::world::{Intent, World};

/// Number of keys that the messages of a group share.
const SHARED_KEYS: u32 = 4;
/// The longest time that a worker waits for another client. It ensures that no worker waits at the
/// end of a run.
const WAIT_MS_MAX: u64 = 3_000;

impl World {
    /// Begins the effects of a message, if it has any.
    pub(crate) fn begin_for_delivery(
        &mut self,
        client: usize,
        work: u64,
        lease: &Lease,
        delivery: &Delivery,
    ) {
        let effects = match self.rng.u32(0..20) {
            _ if self.clients.is_healed => 0,
            0..3 => 1,
            3..4 => 2,
            _ => 0,
        };
        for _ in 0..effects {
            let intent = self.intent_under(work, lease, delivery);
            let delay = self.rng.u64(0..20);
            if self.rng.u32(0..8) == 0 {
                // Another thread of the same worker that does not know about the first one.
                let nonce = self.some_nonce();
                self.begin_effect_later(client, delay + 6, Intent { nonce, ..intent.clone() });
            }
            self.begin_effect_later(client, delay, intent);
        }
    }

    fn intent_under(&mut self, work: u64, lease: &Lease, delivery: &Delivery) -> Intent {
        let shared = format!("shared-{}", self.rng.u32(0..SHARED_KEYS));
        let key: Option<Name> = (self.rng.u32(0..5) < 2).then(|| shared.into());
        let message = &delivery.message;
        let own = match &message.envelope.idempotency_key {
            Some(key) => key.clone(),
            None => message.origin.unwrap_or(delivery.id).to_string().into(),
        };
        let usual = key.as_ref().map(|key| Name::from(format!("what {key} is about")));
        let request = if self.rng.u32(0..15) == 0 { Some("something else".into()) } else { usual };
        let effect = Effect {
            tenant: message.tenant().into(),
            scope: format!("effect/{}/{}", lease.topic, lease.group).into(),
            key: key.clone().unwrap_or(own),
        };
        Intent {
            of: BeginOf::Delivery { token: delivery.token.clone(), key },
            effect,
            under: Some((lease.clone(), work)),
            request,
            on_doubt: self.some_policy(),
            ttl_ms: None,
            window_ms: (self.rng.u32(0..10) == 0).then(|| self.rng.u64(1_000..20_000)),
            nonce: self.some_nonce(),
            times: 0,
        }
    }

    /// Another client holds the effect, or an operator must resolve it. The worker usually releases
    /// the message.
    pub(crate) fn must_wait(&mut self, client: usize, intent: &Intent) {
        let Some((_, work)) = intent.under else { return };
        let is_patient = self.rng.u32(0..5) != 0;
        if is_patient && let Some(taken) = self.stop_work(client, work) {
            let delay_ms = self.rng.u64(0..WAIT_MS_MAX);
            self.stats.saw("message released because of its effect");
            self.settle(client, &taken, Verb::Release { delay_ms }, false);
        }
    }
}
