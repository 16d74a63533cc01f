//! The OpenAPI document, generated from the served routes and the types of the API.
//!
//! 1. The document and the router use the same list of routes, so they cannot differ.
//! 2. The query form of a request is generated from the table that parses it, with the schemas of
//!    the JSON form.
//! 3. Responses and headers that all routes share are defined once, here.

use driftq_api::ErrorCode;
use serde_json::{Map, Value, json};

use super::operation::refused;
use super::router::described;
use super::settings;

/// Errors that every route may return.
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

/// Generates the document.
pub fn document() -> Value {
    let mut document = serde_json::to_value(described().into_openapi()).expect("it serializes");
    document["info"] = json!({
        "title": "DriftQ HTTP API",
        "version": "v1",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        "description": "A durable queue. docs/reference/api.md describes each route.",
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
    let schemas = components["schemas"].as_object_mut().expect("schemas exist");
    let known = schemas.clone();
    for schema in schemas.values_mut() {
        flatten(schema, &known);
    }
    for (name, ways) in WAYS {
        let required = |way: &&[&str]| json!({ "required": way });
        let (kind, ways) = match ways {
            FieldSets::OneOf(ways) => ("oneOf", ways),
            FieldSets::AnyOf(ways) => ("anyOf", ways),
        };
        schemas[*name][kind] = ways.iter().map(required).collect();
    }
    bound_numbers(&mut document);
    let sent = sent(&document);
    let schemas = document["components"]["schemas"].as_object_mut().expect("schemas exist");
    for (_, answer) in schemas.iter_mut().filter(|(name, _)| !sent.contains(name)) {
        adjust_response(answer);
    }
    let schemas = document["components"]["schemas"].clone();
    for operation in operations(&mut document) {
        complete(operation, &schemas);
    }
    document
}

/// Alternative sets of required fields.
enum FieldSets {
    OneOf(&'static [&'static [&'static str]]),
    AnyOf(&'static [&'static [&'static str]]),
}

const VALUE: FieldSets = FieldSets::OneOf(&[&["value"], &["value_base64"]]);
const DELIVERY: FieldSets =
    FieldSets::AnyOf(&[&["token"], &["topic", "group", "partition", "offset", "owner"]]);
const LETTERS: FieldSets = FieldSets::OneOf(&[&["ids"], &["filter"]]);

const WAYS: &[(&str, FieldSets)] = &[
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

/// Merges an object and the objects that are flattened into it.
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
            // Their required fields are added from `WAYS`.
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

/// Adds the maximum of integers: below 2^53, or within 32 bits. Replaces formats, which are less
/// precise.
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

/// Returns the names of the schemas that requests use.
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

/// Adjusts a response schema: absent fields are left out, never null, and an empty list matches
/// several shapes.
fn adjust_response(schema: &mut Value) {
    let required = schema["required"].clone();
    let is_required =
        |name: &str| required.as_array().is_some_and(|all| all.iter().any(|of| of == name));
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties
            .iter_mut()
            .filter(|(name, _)| !is_required(name))
            .for_each(|(_, of)| strip_null(of));
    } else if let Some(mut shapes) = schema.as_object_mut().and_then(|of| of.remove("oneOf")) {
        shapes.as_array_mut().into_iter().flatten().for_each(adjust_response);
        schema["anyOf"] = shapes;
    }
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut)
}

/// Adds the parameters and responses that all operations share.
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
    let responses = operation["responses"].as_object_mut().expect("every route has responses");
    responses.values_mut().for_each(add_headers);
    for code in ANYWHERE {
        let named = json!({ "$ref": format!("#/components/responses/{}", code.schema_name()) });
        responses.entry(code.status().to_string()).or_insert(named);
    }
}

/// Adds the headers of every response.
fn add_headers(response: &mut Value) {
    response["headers"] = json!({
        "X-Request-Id": { "$ref": "#/components/headers/RequestId" },
        "Cache-Control": { "$ref": "#/components/headers/NoStore" },
    });
}

/// The error responses that every route may return.
fn anywhere() -> Map<String, Value> {
    let response = |code: ErrorCode| {
        let (_, mut response) = refused(&[code]).into_iter().next().expect("one code, one status");
        add_headers(&mut response);
        if [ErrorCode::ResourceExhausted, ErrorCode::Unavailable].contains(&code) {
            let retry_after = json!({ "$ref": "#/components/headers/RetryAfter" });
            response["headers"]["Retry-After"] = retry_after;
        }
        (code.schema_name(), response)
    };
    ANYWHERE.into_iter().map(response).collect()
}

/// Removes null from a schema, because a query cannot express it.
fn strip_null(schema: &mut Value) {
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|of| of != "null");
        if let [only] = types.as_slice() {
            schema["type"] = only.clone();
        }
    }
    if let Some(items) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        items.retain(|item| item["type"] != "null");
        if let [only] = items.as_slice() {
            *schema = only.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use driftq_core::command::{ContentField, Full, Missing, Part, Pointer, PointerName, Stale};
    use driftq_core::effect::{Doubt, DoubtCause, EffectState};
    use driftq_core::{Lane, MessageId, Rejection, ShardId, Timestamp, TopicId};
    use serde_json::{Value, json};

    use super::super::api_error::ApiError;
    use super::*;

    fn examples() -> Vec<Rejection> {
        let exhausted = |full| Rejection::Exhausted { full, retry_after_ms: 250 };
        let doubt = Doubt {
            fence: 3,
            owner: "w1".into(),
            began_at: Timestamp(1),
            since: Timestamp(2),
            cause: DoubtCause::LeaseExpired,
        };
        let pointer = Pointer {
            name: PointerName {
                dataset: "d".into(),
                version: "v".into(),
                partition_key: "p".into(),
            },
            location: "s3://bucket/p".into(),
            checksum: None,
            committed_at: Timestamp(5),
            message: MessageId {
                restore: 0,
                shard: ShardId(0),
                topic: TopicId(1),
                lane: Lane::of(0),
                offset: 7,
            },
            group: "g".into(),
            attempt: 1,
        };
        let stale_fence =
            Rejection::StaleFence { state: EffectState::InDoubt, fence: 1, current: 2 };
        let part = |part, why| Rejection::InPart { part, index: 3, why: Box::new(why) };
        vec![
            Rejection::Invalid { field: "lease_ms".into(), why: "is 250 to 43200000".into() },
            Rejection::DeadlinePassed,
            Rejection::NotFound(Missing::Topic),
            Rejection::NotFound(Missing::Pointer),
            Rejection::TopicExists { topic: TopicId(1) },
            Rejection::NotOwner,
            Rejection::OlderNodes,
            Rejection::Unrouted,
            Rejection::NewerRows,
            Rejection::NotDelivered,
            Rejection::TokenRequired,
            Rejection::StaleLease { state: Stale::Leased, attempt: 1, current: Some(2) },
            Rejection::StaleLease { state: Stale::Gone, attempt: 1, current: None },
            stale_fence.clone(),
            Rejection::InProgress { fence: 1, owner: "".into(), retry_after_ms: 10 },
            Rejection::Parked { doubt: Box::new(doubt), retry_after_ms: 10 },
            Rejection::RequestConflict,
            Rejection::OutcomeConflict,
            Rejection::CommitConflict,
            part(Part::Effects, stale_fence),
            part(Part::Produce, exhausted(Full::Outbox)),
            part(Part::Pointers, Rejection::PointerExists(Box::new(pointer.clone()))),
            Rejection::PointerExists(Box::new(pointer)),
            Rejection::Unfinished(vec!["charge".into()]),
            Rejection::NotInDoubt(EffectState::Succeeded),
            Rejection::EffectsExpired,
            Rejection::Undeliverable,
            Rejection::HasConsumers,
            Rejection::DeadLetterTopic,
            Rejection::TooLarge { field: "value".into(), limit: 1, size: 2 },
            Rejection::KeyConflict,
            Rejection::KeyConflictIn { field: ContentField::TargetTopic },
            Rejection::NonceConflict,
            exhausted(Full::Messages(Some("g".into()))),
            exhausted(Full::Bytes(None)),
            exhausted(Full::Storage),
            exhausted(Full::Topics { limit: 1 }),
            exhausted(Full::Cursors { limit: 1 }),
            Rejection::Poisonous,
            Rejection::Damaged { row: "log/1".into() },
        ]
    }

    /// The name of the variant, as it is serialized.
    fn variant(rejection: &Rejection) -> String {
        match serde_json::to_value(rejection).expect("rejections serialize") {
            Value::String(name) => name,
            Value::Object(fields) => fields.keys().next().expect("one key").clone(),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn every_rejection_is_an_error_that_the_document_describes() {
        // The error for an unknown variant lists the names of all variants.
        let unknown = serde_json::from_value::<Rejection>(json!("unknown")).expect_err("unknown");
        let all: BTreeSet<String> =
            unknown.to_string().split('`').skip(3).step_by(2).map(str::to_owned).collect();
        let tried: BTreeSet<String> = examples().iter().map(variant).collect();
        assert_eq!(tried, all);

        let document = document();
        for rejection in examples() {
            let error = ApiError::from(rejection).0;
            let schema = json!({
                "$ref": format!("#/components/schemas/{}", error.code().schema_name()),
                "components": document["components"],
                "unevaluatedProperties": false,
            });
            let body = serde_json::to_value(&error).expect("errors serialize");
            jsonschema::validate(&schema, &body).unwrap_or_else(|why| panic!("{body}: {why}"));
        }
    }
}
