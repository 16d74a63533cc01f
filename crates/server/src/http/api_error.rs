//! Errors of the HTTP API. This is the only place where a cause becomes a response.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use driftq_api::error::CommitItem;
use driftq_api::error::details::{
    AlreadyExists, Conflict, Existing, FailedPrecondition, InDoubt, InProgress, Internal,
    InvalidArgument, NotFound, PreconditionState, ResourceExhausted, StaleFence, StaleLease,
    TooLarge, Unavailable,
};
use driftq_api::words::{
    BeginDecision, ConflictField, DoubtAction, ExhaustedReason, InvalidReason, MissingKind,
    Outcome, RedriveState,
};
use driftq_api::{Details, Error};
use driftq_core::Rejection;
use driftq_core::command::{Full, Missing, Part};
use driftq_core::ownership::AdminError;

use super::convert;
use super::request_log::see_log;
use super::words::ToWire;
use crate::node::CallError;

/// The default delay before a client retries.
pub(super) const RETRY_AFTER_MS: u64 = 1_000;

/// The reason of a field that does not exist. The list of known fields follows.
pub(super) const UNKNOWN_FIELD: &str = "unknown field; known: ";

/// An error response.
#[derive(Debug, Clone)]
pub(crate) struct ApiError(pub(crate) Box<Error>);

/// The topic that a request names, and the group if it names one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Subject<'a> {
    pub(crate) topic: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
}

impl ApiError {
    pub(crate) fn new(details: impl Into<Details>, message: impl Into<String>) -> ApiError {
        ApiError(Box::new(Error::new(details, message)))
    }

    /// A field that is malformed, unknown or out of range. An empty name means the request itself.
    pub(crate) fn invalid(field: &str, reason: impl Into<String>) -> ApiError {
        Invalid::new(field, reason).into()
    }

    /// A rejection by the core, of a request that names `subject`.
    pub(crate) fn rejected(rejection: Rejection, subject: Subject<'_>) -> ApiError {
        let mut message = message(&rejection, subject);
        let item = match &rejection {
            Rejection::InPart { part, index, .. } => Some(Item(*part, *index).wire()),
            _ => None,
        };
        let details = details(rejection);
        if matches!(details, Details::Internal(_)) {
            message = format!("{message}; {}", see_log());
        }
        let mut error = ApiError::new(details, message);
        error.0.item = item;
        error
    }

    /// The error of a request that only reads: its outcome does not matter.
    pub(crate) fn of_read(mut self) -> ApiError {
        if let Details::Unavailable(unavailable) = &mut self.0.details
            && unavailable.outcome == Outcome::Unknown
        {
            unavailable.outcome = Outcome::None;
            self.0.message = "no answer in time; send the request again".to_owned();
        }
        self
    }

    /// The error of a commit that reports outcomes of effects. If another part of it is wrong, the
    /// outcomes are lost unless the worker records them in another way.
    pub(crate) fn of_finishing_commit(mut self) -> ApiError {
        let is_of_another_part = match &self.0.details {
            Details::InvalidArgument(_)
            | Details::NotFound(_)
            | Details::AlreadyExists(_)
            | Details::TooLarge(_) => true,
            Details::Conflict(_) => self.0.item.is_some(),
            _ => false,
        };
        if is_of_another_part {
            let advice = "correct the commit and repeat it, or record the outcomes of its effects with POST /v1/effects/finish";
            self.0.message = format!("{}. Nothing was committed: {advice}", self.0.message);
        }
        self
    }

    /// The limit that was reached, if that is the error.
    pub(crate) fn exhausted(&self) -> Option<ExhaustedReason> {
        match &self.0.details {
            Details::ResourceExhausted(exhausted) => {
                Some(exhausted.limit_reason.unwrap_or(exhausted.reason))
            }
            _ => None,
        }
    }

    /// Its code as the body of the response has it.
    pub(crate) fn code(&self) -> String {
        let code = serde_json::to_value(self.0.code()).expect("codes serialize");
        code.as_str().unwrap_or_default().to_owned()
    }

