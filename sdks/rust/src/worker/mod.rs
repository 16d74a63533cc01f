//! The worker: receives messages, runs their handlers, renews their leases and settles them.
//!
//! 1. A worker receives no more messages than it has free slots. No message waits in the worker.
//! 2. Handlers run on the runtime that the worker was started on. Everything else runs on a thread of
//!    its own ([`engine`]), so a handler that blocks every thread of that runtime delays no renewal,
//!    receive or ack.
//! 3. A stopping worker leaves first, so that it gets nothing more. It then finishes what it has,
//!    while it still renews.
//! 4. A handler that does not end when it is cancelled may still act. Its message is not released.

mod engine;
mod middleware;
mod process;
mod receive;
mod renew;
mod shared;
mod signals;

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::fail::Fail;
use crate::http::Client;
use engine::Engine;
use shared::{Handled, Handler, Options};

pub use middleware::Next;
pub use shared::WorkerError;

/// Runs handlers for the messages of topics.
///
/// ```no_run
/// # use driftq_client::{Client, Context, Fail, Worker};
/// # #[derive(serde::Deserialize)] struct Order { id: String, cents: u64 }
/// async fn bill(order: Order, ctx: Context) -> Result<(), Fail> {
///     println!("{} cents for {}, attempt {}", order.cents, order.id, ctx.delivery().attempts);
///     Ok(())
/// }
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("http://127.0.0.1:8080")?;
/// Worker::new(client).handler("orders", "biller", bill).concurrency(8).run_until_signal().await?;
/// # Ok(()) }
/// ```
pub struct Worker {
    client: Client,
    handlers: Vec<Handler>,
    middleware: Vec<Box<middleware::Middleware>>,
    options: Options,
}

impl Worker {
    /// Creates a worker without handlers.
    pub fn new(client: Client) -> Worker {
        let options = Options {
            concurrency: 8,
            lease: Duration::from_secs(30),
            max_processing: Duration::from_secs(3_600),
            shutdown_timeout: Duration::from_secs(25),
        };
        Worker { client, handlers: Vec::new(), middleware: Vec::new(), options }
    }

    /// Handles the messages of a topic for a group. The value is read as JSON; a value that cannot
    /// be read makes the message a dead letter.
    #[must_use]
    pub fn handler<M, F, H>(
        self,
        topic: impl Into<String>,
        group: impl Into<String>,
        handle: F,
    ) -> Worker
    where
        M: DeserializeOwned + Send + 'static,
        F: Fn(M, Context) -> H + Send + Sync + 'static,
        H: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        let handle = Arc::new(handle);
        self.raw_handler(topic, group, move |context: Context| {
            let handle = handle.clone();
            async move {
                let value = context.delivery().value();
                let read = value.and_then(|value| {
                    serde_json::from_slice(&value).map_err(|error| error.to_string())
                });
                match read {
                    Ok(message) => handle(message, context).await,
                    Err(why) => Err(Fail::reject(format!("decode: {why}"))),
                }
            }
        })
    }

    /// Handles messages whose values are not JSON: see [`crate::Delivery::value`].
    #[must_use]
    pub fn raw_handler<F, H>(
        mut self,
        topic: impl Into<String>,
        group: impl Into<String>,
        handle: F,
    ) -> Worker
    where
        F: Fn(Context) -> H + Send + Sync + 'static,
        H: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        let handle = Arc::new(move |context: Context| Box::pin(handle(context)) as Handled);
        self.handlers.push(Handler { topic: topic.into(), group: group.into(), handle });
        self
    }

    /// Runs `around` for every message. It calls the handler with [`Next::run`], and may act before
    /// and after it. The first middleware is the outermost.
    ///
    /// ```
    /// # use driftq_client::{Context, Next, Worker};
    /// # fn timed(worker: Worker) -> Worker {
    /// worker.middleware(async |ctx: Context, next: Next| {
    ///     let began = std::time::Instant::now();
    ///     let id = ctx.delivery().id.clone();
    ///     let result = next.run(ctx).await;
    ///     println!("{id} took {:?}", began.elapsed());
    ///     result
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn middleware<F, H>(mut self, around: F) -> Worker
    where
        F: Fn(Context, Next) -> H + Send + Sync + 'static,
        H: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        self.middleware.push(Box::new(move |context, next| Box::pin(around(context, next))));
        self
    }

    /// The topics and groups that the worker handles.
    pub fn handles(&self) -> impl Iterator<Item = (&str, &str)> {
        self.handlers.iter().map(|handler| (&*handler.topic, &*handler.group))
    }

    /// Sets how many messages each handler works on at a time. 8 by default.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Worker {
        self.options.concurrency = concurrency.clamp(1, 1_000);
        self
    }

    /// Sets the lease of deliveries, which is renewed while their handlers run. 30 s by default.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Worker {
        self.options.lease = lease;
        self
    }

    /// Sets how long the lease of a message is renewed. One hour by default.
    #[must_use]
    pub fn max_processing(mut self, time: Duration) -> Worker {
        self.options.max_processing = time;
        self
    }

    /// Sets how long handlers may take to end when the worker stops. 25 s by default.
    #[must_use]
    pub fn shutdown_timeout(mut self, time: Duration) -> Worker {
        self.options.shutdown_timeout = time;
        self
    }

    /// Runs until SIGTERM or SIGINT, then stops as [`Worker::run`] does. A second signal ends the process
    /// with status 1, and so does a handler that ignores its cancellation: it may block the runtime
    /// that an error would be returned on.
    pub async fn run_until_signal(self) -> Result<(), WorkerError> {
        Engine::start(self, true)?.ended().await
    }

    /// Runs until `stop`, then stops: leaves, finishes what it has, cancels what does not end in
    /// time, and gives that back.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), WorkerError> {
        let engine = Engine::start(self, false)?;
        stop.await;
        engine.stop().await
    }
}
