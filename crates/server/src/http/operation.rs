//! How handlers describe their parameters and errors for the OpenAPI document.

use std::marker::PhantomData;

use driftq_api::ErrorCode;
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{RefOr, Required};
use utoipa::{IntoParams, IntoResponses, ToSchema};

use super::query::{Form, FormParam};
use super::request::ApiRequest;
use super::words::word;

/// The parameters of a request that has no body.
pub(crate) struct Query<T>(PhantomData<T>);

/// The query form of a request that may have a body instead. `S` is the schema of that body.
pub(crate) struct QueryForm<T, S = T>(PhantomData<(T, S)>);

impl<T: ApiRequest> IntoParams for Query<T> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let required =
            |param: &FormParam| if param.is_required { Required::True } else { Required::False };
        let params = Form::new::<T>(T::QUERY).params.into_iter();
        params.map(|param| parameter(&param).required(required(&param)).build()).collect()
    }
}

impl<T: ApiRequest, S: ToSchema> IntoParams for QueryForm<T, S> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let instead = |param: &FormParam| {
            let optional = parameter(param).required(Required::False);
            optional.description(Some("Instead of a body.")).build()
        };
        Form::new::<S>(T::QUERY).params.iter().map(instead).collect()
    }
}

fn parameter(param: &FormParam) -> ParameterBuilder {
    let parameter = ParameterBuilder::new().name(param.name).parameter_in(ParameterIn::Query);
    parameter.schema(Some(param.schema.clone()))
}

/// Defines errors that only some routes return.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident: $($code:ident),+;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<String, RefOr<utoipa::openapi::Response>> {
                let refused = refused(&[$(ErrorCode::$code),+]);
                let refused = refused.into_iter().map(|(status, response)| {
                    (status, serde_json::from_value(response).expect("valid response"))
                });
                refused.collect()
            }
        }
    )*};
}

refusals! {
    /// The topic, group or message does not exist.
    Missing: NotFound;
    /// The request is not possible in the current state.
    Unmet: FailedPrecondition;
    /// The delivery is no longer leased to the caller.
    Stale: FailedPrecondition, StaleLease;
    /// The effect is no longer the caller's, or is in another state.
    StaleEffect: FailedPrecondition, StaleFence;
    /// Another execution holds the effect, or its outcome must be resolved first.
    Held: InProgress, InDoubt;
    /// Like `Held`, or the delivery is no longer leased to the caller.
    HeldOrStale: StaleLease, InProgress, InDoubt;
    /// A commit is rejected.
    Uncommitted: AlreadyExists, FailedPrecondition, StaleLease, StaleFence, InProgress, InDoubt;
    /// The name is already in use.
    Exists: AlreadyExists;
    /// The key was used with other content.
    Conflicting: Conflict;
}

/// Returns the error responses by status. Errors with the same status are alternatives.
pub(super) fn refused(codes: &[ErrorCode]) -> Map<String, Value> {
    let mut responses = Map::new();
    for code in codes {
        let same: Vec<&ErrorCode> =
            codes.iter().filter(|other| other.status() == code.status()).collect();
        let named = |code: &&ErrorCode| json!({ "$ref": schema_ref(&code.schema_name()) });
        let schema = match same.as_slice() {
            [only] => named(only),
            several => json!({ "oneOf": several.iter().map(named).collect::<Vec<_>>() }),
        };
        let words: Vec<String> = same.iter().map(|code| word(**code)).collect();
        let response = json!({
            "description": words.join(", "),
            "content": { "application/json": { "schema": schema } },
        });
        responses.insert(code.status().to_string(), response);
    }
    responses
}

fn schema_ref(name: &str) -> String {
    format!("#/components/schemas/{name}")
}
