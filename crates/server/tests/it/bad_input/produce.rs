//! Producing one message or a batch.

use super::{Row, asked, invalid, long, missing, said, too_large};

pub(super) fn produce() -> Vec<Row> {
    let valued = |value: &str| format!(r#"{{"topic":"t",{value}}}"#);
    let wrapped = |envelope: &str| format!(r#"{{"topic":"t","value":"x","envelope":{envelope}}}"#);
    let text = |field: &str, bytes: usize| wrapped(&format!(r#"{{"{field}":"{}"}}"#, long(bytes)));
    let retried = |policy: &str| wrapped(&format!(r#"{{"retry_policy":{policy}}}"#));
    let mut rows = said(
        "POST",
        "/v1/produce",
        [
            (r#"{"value":"x"}"#.to_owned(), invalid("topic")),
            (r#"["t","","x"]"#.to_owned(), invalid("")),
            (r#"{"topic":["t"],"value":"x"}"#.to_owned(), invalid("topic")),
            (r#"{"topic":"","value":"x"}"#.to_owned(), missing("topic")),
            (r#"{"topic":"t\u0000","value":"x"}"#.to_owned(), missing("topic")),
            (r#"{"topic":"dlq.t","value":"x"}"#.to_owned(), invalid("topic")),
            (valued(r#""key":"k""#), invalid("value")),
            (valued(r#""value":null"#), invalid("value")),
            (valued(r#""value":"""#), invalid("value")),
            (valued(r#""value":{}"#), invalid("value")),
            (valued(r#""value":"x","value_base64":"eA==""#), invalid("value")),
            (valued(r#""value_base64":"eA""#), invalid("value_base64")),
            (valued(r#""value_base64":"eA==\n""#), invalid("value_base64")),
            (valued(r#""value_base64":"eB==""#), invalid("value_base64")),
            (valued(r#""value_base64":"eA==eA==""#), invalid("value_base64")),
            (valued(r#""value_base64":"-_==""#), invalid("value_base64")),
            (valued(&format!(r#""value":"{}""#, long((1 << 20) + 1))), too_large("value")),
            (valued(&format!(r#""value":"x","key":"{}""#, long(1_025))), too_large("key")),
            (wrapped("[]"), invalid("envelope")),
            (wrapped(r#"["run"]"#), invalid("envelope")),
            (wrapped("\"x\""), invalid("envelope")),
            (wrapped(r#"{"run_id":1}"#), invalid("envelope.run_id")),
            (text("run_id", 1_025), too_large("envelope.run_id")),
            (text("tenant_id", 256), invalid("envelope.tenant_id")),
            (text("idempotency_key", 256), invalid("envelope.idempotency_key")),
            (wrapped(r#"{"idempotency_key":"a\u0000"}"#), invalid("envelope.idempotency_key")),
            (wrapped(r#"{"target_topic":"u"}"#), missing("topic")),
            (wrapped(r#"{"partition_override":2}"#), invalid("envelope.partition_override")),
            (wrapped(r#"{"partition_override":-1}"#), invalid("envelope.partition_override")),
            (wrapped(r#"{"partition_override":1.5}"#), invalid("envelope.partition_override")),
            (wrapped(r#"{"deadline":"now"}"#), invalid("envelope.deadline")),
            (wrapped(r#"{"deadline":"2027-02-30T00:00:00Z"}"#), invalid("envelope.deadline")),
            (wrapped(r#"{"deadline":"1970-01-01T00:00:00Z"}"#), invalid("")),
            (retried("[5]"), invalid("envelope.retry_policy")),
            (retried(r#"{"max_attempts":0}"#), invalid("envelope.retry_policy.max_attempts")),
            (retried(r#"{"max_attempts":1001}"#), invalid("envelope.retry_policy.max_attempts")),
            (
                retried(r#"{"max_attempts":2147483648}"#),
                invalid("envelope.retry_policy.max_attempts"),
            ),
            (
                retried(r#"{"max_attempts":1,"backoff_ms":2,"max_backoff_ms":1}"#),
                invalid("envelope.retry_policy"),
            ),
            (
                retried(r#"{"max_attempts":1,"max_backoff_ms":18446744073709551615}"#),
                invalid("envelope.retry_policy.max_backoff_ms"),
            ),
        ],
    );
    rows.extend(asked(
        "POST",
        [
            ("/v1/produce?topic=t&value=", invalid("value")),
            ("/v1/produce?topic=t", invalid("value")),
            ("/v1/produce?topic=u&value=x", missing("topic")),
            ("/v1/produce?topic=t&value=x&value=x", invalid("value")),
            ("/v1/produce?topic=t&value=x&tenant=a&tenant_id=a", invalid("tenant_id")),
            ("/v1/produce?topic=t&value=x&deadline_ms=-1", invalid("deadline_ms")),
            ("/v1/produce?topic=t&value=x&deadline_ms=9007199254740992", invalid("deadline_ms")),
            ("/v1/produce?topic=t&value=x&partition_override=%2B1", invalid("partition_override")),
            (
                "/v1/produce?topic=t&value=x&retry_max_attempts=0",
                invalid("envelope.retry_policy.max_attempts"),
            ),
            ("/v1/produce?topic=t&value_base64=eA==", invalid("value_base64")),
        ],
    ));
    let headers: [Vec<(&str, &[u8])>; 4] = [
        vec![("idempotency-key", b"a"), ("idempotency-key", b"b")],
        vec![("idempotency-key", b"")],
        vec![("idempotency-key", b"\"\"")],
        vec![("idempotency-key", b"\xff")],
    ];
    for headers in headers {
        let good =
            said("POST", "/v1/produce", [(valued(r#""value":"x""#), invalid("Idempotency-Key"))]);
        rows.extend(good.into_iter().map(|row| Row { headers: headers.clone(), ..row }));
    }
    let good = r#"{"topic":"t","value":"x"}"#;
    rows.extend(said(
        "POST",
        "/v1/produce/batch",
        [
            ("{}".to_owned(), invalid("messages")),
            (r#"{"messages":[]}"#.to_owned(), invalid("messages")),
            (r#"{"messages":null}"#.to_owned(), invalid("messages")),
            (r#"{"messages":{}}"#.to_owned(), invalid("messages")),
            (format!(r#"{{"messages":{good}}}"#), invalid("messages")),
            (format!(r#"{{"messages":[{good},["t","","x"]]}}"#), invalid("messages[1]")),
            (format!(r#"{{"messages":[{good},7]}}"#), invalid("messages[1]")),
            (format!(r#"{{"messages":[{good}],"messages":[{good}]}}"#), invalid("")),
            (
                format!(r#"{{"messages":[{}{good}]}}"#, format!("{good},").repeat(1_000)),
                invalid("messages"),
            ),
        ],
    ));
    rows
}
