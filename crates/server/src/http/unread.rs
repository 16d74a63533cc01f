//! What is wrong with a request that cannot be read, in the words of JSON and not in those of our types.

use serde_json::error::Category;

use super::failure::Failure;

/// Says which field is wrong, and why.
pub(super) fn unread(error: &serde_path_to_error::Error<serde_json::Error>) -> Failure {
    let path = error.path().to_string();
    // Where JSON breaks off, or a name is none, the path ends in `?`.
    let field = path.strip_suffix('?').unwrap_or(&path).trim_end_matches('.');
    let error = error.inner();
    if error.classify() != Category::Data {
        return within(field, &not_json(field, error));
    }
    let says = error.to_string();
    // The field has a name, and a query has no lines.
    let place = format!(" at line {} column {}", error.line(), error.column());
    let says = says.strip_suffix(&*place).unwrap_or(&says);
    let missing = says.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    match (missing, field) {
        (Some(name), "") => within(name, "is missing"),
        (Some(name), above) => within(&format!("{above}.{name}"), "is missing"),
        (None, _) => within(field, &in_words(says)),
    }
}

/// Says where a text stops being JSON.
pub(super) fn not_json(field: &str, error: &serde_json::Error) -> String {
    let says = error.to_string();
    match field {
        _ if says.starts_with("recursion limit") => "is nested too deep".to_owned(),
        "" => format!("not JSON: {says}"),
        // So it is called too where there is a value, and one of a few words was wanted.
        _ => match says.strip_prefix("expected value") {
            Some(place) => format!("not a value that it can have,{place}"),
            None => says,
        },
    }
}

/// A refusal of a field. In an item of a commit the field is the item's.
fn within(field: &str, why: &str) -> Failure {
    let mut failure = Failure::invalid(field, why);
    if let Some((part, index, below)) = item(field) {
        failure.0.more.remove("field");
        if !below.is_empty() {
            failure = failure.with("field", below);
        }
        failure = failure.with("part", part).with("index", index);
    }
    failure
}

/// The part of a commit that a path leads into, the number there, and the rest of the path.
fn item(path: &str) -> Option<(&str, u64, &str)> {
    let (part, rest) = path.split_once('[')?;
    let (index, below) = rest.split_once(']')?;
    let is_part = ["effects", "produce", "pointers"].contains(&part);
    Some((part, index.parse().ok()?, below.trim_start_matches('.'))).filter(|_| is_part)
}

/// What a derived reader says, in other words. What our own say is for people already.
fn in_words(says: &str) -> String {
    let after = |kinds: [&str; 2]| kinds.into_iter().find_map(|kind| says.strip_prefix(kind));
    if let Some(rest) = after(["invalid type: ", "invalid value: "])
        && let Some((given, wanted)) = rest.rsplit_once(", expected ")
    {
        return format!("must be {}, not {}", wanted_in_words(wanted), given_in_words(given));
    }
    if let Some(rest) = says.strip_prefix("unknown variant `")
        && let Some((given, wanted)) = rest.rsplit_once("`, expected ")
    {
        return format!("must be {}, not {given}", wanted.replace('`', ""));
    }
    if let Some(rest) = says.strip_prefix("unknown field `") {
        let known = rest.rsplit_once("`, expected ").map_or("none", |(_, known)| known);
        let known = known.strip_prefix("one of ").unwrap_or(known);
        return format!("no such field; known: {}", known.replace('`', ""));
    }
    if let Some(name) = says.strip_prefix("duplicate field ") {
        return format!("{name} is there twice");
    }
    says.to_owned()
}

fn wanted_in_words(wanted: &str) -> &str {
    match wanted {
        "i32" => "an integer from -2147483648 to 2147483647",
        "u32" => "an integer from 0 to 4294967295",
        "u64" => "an integer from 0 on",
        "i64" => "an integer",
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

#[cfg(test)]
mod tests {
    use driftq_api::commit::Commit;
    use driftq_api::group::{CreateGroup, Seek};
    use driftq_api::message::{Produce, Receive};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::super::input::from_json;

    #[track_caller]
    fn check<T: DeserializeOwned + std::fmt::Debug>(body: &str, field: &str, says: &str) -> Value {
        let refused = from_json::<T>(body.as_bytes()).expect_err("it cannot be read");
        let refused = serde_json::to_value(&refused.0).unwrap();
        assert_eq!(refused["message"], says, "{body}");
        assert_eq!(refused["field"].as_str().unwrap_or_default(), field, "{body}");
        refused
    }

    #[test]
    fn a_field_is_named_and_no_type_of_ours_is() {
        check::<Receive>(r#"{"topic":"t","group":"g"}"#, "owner", "owner: is missing");
        check::<Receive>(
            r#"{"topic":"t","group":"g","owner":"o","max":-1}"#,
            "max",
            "max: must be an integer from 0 to 4294967295, not `-1`",
        );
        check::<Produce>(
            r#"{"topic":"t","value":"v"} {}"#,
            "",
            "not JSON: trailing characters at line 1 column 27",
        );
        check::<Produce>(r#"{"topic":1}"#, "topic", "topic: must be a string, not `1`");
        check::<Produce>(r#"{"topic":{}}"#, "topic", "topic: must be a string, not an object");
        check::<Produce>(
            r#"{"topic":"t","envelope":{"retry_policy":{}}}"#,
            "envelope.retry_policy.max_attempts",
            "envelope.retry_policy.max_attempts: is missing",
        );
        check::<Seek>(
            r#"{"to":"latest","bogus":1}"#,
            "bogus",
            "bogus: no such field; known: to or dry_run",
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
        let refused = from_json::<Seek>(twice.as_bytes()).expect_err("it cannot be read");
        assert!(refused.0.message.ends_with("`dry_run` is there twice"), "{refused:?}");
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
