//! What a request says: a JSON body, or else its query string.
//!
//! A body is JSON whatever its `Content-Type` says, so that `curl -d` works. Without a body the query is
//! read, by a table of names per request. Both at once are refused, and so is everything unknown.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use driftq_api::{INTEGER_MAX, Object, Time};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::App;
use super::body::{self, Purpose};
use super::failure::Failure;
use super::off_runtime;
use super::unread::{not_json, unread};
use crate::budget::Charge;

/// A request that can be read.
pub(crate) trait Ask: DeserializeOwned + Send + 'static {
    /// Its query form.
    const QUERY: &'static [Param];
    /// What its body is for.
    const PURPOSE: Purpose = Purpose::Other;
}

/// One name of a query.
pub(crate) struct Param {
    pub(super) name: &'static str,
    /// Where it goes in the JSON form.
    pub(super) path: &'static [&'static str],
    pub(super) kind: Kind,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Number,
    Flag,
    /// Unix milliseconds, where the JSON form has a time.
    UnixMs,
}

pub(crate) const fn text(name: &'static str, path: &'static [&'static str]) -> Param {
    Param { name, path, kind: Kind::Text }
}

pub(crate) const fn number(name: &'static str, path: &'static [&'static str]) -> Param {
    Param { name, path, kind: Kind::Number }
}

pub(crate) const fn flag(name: &'static str, path: &'static [&'static str]) -> Param {
    Param { name, path, kind: Kind::Flag }
}

pub(crate) const fn unix_ms(name: &'static str, path: &'static [&'static str]) -> Param {
    Param { name, path, kind: Kind::UnixMs }
}

/// A request that says nothing but its path.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

impl Ask for Nothing {
    const QUERY: &'static [Param] = &[];
}

/// A delete: it says again what is to go.
#[derive(Debug, serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confirm {
    pub(crate) confirm: Option<String>,
}

impl Ask for Confirm {
    const QUERY: &'static [Param] = &[text("confirm", &["confirm"])];
}

/// The request, read.
pub(crate) struct Input<T> {
    pub(crate) asked: T,
    pub(crate) headers: HeaderMap,
    /// Of its body. What is parsed of it is there until the request is answered.
    _charge: Charge,
}

impl<T> Input<T> {
    /// What is asked, of a request that waits: meanwhile it holds no room for its body.
    pub(crate) fn into_asked(self) -> T {
        self.asked
    }
}

impl<T: Ask> FromRequest<App> for Input<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Input<T>, Failure> {
        let (parts, body) = request.into_parts();
        let mut encodings = parts.headers.get_all(header::CONTENT_ENCODING).iter();
        if encodings.any(|encoding| encoding != "identity") {
            return Err(Failure::invalid("", "the body is compressed: send it as it is"));
        }
        let read = body::read(body, app.limits.body_bytes, &app.budget, T::PURPOSE).await?;
        let body = read.bytes;
        let query = parts.uri.query().unwrap_or_default();
        let asked = match (body.is_empty(), query.is_empty()) {
            (false, true) => {
                let length = body.len();
                off_runtime::READERS.run(length, move || from_json(&body)).await??
            }
            (false, false) => {
                return Err(Failure::invalid("", "body and query at once: send one of them"));
            }
            (true, _) => from_query(query)?,
        };
        Ok(Input { asked, headers: parts.headers, _charge: read.charge })
    }
}

pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let Object(asked) =
        serde_path_to_error::deserialize(&mut reader).map_err(|error| unread(&error))?;
    reader.end().map_err(|error| Failure::invalid("", not_json("", &error)))?;
    Ok(asked)
}

pub(crate) fn from_query<T: Ask>(query: &str) -> Result<T, Failure> {
    let mut asked = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        let Some(param) = T::QUERY.iter().find(|param| param.name == name) else {
            let known: Vec<_> = T::QUERY.iter().map(|param| param.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Failure::invalid(&name, format!("no such parameter; known: {known}")));
        };
        let value = match param.kind {
            Kind::Text => Value::from(value),
            Kind::Number => {
                let number = integer(&value).map(Value::from);
                number.ok_or_else(|| Failure::invalid(&name, "not a number"))?
            }
            Kind::UnixMs => {
                let ms = integer(&value).and_then(|ms| u64::try_from(ms).ok());
                let ms = ms.ok_or_else(|| Failure::invalid(&name, "not Unix milliseconds"))?;
                Value::from(Time(ms).to_string())
            }
            Kind::Flag => match value.as_str() {
                "true" | "1" => Value::from(true),
                "false" | "0" => Value::from(false),
                _ => return Err(Failure::invalid(&name, "not true or false")),
            },
        };
        put(&mut asked, param.path, value).map_err(|()| Failure::invalid(&name, "given twice"))?;
    }
    let text = serde_json::to_vec(&asked).expect("plain values");
    from_json(&text)
}

/// An integer as JSON writes it: no plus, no zeros before it, and none that a client could not hold.
fn integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    let is_written_so = number.to_string() == text;
    (is_written_so && number.unsigned_abs() <= INTEGER_MAX).then_some(number)
}

/// A name or value of a query. What is not UTF-8 is refused: nothing is stored as something else.
fn decoded(text: &str) -> Result<String, Failure> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let decoded = decoded.map_err(|_| Failure::invalid("", "the query is not UTF-8"))?;
    Ok(decoded.into_owned())
}

/// Puts a value where it goes; an alias beside its name is the same place twice.
fn put(into: &mut Map<String, Value>, path: &[&str], value: Value) -> Result<(), ()> {
    let [name, rest @ ..] = path else { return Err(()) };
    if rest.is_empty() {
        return match into.insert((*name).to_owned(), value) {
            Some(_) => Err(()),
            None => Ok(()),
        };
    }
    let inner = into.entry(*name).or_insert_with(|| Value::Object(Map::new()));
    put(inner.as_object_mut().ok_or(())?, rest, value)
}
