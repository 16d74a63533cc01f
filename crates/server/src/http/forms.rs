//! Tests that the two forms of a request, a query and a body with the same content, are equivalent.
//! Thousands of requests of each kind are drawn from one seed.

use std::fmt::Debug;

use driftq_api::dlq::{Purge, Redrive};
use driftq_api::group::{CreateGroup, Pause, Resume, Seek};
use driftq_api::message::{Consume, Produce, ProduceBatch, Receive};
use driftq_api::settle::{Settle, SettleMany};
use driftq_api::topic::{CreateTopic, PatchTopic};
use driftq_api::{INTEGER_MAX, Time};
use fastrand::Rng;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::api_error::ApiError;
use super::json_error::from_json;
use super::query::{Form, FormParam, Kind, from_query};
use super::request::{ApiRequest, Confirm, Nothing};
use super::{audit, dlq, explain, groups, peek, topics};

const REQUESTS_EACH: usize = 3_000;

/// Values that are valid for some parameter, and some that are valid for none.
const VALUES: [&str; 30] = [
    "",
    "0",
    "1",
    "-1",
    "-0",
    "01",
    "+1",
    "1.0",
    "1e3",
    " 1",
    "250",
    "1000",
    "4294967295",
    "4294967296",
    "9007199254740991",
    "9007199254740992",
    "-9007199254740992",
    "18446744073709551616",
    "true",
    "false",
    "null",
    "orders",
    "earliest",
    "{\"a\":1}",
    "a&b=c%d+e",
    "\0\u{7f}\u{e9}\u{1f600}",
    "2027-01-15T08:00:00Z",
    "2027-01-15T09:00:00.250999+01:00",
    "tomorrow",
    "1800000000000",
];

fn outcome<T: Debug>(read: Result<T, impl Into<ApiError>>) -> Result<String, String> {
    read.map(|request| format!("{request:?}")).map_err(|error| error.into().0.message)
}

/// The value as JSON. Returns `None` if JSON cannot express it.
fn json(param: &FormParam, value: &str) -> Option<Value> {
    let is_bare = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let number = serde_json::from_str::<i64>(value).ok().filter(|_| is_bare);
    let number = number.filter(|number| number.unsigned_abs() <= INTEGER_MAX);
    match param.kind {
        Kind::Text => Some(value.into()),
        Kind::Integer => number.map(Value::from),
        Kind::UnixMs => {
            let ms = u64::try_from(number?).ok()?;
            Some(Time(ms).to_string().into())
        }
        Kind::Boolean => match value {
            "true" | "1" => Some(true.into()),
            "false" | "0" => Some(false.into()),
            _ => None,
        },
    }
}

/// Adds a field to the body. Returns `None` if the field exists.
fn put(mut body: Map<String, Value>, path: &[&str], value: Value) -> Option<Map<String, Value>> {
    let (last, outer) = path.split_last()?;
    let mut inner = &mut body;
    for name in outer {
        inner = inner.entry(*name).or_insert_with(|| Map::new().into()).as_object_mut()?;
    }
    match inner.insert((*last).to_owned(), value) {
        Some(_) => None,
        None => Some(body),
    }
}

/// Returns how many of the drawn requests of a kind are valid.
fn check<T: ApiRequest + Debug>(random: &mut Rng) -> usize {
    let form = Form::new::<T>(T::QUERY);
    assert_eq!(form.params.len(), T::QUERY.len(), "every parameter has a field");
    let mut read = 0;
    for _ in 0..REQUESTS_EACH {
        let mut query = Vec::new();
        let mut body = Some(Map::new());
        // Includes most of the names, each with a value that may be valid for it.
        for param in &form.params {
            if random.u8(..) < 96 {
                continue;
            }
            let value = *random.choice(VALUES.iter()).expect("VALUES is not empty");
            let encoded = utf8_percent_encode(value, NON_ALPHANUMERIC);
            query.push(format!("{}={encoded}", param.name));
            let json = json(param, value);
            body = body
                .zip(json)
                .and_then(|(body, json)| put(body, &param.path().collect::<Vec<_>>(), json));
        }
        let query = query.join("&");
        let request = outcome(from_query::<T>(&query, false));
        read += usize::from(request.is_ok());
        match body {
            None => assert!(request.is_err(), "no body is equivalent to {query}"),
            Some(body) => {
                let body = Value::from(body).to_string();
                assert_eq!(request, outcome(from_json::<T>(body.as_bytes())), "{query} and {body}");
            }
        }
    }
    read
}

#[test]
fn a_query_says_what_a_body_of_the_same_content_says() {
    let mut random = Rng::with_seed(1);
    let random = &mut random;
    let read = [
        check::<Produce>(random),
        check::<Consume>(random),
        check::<Receive>(random),
        check::<Settle>(random),
        check::<CreateTopic>(random),
        check::<CreateGroup>(random),
        check::<Pause>(random),
        check::<Resume>(random),
        check::<Seek>(random),
        check::<Confirm>(random),
        check::<audit::AuditQuery>(random),
        check::<dlq::DeadLetterQuery>(random),
        check::<explain::ExplainQuery>(random),
        check::<groups::GroupListQuery>(random),
        check::<peek::PeekQuery>(random),
        check::<topics::TopicListQuery>(random),
    ];
    assert!(read.iter().all(|count| *count > 0), "some requests of each kind are valid: {read:?}");
}

#[test]
fn what_has_no_query_form_takes_no_query() {
    let query = "bogus=1";
    assert!(from_query::<ProduceBatch>(query, false).is_err());
    assert!(from_query::<SettleMany>(query, false).is_err());
    assert!(from_query::<PatchTopic>(query, false).is_err());
    assert!(from_query::<Redrive>(query, false).is_err());
    assert!(from_query::<Purge>(query, false).is_err());
    assert!(from_query::<Nothing>(query, false).is_err());
}
