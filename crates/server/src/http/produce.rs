//! Producing one message or a batch.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use bytes::Bytes;
use driftq_api::from_base64;
use driftq_api::message::{Produce as Request, ProduceBatch, ProducedBatch, Receipt};
use driftq_api::schema::IdempotencyKey;
use driftq_api::words::ProducedStatus;
use driftq_core::command::Produce;
use driftq_core::{Rejection, Trace};

use super::api_error::{ApiError, Invalid};
use super::app::{App, topic_name, typed};
use super::input::Input;
use super::operation::{Conflicting, Missing, QueryForm, Unmet};
use super::profile;
use super::request::{ApiRequest, Param, alias, field, unix_ms};
use super::send_routed::send_routed;
use super::{bulk, convert};

impl ApiRequest for Request {
    const IS_OF_V1: bool = true;
    const QUERY: &'static [Param] = &[
        field("topic"),
        field("value"),
        field("key"),
        field("nonce"),
        alias("run_id", "envelope.run_id"),
        alias("step_id", "envelope.step_id"),
        alias("parent_step_id", "envelope.parent_step_id"),
        alias("tenant_id", "envelope.tenant_id"),
        alias("tenant", "envelope.tenant_id"),
        alias("idempotency_key", "envelope.idempotency_key"),
        alias("idem_key", "envelope.idempotency_key"),
        alias("target_topic", "envelope.target_topic"),
        alias("partition_override", "envelope.partition_override"),
        alias("deadline", "envelope.deadline"),
        alias("deadline_rfc3339", "envelope.deadline"),
        unix_ms("deadline_ms", "envelope.deadline"),
        alias("retry_max_attempts", "envelope.retry_policy.max_attempts"),
        alias("retry_backoff_ms", "envelope.retry_policy.backoff_ms"),
        alias("retry_max_backoff_ms", "envelope.retry_policy.max_backoff_ms"),
    ];

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (Some(&self.topic), None)
    }
}

impl ApiRequest for ProduceBatch {
    const QUERY: &'static [Param] = &[];

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (topic_of_all(&self.messages), None)
    }
}

/// The topic of a batch, if all its messages have the same.
fn topic_of_all(messages: &[Request]) -> Option<&str> {
    let topic = &messages.first()?.topic;
    messages.iter().all(|message| message.topic == *topic).then_some(topic)
}

/// Stores a message.
#[utoipa::path(
    post, path = "/v1/produce", operation_id = "produce", tag = "messages",
    params(
        QueryForm<Request>,
        ("Idempotency-Key" = Option<IdempotencyKey>, Header, description = "The same as envelope.idempotency_key; bare or in double quotes"),
        ("traceparent" = Option<String>, Header, description = "W3C trace context; returned in the delivery"),
        ("tracestate" = Option<String>, Header),
    ),
    request_body = Request,
    responses((status = 200, description = "stored", body = Receipt), Missing, Unmet, Conflicting),
)]
pub(crate) async fn one(
    State(app): State<App>,
    input: Input<Request>,
) -> Result<Json<Receipt>, ApiError> {
    let topic = input.body.topic.clone();
    let mut request = input.body;
    if let Some(key) = idempotency_key(&input.headers)? {
        let envelope = request.envelope.get_or_insert_default();
        let named = envelope.idempotency_key.take().filter(|named| !named.is_empty());
        let named = envelope.idempotency_key.insert(named.unwrap_or_else(|| key.clone()));
        if *named != key {
            let message = "the Idempotency-Key header and envelope.idempotency_key differ";
            return Err(ApiError::invalid("envelope.idempotency_key", message));
        }
    }
    let nonce = request.nonce.take();
    if app.is_v1 {
        profile::nonce(nonce.as_ref())?;
    }
    let produce = message(&app, request, trace(&input.headers))?;
    if nonce.is_none() && app.router.is_none() {
        return receipt(topic, app.try_call(produce).await?).map(Json);
    }
    let nonce = nonce.map(Into::into);
    let mut answers = send_routed(&app, nonce.as_ref(), vec![produce]).await;
    let answer = answers.pop().expect("one answer for each message");
    receipt(topic, typed::<Produce>(answer)?).map(Json)
}

/// Reads the `Idempotency-Key` header, bare or in double quotes.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let refused = |why| ApiError::invalid("Idempotency-Key", why);
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.any(|other| other != value) {
        return Err(refused("is given twice with different values"));
    }
    let not_text = |_| refused("is not valid UTF-8");
    let text = std::str::from_utf8(value.as_bytes()).map_err(not_text)?.trim();
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    match quoted.unwrap_or(text) {
        // A client that sends the header expects deduplication.
        "" => Err(refused("is empty")),
        key => Ok(Some(key.to_owned())),
    }
}

