//! Errors: a code with its status, and the details that the code adds to the body.

pub mod details;

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{OneOf, Ref, RefOr, Required, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::words::CommitPart;

/// One line per code: status, whether a retry can succeed. The struct of the same name in [`details`] has its fields.
macro_rules! errors {
    ($($code:ident: $status:literal, $retryable:literal;)*) => {
        /// The kind of an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        #[expect(missing_docs, reason = "the API reference explains each code")]
        pub enum ErrorCode { $($code),* }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$code),*];

            /// Returns the HTTP status of a response with this code.
            pub fn status(self) -> u16 {
                match self { $(ErrorCode::$code => $status),* }
            }

            /// Whether the same bytes, sent again later, can succeed.
            pub fn is_retryable(self) -> bool {
                match self { $(ErrorCode::$code => $retryable),* }
            }

            /// Returns the schema of the details, and adds the schemas it refers to.
            fn details_schema(self, referred: &mut Vec<(String, RefOr<Schema>)>) -> RefOr<Schema> {
                match self {
                    $(ErrorCode::$code => {
                        details::$code::schemas(referred);
                        details::$code::schema()
                    })*
                }
            }
        }

        /// The details that a code adds to the body of an error.
        #[derive(Debug, Clone, Serialize)]
        #[serde(untagged)]
        #[expect(missing_docs, reason = "each has the name of its code")]
        pub enum Details { $($code(details::$code)),* }

        impl Details {
            fn code(&self) -> ErrorCode {
                match self { $(Details::$code(_) => ErrorCode::$code),* }
            }
        }

        $(impl From<details::$code> for Details {
            fn from(details: details::$code) -> Details {
                Details::$code(details)
            }
        })*
    };
}

errors! {
    InvalidArgument: 400, false;
    Unauthenticated: 401, false;
    PermissionDenied: 403, false;
    NotFound: 404, false;
    MethodNotAllowed: 405, false;
    RequestTimeout: 408, true;
    FailedPrecondition: 409, false;
    StaleLease: 409, false;
    StaleFence: 409, false;
    AlreadyExists: 409, false;
    InProgress: 409, true;
    InDoubt: 409, true;
    TooLarge: 413, false;
    Conflict: 422, false;
    ResourceExhausted: 429, true;
    Internal: 500, false;
    Unavailable: 503, true;
}

/// The body of every response that is not a success.
#[derive(Debug, Clone, Serialize)]
pub struct Error {
    /// The error code, for programs.
    error: ErrorCode,
    /// The error text, for people. It may change.
    pub message: String,
    /// Whether the same bytes, sent again later, can succeed.
    retryable: bool,
    /// The id of the request in the server's log. A result within a batch has none: its response has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// The rejected item of a commit.
    #[serde(flatten)]
    pub item: Option<CommitItem>,
    /// The details of the code.
    #[serde(flatten)]
    pub details: Details,
}

/// An item of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CommitItem {
    /// The list it is in.
    pub part: CommitPart,
    /// Its index there.
    pub index: usize,
}

impl Error {
    /// Creates an error without a request id, which is set later.
    pub fn new(details: impl Into<Details>, message: impl Into<String>) -> Error {
        let details = details.into();
        let error = details.code();
        Error {
            error,
            message: message.into(),
            retryable: error.is_retryable(),
            request_id: String::new(),
            item: None,
            details,
        }
    }

    /// Returns its code.
    pub fn code(&self) -> ErrorCode {
        self.error
    }
}

impl ErrorCode {
    /// Returns the name of the schema of errors with this code.
    pub fn schema_name(self) -> String {
        format!("{self:?}")
    }

    /// Returns the schemas of all errors, and those they refer to.
    pub fn schemas() -> Vec<(String, RefOr<Schema>)> {
        let mut schemas = vec![(CommitPart::name().into_owned(), CommitPart::schema())];
        for code in ErrorCode::ALL {
            let details = code.details_schema(&mut schemas);
            schemas.push((code.schema_name(), code.error_schema(details)));
        }
        schemas
    }

    fn error_schema(self, details: RefOr<Schema>) -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut error)) = details else {
            unreachable!("details are structs with named fields")
        };
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let code = serde_json::to_value(self).expect("a code is a word");
        let retryable = ObjectBuilder::new()
            .schema_type(Type::Boolean)
            .enum_values(Some([self.is_retryable()]));
        let index = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
        let common: [(&str, Required, RefOr<Schema>); 6] = [
            ("error", Required::True, text().enum_values(Some([code])).into()),
            ("message", Required::True, text().into()),
            ("retryable", Required::True, retryable.into()),
            ("request_id", Required::False, text().into()),
            ("part", Required::False, Ref::from_schema_name(CommitPart::name()).into()),
            ("index", Required::False, index.into()),
        ];
        for (name, required, schema) in common {
            error.properties.insert(name.to_owned(), schema);
            if required == Required::True {
                error.required.push(name.to_owned());
            }
        }
        error.into()
    }
}

impl PartialSchema for Error {
    fn schema() -> RefOr<Schema> {
        let codes = ErrorCode::ALL.iter();
        let refs = codes.map(|code| Ref::from_schema_name(code.schema_name()));
        refs.fold(OneOf::builder(), |one_of, code| one_of.item(code)).into()
    }
}

impl ToSchema for Error {}
