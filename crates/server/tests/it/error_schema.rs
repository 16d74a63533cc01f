//! Validates every error that a test of this crate receives against the OpenAPI document.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use driftq_api::ErrorCode;
use jsonschema::Validator;
use serde_json::{Value, json};

/// Schemas by the value of `error`.
static SCHEMAS: LazyLock<BTreeMap<String, Validator>> = LazyLock::new(|| {
    let document = driftq_server::http::document();
    let validator = |code: &ErrorCode| {
        let schema = json!({
            "$ref": format!("#/components/schemas/{}", code.schema_name()),
            "components": document["components"],
            // Reject fields that the document does not define.
            "unevaluatedProperties": false,
        });
        let word = serde_json::to_value(code).expect("a code is a word");
        let word = word.as_str().expect("a code is a word").to_owned();
        (word, jsonschema::validator_for(&schema).expect("the document has valid schemas"))
    };
    ErrorCode::ALL.iter().map(validator).collect()
});

/// Fails unless the document allows this error.
pub(crate) fn check(body: &Value) {
    // `/v1/readyz` answers 503 with its reasons.
    let Some(code) = body["error"].as_str() else { return };
    let schema = SCHEMAS.get(code).unwrap_or_else(|| panic!("an unknown code: {body}"));
    let errors: Vec<String> = schema.iter_errors(body).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{body} is not valid by openapi.json: {errors:?}");
}