    fn retry_after_ms(&self) -> Option<u64> {
        match &self.0.details {
            Details::InProgress(InProgress { retry_after_ms, .. })
            | Details::InDoubt(InDoubt { retry_after_ms, .. })
            | Details::ResourceExhausted(ResourceExhausted { retry_after_ms, .. })
            | Details::Unavailable(Unavailable { retry_after_ms, .. }) => Some(*retry_after_ms),
            _ => None,
        }
    }

    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code().status()).expect("codes have valid statuses")
    }

    /// Writes the error into its response.
    pub(crate) fn write(mut self, request_id: String, response: &mut Response) {
        self.0.request_id = request_id;
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(ms) = self.retry_after_ms() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000).max(1)));
        }
        let body = serde_json::to_vec(&self.0).expect("errors serialize");
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        *response.body_mut() = Body::from(body);
    }
}

/// A field that is malformed, unknown or out of range.
#[derive(Debug)]
pub(crate) struct Invalid {
    field: String,
    reason: String,
}

/// An item of a commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item(pub(crate) Part, pub(crate) usize);

impl Invalid {
    pub(crate) fn new(field: &str, reason: impl Into<String>) -> Invalid {
        Invalid { field: shortened(field), reason: shortened(&reason.into()) }
    }

    /// Keeps these fields in the list of known ones.
    pub(super) fn map_known(self, is_known: impl Fn(&str) -> bool) -> Invalid {
        let Some(known) = self.reason.strip_prefix(UNKNOWN_FIELD) else { return self };
        let known: Vec<&str> = known.split(", ").filter(|name| is_known(name)).collect();
        let reason = format!("{UNKNOWN_FIELD}{}", known.join(", "));
        Invalid { reason, ..self }
    }

    /// Converts the error of a field in an item of a commit.
    pub(crate) fn in_item(self, item: Item) -> ApiError {
        let Item(part, index) = item;
        let dot = if self.field.is_empty() { "" } else { "." };
        let path = format!("{}[{index}]{dot}{}", part.as_str(), self.field);
        let mut error = self.at(&path);
        error.0.item = Some(item.wire());
        error
    }

    fn at(self, path: &str) -> ApiError {
        let message = match path {
            "" => self.reason,
            path => format!("{path}: {}", self.reason),
        };
        let field = Some(self.field).filter(|field| !field.is_empty());
        ApiError::new(InvalidArgument { field, reason: None }, message)
    }
}

impl Item {
    /// Parses a path like `pointers[0].version` into the item and the rest of the path.
    fn of_path(path: &str) -> Option<(Item, &str)> {
        let (part, rest) = path.split_once('[')?;
        let (index, field) = rest.split_once(']')?;
        let parts = [Part::Effects, Part::Produce, Part::Pointers];
        let part = parts.into_iter().find(|known| known.as_str() == part)?;
        Some((Item(part, index.parse().ok()?), field.trim_start_matches('.')))
    }

    fn wire(self) -> CommitItem {
        CommitItem { part: self.0.wire(), index: self.1 }
    }
}

impl From<Invalid> for ApiError {
    /// Only items of a commit have paths that start with the name of a part.
    fn from(invalid: Invalid) -> ApiError {
        if let Some((item, field)) = Item::of_path(&invalid.field) {
            let field = field.to_owned();
            return Invalid { field, ..invalid }.in_item(item);
        }
        let path = invalid.field.clone();
        invalid.at(&path)
    }
}

impl IntoResponse for ApiError {
    /// [`ApiError::write`] writes the body later, when the request id is known.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status();
        response.extensions_mut().insert(self);
        response
    }
}

