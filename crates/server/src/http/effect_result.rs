//! The outcome of an effect, as given in a request.

use std::collections::BTreeSet;

use driftq_api::from_base64;
use driftq_core::effect::{EffectResult, Outcome};
use serde_json::value::RawValue;

use super::api_error::Invalid;

/// Maximum nesting depth of a result. The enclosing request makes it 32.
const DEPTH_MAX: usize = 31;

pub(super) fn outcome(
    code: Option<i32>,
    result: Option<Box<RawValue>>,
    result_base64: Option<String>,
    error: Option<String>,
) -> Result<Outcome, Invalid> {
    let result = match (result, result_base64) {
        (Some(_), Some(_)) => {
            return Err(Invalid::new("result", "send result or result_base64, not both"));
        }
        (Some(json), None) => {
            check(json.get()).map_err(|why| Invalid::new("result", why))?;
            Some(EffectResult::Json(json.get().into()))
        }
        (None, Some(digits)) if from_base64(&digits).is_none() => {
            let message = "must be base64 (standard alphabet, padded)";
            return Err(Invalid::new("result_base64", message));
        }
        (None, Some(digits)) => Some(EffectResult::Base64(digits.into())),
        (None, None) => None,
    };
    Ok(Outcome { code: code.unwrap_or(0), result, error: error.unwrap_or_default().into() })
}

/// Rejects well-formed JSON that some clients could not parse when it is replayed, or would parse
/// differently.
fn check(json: &str) -> Result<(), &'static str> {
    // The names so far in each open object. A list has none.
    let mut open: Vec<BTreeSet<String>> = Vec::new();
    let mut rest = json;
    while let Some(at) = rest.find(['"', '[', '{', ']', '}']) {
        let (mark, after) = (rest.as_bytes()[at], &rest[at + 1..]);
        rest = after;
        match mark {
            b'"' => {
                let (text, after) = after.split_at(text_len(after));
                rest = &after[1..];
                let text = serde_json::from_str(&format!("\"{text}\""))
                    .map_err(|_| "contains a string that is not valid Unicode")?;
                let is_name = rest.trim_start().starts_with(':');
                if is_name && open.last_mut().is_some_and(|names| !names.insert(text)) {
                    return Err("contains an object with a duplicate name");
                }
            }
            b'[' | b'{' => open.push(BTreeSet::new()),
            _ => drop(open.pop()),
        }
        if open.len() > DEPTH_MAX {
            return Err("is nested more than 31 levels deep");
        }
    }
    Ok(())
}

/// Returns the number of bytes up to the closing quotation mark.
fn text_len(from_inside: &str) -> usize {
    let mut is_escaped = false;
    let is_end = |byte: u8| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    };
    from_inside.bytes().position(is_end).unwrap_or(from_inside.len())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn names_are_compared_as_they_are_read_within_one_object() {
        for (json, is_taken) in [
            (r#"{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}],"d":"a"}"#, true),
            (r#"{"a":"a","b":"a"}"#, true),
            (r#"["a","a","a"]"#, true),
            (r#"{"a\"":1,"a":2}"#, true),
            (r#"{"\\":1,"a":"\\"}"#, true),
            (r#"{"a" : 1, "a" : 2}"#, false),
            (r#"{"a":[],"a":{}}"#, false),
            (r#"{"a":1,"\u0061":2}"#, false),
            (r#"[[{"":0,"":0}]]"#, false),
            (r#""\ud83e\udd80""#, true),
            (r#""\ud83e""#, false),
            ("1e999", true),
            (r#"{"]":"}","}":"[["}"#, true),
        ] {
            assert_eq!(check(json).is_ok(), is_taken, "{json}");
        }
    }
}
