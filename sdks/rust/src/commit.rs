//! The commit of a handler: ack, outcomes and next messages at once.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::effect::record;
use crate::error::Error;
use crate::fail::{Fail, Kind};
use crate::http::Client;
use crate::produce::Message;
use crate::retry::Call;

/// How long a commit is tried.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A commit. [`Commit::send`] sends it.
#[must_use = "the commit is sent by `send`"]
pub struct Commit<'a> {
    context: &'a Context,
    produce: Vec<Value>,
    pointers: Vec<Value>,
    result: Option<Value>,
}

impl<'a> Commit<'a> {
    pub(crate) fn new(context: &'a Context) -> Commit<'a> {
        Commit { context, produce: Vec::new(), pointers: Vec::new(), result: None }
    }

    /// Produces `value` as JSON.
    pub fn produce(
        self,
        topic: impl Into<String>,
        value: &impl Serialize,
    ) -> Result<Commit<'a>, Error> {
        Ok(self.message(Message::json(topic, value)?))
    }

    /// Produces a message.
    pub fn message(mut self, message: Message) -> Commit<'a> {
        self.produce.push(Value::Object(message.fields));
        self
    }

    /// Sets a pointer, given as in the API.
    pub fn pointer(mut self, pointer: Value) -> Commit<'a> {
        self.pointers.push(pointer);
        self
    }

    /// Records the result of the message, for clients that wait for it.
    pub fn result(mut self, result: &impl Serialize) -> Result<Commit<'a>, Error> {
        let result = serde_json::to_value(result);
        let result =
            result.map_err(|error| Error::Invalid(format!("the result is not JSON: {error}")))?;
        self.result = Some(result);
        Ok(self)
    }

    /// Commits. If the server rejects the commit, the outcomes of its effects are recorded before
    /// the attempt fails: a known outcome is never left unfinished.
    pub async fn send(self) -> Result<(), Fail> {
        let Commit { context, produce, pointers, result } = self;
        let effects = context.pending_outcomes();
        let mut body = json!({ "token": context.delivery().lease.token });
        for (name, items) in [("produce", produce), ("pointers", pointers)] {
            if !items.is_empty() {
                body[name] = items.into();
            }
        }
        if !effects.is_empty() {
            body["effects"] = effects.into();
        }
        if let Some(result) = result {
            body["result"] = result;
        }
        let call =
            Call { path: "commit", body: Some(&body), is_repeatable: true, timeout: TIMEOUT };
        let error = match call.send(context.client()).await {
            Ok(_) => {
                context.take_outcomes();
                context.committed();
                return Ok(());
            }
            Err(error) => error,
        };
        // Also if the commit may have happened, or the lease is lost: the server accepts an outcome
        // that it has, and a late one of the last execution.
        let finished = finish_each(context.client(), context.take_outcomes()).await;
        let Error::Refused(refusal) = error else { return Err(error.into()) };
        finished?;
        Err(Fail(Kind::Rejected { reason: format!("the commit was rejected: {refusal}") }))
    }
}

/// Records outcomes without a commit: all that can be, and returns the first error.
pub(crate) async fn finish_each(client: &Client, outcomes: Vec<Value>) -> Result<(), Error> {
    let mut recorded = Ok(());
    for finish in outcomes {
        recorded = recorded.and(record(client, finish).await);
    }
    recorded
}
