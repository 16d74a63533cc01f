//! What the scenarios of `sdks/scenarios` do not show of effects.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use driftq_client::{Context, EffectError, Fail, OnDoubt, Worker};
use driftq_testing::Broker;
use serde_json::json;

use crate::broker;
use crate::worker::Order;

/// A provider that counts what it did, by downstream key.
#[derive(Default)]
struct Provider {
    calls: AtomicU32,
    keys: Mutex<Vec<String>>,
}

impl Provider {
    fn charge(&self, key: &str) -> u32 {
        self.keys.lock().expect("no panic").push(key.to_owned());
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// Runs a handler until every message of `orders` is settled. Waits for retries are skipped.
async fn settle<F, H>(broker: &Broker, handle: F)
where
    F: Fn(Order, Context) -> H + Send + Sync + 'static,
    H: Future<Output = Result<(), Fail>> + Send + 'static,
{
    let worker = Worker::new(broker.client().clone()).handler("orders", "biller", handle);
    broker.settle(worker).await.expect("every message is settled");
}

#[tokio::test]
async fn an_unknown_outcome_is_executed_again_with_the_same_key() {
    let broker = broker::start().await;
    broker::produce(&broker, json!({ "id": "1" })).await;
    let provider = Arc::new(Provider::default());
    let there = provider.clone();
    settle(&broker, move |_: Order, ctx: Context| {
        let provider = there.clone();
        async move {
            let effect = ctx.effect("charge").on_doubt(OnDoubt::Retry);
            let run = effect.run(async |e| {
                let charge = provider.charge(e.downstream_key());
                // Any error: the provider may have acted.
                if charge == 1 {
                    "".parse::<u32>()?;
                }
                Ok(charge)
            });
            run.await.map(drop)
        }
    })
    .await;
    let keys = provider.keys.lock().expect("no panic").clone();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn what_did_not_happen_is_executed_again_and_what_was_declined_is_not() {
    let broker = broker::start().await;
    broker::produce(&broker, json!({ "id": "1" })).await;
    let provider = Arc::new(Provider::default());
    let there = provider.clone();
    settle(&broker, move |_: Order, ctx: Context| {
        let provider = there.clone();
        async move {
            let effect = ctx.effect("charge").on_doubt(OnDoubt::Park);
            let execute = async |e: driftq_client::Execution| -> Result<u32, EffectError> {
                match provider.charge(e.downstream_key()) {
                    1 => Err(EffectError::not_happened("connection refused")),
                    _ => Err(EffectError::declined(402, "card_declined")),
                }
            };
            let ended = effect.run(execute).await;
            let fail = ended.expect_err("it does not succeed");
            match fail.declined() {
                // The recorded failure, when the message is delivered again.
                Some(("card_declined", 402)) if ctx.delivery().lease.attempt > 2 => Ok(()),
                _ => Err(fail),
            }
        }
    })
    .await;
    assert_eq!(provider.calls(), 2);
}
