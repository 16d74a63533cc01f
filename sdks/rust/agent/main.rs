//! The agent of the scenarios (`sdks/scenarios`): a worker whose handler is a list of steps. It takes
//! commands as lines of JSON on its standard input, and writes events as lines of JSON.
#![expect(clippy::print_stdout, reason = "its events are lines on the standard output")]

mod handler;

use std::sync::Arc;
use std::time::Duration;

use driftq_client::{Client, Error, Message, Receipt, Worker};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::watch;

use handler::{Handler, Step};

/// A command of the runner.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    /// Produce messages, one by one or as a batch.
    Produce {
        messages: Vec<ToProduce>,
        #[serde(default)]
        batch: bool,
    },
    /// Run a worker until the process gets SIGTERM.
    Work(Work),
    /// Let the handlers continue that wait for it.
    Go,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToProduce {
    topic: String,
    value: Value,
    #[serde(default)]
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Work {
    handlers: Vec<Handles>,
    #[serde(default = "eight")]
    concurrency: usize,
    #[serde(default = "half_a_minute")]
    lease_ms: u64,
    #[serde(default = "an_hour")]
    max_processing_ms: u64,
    #[serde(default = "half_a_minute")]
    shutdown_timeout_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Handles {
    topic: String,
    group: String,
    steps: Vec<Step>,
}

fn eight() -> usize {
    8
}

fn half_a_minute() -> u64 {
    30_000
}

fn an_hour() -> u64 {
    3_600_000
}

fn event(event: &Value) {
    println!("{event}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let variable = |name| std::env::var(name).map_err(|error| format!("{name}: {error}"));
    let client = Client::connect(&variable("DRIFTQ_URL")?)?;
    let provider: Arc<str> = variable("PROVIDER_URL")?.into();
    let go = Arc::new(watch::channel(0).0);
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    let mut work = None;
    while let Some(line) = commands.next_line().await? {
        match serde_json::from_str(&line)? {
            Command::Produce { messages, batch } => {
                tokio::spawn(produce(client.clone(), messages, batch));
            }
            Command::Go => go.send_modify(|gone| *gone += 1),
            Command::Work(of) => {
                let worker = worker(&client, of, &provider, &go);
                work = Some(tokio::spawn(run(worker)));
            }
        }
    }
    if let Some(work) = work {
        work.await?;
    }
    Ok(())
}

fn worker(
    client: &Client,
    work: Work,
    provider: &Arc<str>,
    go: &Arc<watch::Sender<u64>>,
) -> Worker {
    let mut worker = Worker::new(client.clone())
        .concurrency(work.concurrency)
        .lease(Duration::from_millis(work.lease_ms))
        .max_processing(Duration::from_millis(work.max_processing_ms))
        .shutdown_timeout(Duration::from_millis(work.shutdown_timeout_ms));
    for Handles { topic, group, steps } in work.handlers {
        let handler = Arc::new(Handler { steps, provider: provider.clone(), go: go.clone() });
        // The value is read here, so that one that is not an order is rejected by the worker.
        worker = worker.handler(topic, group, move |order, context| {
            let handler = handler.clone();
            async move { handler.run(order, context).await }
        });
    }
    worker
}

/// Runs until SIGTERM. The exit status is that of a worker.
async fn run(worker: Worker) {
    event(&json!({ "event": "working" }));
    let ended = worker.run_until_signal().await;
    let error = ended.as_ref().err().map(ToString::to_string);
    event(&json!({ "event": "stopped", "error": error }));
    std::process::exit(i32::from(ended.is_err()));
}

async fn produce(client: Client, messages: Vec<ToProduce>, batch: bool) {
    let messages: Result<Vec<Message>, Error> = messages.into_iter().map(message).collect();
    let produced = match messages {
        Ok(messages) if batch => client.produce_batch(messages).await,
        Ok(messages) => {
            let mut results = Vec::new();
            for message in messages {
                results.push(client.produce(message).await);
            }
            Ok(results)
        }
        Err(error) => Err(error),
    };
    match produced {
        Ok(results) => results.iter().for_each(|result| match result {
            Ok(Receipt { id, deduplicated, .. }) => {
                event(&json!({ "event": "produced", "id": id, "deduplicated": deduplicated }));
            }
            Err(error) => failed(error),
        }),
        Err(error) => failed(&error),
    }
}

fn message(of: ToProduce) -> Result<Message, Error> {
    let message = Message::json(of.topic, &of.value)?;
    Ok(match of.idempotency_key {
        Some(key) => message.idempotency_key(key),
        None => message,
    })
}

fn failed(error: &Error) {
    let kind = match error {
        Error::Refused(_) => "Refused",
        Error::Unavailable(_) => "Unavailable",
        Error::OutcomeUnknown(_) => "OutcomeUnknown",
        Error::LeaseLost(_) => "LeaseLost",
        Error::Invalid(_) => "Invalid",
    };
    let code = error.refusal().map(|refusal| refusal.code.clone());
    event(&json!({ "event": "failed", "error": kind, "code": code }));
}
