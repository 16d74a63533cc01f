//! Deliveries: receiving and settling them.

use super::{Row, asked, invalid, long, missing, said, unmet};

pub(super) fn consume() -> Vec<Row> {
    let asks = |more: &str| format!(r#"{{"topic":"t","group":"g",{more}}}"#);
    let owned = |more: &str| asks(&format!(r#""owner":"o",{more}"#));
    let mut rows = Vec::new();
    for path in ["/v1/consume", "/v1/receive"] {
        rows.extend(said(
            "POST",
            path,
            [
                (asks(r#""start":"earliest""#), invalid("owner")),
                (asks(r#""owner":"""#), invalid("owner")),
                (asks(r#""owner":"a\u0007""#), invalid("owner")),
                (asks(&format!(r#""owner":"{}""#, long(256))), invalid("owner")),
                (asks(r#""owner":null"#), invalid("owner")),
                (owned(r#""lease_ms":249"#), invalid("lease_ms")),
                (owned(r#""lease_ms":43200001"#), invalid("lease_ms")),
                (owned(r#""lease_ms":-1"#), invalid("lease_ms")),
                (owned(r#""lease_ms":18446744073709551616"#), invalid("lease_ms")),
                (owned(r#""start":"middle""#), invalid("start")),
                (r#"["t","g","o"]"#.to_owned(), invalid("")),
                (r#"{"topic":"u","group":"g","owner":"o"}"#.to_owned(), missing("topic")),
                (r#"{"topic":"t","group":"../g","owner":"o"}"#.to_owned(), invalid("group")),
                (r#"{"topic":"t","group":"n\u0000","owner":"o"}"#.to_owned(), invalid("group")),
                (
                    r#"{"topic":"t","group":"n","owner":"o","start":{"time":"2027-01-15T08:00:00Z"}}"#.to_owned(),
                    invalid("start"),
                ),
            ],
        ));
    }
    rows.extend(said(
        "POST",
        "/v1/consume",
        [
            (owned(r#""prefetch":0"#), invalid("prefetch")),
            (owned(r#""prefetch":10001"#), invalid("prefetch")),
            (owned(r#""prefetch":4294967296"#), invalid("prefetch")),
        ],
    ));
    rows.extend(said(
        "POST",
        "/v1/receive",
        [
            (owned(r#""max":0"#), invalid("max")),
            (owned(r#""max":1001"#), invalid("max")),
            (owned(r#""wait_ms":60001"#), invalid("wait_ms")),
            (owned(r#""wait_ms":0.5"#), invalid("wait_ms")),
        ],
    ));
    rows.extend(asked(
        "GET",
        [
            ("/v1/consume?topic=t&group=g&owner=%00", invalid("owner")),
            ("/v1/consume?topic=t&group=g&owner=o&owner=o", invalid("owner")),
            ("/v1/consume?topic=t&group=g&owner=o&prefetch=01", invalid("prefetch")),
            ("/v1/consume?topic=t&group=%2e%2e&owner=o", invalid("group")),
            ("/v1/consume?topic=u&group=g&owner=o", missing("topic")),
        ],
    ));
    rows
}

pub(super) fn settle() -> Vec<Row> {
    let placed = |partition: &str, offset: &str| {
        format!(
            r#"{{"topic":"t","group":"g","partition":{partition},"offset":{offset},"owner":"o"}}"#
        )
    };
    let held = |more: &str| format!(r#"{{"token":"TOKEN",{more}}}"#);
    let mut rows = Vec::new();
    for verb in ["/v1/ack", "/v1/nack", "/v1/extend"] {
        rows.extend(said(
            "POST",
            verb,
            [
                ("{}".to_owned(), invalid("token")),
                (r#"["TOKEN"]"#.to_owned(), invalid("")),
                (r#"{"token":["TOKEN"]}"#.to_owned(), invalid("token")),
                (r#"{"token":"TOKEN "}"#.to_owned(), invalid("token")),
                (r#"{"token":"TOKENA"}"#.to_owned(), invalid("token")),
                (format!(r#"{{"token":"lt_{}"}}"#, long(1 << 16)), invalid("token")),
                (placed("2", "0"), invalid("partition")),
                (placed("4294967296", "0"), invalid("partition")),
                (placed("0", "-1"), invalid("offset")),
                (placed("0", "0.0"), invalid("offset")),
                (placed("0", "9007199254740992"), invalid("offset")),
                (placed("0", "9007199254740991"), unmet()),
                (held(r#""offset":7"#), invalid("token")),
                (held(r#""topic":"u""#), invalid("token")),
                (held(r#""group":"h""#), invalid("token")),
                (held(r#""op":"ack""#), invalid("op")),
                (held(r#""token":"TOKEN""#), invalid("")),
            ],
        ));
    }
    rows.extend(said(
        "POST",
        "/v1/nack",
        [
            (held(r#""delay_ms":604800001"#), invalid("delay_ms")),
            (held(r#""delay_ms":1e3"#), invalid("delay_ms")),
            (held(r#""dead_letter":"true""#), invalid("dead_letter")),
            (held(r#""dead_letter":true,"release":true"#), invalid("dead_letter")),
            (held(r#""dead_letter":true,"delay_ms":0"#), invalid("delay_ms")),
            (held(r#""lease_ms":1000"#), invalid("lease_ms")),
        ],
    ));
    rows.extend(said(
        "POST",
        "/v1/extend",
        [
            (held(r#""lease_ms":249"#), invalid("lease_ms")),
            (held(r#""lease_ms":43200001"#), invalid("lease_ms")),
            (held(r#""reason":"x""#), invalid("")),
        ],
    ));
    let good = r#"{"op":"ack","token":"TOKEN"}"#;
    rows.extend(said(
        "POST",
        "/v1/settle",
        [
            ("{}".to_owned(), invalid("items")),
            (r#"{"items":[]}"#.to_owned(), invalid("items")),
            (r#"{"items":null}"#.to_owned(), invalid("items")),
            (format!(r#"{{"items":{good}}}"#), invalid("items")),
            (format!(r#"{{"items":[{good},["TOKEN"]]}}"#), invalid("items[1]")),
            (format!(r#"{{"items":[{good},{{"op":"lose"}}]}}"#), invalid("items[1].op")),
            (
                format!(r#"{{"items":[{good},{{"op":"ack","offset":9007199254740992}}]}}"#),
                invalid("items[1].offset"),
            ),
            (
                format!(r#"{{"items":[{}{good}]}}"#, format!("{good},").repeat(1_000)),
                invalid("items"),
            ),
        ],
    ));
    rows
}
