//! A worker that `driftq conform` passes.
//!
//! ```sh
//! cargo build -p driftq-client --example conform_worker
//! driftq conform -- target/debug/examples/conform_worker
//! ```

use std::error::Error;

use driftq_client::{Client, Context, EffectError, Fail, OnDoubt, Worker};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Serialize, Deserialize)]
struct Order {
    id: String,
    cents: u64,
}

async fn charge(provider: &str, order: &Order, key: &str) -> Result<Value, EffectError> {
    let request = reqwest::Client::new().post(format!("{provider}/charges")).json(order);
    let response = EffectError::response(request.header("idempotency-key", key).send().await)?;
    Ok(response.json().await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let provider = std::env::var("PROVIDER_URL")?;
    let bill = move |order: Order, ctx: Context| {
        let provider = provider.clone();
        async move {
            let effect = ctx.effect(format!("charge-{}", order.id)).on_doubt(OnDoubt::Retry);
            let execute = async |e: driftq_client::Execution| {
                charge(&provider, &order, e.downstream_key()).await
            };
            let _charge: Value = effect.run(execute).await?;
            Ok::<(), Fail>(())
        }
    };
    let (topic, group) = (std::env::var("DRIFTQ_TOPIC")?, std::env::var("DRIFTQ_GROUP")?);
    let client = Client::connect(&std::env::var("DRIFTQ_URL")?)?;
    Worker::new(client).handler(&topic, &group, bill).run_until_signal().await?;
    Ok(())
}
