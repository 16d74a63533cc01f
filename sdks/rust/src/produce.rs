//! Producing messages.

use std::time::{Duration, Instant};

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::http::Client;
use crate::retry::Call;

/// The wait before a batch is sent again of which the server could not store an item now.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// A message to produce.
#[derive(Debug, Clone)]
pub struct Message {
    pub(crate) fields: Map<String, Value>,
}

/// Where a message was stored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Receipt {
    /// The requested topic.
    pub topic: String,
    /// The topic that stored it, if it is another one.
    #[serde(default)]
    pub final_topic: Option<String>,
    /// The partition.
    pub partition: u32,
    /// The offset in the partition.
    pub offset: u64,
    /// The id of the message.
    pub id: String,
    /// Whether it had been stored before.
    pub deduplicated: bool,
}

impl Message {
    /// A message whose value is `value` as JSON.
    pub fn json(topic: impl Into<String>, value: &impl Serialize) -> Result<Message, Error> {
        let text = serde_json::to_string(value);
        let text =
            text.map_err(|error| Error::Invalid(format!("the value is not JSON: {error}")))?;
        Ok(Message::text(topic, text))
    }

    /// A message whose value is text.
    pub fn text(topic: impl Into<String>, value: impl Into<String>) -> Message {
        Message::of(topic, "value", value.into())
    }

    /// A message whose value is bytes.
    pub fn bytes(topic: impl Into<String>, value: &[u8]) -> Message {
        Message::of(topic, "value_base64", BASE64.encode(value))
    }

    fn of(topic: impl Into<String>, name: &str, value: String) -> Message {
        let mut fields = Map::new();
        fields.insert("topic".to_owned(), topic.into().into());
        fields.insert(name.to_owned(), value.into());
        Message { fields }
    }

    /// Sets the message key. Messages with the same key are in the same partition.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Message {
        self.fields.insert("key".to_owned(), key.into().into());
        self
    }

    /// Sets the idempotency key. While it is in use, the message is stored once.
    #[must_use]
    pub fn idempotency_key(self, key: impl Into<String>) -> Message {
        self.envelope("idempotency_key", key.into())
    }

    /// Sets the tenant.
    #[must_use]
    pub fn tenant(self, tenant: impl Into<String>) -> Message {
        self.envelope("tenant_id", tenant.into())
    }

    /// Sets the run that the message belongs to.
    #[must_use]
    pub fn run_id(self, run: impl Into<String>) -> Message {
        self.envelope("run_id", run.into())
    }

    /// Sets a field of the envelope, by its name in the API.
    #[must_use]
    pub fn envelope(mut self, name: &str, value: impl Into<Value>) -> Message {
        let envelope = self.fields.entry("envelope").or_insert_with(|| json!({}));
        envelope[name] = value.into();
        self
    }

    fn has_key(&self) -> bool {
        self.fields.get("envelope").is_some_and(|envelope| !envelope["idempotency_key"].is_null())
    }
}

impl Client {
    /// Stores a message. A lost response is no reason to store it twice: the request has a nonce.
    pub async fn produce(&self, message: Message) -> Result<Receipt, Error> {
        let has_key = message.has_key();
        let mut body = message.fields;
        let has_nonce = self.supports("nonce").await?;
        if has_nonce {
            body.insert("nonce".to_owned(), nonce().into());
        }
        let body = Value::Object(body);
        let is_repeatable = has_nonce || has_key;
        let call =
            Call { path: "produce", body: Some(&body), is_repeatable, timeout: self.timeout() };
        read(call.send(self).await?)
    }

    /// Stores up to 1 000 messages. Each succeeds or fails on its own.
    pub async fn produce_batch(
        &self,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<Vec<Result<Receipt, Error>>, Error> {
        let messages: Vec<Message> = messages.into_iter().collect();
        let all_have_keys = messages.iter().all(Message::has_key);
        let messages: Vec<Value> =
            messages.into_iter().map(|message| Value::Object(message.fields)).collect();
        let mut body = json!({ "messages": messages });
        let has_nonce = self.supports("nonce").await?;
        if has_nonce {
            body["nonce"] = nonce().into();
        }
        let is_repeatable = has_nonce || all_have_keys;
        let began = Instant::now();
        loop {
            let timeout = self.timeout().saturating_sub(began.elapsed());
            let call = Call { path: "produce/batch", body: Some(&body), is_repeatable, timeout };
            let mut answer = call.send(self).await?;
            let results: Vec<Value> = read(answer["results"].take())?;
            // For example, the shard of an item is moving to another node. The nonce keeps the items
            // that are stored from being stored again.
            let is_done = !results.iter().any(|result| result["retryable"] == true);
            if is_done || !has_nonce || began.elapsed() + RETRY_DELAY >= self.timeout() {
                return Ok(results.into_iter().map(result).collect());
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

fn result(result: Value) -> Result<Receipt, Error> {
    if result["error"].is_null() {
        return read(result);
    }
    Err(Error::of_item(result))
}

/// Reads the response.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(body: Value) -> Result<T, Error> {
    let wrong =
        |error| Error::OutcomeUnknown(format!("the response is not that of DriftQ: {error}"));
    serde_json::from_value(body).map_err(wrong)
}

/// A name that no other request has.
pub(crate) fn nonce() -> String {
    format!("{:032x}", fastrand::u128(..))
}
