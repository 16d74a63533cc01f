//! The OpenAPI document: made of the routes as they are served and of the types that travel.
//!
//! 1. A route that is served is in it, and no other: both come from one list.
//! 2. The query form of a request is made from the table that reads it, with the schemas of the JSON form.
//! 3. What every route may answer, and what every answer carries, is written once, here.

use std::marker::PhantomData;

use driftq_api::ErrorCode;
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{RefOr, Required};
use utoipa::{IntoParams, IntoResponses, ToSchema};

use super::input::Ask;
use super::query::{Form, FormParam, strip_null};
use super::settings;

/// The parameters of a request that has no body.
pub(crate) struct Query<T>(PhantomData<T>);

/// The query form of a request that may have a body instead; `S` is how that body looks.
pub(crate) struct QueryForm<T, S = T>(PhantomData<(T, S)>);

impl<T: Ask> IntoParams for Query<T> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let required =
            |param: &FormParam| if param.is_required { Required::True } else { Required::False };
        let params = Form::new::<T>(T::QUERY).params.into_iter();
        params.map(|param| parameter(&param).required(required(&param)).build()).collect()
    }
}

impl<T: Ask, S: ToSchema> IntoParams for QueryForm<T, S> {
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

/// What some routes refuse and others do not.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident: $($code:ident),+;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<String, RefOr<utoipa::openapi::Response>> {
                let refused = refused(&[$(ErrorCode::$code),+]);
                let refused = refused.into_iter().map(|(status, response)| {
                    (status, serde_json::from_value(response).expect("a response is one"))
                });
                refused.collect()
            }
        }
    )*};
}

refusals! {
    /// Topic, group or message.
    Missing: NotFound;
    /// Not now, or not like this.
    Unmet: FailedPrecondition;
    /// The delivery is not the caller's any more.
    Stale: FailedPrecondition, StaleLease;
    /// The effect is not the caller's any more, or is not in that state.
    StaleEffect: FailedPrecondition, StaleFence;
    /// Somebody else has the effect, or a person has to say.
    Held: StaleLease, InProgress, InDoubt;
    /// A commit that cannot be.
    Uncommitted: AlreadyExists, FailedPrecondition, StaleLease, StaleFence, InProgress, InDoubt;
    /// Another of that name.
    Exists: AlreadyExists;
    /// The same key, other content.
    Conflicting: Conflict;
}

/// What every route may answer.
const ANYWHERE: [ErrorCode; 8] = [
    ErrorCode::InvalidArgument,
    ErrorCode::Unauthenticated,
    ErrorCode::PermissionDenied,
    ErrorCode::RequestTimeout,
    ErrorCode::TooLarge,
    ErrorCode::ResourceExhausted,
    ErrorCode::Internal,
    ErrorCode::Unavailable,
];

