//! Translates serde errors into the terms of JSON instead of Rust types.

use driftq_api::Object;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::api_error::{Invalid, UNKNOWN_FIELD};

/// Returns the invalid field and the reason.
fn json_error(error: &serde_path_to_error::Error<serde_json::Error>) -> Invalid {
    let path = error.path().to_string();
    // The path ends in `?` if the JSON is truncated or a name is invalid.
    let field = path.strip_suffix('?').unwrap_or(&path).trim_end_matches('.');
    let error = error.inner();
    if error.classify() != Category::Data {
        return Invalid::new(field, not_json(field, error));
    }
    let message = error.to_string();
    // The position is removed, because the message names the field, and a query has no lines.
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&*place).unwrap_or(&message);
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    match (missing, field) {
        (Some(name), "") => Invalid::new(name, "is missing"),
        (Some(name), above) => Invalid::new(&format!("{above}.{name}"), "is missing"),
        (None, _) => Invalid::new(field, in_words(message)),
    }
}

/// Describes where a text stops being valid JSON.
fn not_json(field: &str, error: &serde_json::Error) -> String {
    let message = error.to_string();
    match field {
        _ if message.starts_with("recursion limit") => "is nested too deeply".to_owned(),
        "" => format!("not JSON: {message}"),
        // serde also reports this if the value is not one of an enum's words.
        _ => match message.strip_prefix("expected value") {
            Some(place) => format!("not a valid value,{place}"),
            None => message,
        },
    }
}

/// Rewrites the messages of derived deserializers. Messages of our own deserializers are already
/// readable.
fn in_words(message: &str) -> String {
    let after = |kinds: [&str; 2]| kinds.into_iter().find_map(|kind| message.strip_prefix(kind));
    if let Some(rest) = after(["invalid type: ", "invalid value: "])
        && let Some((given, wanted)) = rest.rsplit_once(", expected ")
    {
        return format!("must be {}, not {}", wanted_in_words(wanted), given_in_words(given));
    }
    if let Some(rest) = message.strip_prefix("unknown variant `")
        && let Some((given, wanted)) = rest.rsplit_once("`, expected ")
    {
        return format!("must be {}, not {given}", wanted.replace('`', ""));
    }
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let known = rest.rsplit_once("`, expected ").map_or("none", |(_, known)| known);
        let known = known.strip_prefix("one of ").unwrap_or(known);
        return format!("{UNKNOWN_FIELD}{}", known.replace('`', ""));
    }
    if let Some(name) = message.strip_prefix("duplicate field ") {
        return format!("{name} is given twice");
    }
    message.to_owned()
}

fn wanted_in_words(wanted: &str) -> &str {
    match wanted {
        "i32" => "an integer from -2147483648 to 2147483647",
        "u32" => "an integer from 0 to 4294967295",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        _ if wanted.starts_with("struct ") => "an object",
        _ => wanted,
    }
}

fn given_in_words(given: &str) -> &str {
    match given {
        "map" => "an object",
        "sequence" => "a list",
        _ => {
            let kinds = ["integer ", "floating point ", "boolean ", "string "];
            kinds.into_iter().find_map(|kind| given.strip_prefix(kind)).unwrap_or(given)
        }
    }
}

/// Parses a request from its JSON form.
pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Invalid> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let Object(request) =
        serde_path_to_error::deserialize(&mut reader).map_err(|error| json_error(&error))?;
    reader.end().map_err(|error| Invalid::new("", not_json("", &error)))?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use driftq_api::commit::Commit;
    use driftq_api::group::{CreateGroup, Seek};
    use driftq_api::message::{Produce, Receive};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::super::api_error::ApiError;
    use super::from_json;

    #[track_caller]
    fn check<T: DeserializeOwned + std::fmt::Debug>(
        body: &str,
        field: &str,
        message: &str,
    ) -> Value {
        let refused = from_json::<T>(body.as_bytes()).expect_err("the body is invalid");
        let refused = serde_json::to_value(&ApiError::from(refused).0).unwrap();
        assert_eq!(refused["message"], message, "{body}");
        assert_eq!(refused["field"].as_str().unwrap_or_default(), field, "{body}");
        refused
    }

    #[test]
    fn a_field_is_named_and_no_type_of_ours_is() {
        check::<Receive>(r#"{"topic":"t","group":"g"}"#, "owner", "owner: is missing");
        check::<Receive>(
            r#"{"topic":"t","group":"g","owner":"o","max":-1}"#,
            "max",
            "max: must be between 1 and 1000 (got -1)",
        );
        check::<Produce>(
            r#"{"topic":"t","value":"v"} {}"#,
            "",
            "not JSON: trailing characters at line 1 column 27",
        );
        check::<Produce>(r#"{"topic":1}"#, "topic", "topic: must be a string, not `1`");
        check::<Produce>(r#"{"topic":{}}"#, "topic", "topic: must be a string, not an object");
        check::<Produce>(
            r#"{"topic":"t","envelope":{"labels":{"a":1}}}"#,
            "envelope.labels.a",
            "envelope.labels.a: must be a string, not `1`",
        );
        check::<Seek>(
            r#"{"to":"latest","bogus":1}"#,
            "bogus",
            "bogus: unknown field; known: to, dry_run, by, reason",
        );
        check::<Seek>(
            r#"{"to":"middle"}"#,
            "to",
            r#"to: must be "earliest", "latest", {"time": "…"} or {"partition": 0, "offset": 900}"#,
        );
        check::<CreateGroup>(
            r#"{"start":"middle"}"#,
            "start",
            "start: must be one of earliest, latest, time, not middle",
        );
        check::<Seek>(
            r#"{"to":"latest","dry_run":"yes"}"#,
            "dry_run",
            r#"dry_run: must be true or false, not "yes""#,
        );
        check::<Seek>("[]", "", "must be an object, not a list");
        check::<Seek>("{", "", "not JSON: EOF while parsing an object at line 1 column 1");
        let twice = r#"{"to":"latest","dry_run":true,"dry_run":true}"#;
        let refused = from_json::<Seek>(twice.as_bytes()).expect_err("the body is invalid");
        let message = ApiError::from(refused).0.message;
        assert!(message.ends_with("`dry_run` is given twice"), "{message}");
    }

    #[test]
    fn an_item_of_a_commit_is_named_by_part_and_number() {
        let refused = check::<Commit>(
            r#"{"token":"lt_","pointers":[{"dataset":"d","version":7}]}"#,
            "version",
            "pointers[0].version: must be a string, not `7`",
        );
        assert_eq!((&refused["part"], &refused["index"]), (&json!("pointers"), &json!(0)));
        let refused = check::<Commit>(
            r#"{"token":"lt_","produce":[{"topic":"t","value":"x"},7]}"#,
            "",
            "produce[1]: must be an object, not `7`",
        );
        assert_eq!((&refused["part"], &refused["index"]), (&json!("produce"), &json!(1)));
    }
}
