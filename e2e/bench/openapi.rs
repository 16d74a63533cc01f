//! Valid requests generated from the OpenAPI document, so that every documented operation is tried.

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::ask::Ask;

const DESCRIPTION: &str = "docs/reference/openapi.json";
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// Recursive schemas end here.
const DEPTH_MAX: usize = 8;

/// Returns a request for every documented operation, or none if the document does not exist.
pub(crate) fn requests() -> anyhow::Result<Vec<Ask>> {
    let Ok(text) = std::fs::read_to_string(DESCRIPTION) else { return Ok(Vec::new()) };
    let document: Value = serde_json::from_str(&text).context(DESCRIPTION)?;
    let paths =
        document["paths"].as_object().with_context(|| format!("{DESCRIPTION}: no paths"))?;
    let mut all = Vec::new();
    for (path, operations) in paths {
        for method in METHODS {
            if let Some(operation) = operations.get(method) {
                all.push(ask(&document, method, path, operation));
            }
        }
    }
    Ok(all)
}

fn ask(document: &Value, method: &str, path: &str, operation: &Value) -> Ask {
    let mut path = path.to_owned();
    let mut query = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let parameter = resolved(document, parameter);
        let name = parameter["name"].as_str().unwrap_or_default();
        let value = plain(&sample(document, name, &parameter["schema"], 0));
        match parameter["in"].as_str() {
            Some("path") => path = path.replace(&format!("{{{name}}}"), &value),
            Some("query") => query.push((name.to_owned(), value)),
            Some(_) | None => {}
        }
    }
    // Parameters that are not described individually.
    let path = path.replace("{topic}", "orders").replace("{group}", "biller");
    let body = &resolved(document, &operation["requestBody"])["content"]["application/json"];
    let body = (!body.is_null()).then(|| sample(document, "", &body["schema"], 0));
    // Requests with both body and query are rejected before any other check.
    let query = if body.is_some() { Vec::new() } else { query };
    Ask { query, body, ..Ask::new(&method.to_uppercase(), &path) }
}

fn plain(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    }
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
    target.and_then(|place| document.pointer(place)).unwrap_or(schema)
}

/// Returns a value that matches the schema. Names of the world are used where they fit.
fn sample(document: &Value, name: &str, schema: &Value, depth: usize) -> Value {
    let schema = resolved(document, schema);
    let first = |list: &str| schema[list].as_array().and_then(|all| all.first());
    let given = schema.get("example").or_else(|| schema.get("const")).or_else(|| first("enum"));
    if let Some(given) = given {
        return given.clone();
    }
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    if let Some(one) = first("oneOf").or_else(|| first("anyOf")) {
        return sample(document, name, one, depth + 1);
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let parts = parts.iter().map(|part| sample(document, name, part, depth + 1));
        let fields = parts.filter_map(|part| part.as_object().cloned()).flatten();
        return Value::Object(fields.collect());
    }
    // If several types are allowed, uses the first.
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("integer" | "number") => Value::from(schema["minimum"].as_u64().unwrap_or(1)),
        Some("boolean") => Value::from(false),
        Some("array") => Value::from(vec![sample(document, "", &schema["items"], depth + 1)]),
        Some("object") => {
            let fields = schema["properties"].as_object();
            let sampled = |(name, schema): (&String, &Value)| {
                (name.clone(), sample(document, name, schema, depth + 1))
            };
            Value::Object(fields.into_iter().flatten().map(sampled).collect::<Map<_, _>>())
        }
        Some(_) | None => Value::from(text(name, schema)),
    }
}

fn text(name: &str, schema: &Value) -> &'static str {
    match (schema["format"].as_str(), name) {
        (Some("date-time"), _) => "2036-01-01T00:00:00Z",
        (_, "topic" | "target_topic") => "orders",
        (_, "group") => "biller",
        (_, "confirm") => "orders",
        _ => "text",
    }
}
