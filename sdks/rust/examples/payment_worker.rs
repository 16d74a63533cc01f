//! Charges an order once, whatever dies in between.
//!
//! ```sh
//! driftq dev --topic orders --topic receipts
//! cargo run -p driftq-client --example payment_worker
//! curl -s 127.0.0.1:8080/v1/produce -d '{"topic":"orders","value":"{\"id\":\"77\",\"cents\":1200}"}'
//! ```
#![expect(clippy::print_stdout, reason = "it tells what it does")]

use std::time::Duration;

use driftq_client::{Client, Context, EffectError, Fail, OnDoubt, Worker};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Order {
    id: String,
    cents: u64,
}

#[derive(Serialize, Deserialize)]
struct Charge {
    id: String,
}

async fn bill(order: Order, ctx: Context) -> Result<(), Fail> {
    let charge: Charge = ctx
        .effect(format!("charge-{}", order.id))
        .request(order.cents.to_string())
        // The provider deduplicates by the downstream key for a day.
        .on_doubt(OnDoubt::Retry)
        .window(Duration::from_secs(86_400))
        .run(async |e| charge_card(order.cents, e.downstream_key()).await)
        .await?;
    println!("order {} is charged: {}", order.id, charge.id);
    ctx.commit().produce("receipts", &charge)?.send().await
}

/// Stands for the request to a payment provider.
async fn charge_card(cents: u64, idempotency_key: &str) -> Result<Charge, EffectError> {
    if cents > 1_000_000 {
        return Err(EffectError::declined(402, "card_declined"));
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(Charge { id: format!("ch_{}", &idempotency_key[3..11]) })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DRIFTQ_URL").unwrap_or("http://127.0.0.1:8080".to_owned());
    Worker::new(Client::connect(&url)?)
        .handler("orders", "biller", bill)
        .run_until_signal()
        .await?;
    Ok(())
}