/// Answers by status; errors of one status are alternatives.
fn refused(codes: &[ErrorCode]) -> Map<String, Value> {
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

fn word(code: ErrorCode) -> String {
    serde_json::to_value(code)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn schema_ref(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// The document.
pub fn document() -> Value {
    let mut document = serde_json::to_value(super::routes().into_openapi()).expect("it is plain");
    document["info"] = json!({
        "title": "DriftQ HTTP API",
        "version": "v1",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        "description": "A durable queue. docs/reference/api.md says what each route does.",
    });
    document["security"] = json!([{}, { "key": [] }]);
    let components = &mut document["components"];
    components["securitySchemes"] = json!({ "key": { "type": "http", "scheme": "bearer" } });
    components["headers"] = headers();
    components["responses"] = anywhere().into();
    components["parameters"] = json!({ "RequestId": {
        "name": "X-Request-Id", "in": "header", "schema": { "type": "string" },
        "description": "1 to 128 of A-Z a-z 0-9 . _ -; anything else is replaced.",
    } });
    for (name, schema) in ErrorCode::schemas() {
        components["schemas"][name] = serde_json::to_value(schema).expect("schemas serialize");
    }
    let defaults = settings::wire(&driftq_core::Settings::default());
    let defaults = serde_json::to_value(defaults).expect("settings serialize");
    for (setting, default) in defaults.as_object().into_iter().flatten() {
        components["schemas"]["Settings"]["properties"][setting]["default"] = default.clone();
    }
    let schemas = components["schemas"].as_object_mut().expect("there are schemas");
    let known = schemas.clone();
    for schema in schemas.values_mut() {
        flatten(schema, &known);
    }
    for (name, ways) in WAYS {
        let required = |way: &&[&str]| json!({ "required": way });
        let (kind, ways) = match ways {
            Ways::OneOf(ways) => ("oneOf", ways),
            Ways::AnyOf(ways) => ("anyOf", ways),
        };
        schemas[*name][kind] = ways.iter().map(required).collect();
    }
    bound_numbers(&mut document);
    let sent = sent(&document);
    let schemas = document["components"]["schemas"].as_object_mut().expect("there are schemas");
    for (_, answer) in schemas.iter_mut().filter(|(name, _)| !sent.contains(name)) {
        as_answered(answer);
    }
    let schemas = document["components"]["schemas"].clone();
    for operation in operations(&mut document) {
        complete(operation, &schemas);
    }
    document
}

/// Fields that stand for each other.
enum Ways {
    OneOf(&'static [&'static [&'static str]]),
    AnyOf(&'static [&'static [&'static str]]),
}

const VALUE: Ways = Ways::OneOf(&[&["value"], &["value_base64"]]);
const DELIVERY: Ways =
    Ways::AnyOf(&[&["token"], &["topic", "group", "partition", "offset", "owner"]]);
const LETTERS: Ways = Ways::OneOf(&[&["ids"], &["filter"]]);

const WAYS: &[(&str, Ways)] = &[
    ("Produce", VALUE),
    ("Delivery", VALUE),
    ("DeadLetter", VALUE),
    ("Ack", DELIVERY),
    ("Nack", DELIVERY),
    ("Extend", DELIVERY),
    ("SettleItem", DELIVERY),
    ("Redrive", LETTERS),
    ("Purge", LETTERS),
];

fn headers() -> Value {
    json!({
        "RequestId": { "required": true, "schema": { "type": "string" },
            "description": "Names the request in the server's log." },
        "NoStore": { "required": true, "schema": { "type": "string", "enum": ["no-store"] } },
        "RetryAfter": { "required": true, "schema": { "type": "integer", "minimum": 1 },
            "description": "`retry_after_ms`, rounded up to seconds." },
    })
}

/// Makes one object of an object and what is flattened into it.
fn flatten(schema: &mut Value, known: &Map<String, Value>) {
    let Some(parts) = schema.get_mut("allOf").map(Value::take) else { return };
    let mut whole = json!({ "type": "object", "required": [], "properties": {} });
    if let Some(description) = schema.get("description") {
        whole["description"] = description.clone();
    }
    let mut rest: Vec<Value> = parts.as_array().cloned().unwrap_or_default();
    while let Some(part) = rest.pop() {
        if let Some(name) = part["$ref"].as_str().and_then(|of| of.rsplit('/').next()) {
            rest.push(known[name].clone());
        }
        if let Some(ways) = part["oneOf"].as_array() {
            // Which of them must be there is said apart.
            rest.extend(
                ways.iter()
                    .map(|way| json!({ "properties": way["properties"], "$ref": way["$ref"] })),
            );
        }
        for (name, property) in part["properties"].as_object().into_iter().flatten() {
            whole["properties"][name] = property.clone();
        }
        if let (Some(to), Some(from)) =
            (whole["required"].as_array_mut(), part["required"].as_array())
        {
            to.extend(from.iter().cloned());
        }
    }
    *schema = whole;
}

/// Integers are below 2^53, and those that are kept in 32 bits fit them. Formats say it less well.
fn bound_numbers(value: &mut Value) {
    const EXACT_MAX: u64 = (1 << 53) - 1;
    if let Some(items) = value.as_array_mut() {
        items.iter_mut().for_each(bound_numbers);
    }
    let Some(object) = value.as_object_mut() else { return };
    let is_integer = match object.get("type") {
        Some(Value::Array(types)) => types.iter().any(|of| of == "integer"),
        Some(of) => of == "integer",
        None => false,
    };
    if is_integer {
        let is_small = object.remove("format").is_some_and(|format| format == "int32");
        let is_signed = object.get("minimum").is_none_or(|least| least.as_i64() < Some(0));
        let most = match (is_small, is_signed) {
            (true, true) => u64::from(i32::MAX.unsigned_abs()),
            (true, false) => u64::from(u32::MAX),
            (false, _) => EXACT_MAX,
        };
        object.entry("maximum").or_insert(most.into());
    }
    object.values_mut().for_each(bound_numbers);
}

/// Names of the schemas that requests are made of.
fn sent(document: &Value) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let paths = document["paths"].as_object().into_iter().flatten();
    let operations = paths.flat_map(|(_, path)| path.as_object().into_iter().flatten());
    let mut rest: Vec<&Value> =
        operations.flat_map(|(_, of)| [&of["requestBody"], &of["parameters"]]).collect();
    while let Some(value) = rest.pop() {
        let named = value.get("$ref").and_then(Value::as_str).and_then(|of| of.rsplit('/').next());
        if let Some(name) = named
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
            rest.push(&document["components"]["schemas"][name]);
        }
        rest.extend(value.as_array().into_iter().flatten());
        rest.extend(value.as_object().into_iter().flat_map(Map::values));
    }
    names
}

/// What is absent from an answer is left out, never null; and an empty list fits several shapes.
fn as_answered(schema: &mut Value) {
    let required = schema["required"].clone();
    let is_required =
        |name: &str| required.as_array().is_some_and(|all| all.iter().any(|of| of == name));
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties
            .iter_mut()
            .filter(|(name, _)| !is_required(name))
            .for_each(|(_, of)| strip_null(of));
    } else if let Some(mut shapes) = schema.as_object_mut().and_then(|of| of.remove("oneOf")) {
        shapes.as_array_mut().into_iter().flatten().for_each(as_answered);
        schema["anyOf"] = shapes;
    }
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut)
}

/// What every operation has in common.
fn complete(operation: &mut Value, schemas: &Value) {
    let request_id = json!({ "$ref": "#/components/parameters/RequestId" });
    match operation["parameters"].as_array_mut() {
        Some(parameters) => {
            parameters.iter_mut().for_each(|parameter| strip_null(&mut parameter["schema"]));
            parameters.push(request_id);
        }
        None => operation["parameters"] = json!([request_id]),
    }
    let has_query_form = operation["parameters"]
        .as_array()
        .is_some_and(|parameters| parameters.iter().any(|parameter| parameter["in"] == "query"));
    if let Some(body) = operation.get_mut("requestBody") {
        let schema = &body["content"]["application/json"]["schema"]["$ref"];
        let name = schema.as_str().and_then(|of| of.rsplit('/').next()).unwrap_or_default();
        let needed = ["required", "oneOf", "anyOf"];
        let is_needed = needed.iter().any(|of| schemas[name].get(of).is_some());
        body["required"] = (is_needed && !has_query_form).into();
    }
    let responses = operation["responses"].as_object_mut().expect("every route answers");
    responses.values_mut().for_each(carry);
    for code in ANYWHERE {
        let named = json!({ "$ref": format!("#/components/responses/{}", code.schema_name()) });
        responses.entry(code.status().to_string()).or_insert(named);
    }
}

/// What every answer carries.
fn carry(response: &mut Value) {
    response["headers"] = json!({
        "X-Request-Id": { "$ref": "#/components/headers/RequestId" },
        "Cache-Control": { "$ref": "#/components/headers/NoStore" },
    });
}

/// The answers that every route may give.
fn anywhere() -> Map<String, Value> {
    let response = |code: ErrorCode| {
        let (_, mut response) = refused(&[code]).into_iter().next().expect("one code, one status");
        carry(&mut response);
        if [ErrorCode::ResourceExhausted, ErrorCode::Unavailable].contains(&code) {
            let retry_after = json!({ "$ref": "#/components/headers/RetryAfter" });
            response["headers"]["Retry-After"] = retry_after;
        }
        (code.schema_name(), response)
    };
    ANYWHERE.into_iter().map(response).collect()
}
