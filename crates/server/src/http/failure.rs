//! From what went wrong to what the caller is told. One match per kind, without wildcard.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use driftq_api::{Error, ErrorCode};
use driftq_core::Rejection;
use driftq_core::command::{Full, Missing, Part};
use driftq_core::ownership::Unfit;

use super::effect_view;
use crate::node::Lost;

/// What a caller is told when it is not a success.
#[derive(Debug, Clone)]
pub(crate) struct Failure(pub(crate) Error);

impl Failure {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure(Error::new(code, message))
    }

    /// Malformed, unknown or out of range.
    pub(crate) fn invalid(field: &str, why: impl Into<String>) -> Failure {
        let (field, why) = (&*short(field), short(&why.into()));
        match field {
            "" => Failure::new(ErrorCode::InvalidArgument, why),
            _ => Failure::new(ErrorCode::InvalidArgument, format!("{field}: {why}"))
                .with("field", field),
        }
    }

    #[must_use]
    pub(crate) fn with(self, field: &str, value: impl Into<serde_json::Value>) -> Failure {
        Failure(self.0.with(field, value))
    }

    /// Says which topic or group is not there, if that is what it says, and how to make it.
    #[must_use]
    pub(crate) fn naming(mut self, topic: &str, group: Option<&str>) -> Failure {
        let kind = self.0.more.get("kind").and_then(serde_json::Value::as_str);
        let topic = short(topic);
        let says = match (kind, group) {
            // Nobody makes these: they come and go with their source.
            (Some("topic"), _) if topic.starts_with("dlq.") => format!("no such topic: {topic}"),
            (Some("topic"), _) => {
                format!("no such topic: {topic}; `driftq topic create {topic}` makes it")
            }
            (Some("group"), Some(group)) => {
                let group = short(group);
                format!("no such group: {group}; `driftq group create {topic} {group}` makes it")
            }
            (_, _) => return self,
        };
        self.0.message = says;
        self
    }

    /// Of a message: its fields have the names that they have in a request.
    #[must_use]
    pub(crate) fn in_envelope(mut self) -> Failure {
        let field = self.0.more.get("field").and_then(serde_json::Value::as_str);
        let Some(field) = field.filter(|field| ENVELOPE.contains(field)).map(str::to_owned) else {
            return self;
        };
        if self.0.message.starts_with(&field) {
            self.0.message.insert_str(0, "envelope.");
        }
        self.with("field", format!("envelope.{field}"))
    }

    /// Of a commit: whoever sent one is not told to.
    pub(crate) fn of_commit(rejection: Rejection) -> Failure {
        let is_unfinished = matches!(rejection, Rejection::Unfinished(_));
        let says = rejection.to_string();
        let mut failure = Failure::from(rejection);
        if is_unfinished {
            failure.0.message = format!("{says}. Say in effects how each of them ended, or nack.");
        }
        failure
    }

    /// Of a resolution: whoever resolves has no result to drop, and has seen an older state of it.
    pub(crate) fn of_resolve(rejection: Rejection) -> Failure {
        let stale = if let Rejection::StaleFence { state, fence, current } = &rejection {
            let is = format!("it is at fence {current}, {}", state.as_str());
            Some(format!("not fence {fence}: {is}. Look again: `driftq effect show`"))
        } else {
            None
        };
        let mut failure = Failure::from(rejection);
        if let Some(says) = stale {
            failure.0.message = says;
        }
        failure
    }

    /// What was full, if that is what it says.
    pub(crate) fn full(&self) -> Option<&str> {
        let is_full = self.0.error == ErrorCode::ResourceExhausted;
        self.0.more.get("reason").filter(|_| is_full).and_then(serde_json::Value::as_str)
    }

    fn retry_after_ms(self, ms: u64) -> Failure {
        self.with("retry_after_ms", ms)
    }
}

/// What a message says beside its key and value.
const ENVELOPE: [&str; 9] = [
    "run_id",
    "step_id",
    "parent_step_id",
    "tenant_id",
    "idempotency_key",
    "target_topic",
    "partition_override",
    "deadline",
    "retry_policy",
];

/// Most characters of what a caller sent that a refusal says back to it.
const SAID_BACK_CHARS: usize = 1_024;

