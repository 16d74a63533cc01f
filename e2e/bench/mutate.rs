//! Corrupts a valid request: a value, a field, a name, a method, a header, or its bytes.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::ask::Ask;

/// A corrupted request.
pub(crate) struct Mutated {
    pub(crate) bytes: Vec<u8>,
    /// The end of its response cannot be determined, so the connection must not be used again.
    pub(crate) is_raw: bool,
}

pub(crate) fn mutate(good: &Ask, rng: &mut Rng) -> Mutated {
    let mut ask = good.clone();
    let mut body = None;
    let mut is_raw = false;
    // Once or twice, because two errors reach other code than one.
    for _ in 0..rng.usize(1..=2) {
        match rng.u32(0..20) {
            0..9 => match &mut ask.body {
                Some(value) => spoil_value(value, rng),
                None => spoil_query(&mut ask.query, rng),
            },
            9..13 => body = ask.body.as_ref().map(|value| spoil_text(value.to_string(), rng)),
            13..15 => spoil_query(&mut ask.query, rng),
            15..17 => spoil_path(&mut ask.path, rng),
            17 => {
                is_raw = true;
                ask.method = pick(rng, &METHODS).to_owned();
            }
            18 => {
                is_raw = true;
                let value = odd_text(rng).replace(['\r', '\n', '\0'], " ").into_bytes();
                ask.headers.push((pick(rng, &HEADERS), value));
            }
            _ => is_raw = true,
        }
    }
    let mut bytes = ask.bytes(body);
    if is_raw && rng.bool() {
        spoil_bytes(&mut bytes, rng);
    }
    Mutated { bytes, is_raw }
}

const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post", "QUERY"];

const HEADERS: [&str; 9] = [
    "idempotency-key",
    "x-request-id",
    "traceparent",
    "tracestate",
    "authorization",
    "content-encoding",
    "transfer-encoding",
    "content-length",
    "expect",
];

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

fn odd_text(rng: &mut Rng) -> String {
    const TEXTS: [&str; 20] = [
        "",
        " ",
        "\0",
        "\u{7f}",
        "\u{202e}",
        "\u{1f980}",
        "..",
        "%2e%2e",
        "%ff",
        "%",
        "dlq.orders",
        "sys.x",
        "gzip",
        "lt_AAAA",
        "m_0",
        "-1",
        "18446744073709551616",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:60.999999999999+23:59",
        "'; DROP TABLE page; --",
    ];
    match rng.u32(0..100) {
        0..80 => pick(rng, &TEXTS).to_owned(),
        80..99 => "a".repeat(pick(rng, &[128, 129, 250, 251, 256, 1_025, 20_000])),
        // Over the maximum size of a value.
        _ => "a".repeat((1 << 20) + 1),
    }
}

fn odd_value(rng: &mut Rng) -> Value {
    match rng.u32(0..16) {
        0..5 => Value::from(odd_text(rng)),
        5 => Value::Null,
        6 => Value::from(rng.bool()),
        7..11 => Value::from(pick(
            rng,
            &[0, -1, 1, 249, 1_001, 1 << 31, 1 << 32, 1 << 53, i64::MIN, i64::MAX],
        )),
        11 => Value::from(u64::MAX),
        12 => Value::from(pick(rng, &[0.5, -0.0, 1e300, 1e-300])),
        13 => json!([]),
        14 => json!({}),
        // Deeper than the nesting limit.
        _ => (0..40).fold(Value::Null, |inner, _| json!([inner])),
    }
}

/// Descends to a random place and changes it.
fn spoil_value(value: &mut Value, rng: &mut Rng) {
    match value {
        Value::Object(fields) if !fields.is_empty() && rng.u32(0..8) > 0 => {
            spoil_object(fields, rng);
        }
        Value::Array(items) if !items.is_empty() && rng.u32(0..8) > 0 => {
            let at = rng.usize(..items.len());
            match rng.u32(0..6) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                // More items than the limit of a list.
                2 if rng.u32(0..20) == 0 => *items = vec![items[at].clone(); 1_001],
                _ => spoil_value(&mut items[at], rng),
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => *value = odd_value(rng),
    }
}

fn spoil_object(fields: &mut Map<String, Value>, rng: &mut Rng) {
    let names: Vec<String> = fields.keys().cloned().collect();
    let name = &names[rng.usize(..names.len())];
    match rng.u32(0..8) {
        0 => drop(fields.remove(name)),
        1 => drop(fields.insert(odd_text(rng), odd_value(rng))),
        2 => {
            let other = &names[rng.usize(..names.len())];
            let moved = fields[name].clone();
            fields.insert(other.clone(), moved);
        }
        _ => spoil_value(&mut fields[name], rng),
    }
}

/// Produces text that no JSON library would write.
fn spoil_text(mut text: String, rng: &mut Rng) -> Vec<u8> {
    match rng.u32(0..8) {
        0 => text.push_str("{}"),
        1 => text.insert(0, '\u{feff}'),
        2 => text = "[".repeat(pick(rng, &[33, 1_000, 100_000])),
        3 => text = text.replacen('{', "{\"topic\":1,\"token\":1,\"name\":1,\"topic\":1,", 1),
        4 => text = text.replacen(char::is_numeric, pick(rng, &["1e999", "00", "-", "0x1"]), 1),
        5 => text = text.replace('"', "'"),
        _ => {}
    }
    let mut bytes = text.into_bytes();
    match rng.u32(0..4) {
        0 => bytes.truncate(rng.usize(..bytes.len())),
        1 => spoil_bytes(&mut bytes, rng),
        _ => {}
    }
    bytes
}

fn spoil_query(pairs: &mut Vec<(String, String)>, rng: &mut Rng) {
    let coded = |text: String| {
        if text.is_ascii() && !text.contains([' ', '\0', '\u{7f}']) {
            text
        } else {
            text.bytes().map(|byte| format!("%{byte:02x}")).collect()
        }
    };
    let (name, value) = (coded(odd_text(rng)), coded(odd_text(rng)));
    if pairs.is_empty() {
        pairs.push((name, value));
        return;
    }
    let at = rng.usize(..pairs.len());
    match rng.u32(0..8) {
        0 => pairs.push((name, value)),
        1 => pairs.push(pairs[at].clone()),
        2 => drop(pairs.remove(at)),
        _ => pairs[at].1 = value,
    }
}

fn spoil_path(path: &mut String, rng: &mut Rng) {
    const SEGMENTS: [&str; 12] = [
        "",
        "..",
        "%2e%2e",
        "%ff",
        "%00",
        "%",
        "%2F",
        "a%20b",
        "dlq.orders",
        "sys.x",
        "absent",
        "%zz",
    ];
    let mut segments: Vec<String> = path.split('/').map(str::to_owned).collect();
    let at = rng.usize(1..segments.len());
    match rng.u32(0..6) {
        0 => segments.insert(at, pick(rng, &SEGMENTS).to_owned()),
        1 => drop(segments.remove(at)),
        2 => segments[at] = "a".repeat(pick(rng, &[129, 251, 9_000])),
        _ => segments[at] = pick(rng, &SEGMENTS).to_owned(),
    }
    *path = segments.join("/");
    if !path.starts_with('/') {
        path.insert(0, '/');
    }
}

fn spoil_bytes(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.usize(1..=3) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.usize(..bytes.len());
        match rng.u32(0..4) {
            0 => bytes[at] = rng.u8(..),
            1 => bytes[at] ^= 1 << rng.u32(0..8),
            2 => bytes.insert(at, pick(rng, b"\"{}[],:\\\0\r\n\xff0")),
            _ => drop(bytes.remove(at)),
        }
    }
}
