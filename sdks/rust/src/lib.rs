//! Client and worker runtime for DriftQ, a durable queue in which a side effect happens once.
//!
//! [`Client`] produces messages. [`Worker`] receives them, runs a handler for each, renews the lease
//! while the handler runs, and settles the message. In the handler, [`Context::effect`] records what
//! happened in other systems, and [`Context::commit`] acks the message and produces the next ones at
//! once.
//!
//! ```no_run
//! use driftq_client::{Client, Context, EffectError, Fail, OnDoubt, Worker};
//!
//! #[derive(serde::Deserialize)]
//! struct Order {
//!     id: String,
//!     cents: u64,
//! }
//!
//! async fn bill(order: Order, ctx: Context) -> Result<(), Fail> {
//!     let charge: String = ctx
//!         .effect(format!("charge-{}", order.id))
//!         .request(order.cents.to_string())
//!         .on_doubt(OnDoubt::Retry)
//!         .run(async |e| charge_card(order.cents, e.downstream_key()).await)
//!         .await?;
//!     ctx.commit().produce("receipts", &charge)?.send().await
//! }
//!
//! async fn charge_card(cents: u64, idempotency_key: &str) -> Result<String, EffectError> {
//!     Ok(format!("ch_{cents}_{idempotency_key}"))
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("http://127.0.0.1:8080")?;
//! Worker::new(client).handler("orders", "biller", bill).run_until_signal().await?;
//! # Ok(()) }
//! ```

mod commit;
mod connect;
mod context;
mod delivery;
mod effect;
mod effect_error;
mod error;
mod fail;
mod features;
mod http;
mod produce;
mod retry;
mod settle;
mod worker;

pub use commit::Commit;
pub use connect::ClientBuilder;
pub use context::Context;
pub use delivery::{Delivery, Envelope, Lease, Trace};
pub use effect::{Effect, Execution, OnDoubt, Probed};
pub use effect_error::EffectError;
pub use error::{Error, Refusal};
pub use fail::Fail;
pub use http::{Client, Reply, SendError};
pub use produce::{Message, Receipt};
pub use worker::{Next, Worker, WorkerError};