/// Maximum number of characters of a request that an error repeats.
const REPEATED_CHARS_MAX: usize = 1_024;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(REPEATED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl From<CallError> for ApiError {
    fn from(lost: CallError) -> ApiError {
        let outcome = match lost {
            CallError::Unknown => Outcome::Unknown,
            CallError::NotServing | CallError::Overloaded => Outcome::None,
        };
        ApiError::new(Unavailable { outcome, retry_after_ms: RETRY_AFTER_MS }, lost.to_string())
    }
}

impl From<AdminError> for ApiError {
    fn from(unfit: AdminError) -> ApiError {
        let message = unfit.to_string();
        match unfit {
            AdminError::NoNode => ApiError::new(NotFound { kind: MissingKind::Node }, message),
            AdminError::NoShard => ApiError::new(NotFound { kind: MissingKind::Shard }, message),
            AdminError::LastNode | AdminError::TakesNone => {
                ApiError::new(FailedPrecondition::default(), message)
            }
        }
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> ApiError {
        ApiError::rejected(rejection, Subject::default())
    }
}

/// States what is wrong and what to do next.
fn message(rejection: &Rejection, subject: Subject<'_>) -> String {
    let advice = match rejection {
        Rejection::InPart { part, index, why } => {
            return format!("{}[{index}]: {}", part.as_str(), message(why, subject));
        }
        Rejection::NotFound(missing) => return not_found(*missing, subject),
        Rejection::Exhausted { full, .. } => return exhausted(full),
        Rejection::StaleLease { .. } | Rejection::StaleFence { .. } => {
            ". Discard the result; do not retry."
        }
        Rejection::Unfinished(_) => {
            ". Finish each of them, or list it in `effects` of a commit, or nack."
        }
        Rejection::EffectsExpired => ". Send force to redrive it anyway.",
        Rejection::DeadLetterTopic => "; delete dead letters with: driftq dlq purge",
        _ => "",
    };
    format!("{rejection}{advice}")
}

fn not_found(missing: Missing, subject: Subject<'_>) -> String {
    match (missing, subject.topic, subject.group) {
        // The server creates and deletes dead-letter topics itself.
        (Missing::Topic, Some(topic), _) if topic.starts_with("dlq.") => {
            format!("topic {:?} does not exist", shortened(topic))
        }
        (Missing::Topic, Some(topic), _) => {
            let topic = shortened(topic);
            format!(
                "topic {topic:?} does not exist; check the name with `driftq topic list`, or create it with: driftq topic create {topic}"
            )
        }
        (Missing::Topic, None, _) => {
            "the topic does not exist; check the name with `driftq topic list`, or create it with: driftq topic create <topic>".to_owned()
        }
        (Missing::Group, Some(topic), Some(group)) => {
            let (topic, group) = (shortened(topic), shortened(group));
            format!(
                "group {group:?} does not exist; create it with: driftq group create {topic} {group}"
            )
        }
        (Missing::Group, _, _) => {
            "the group does not exist; create it with: driftq group create <topic> <group>"
                .to_owned()
        }
        (Missing::Message | Missing::Effect | Missing::Pointer, _, _) => {
            format!("the {} does not exist", missing.as_str())
        }
    }
}

fn exhausted(full: &Full) -> String {
    match full {
        Full::Messages(Some(group)) | Full::Bytes(Some(group)) => {
            format!("the partition is full because group {group:?} is behind; retry later")
        }
        Full::Messages(None) | Full::Bytes(None) => {
            "the partition is full, and no group reads it".to_owned()
        }
        Full::Storage => {
            "the disk of the server is nearly full; messages are accepted again when it has space"
                .to_owned()
        }
        Full::Outbox => "too many messages wait for the shard of the topic; retry later".to_owned(),
        Full::Topics { limit } => format!(
            "the shard of this topic has {limit} topics, its limit; delete topics that are not used: \
             driftq topic delete"
        ),
        Full::Cursors { limit } => format!(
            "with this group the shard would have more than {limit} cursors (groups × partitions), its limit; \
             delete groups that are not used (driftq group delete) or set group_idle_ms, or create topics with \
             fewer partitions"
        ),
    }
}

fn details(rejection: Rejection) -> Details {
    match rejection {
        Rejection::InPart { why, .. } => details(*why),
        Rejection::Invalid { field, .. } => {
            InvalidArgument { field: Some(field.into_owned()), reason: None }.into()
        }
        Rejection::TokenRequired => {
            InvalidArgument { field: Some("token".to_owned()), reason: None }.into()
        }
        Rejection::DeadlinePassed => {
            InvalidArgument { field: None, reason: Some(InvalidReason::Deadline) }.into()
        }
        Rejection::NotFound(missing) => NotFound { kind: missing.wire() }.into(),
        Rejection::Unrouted => {
            Unavailable { outcome: Outcome::None, retry_after_ms: RETRY_AFTER_MS }.into()
        }
        // The route that creates topics answers ALREADY_EXISTS with the existing topic.
        Rejection::TopicExists { .. }
        | Rejection::OlderNodes
        | Rejection::NewerRows
        | Rejection::NotOwner
        | Rejection::NotDelivered
        | Rejection::DeadLetterTopic
        | Rejection::HasConsumers
        | Rejection::Undeliverable => FailedPrecondition::default().into(),
        Rejection::Unfinished(keys) => {
            let effects = keys.iter().map(ToString::to_string).collect();
            FailedPrecondition { effects, ..FailedPrecondition::default() }.into()
        }
        Rejection::NotInDoubt(state) => in_state(PreconditionState::Effect(state.wire())),
        Rejection::EffectsExpired => {
            in_state(PreconditionState::Redrive(RedriveState::EffectsExpired))
        }
        Rejection::StaleLease { state, attempt, current } => {
            StaleLease { state: state.wire(), attempt, current_attempt: current }.into()
        }
        Rejection::StaleFence { state, fence, current } => {
            StaleFence { state: state.wire(), fence, current_fence: current }.into()
        }
        Rejection::InProgress { fence, owner, retry_after_ms } => {
            let owner = Some(owner.to_string()).filter(|owner| !owner.is_empty());
            let decision = BeginDecision::InProgress;
            InProgress { decision, retry_after_ms, fence, owner }.into()
        }
        Rejection::Parked { doubt, retry_after_ms } => InDoubt {
            decision: BeginDecision::InDoubt,
            action: DoubtAction::Park,
            retry_after_ms,
            doubt: convert::doubt(&doubt),
        }
        .into(),
        Rejection::PointerExists(current) => {
            let current = Existing::Pointer(convert::pointer(*current));
            AlreadyExists { current: Box::new(current) }.into()
        }
        Rejection::RequestConflict => Conflict { field: ConflictField::Request }.into(),
        Rejection::OutcomeConflict => Conflict { field: ConflictField::Outcome }.into(),
        Rejection::CommitConflict => Conflict { field: ConflictField::Commit }.into(),
        Rejection::NonceConflict => Conflict { field: ConflictField::Request }.into(),
        Rejection::KeyConflict => Conflict { field: ConflictField::Message }.into(),
        Rejection::KeyConflictIn { field } => Conflict { field: field.wire() }.into(),
        Rejection::TooLarge { field, limit, size } => {
            TooLarge { field: field.into_owned(), limit, size: Some(size) }.into()
        }
        Rejection::Exhausted { full, retry_after_ms } => {
            let (reason, group, limit) = match full {
                Full::Messages(group) => (ExhaustedReason::PartitionBufferFull, group, None),
                Full::Bytes(group) => (ExhaustedReason::PartitionBufferBytesFull, group, None),
                Full::Storage => (ExhaustedReason::StorageLow, None, None),
                Full::Outbox => (ExhaustedReason::OutboxFull, None, None),
                Full::Topics { limit } => (ExhaustedReason::Topics, None, Some(limit)),
                Full::Cursors { limit } => (ExhaustedReason::Cursors, None, Some(limit)),
            };
            let group = group.map(|group| group.to_string());
            ResourceExhausted { reason, limit_reason: None, retry_after_ms, group, limit }.into()
        }
        Rejection::Poisonous | Rejection::Damaged { .. } => {
            Internal { outcome: Outcome::None }.into()
        }
    }
}

fn in_state(state: PreconditionState) -> Details {
    FailedPrecondition { state: Some(state), ..FailedPrecondition::default() }.into()
}

/// The error for a bug in the server.
pub(super) fn internal_error(what: &str) -> ApiError {
    let message = format!("internal error: {what}; {}", see_log());
    ApiError::new(Internal { outcome: Outcome::Unknown }, message)
}

/// The error for a path without a route.
pub(super) fn no_route() -> ApiError {
    let message = "this path does not exist; docs/reference/api.md lists the routes";
    ApiError::new(NotFound { kind: MissingKind::Route }, message)
}
