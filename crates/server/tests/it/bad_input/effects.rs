//! Effects: begin, finish, resolve.

use data_encoding::BASE64URL_NOPAD;

use super::{Refusal, Row, asked, invalid, long, missing, said, too_large, unmet};

const fn conflict(field: &'static str) -> Refusal {
    Refusal { status: 422, error: "CONFLICT", names: field }
}

const fn stale() -> Refusal {
    Refusal { status: 409, error: "STALE_FENCE", names: "" }
}

const fn busy() -> Refusal {
    Refusal { status: 409, error: "IN_PROGRESS", names: "" }
}

const fn parked() -> Refusal {
    Refusal { status: 409, error: "IN_DOUBT", names: "" }
}

pub(super) fn begins() -> Vec<Row> {
    let begin = "/v1/effects/begin";
    let mut rows = said(
        "POST",
        begin,
        [
            ("{}", invalid("scope")),
            (r#"{"scope":"op/a","on_doubt":"park"}"#, invalid("key")),
            (r#"{"key":"k","on_doubt":"park"}"#, invalid("scope")),
            (r#"{"scope":"op/a","lease_token":"TOKEN","on_doubt":"park"}"#, invalid("scope")),
            (r#"{"scope":"op/a","key":"k"}"#, invalid("on_doubt")),
            (r#"{"scope":"op/a","key":"k","on_doubt":"Park"}"#, invalid("on_doubt")),
            (r#"{"scope":"op/a","key":"k","on_doubt":["park"]}"#, invalid("on_doubt")),
            (r#"{"scope":"op/","key":"k","on_doubt":"park"}"#, invalid("scope")),
            (r#"{"scope":"op/../a","key":"k","on_doubt":"park"}"#, invalid("scope")),
            (r#"{"scope":"effect/t/g","key":"k","on_doubt":"park"}"#, invalid("scope")),
            (r#"{"scope":"effect/t","key":"k","on_doubt":"park"}"#, invalid("scope")),
            (r#"{"scope":"produce/t","key":"k","on_doubt":"park"}"#, invalid("scope")),
            (r#"{"scope":"op/a","key":"","on_doubt":"park"}"#, invalid("key")),
            (r#"{"scope":"op/a","key":7,"on_doubt":"park"}"#, invalid("key")),
            (r#"{"scope":"op/a","key":"a\u0000","on_doubt":"park"}"#, invalid("key")),
            (r#"{"scope":"op/a","key":"k","key":"k","on_doubt":"park"}"#, invalid("")),
            (r#"{"scope":"op/a","key":"k","on_doubt":"park","lease_ms":249}"#, invalid("lease_ms")),
            (r#"{"scope":"op/a","key":"k","on_doubt":"park","lease_ms":"1"}"#, invalid("lease_ms")),
            (r#"{"scope":"op/a","key":"k","on_doubt":"park","ttl_ms":1e6}"#, invalid("ttl_ms")),
            (
                r#"{"scope":"op/a","key":"k","on_doubt":"park","provider_window_ms":0}"#,
                invalid("provider_window_ms"),
            ),
            (
                r#"{"scope":"op/a","key":"k","on_doubt":"park","request":"a","request_hash":"b"}"#,
                invalid("request_hash"),
            ),
            (r#"{"scope":"op/a","key":"k","on_doubt":"park","request":{}}"#, invalid("request")),
            (r#"{"scope":"op/a","key":"k","on_doubt":"park","nonce":""}"#, invalid("nonce")),
            (r#"{"scope":"op/a","key":"k","on_doubt":"park","fence":1}"#, invalid("fence")),
            (r#"{"lease_token":"TOKEN","lease_ms":1000,"on_doubt":"park"}"#, invalid("lease_ms")),
            (r#"{"lease_token":"TOKEN","tenant_id":"a","on_doubt":"park"}"#, invalid("tenant_id")),
            (r#"{"lease_token":"TOKENA","on_doubt":"park"}"#, invalid("lease_token")),
            (r#"{"lease_token":"GRANT","on_doubt":"park"}"#, invalid("lease_token")),
            (r#"{"lease_token":"TOKEN"}"#, invalid("on_doubt")),
            (r#"{"scope":"op/a","key":"held","on_doubt":"park"}"#, busy()),
            (
                r#"{"scope":"op/a","key":"held","on_doubt":"park","request":"r"}"#,
                conflict("request"),
            ),
            (r#"{"scope":"op/a","key":"parked","on_doubt":"retry"}"#, parked()),
        ],
    );
    let tenant =
        format!(r#"{{"scope":"op/a","key":"k","on_doubt":"park","tenant_id":"{}"}}"#, long(256));
    rows.extend(said("POST", begin, [(tenant, invalid("tenant_id"))]));
    for (header, field) in [
        (&b"other"[..], "key"),
        (b"\"k", "key"),
        (b"", "Idempotency-Key"),
        (b"a\xffb", "Idempotency-Key"),
    ] {
        let body = r#"{"scope":"op/a","key":"k","on_doubt":"park"}"#;
        let mut row = said("POST", begin, [(body, invalid(field))]);
        row[0].headers.push(("idempotency-key", header));
        rows.extend(row);
    }
    rows.extend(said(
        "POST",
        "/v1/effects/reacquire",
        [
            (r#"{"scope":"op/a"}"#, invalid("key")),
            (r#"{"key":"held"}"#, invalid("scope")),
            (r#"{"scope":"op/a","key":"nothing"}"#, missing("effect")),
            (r#"{"scope":"op/a","key":"held"}"#, busy()),
            (r#"{"scope":"op/a","key":"parked"}"#, parked()),
            (r#"{"scope":"op/a","key":"parked","request":"r"}"#, conflict("request")),
            (r#"{"scope":"op/a","key":"parked","on_doubt":"retry"}"#, invalid("on_doubt")),
            (r#"{"scope":"op/a","key":"parked","nonce":""}"#, invalid("nonce")),
            (r#"{"scope":"effect/t/g","key":"k"}"#, invalid("scope")),
            (r#"{"scope":"produce/t","key":"k"}"#, invalid("scope")),
        ],
    ));
    rows
}

pub(super) fn outcomes() -> Vec<Row> {
    let mut rows = said(
        "POST",
        "/v1/effects/finish",
        [
            ("{}", invalid("token")),
            (r#"{"token":"GRANT"}"#, invalid("status")),
            (r#"{"status":"SUCCEEDED"}"#, invalid("token")),
            (r#"{"token":"GRANT","status":"DONE"}"#, invalid("status")),
            (r#"{"token":"GRANTA","status":"SUCCEEDED"}"#, invalid("token")),
            (r#"{"token":"TOKEN","status":"SUCCEEDED"}"#, invalid("token")),
            (r#"{"token":7,"status":"SUCCEEDED"}"#, invalid("token")),
            (r#"{"token":"GRANT","status":"SUCCEEDED","error":"e"}"#, invalid("error")),
            (r#"{"token":"GRANT","status":"UNKNOWN","result":1}"#, invalid("result")),
            (r#"{"token":"GRANT","status":"SUCCEEDED","result":{"a":1,"a":1}}"#, invalid("result")),
            (
                r#"{"token":"GRANT","status":"SUCCEEDED","result_base64":"?"}"#,
                invalid("result_base64"),
            ),
            (
                r#"{"token":"GRANT","status":"SUCCEEDED","result":1,"result_base64":"AA=="}"#,
                invalid("result"),
            ),
            (
                r#"{"token":"GRANT","status":"UNKNOWN","downstream_key":"renew"}"#,
                invalid("downstream_key"),
            ),
            (
                r#"{"token":"GRANT","status":"FAILED_RETRYABLE","downstream_key":"new"}"#,
                invalid("downstream_key"),
            ),
            (r#"{"token":"GRANT","status":"SUCCEEDED","code":2147483648}"#, invalid("code")),
        ],
    );
    let large = format!(r#"{{"token":"GRANT","status":"SUCCEEDED","result":"{}"}}"#, long(65_535));
    rows.extend(said("POST", "/v1/effects/finish", [(large, too_large("result"))]));
    rows.extend(said(
        "POST",
        "/v1/effects/extend",
        [
            ("{}", invalid("token")),
            (r#"{"token":"GRANTA"}"#, invalid("token")),
            (r#"{"token":"TOKEN"}"#, invalid("token")),
            (r#"{"token":"GRANT","lease_ms":249}"#, invalid("lease_ms")),
            (r#"{"token":"GRANT","lease_ms":43200001}"#, invalid("lease_ms")),
            (r#"{"token":"GRANT","owner":"o"}"#, invalid("owner")),
        ],
    ));
    let whole = r#""scope":"op/a","as":"failed","by":"ops","reason":"r""#;
    for (more, refusal) in [
        (r#""key":"parked""#, invalid("fence")),
        (r#""key":"parked","fence":2"#, stale()),
        (r#""key":"parked","fence":1.0"#, invalid("fence")),
        (r#""key":"parked","fence":9007199254740992"#, invalid("fence")),
        (r#""key":"held","fence":1"#, unmet()),
        (r#""key":"nothing","fence":1"#, missing("effect")),
        (r#""key":"parked","fence":1,"as":"failed""#, invalid("")),
        (r#""key":"parked","fence":1,"result":1,"result_base64":"AA==""#, invalid("result")),
    ] {
        let body = format!("{{{whole},{more}}}");
        rows.extend(said("POST", "/v1/effects/resolve", [(body, refusal)]));
    }
    rows.extend(said(
        "POST",
        "/v1/effects/resolve",
        [
            (
                r#"{"scope":"op/a","key":"parked","fence":1,"as":"lost","by":"o","reason":"r"}"#,
                invalid("as"),
            ),
            (
                r#"{"scope":"op/a","key":"parked","fence":1,"as":"failed","by":"","reason":"r"}"#,
                invalid("by"),
            ),
            (
                r#"{"scope":"op/a","key":"parked","fence":1,"as":"failed","by":"o","reason":""}"#,
                invalid("reason"),
            ),
            (
                r#"{"scope":"produce/t","key":"k","fence":1,"as":"failed","by":"o","reason":"r"}"#,
                invalid("scope"),
            ),
            (
                r#"{"scope":"effect/u/g","key":"k","fence":1,"as":"failed","by":"o","reason":"r"}"#,
                missing("topic"),
            ),
        ],
    ));
    rows
}

pub(super) fn lookups() -> Vec<Row> {
    let cursor = |place: &str| format!("cursor={}", BASE64URL_NOPAD.encode(place.as_bytes()));
    let mut rows = Vec::new();
    for (query, refusal) in [
        ("scope=op/a", invalid("state")),
        ("key=k", invalid("scope")),
        ("scope=op/a&key=nothing", missing("effect")),
        ("scope=op/a&key=%00", invalid("key")),
        ("scope=op/a&key=", invalid("key")),
        ("scope=op&key=k", invalid("scope")),
        ("scope=effect/u/g&key=k", missing("topic")),
        ("scope=produce/u&key=k", missing("topic")),
        ("scope=produce/t&key=k", missing("effect")),
        ("scope=op/a&key=held&wait_ms=60001", invalid("wait_ms")),
        ("scope=op/a&key=held&wait_ms=-1", invalid("wait_ms")),
        ("scope=op/a&key=held&limit=1", invalid("key")),
        ("scope=op/a&key=held&state=PARKED", invalid("key")),
        ("state=SUCCEEDED", invalid("state")),
        ("state=PARKED&limit=0", invalid("limit")),
        ("state=PARKED&limit=1001", invalid("limit")),
        ("state=PARKED&wait_ms=1", invalid("wait_ms")),
        ("state=PARKED&scope=sys/a", invalid("scope")),
        ("state=PARKED&cursor=%20", invalid("cursor")),
        (&cursor("0"), invalid("state")),
    ] {
        rows.extend(asked("GET", [(&*format!("/v1/effects?{query}"), refusal)]));
    }
    for place in ["0", "+0000000000000000000000000000000", "g0000000000000000000000000000000"] {
        let path = format!("/v1/effects?state=PARKED&{}", cursor(place));
        rows.extend(asked("GET", [(&*path, invalid("cursor"))]));
    }
    rows
}
