//! Peek, explain and dead letters.

use data_encoding::BASE64URL_NOPAD;

use super::{Row, asked, invalid, missing, said, unmet};

pub(super) fn looks() -> Vec<Row> {
    let peek = |query: &str| format!("/v1/topics/t/messages?{query}");
    let mut rows = Vec::new();
    for (query, refusal) in [
        ("partition=2", invalid("partition")),
        ("partition=0.5", invalid("partition")),
        ("partition=4294967296", invalid("partition")),
        ("from=0", invalid("from")),
        ("partition=0&from=-1", invalid("from")),
        ("partition=0&from=9007199254740992", invalid("from")),
        ("state=ready", invalid("state")),
        ("group=g&state=dead", invalid("state")),
        ("group=n", missing("group")),
        ("limit=1e2", invalid("limit")),
        ("values=yes", invalid("values")),
        ("since=1800000000", invalid("since")),
    ] {
        rows.extend(asked("GET", [(&*peek(query), refusal)]));
    }
    let cursor = |place: &str| format!("cursor={}", BASE64URL_NOPAD.encode(place.as_bytes()));
    for place in ["9:0", "-1:0", "0:18446744073709551616", "0", "0:0:0", ":"] {
        rows.extend(asked("GET", [(&*peek(&cursor(place)), invalid("cursor"))]));
    }
    let other = peek(&format!("partition=0&{}", cursor("1:0")));
    rows.extend(asked("GET", [(&*other, invalid("cursor"))]));
    for place in ["-1", "18446744073709551616", "0:0", "x"] {
        let path = format!("/v1/dlq/t?{}", cursor(place));
        rows.extend(asked("GET", [(&*path, invalid("cursor"))]));
    }
    rows.extend(asked(
        "GET",
        [
            ("/v1/topics/u/messages", missing("topic")),
            ("/v1/explain?id=m_", invalid("id")),
            ("/v1/explain?id=M_AA", invalid("id")),
            ("/v1/explain?id=m_aaaaaaaa", missing("message")),
            ("/v1/explain?token=TOKENA", invalid("token")),
            ("/v1/explain?topic=t&partition=2&offset=0", invalid("partition")),
            ("/v1/explain?topic=t&partition=0&offset=-1", invalid("offset")),
            ("/v1/explain?topic=t&partition=0&offset=9007199254740992", invalid("offset")),
            ("/v1/explain?topic=t&partition=0&offset=9007199254740991", missing("message")),
            ("/v1/explain?topic=t&partition=0", invalid("")),
            ("/v1/explain?topic=t&group=n%00", missing("group")),
            ("/v1/audit?shard=0", invalid("shard")),
            ("/v1/audit/records", invalid("shard")),
            ("/v1/audit/records?shard=1", invalid("shard")),
            ("/v1/audit/records?shard=-1", invalid("shard")),
            ("/v1/audit/records?shard=0&from=0", invalid("from")),
            ("/v1/audit/records?shard=0&from=9007199254740992", invalid("from")),
            ("/v1/audit/records?shard=0&to=0", invalid("to")),
            ("/v1/audit/records?shard=0&to=x", invalid("to")),
            ("/v1/audit/records?shard=0&cursor=1", invalid("cursor")),
            ("/v1/dlq/t?limit=0", invalid("limit")),
            ("/v1/dlq/t?state=lost", invalid("state")),
            ("/v1/dlq/t?reason=bad", invalid("reason")),
            ("/v1/dlq/t?summary=2", invalid("summary")),
            ("/v1/dlq/t?since=2026-11-14", invalid("since")),
            ("/v1/dlq/u", missing("topic")),
            ("/v1/dlq/%2e%2e", missing("topic")),
        ],
    ));
    rows
}

pub(super) fn dead_letters() -> Vec<Row> {
    let mut rows = said(
        "POST",
        "/v1/dlq/t/redrive",
        [
            ("{}", invalid("ids")),
            (r#"{"ids":[]}"#, invalid("ids")),
            (r#"{"ids":"ID"}"#, invalid("ids")),
            (r#"{"ids":["ID",7]}"#, invalid("ids[1]")),
            (r#"{"ids":["ID"],"limit":1}"#, invalid("limit")),
            (r#"{"ids":["ID"],"filter":{}}"#, invalid("ids")),
            (r#"[["ID"]]"#, invalid("")),
            (r#"{"filter":["g"]}"#, invalid("filter")),
            (r#"{"filter":{},"limit":0}"#, invalid("limit")),
            (r#"{"filter":{},"limit":1001}"#, invalid("limit")),
            (r#"{"filter":{"reason":"bad"}}"#, invalid("filter.reason")),
            (r#"{"filter":{"until":"now"}}"#, invalid("filter.until")),
            (r#"{"ids":["ID"],"dry_run":"true"}"#, invalid("dry_run")),
        ],
    );
    rows.extend(said(
        "POST",
        "/v1/dlq/t/purge",
        [
            ("{}", invalid("ids")),
            (r#"{"ids":[],"confirm":0}"#, invalid("ids")),
            (r#"{"ids":["m_"],"confirm":1}"#, invalid("ids")),
            (r#"{"ids":["ID"]}"#, unmet()),
            (r#"{"ids":["ID"],"confirm":2}"#, unmet()),
            (r#"{"ids":["ID"],"confirm":-1}"#, invalid("confirm")),
            (r#"{"ids":["ID"],"confirm":1.0}"#, invalid("confirm")),
            (r#"{"ids":["ID"],"confirm":9007199254740992}"#, invalid("confirm")),
            (r#"{"filter":{},"confirm":1}"#, invalid("until")),
            (r#"{"filter":["g"],"confirm":1}"#, invalid("filter")),
            (r#"[["ID"],null,1]"#, invalid("")),
        ],
    ));
    let named = r#"{"ids":["ID"],"dry_run":true}"#;
    rows.extend(said("POST", "/v1/dlq/u/redrive", [(named, missing("topic"))]));
    rows.extend(said(
        "POST",
        "/v1/dlq/u/purge",
        [(r#"{"ids":["ID"],"confirm":1}"#, missing("topic"))],
    ));
    rows
}