/// Reads the W3C trace context, if it is well formed.
pub(super) fn trace(headers: &HeaderMap) -> Option<Box<Trace>> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let parent = header("traceparent").filter(|parent| is_traceparent(parent))?;
    const STATE_CHARS_MAX: usize = 512;
    let state = header("tracestate").filter(|state| state.len() <= STATE_CHARS_MAX);
    Some(Box::new(Trace { parent: parent.into(), state: state.map(Into::into) }))
}

fn is_traceparent(parent: &str) -> bool {
    let parts: Vec<&str> = parent.split('-').collect();
    let is_hex =
        |part: &str| part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let lengths = parts.iter().map(|part| part.len());
    let is_shaped = lengths.eq([2, 32, 16, 2]) && parts.iter().all(|part| is_hex(part));
    // Invalid by the specification: an id of zeros, or the version `ff`.
    let is_zero = |part: &str| part.bytes().all(|b| b == b'0');
    is_shaped && parts[0] != "ff" && !is_zero(parts[1]) && !is_zero(parts[2])
}

pub(super) fn message(
    app: &App,
    request: Request,
    trace: Option<Box<Trace>>,
) -> Result<Produce, Invalid> {
    let Request { topic, key, value, value_base64, mut envelope, nonce } = request;
    if nonce.is_some() {
        return Err(Invalid::new(
            "nonce",
            "is not allowed for an item; set the nonce of the request",
        ));
    }
    if app.is_v1 {
        profile::envelope(envelope.as_mut())?;
    }
    let value = match (value, value_base64) {
        (Some(text), None) => Bytes::from(text),
        (None, Some(digits)) => Bytes::from(from_base64(&digits).ok_or_else(|| {
            Invalid::new("value_base64", "must be base64 (standard alphabet, padded)")
        })?),
        (Some(_), Some(_)) => {
            return Err(Invalid::new("value", "send value or value_base64, not both"));
        }
        (None, None) => return Err(Invalid::new("value", "value or value_base64 is required")),
    };
    Ok(Produce {
        topic: topic_name(&topic),
        key: Bytes::from(key.unwrap_or_default()),
        value,
        envelope: envelope.map(convert::envelope).unwrap_or_default(),
        routing: None,
        needs_routing: false,
        trace,
        seen: None,
        routed: None,
    })
}

fn receipt(
    topic: String,
    produced: Result<driftq_core::Receipt, Rejection>,
) -> Result<Receipt, ApiError> {
    let receipt = produced?;
    Ok(wire_receipt(topic, receipt))
}

pub(super) fn wire_receipt(topic: String, receipt: driftq_core::Receipt) -> Receipt {
    Receipt {
        status: ProducedStatus::Produced,
        topic,
        final_topic: receipt.final_topic.map(|topic| topic.to_string()),
        partition: receipt.partition,
        offset: receipt.offset,
        id: receipt.id.to_string(),
        deduplicated: receipt.deduplicated,
    }
}

/// Stores many messages. Each one succeeds or fails on its own.
#[utoipa::path(
    post, path = "/v1/produce/batch", operation_id = "produce_batch", tag = "messages",
    params(
        ("traceparent" = Option<String>, Header, description = "W3C trace context; returned in the delivery"),
        ("tracestate" = Option<String>, Header),
    ),
    request_body = ProduceBatch,
    responses((status = 200, description = "one result per message", body = ProducedBatch)),
)]
pub(crate) async fn batch(
    State(app): State<App>,
    input: Input<ProduceBatch>,
) -> Result<Json<ProducedBatch>, ApiError> {
    if input.headers.contains_key("idempotency-key") {
        let message = "is not allowed for a batch; set envelope.idempotency_key of each message";
        return Err(ApiError::invalid("Idempotency-Key", message));
    }
    let ProduceBatch { nonce, messages } = input.body;
    let trace = trace(&input.headers);
    let call = |request: Request| {
        let topic = request.topic.clone();
        Ok((message(&app, request, trace.clone())?, topic))
    };
    let items = messages.into_iter().map(call).collect();
    let nonce = nonce.map(Into::into);
    let send = async |messages| send_routed(&app, nonce.as_ref(), messages).await;
    let results = bulk::send_each(&app, items, send, receipt).await;
    let accepted = bulk::count(&results, |_| true);
    let refused = results.len() - accepted;
    Ok(Json(ProducedBatch { results, accepted, refused }))
}
