//! Topics: names, partitions, settings, and wrong paths.

use super::{Row, asked, invalid, long, missing, said, unmet};

pub(super) fn topics() -> Vec<Row> {
    let named = |name: &str| format!(r#"{{"name":"{name}"}}"#);
    let set = |settings: &str| format!(r#"{{"name":"n","settings":{settings}}}"#);
    let split = |partitions: &str| format!(r#"{{"name":"n","partitions":{partitions}}}"#);
    let mut rows = said(
        "POST",
        "/v1/topics",
        [
            ("{}".to_owned(), invalid("name")),
            (r#"{"name":1}"#.to_owned(), invalid("name")),
            (r#"{"name":null}"#.to_owned(), invalid("name")),
            (r#"{"name":["n"]}"#.to_owned(), invalid("name")),
            (r#"["n",1]"#.to_owned(), invalid("")),
            (named(""), invalid("name")),
            (named("a b"), invalid("name")),
            (named("-a"), invalid("name")),
            (named("../t"), invalid("name")),
            (named("a/b"), invalid("name")),
            (named("n\\u0000"), invalid("name")),
            (named("n\\ud800"), invalid("name")),
            (named("\u{e9}"), invalid("name")),
            (named(&long(251)), invalid("name")),
            (named(&long(1 << 20)), invalid("name")),
            (named("dlq.n"), invalid("name")),
            (split("-1"), invalid("partitions")),
            (split("1025"), invalid("partitions")),
            (split("1.0"), invalid("partitions")),
            (split("1e0"), invalid("partitions")),
            (split("-0"), invalid("partitions")),
            (split("\"1\""), invalid("partitions")),
            (split("4294967297"), invalid("partitions")),
            (split("9007199254740992"), invalid("partitions")),
            (split("18446744073709551616"), invalid("partitions")),
            (set("[]"), invalid("settings")),
            (set("\"\""), invalid("settings")),
            (set("{\"lease_ms\":249}"), invalid("settings.lease_ms")),
            (set("{\"lease_ms\":3e4}"), invalid("settings.lease_ms")),
            (set("{\"lease_ms\":[30000]}"), invalid("settings.lease_ms")),
            (set("{\"max_in_flight\":4294967296}"), invalid("settings.max_in_flight")),
            (
                set("{\"max_backlog_messages\":9007199254740992}"),
                invalid("settings.max_backlog_messages"),
            ),
            (
                set("{\"max_backlog_bytes\":18446744073709551615}"),
                invalid("settings.max_backlog_bytes"),
            ),
            (set("{\"retention_bytes\":-1}"), invalid("settings.retention_bytes")),
            (set("{\"retry_policy\":[3,1,2]}"), invalid("settings.retry_policy")),
            (
                set("{\"retry_policy\":{\"backoff_ms\":null}}"),
                invalid("settings.retry_policy.backoff_ms"),
            ),
        ],
    );
    rows.extend(asked(
        "POST",
        [
            ("/v1/topics?name=n&partitions=01", invalid("partitions")),
            ("/v1/topics?name=n&partitions=%2B1", invalid("partitions")),
            ("/v1/topics?name=n&partitions=1e0", invalid("partitions")),
            ("/v1/topics?name=n&partitions=", invalid("partitions")),
            ("/v1/topics?name=n&partitions=9007199254740992", invalid("partitions")),
            ("/v1/topics?name=n&name=n", invalid("name")),
            ("/v1/topics?name=%00", invalid("name")),
            ("/v1/topics?name=..%2Ft", invalid("name")),
        ],
    ));
    rows.extend(asked(
        "GET",
        [
            ("/v1/topics?limit=0", invalid("limit")),
            ("/v1/topics?detail=true&limit=1001", invalid("limit")),
            ("/v1/topics?detail=true&limit=-1", invalid("limit")),
            ("/v1/topics?detail=true&limit=4294967297", invalid("limit")),
            ("/v1/topics?detail=yes", invalid("detail")),
            ("/v1/topics?detail=true&detail=true", invalid("detail")),
            ("/v1/topics?detail=true&cursor=dA==", invalid("cursor")),
            ("/v1/topics?detail=true&cursor=_w", invalid("cursor")),
            ("/v1/topics/..", missing("topic")),
            ("/v1/topics/%2e%2e", missing("topic")),
            ("/v1/topics/%2Fetc%2Fpasswd", missing("topic")),
            ("/v1/topics/..%2Ft", missing("topic")),
            ("/v1/topics/t%00", missing("topic")),
            ("/v1/topics/T", missing("topic")),
            ("/v1/topics/%FF", invalid("")),
            ("/v1/topics/t/", missing("route")),
            ("/v1//topics/t", missing("route")),
            ("/v1/topics/../healthz", missing("route")),
            (&format!("/v1/topics/{}", long(10_000)), missing("topic")),
        ],
    ));
    rows.extend(said(
        "PATCH",
        "/v1/topics/t",
        [
            ("{}", invalid("settings")),
            (r#"{"partitions":3}"#, invalid("partitions")),
            (r#"{"settings":null}"#, invalid("settings")),
            (r#"{"settings":[["lease_ms",300]]}"#, invalid("settings")),
            (r#"[{"lease_ms":300}]"#, invalid("")),
            (r#"{"settings":{"bogus":1}}"#, invalid("settings.bogus")),
            (r#"{"settings":{"lease_ms":"300"}}"#, invalid("settings.lease_ms")),
            (r#"{"settings":{"lease_ms":300.5}}"#, invalid("settings.lease_ms")),
            (r#"{"settings":{"max_open":999}}"#, invalid("settings.max_open")),
            (r#"{"settings":{"retry_policy":[3,1,2]}}"#, invalid("settings.retry_policy")),
            (
                r#"{"settings":{"retention_bytes":9007199254740992}}"#,
                invalid("settings.retention_bytes"),
            ),
            (r#"{"settings":{"lease_ms":300},"settings":{}}"#, invalid("")),
        ],
    ));
    rows.extend(said("PATCH", "/v1/topics/dlq.t", [(r#"{"settings":{}}"#, unmet())]));
    rows.extend(said("PATCH", "/v1/topics/u", [(r#"{"settings":{}}"#, missing("topic"))]));
    rows.extend(asked(
        "DELETE",
        [
            ("/v1/topics/t", invalid("confirm")),
            ("/v1/topics/t?confirm=", invalid("confirm")),
            ("/v1/topics/t?confirm=T", invalid("confirm")),
            ("/v1/topics/t?confirm=t%00", invalid("confirm")),
            ("/v1/topics/t?confirm=t&confirm=t", invalid("confirm")),
            ("/v1/topics/u?confirm=u", missing("topic")),
            ("/v1/topics/dlq.t?confirm=dlq.t", unmet()),
        ],
    ));
    rows.extend(said("DELETE", "/v1/topics/t", [(r#"["t"]"#, invalid(""))]));
    rows
}
