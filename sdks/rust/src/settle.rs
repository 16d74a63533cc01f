//! Settles deliveries, many with one request.

use std::sync::Arc;
use std::time::Duration;

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

async fn send(client: Arc<Client>, requests: Vec<Request>) {
    let items: Vec<&Value> = requests.iter().map(|request| &request.item).collect();
    let body = json!({ "items": items });
    let call = Call { path: "settle", body: &body, is_repeatable: true, timeout: TIMEOUT };
    let answered = call.send(&client).await;
    for (at, Request { answer, .. }) in requests.into_iter().enumerate() {
        let result = match &answered {
            Ok(body) => result_of(&body["results"][at]),
            Err(error) => Err(error.clone()),
        };
        // A worker that is gone needs no answer.
        let _gone = answer.send(result);
    }
}

fn result_of(result: &Value) -> Result<(), Error> {
    if result["error"].is_null() { Ok(()) } else { Err(Error::of_item(result.clone())) }
}