fn short(text: &str) -> String {
    match text.char_indices().nth(SAID_BACK_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl IntoResponse for Failure {
    /// The body is written by [`Failure::write`] once the request's id is known.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status();
        response.extensions_mut().insert(self);
        response
    }
}

impl Failure {
    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.error.status()).expect("codes have real statuses")
    }

    /// Puts the failure into its response.
    pub(crate) fn write(mut self, request_id: &str, response: &mut Response) {
        self.0.request_id = request_id.to_owned();
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.remove(header::CONTENT_LENGTH);
        if let Some(ms) = self.0.more.get("retry_after_ms").and_then(serde_json::Value::as_u64) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000).max(1)));
        }
        let body = serde_json::to_vec(&self.0).expect("an error is plain");
        *response.body_mut() = Body::from(body);
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Failure {
        let failure = Failure::new(ErrorCode::Unavailable, lost.to_string());
        match lost {
            Lost::Unknown => failure.with("outcome", "unknown").retry_after_ms(1_000),
            Lost::NotServing | Lost::Overloaded => {
                failure.with("outcome", "none").retry_after_ms(1_000)
            }
        }
    }
}

impl From<Unfit> for Failure {
    fn from(unfit: Unfit) -> Failure {
        let says = unfit.to_string();
        match unfit {
            Unfit::NoNode => Failure::new(ErrorCode::NotFound, says).with("kind", "node"),
            Unfit::NoShard => Failure::new(ErrorCode::NotFound, says).with("kind", "shard"),
            Unfit::LastNode | Unfit::TakesNone => Failure::new(ErrorCode::FailedPrecondition, says),
        }
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Failure {
        let says = rejection.to_string();
        match rejection {
            Rejection::Invalid { field, .. } => {
                Failure::new(ErrorCode::InvalidArgument, says).with("field", field)
            }
            Rejection::DeadlinePassed => {
                Failure::new(ErrorCode::InvalidArgument, says).with("reason", "deadline")
            }
            Rejection::NotFound(missing) => {
                let hint = match missing {
                    Missing::Topic => "; `driftq topic create` makes one",
                    Missing::Group => "; `driftq group create` makes one",
                    Missing::Message | Missing::Effect | Missing::Pointer => "",
                };
                let says = format!("{says}{hint}");
                Failure::new(ErrorCode::NotFound, says).with("kind", missing.as_str())
            }
            Rejection::TopicExists { .. } => Failure::new(ErrorCode::AlreadyExists, says),
            Rejection::NotOwner | Rejection::NotDelivered => {
                Failure::new(ErrorCode::FailedPrecondition, says)
            }
            Rejection::TokenRequired => {
                Failure::new(ErrorCode::InvalidArgument, says).with("field", "token")
            }
            Rejection::StaleLease { state, attempt, current } => {
                let stale = Failure::new(
                    ErrorCode::StaleLease,
                    format!("{says}. Drop your result; do not retry."),
                );
                let stale = stale.with("state", state.as_str()).with("attempt", attempt);
                match current {
                    Some(current) => stale.with("current_attempt", current),
                    None => stale,
                }
            }
            Rejection::StaleFence { state, fence, current } => Failure::new(
                ErrorCode::StaleFence,
                format!("{says}. Drop your result; do not retry."),
            )
            .with("state", state.as_str())
            .with("fence", fence)
            .with("current_fence", current),
            Rejection::InProgress { fence, owner, retry_after_ms } => {
                let failure = Failure::new(ErrorCode::InProgress, says)
                    .with("decision", "IN_PROGRESS")
                    .with("fence", fence)
                    .retry_after_ms(retry_after_ms);
                match &*owner {
                    "" => failure,
                    owner => failure.with("owner", owner),
                }
            }
            Rejection::Parked { doubt, retry_after_ms } => Failure::new(ErrorCode::InDoubt, says)
                .with("decision", "IN_DOUBT")
                .with("action", "park")
                .with("doubt", serde_json::to_value(effect_view::doubt(&doubt)).unwrap_or_default())
                .retry_after_ms(retry_after_ms),
            Rejection::RequestConflict => {
                Failure::new(ErrorCode::Conflict, says).with("field", "request")
            }
            Rejection::OutcomeConflict => {
                Failure::new(ErrorCode::Conflict, says).with("field", "outcome")
            }
            Rejection::CommitConflict => {
                Failure::new(ErrorCode::Conflict, says).with("field", "commit")
            }
            Rejection::InPart { part, index, why } => {
                let mut failure = Failure::from(*why);
                if part == Part::Produce {
                    failure = failure.in_envelope();
                }
                let says = format!("{}[{index}]: {}", part.as_str(), failure.0.message);
                failure.0.message = says;
                failure.with("part", part.as_str()).with("index", index)
            }
            Rejection::PointerExists(current) => {
                let current = serde_json::to_value(super::pointers::shown(*current));
                Failure::new(ErrorCode::AlreadyExists, says)
                    .with("current", current.unwrap_or_default())
            }
            Rejection::Unfinished(keys) => {
                let keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
                let says = format!("{says}. Finish them first, or use commit.");
                Failure::new(ErrorCode::FailedPrecondition, says).with("effects", keys)
            }
            Rejection::NotInDoubt(state) => {
                Failure::new(ErrorCode::FailedPrecondition, says).with("state", state.as_str())
            }
            Rejection::EffectsExpired => {
                let says = format!("{says}. Send force to bring it back all the same.");
                Failure::new(ErrorCode::FailedPrecondition, says).with("state", "effects_expired")
            }
            Rejection::DeadLetterTopic => {
                let says = format!("{says}; `driftq dlq purge` throws dead letters away");
                Failure::new(ErrorCode::FailedPrecondition, says)
            }
            Rejection::HasConsumers | Rejection::Undeliverable => {
                Failure::new(ErrorCode::FailedPrecondition, says)
            }
            Rejection::TooLarge { field, limit, size } => Failure::new(ErrorCode::TooLarge, says)
                .with("field", field)
                .with("limit", limit)
                .with("size", size),
            Rejection::KeyConflict => {
                Failure::new(ErrorCode::Conflict, says).with("field", "value")
            }
            Rejection::Exhausted { full, retry_after_ms } => {
                let (reason, group) = match full {
                    Full::Messages(group) => ("partition_buffer_full", group),
                    Full::Bytes(group) => ("partition_buffer_bytes_full", group),
                    Full::Storage => return storage_low(retry_after_ms),
                    Full::Outbox => {
                        let says =
                            "too many messages wait for the shard of that topic: repeat later";
                        return Failure::new(ErrorCode::ResourceExhausted, says)
                            .with("reason", "outbox_full")
                            .retry_after_ms(retry_after_ms);
                    }
                    Full::Topics { limit } => {
                        let says = format!(
                            "the shard of this topic has {limit} topics, its limit; delete topics that are \
                             not used: driftq topic delete"
                        );
                        return at_capacity("topics", says, limit, retry_after_ms);
                    }
                    Full::Cursors { limit } => {
                        let says = format!(
                            "with this group the shard would have more than {limit} cursors (groups × \
                             partitions), its limit; delete groups that are not used (driftq group delete) or \
                             set group_idle_ms, or create topics with fewer partitions"
                        );
                        return at_capacity("cursors", says, limit, retry_after_ms);
                    }
                };
                let says = match &group {
                    Some(group) => format!("the partition is full: group {group} is behind"),
                    None => "the partition is full, and no group reads it".to_owned(),
                };
                let failure = Failure::new(ErrorCode::ResourceExhausted, says)
                    .with("reason", reason)
                    .retry_after_ms(retry_after_ms);
                match group {
                    Some(group) => failure.with("group", &*group),
                    None => failure,
                }
            }
            Rejection::Poisonous | Rejection::Damaged { .. } => {
                Failure::new(ErrorCode::Internal, says).with("outcome", "none")
            }
        }
    }
}

fn at_capacity(reason: &str, says: String, limit: u64, retry_after_ms: u64) -> Failure {
    Failure::new(ErrorCode::ResourceExhausted, says)
        .with("reason", reason)
        .with("limit", limit)
        .retry_after_ms(retry_after_ms)
}

fn storage_low(retry_after_ms: u64) -> Failure {
    let says = "the disk of the server is nearly full: nothing new is stored until there is room";
    Failure::new(ErrorCode::ResourceExhausted, says)
        .with("reason", "storage_low")
        .retry_after_ms(retry_after_ms)
}
