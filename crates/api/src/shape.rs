//! How errors look, for the OpenAPI document: what each kind says beside what all of them say.

use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Array, Object, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::effect::Doubt;
use crate::schema::{GroupName, word};
use crate::topic::Topic;
use crate::words::EffectState;
use crate::{Error, ErrorCode};

/// A field that some errors have.
struct Field {
    name: &'static str,
    schema: RefOr<Schema>,
    is_always: bool,
}

fn always(name: &'static str, schema: impl Into<RefOr<Schema>>) -> Field {
    Field { name, schema: schema.into(), is_always: true }
}

fn sometimes(name: &'static str, schema: impl Into<RefOr<Schema>>) -> Field {
    Field { name, schema: schema.into(), is_always: false }
}

fn text() -> Object {
    Object::with_type(Type::String)
}

fn count() -> Object {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).build()
}

/// Which item of a commit is meant.
fn item() -> Vec<Field> {
    let parts = word(&["effects", "produce", "pointers"]);
    vec![sometimes("part", parts), sometimes("index", count())]
}

impl ErrorCode {
    /// What this kind says beside what all of them say.
    fn fields(self) -> Vec<Field> {
        match self {
            ErrorCode::InvalidArgument => {
                let mut fields = item();
                fields
                    .extend([sometimes("field", text()), sometimes("reason", word(&["deadline"]))]);
                fields
            }
            ErrorCode::Unauthenticated
            | ErrorCode::PermissionDenied
            | ErrorCode::MethodNotAllowed => Vec::new(),
            ErrorCode::NotFound => {
                let kinds = word(&[
                    "route", "topic", "group", "message", "effect", "pointer", "node", "shard",
                ]);
                item().into_iter().chain([always("kind", kinds)]).collect()
            }
            ErrorCode::RequestTimeout => vec![always("outcome", word(&["none"]))],
            ErrorCode::FailedPrecondition => vec![
                sometimes("matched", count()),
                sometimes("state", text()),
                sometimes("effects", Array::new(text())),
            ],
            ErrorCode::StaleFence => {
                let state = Ref::from_schema_name(EffectState::name());
                let fields = [
                    always("state", state),
                    always("fence", count()),
                    always("current_fence", count()),
                ];
                item().into_iter().chain(fields).collect()
            }
            ErrorCode::InProgress => vec![
                always("decision", word(&["IN_PROGRESS"])),
                always("retry_after_ms", count()),
                always("fence", count()),
                sometimes("owner", text()),
            ],
            ErrorCode::InDoubt => vec![
                always("decision", word(&["IN_DOUBT"])),
                always("action", word(&["park"])),
                always("retry_after_ms", count()),
                always("doubt", Ref::from_schema_name(Doubt::name())),
            ],
            ErrorCode::StaleLease => {
                let states = ["leased", "waiting", "settled", "dead", "generation", "gone"];
                vec![
                    always("state", word(&states)),
                    always("attempt", count()),
                    sometimes("current_attempt", count()),
                ]
            }
            ErrorCode::AlreadyExists => {
                vec![always("current", Ref::from_schema_name(Topic::name()))]
            }
            ErrorCode::TooLarge => {
                let fields =
                    [always("field", text()), always("limit", count()), sometimes("size", count())];
                item().into_iter().chain(fields).collect()
            }
            ErrorCode::Conflict => {
                let field = word(&["value", "request", "outcome", "commit"]);
                item().into_iter().chain([always("field", field)]).collect()
            }
            ErrorCode::ResourceExhausted => {
                let reasons = [
                    "partition_buffer_full",
                    "partition_buffer_bytes_full",
                    "storage_low",
                    "connections",
                    "outbox_full",
                    "topics",
                    "cursors",
                    "memory",
                ];
                vec![
                    always("reason", word(&reasons)),
                    always("retry_after_ms", count()),
                    sometimes("group", Ref::from_schema_name(GroupName::name())),
                    sometimes("limit", count()),
                ]
            }
            ErrorCode::Internal => vec![always("outcome", word(&["unknown", "none"]))],
            ErrorCode::Unavailable => {
                let outcome = word(&["unknown", "none"]);
                vec![always("outcome", outcome), always("retry_after_ms", count())]
            }
        }
    }

    /// What the document calls an error of this kind.
    pub fn shape_name(self) -> String {
        format!("{self:?}")
    }

    /// An error of this kind, as an answer.
    pub fn shape(self) -> RefOr<Schema> {
        let word = serde_json::to_value(self).expect("a word");
        let error = text_of(word);
        let retryable = ObjectBuilder::new()
            .schema_type(Type::Boolean)
            .enum_values(Some([self.is_retryable()]));
        let mut object = ObjectBuilder::new()
            .property("error", error)
            .property("message", text())
            .property("retryable", retryable)
            .property("request_id", text());
        for name in ["error", "message", "retryable", "request_id"] {
            object = object.required(name);
        }
        for field in self.fields() {
            object = object.property(field.name, field.schema);
            if field.is_always {
                object = object.required(field.name);
            }
        }
        object.into()
    }
}

fn text_of(word: Value) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some([word])).build()
}

/// An error of any kind, as one result of many: the id is that of the whole request.
impl PartialSchema for Error {
    fn schema() -> RefOr<Schema> {
        let mut object = ObjectBuilder::new()
            .property("error", Ref::from_schema_name(ErrorCode::name()))
            .property("message", text())
            .property("retryable", Object::with_type(Type::Boolean));
        for name in ["error", "message", "retryable"] {
            object = object.required(name);
        }
        for field in ErrorCode::ALL.into_iter().flat_map(ErrorCode::fields) {
            // Kinds that share a field have different words for it.
            let is_text = match &field.schema {
                RefOr::T(Schema::Object(object)) => object.schema_type == text().schema_type,
                RefOr::T(_) | RefOr::Ref(_) => false,
            };
            let schema = if is_text { text().into() } else { field.schema };
            object = object.property(field.name, schema);
        }
        object.into()
    }
}

impl ToSchema for Error {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        let code = <ErrorCode as PartialSchema>::schema();
        schemas.push((ErrorCode::name().into_owned(), code));
    }
}
