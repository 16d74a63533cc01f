//! Settles deliveries, many with one request.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::http::Client;
use crate::retry::Call;

/// How long the first of several settlements waits for others.
const GATHER: Duration = Duration::from_millis(5);
/// Settlements of one request.
const GATHERED_MAX: usize = 100;
/// How long to try. A message whose settlement fails is delivered again when its lease ends.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The wait before items are sent again that the server could not settle now.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Sends settlements to the task that gathers them.
#[derive(Clone)]
pub(crate) struct Settler(mpsc::UnboundedSender<Request>);

struct Request {
    item: Value,
    answer: oneshot::Sender<Result<(), Error>>,
}

impl Settler {
    /// Starts the task. It ends when the last settler is dropped.
    pub(crate) fn start(client: Client) -> Settler {
        let (requests, inbox) = mpsc::unbounded_channel();
        tokio::spawn(gather(client, inbox));
        Settler(requests)
    }

    /// Settles one delivery. `item` is one of `POST /v1/settle`.
    pub(crate) async fn settle(&self, item: Value) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        let lost = || Error::OutcomeUnknown("the worker is ending".to_owned());
        self.0.send(Request { item, answer }).map_err(|_| lost())?;
        answered.await.map_err(|_| lost())?
    }
}

async fn gather(client: Client, mut inbox: mpsc::UnboundedReceiver<Request>) {
    let client = Arc::new(client);
    while let Some(first) = inbox.recv().await {
        let mut requests = vec![first];
        let more = async {
            while requests.len() < GATHERED_MAX
                && let Some(request) = inbox.recv().await
            {
                requests.push(request);
            }
        };
        let _in_time = tokio::time::timeout(GATHER, more).await;
        tokio::spawn(send(client.clone(), requests));
    }
}

async fn send(client: Arc<Client>, mut requests: Vec<Request>) {
    let began = Instant::now();
    while !requests.is_empty() {
        let items: Vec<&Value> = requests.iter().map(|request| &request.item).collect();
        let body = json!({ "items": items });
        let timeout = TIMEOUT.saturating_sub(began.elapsed());
        let call = Call { path: "settle", body: Some(&body), is_repeatable: true, timeout };
        let results = match call.send(&client).await {
            Ok(mut body) => body["results"].take(),
            Err(Error::Refused(_)) if requests.len() > 1 => {
                // One of them is wrong, and must not keep the others from being settled.
                for request in requests {
                    tokio::spawn(send_one(client.clone(), request));
                }
                return;
            }
            Err(error) => {
                for Request { answer, .. } in requests {
                    // A worker that is gone needs no answer.
                    let _gone = answer.send(Err(error.clone()));
                }
                return;
            }
        };
        let is_in_time = began.elapsed() + RETRY_DELAY < TIMEOUT;
        let mut again = Vec::new();
        for (at, request) in requests.into_iter().enumerate() {
            match result_of(&results[at]) {
                // For example, its shard is moving to another node.
                Err(_) if is_in_time && results[at]["retryable"] == true => again.push(request),
                result => drop(request.answer.send(result)),
            }
        }
        requests = again;
        if !requests.is_empty() {
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

/// Boxed, because it is part of [`send`].
fn send_one(client: Arc<Client>, request: Request) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(send(client, vec![request]))
}

fn result_of(result: &Value) -> Result<(), Error> {
    if result["status"].is_string() { Ok(()) } else { Err(Error::of_item(result.clone())) }
}
