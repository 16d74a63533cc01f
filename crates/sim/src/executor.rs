//! The executor client: uses effects without a queue. Several executors and two tenants share few
//! keys, so that they conflict. Outcomes expire within a run.

use driftq_checker::history::{Effect, Name, Op};
use driftq_core::command::{BeginOf, EffectQuery};
use driftq_core::effect::Scope;
use driftq_core::{Command, Timestamp};

use crate::world::{Client, Intent, SimEvent, World};

/// Keys in each scope of each tenant.
const KEYS: u32 = 5;
/// The shortest retention of an outcome.
const TTL_MS: u64 = 60_000;

impl World {
    pub(crate) fn wake_executor(&mut self, client: usize) {
        if self.clients.is_healed {
            return;
        }
        let effect = self.some_effect();
        match self.rng.u32(0..100) {
            0..62 => {
                let intent = self.intent(effect, false);
                self.begin_effect(client, intent);
            }
            62..78 => {
                let intent = self.intent(effect, true);
                self.begin_effect(client, intent);
            }
            78..90 => self.aim_at_the_end_of_an_effect(client, effect),
            90..95 => {
                // Two begins at once: only one of them may be granted.
                for _ in 0..2 {
                    let intent = self.intent(effect.clone(), false);
                    self.begin_effect(client, intent);
                }
            }
            _ => {
                let command = Command::ViewEffect(Box::new(query(&effect)));
                self.call(client, Op::Look, command);
            }
        }
        let pause = self.rng.u64(150..1_200);
        self.later(pause, SimEvent::Wake { client });
    }

    fn some_effect(&mut self) -> Effect {
        let tenant: Name = if self.rng.bool() { "default".into() } else { "acme".into() };
        let scope: Name = if self.rng.bool() { "op/charge".into() } else { "op/refund".into() };
        let key = format!("k{}", self.rng.u32(0..KEYS)).into();
        Effect { tenant, scope, key }
    }

    fn intent(&mut self, effect: Effect, again: bool) -> Intent {
        let lease_ms = (self.rng.u32(0..4) != 0).then(|| self.rng.u64(250..4_000));
        let usual = format!("what {} is about", effect.key).into();
        let request = match self.rng.u32(0..12) {
            0 => Some("something else".into()),
            1..6 if again => None,
            _ => Some(usual),
        };
        Intent {
            of: BeginOf::Scope { name: query(&effect), lease_ms, again },
            effect,
            under: None,
            request,
            on_doubt: self.some_policy(),
            ttl_ms: Some(TTL_MS),
            window_ms: (self.rng.u32(0..6) == 0).then(|| self.rng.u64(1_000..20_000)),
            nonce: self.some_nonce(),
            times: 0,
        }
    }

    /// Reacquires an effect after a begin returned a retryable failure.
    pub(crate) fn take_again(&mut self, client: usize, former: Intent) {
        if former.under.is_some() {
            return;
        }
        let intent = self.intent(former.effect, true);
        let delay = self.rng.u64(1..300);
        self.begin_effect_later(client, delay, intent);
    }

    /// Sends a begin that arrives about when the outcome expires.
    fn aim_at_the_end_of_an_effect(&mut self, client: usize, effect: Effect) {
        let until = self.facts.kept_until(&effect);
        let intent = self.intent(effect, false);
        let wait = until.map(|until| Timestamp(until).since(self.followed_now()).saturating_sub(9));
        match wait {
            Some(wait) if wait < 30_000 => self.begin_effect_later(client, wait, intent),
            Some(_) | None => self.begin_effect(client, intent),
        }
    }
}

/// The query for an effect outside the queue.
fn query(effect: &Effect) -> EffectQuery {
    let namespace: Name = "default".into();
    let scope =
        Scope::parse(&namespace, &effect.scope).expect("scopes of this file are well formed");
    let (tenant, key) = (effect.tenant.clone(), effect.key.clone());
    EffectQuery { namespace, tenant, scope, key }
}

impl Client {
    /// Creates a client that uses only the ledger.
    pub(crate) fn executor() -> Client {
        Client::Executor(Box::default())
    }
}
