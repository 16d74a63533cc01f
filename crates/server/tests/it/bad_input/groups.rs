//! Groups: names, starts, pauses, seeks.

use super::{Row, asked, invalid, long, missing, said};

pub(super) fn groups() -> Vec<Row> {
    let group = "/v1/topics/t/groups/g";
    let mut rows = asked(
        "PUT",
        [
            ("/v1/topics/t/groups/-g", invalid("group")),
            ("/v1/topics/t/groups/%2e%2e", invalid("group")),
            ("/v1/topics/t/groups/a%2Fb", invalid("group")),
            ("/v1/topics/t/groups/n%00", invalid("group")),
            ("/v1/topics/t/groups/%FF", invalid("")),
            (&format!("/v1/topics/t/groups/{}", long(129)), invalid("group")),
            ("/v1/topics/u/groups/n", missing("topic")),
            ("/v1/topics/t/groups/n?start=middle", invalid("start")),
        ],
    );
    rows.extend(said(
        "PUT",
        "/v1/topics/t/groups/n",
        [
            (r#"{"start":1}"#, invalid("start")),
            (r#"{"start":{}}"#, invalid("start")),
            (r#"{"start":["earliest"]}"#, invalid("start")),
            (r#"{"start":{"time":"now"}}"#, invalid("start.time")),
            (r#"{"start":{"time":1800000000000}}"#, invalid("start.time")),
            (r#"{"start":{"time":"2027-01-15T08:00:00Z","x":1}}"#, invalid("start")),
        ],
    ));
    rows.extend(asked(
        "GET",
        [
            ("/v1/topics/t/groups?limit=0", invalid("limit")),
            ("/v1/topics/t/groups?limit=1001", invalid("limit")),
            ("/v1/topics/t/groups?limit=1&limit=1", invalid("limit")),
            ("/v1/topics/t/groups?cursor=%20", invalid("cursor")),
            ("/v1/topics/u/groups", missing("topic")),
            ("/v1/topics/t/groups/n", missing("group")),
            ("/v1/topics/t/groups/%2e%2e", missing("group")),
            ("/v1/topics/t/groups/g/", missing("route")),
            ("/v1/topics/u/groups/g", missing("topic")),
        ],
    ));
    rows.extend(asked(
        "DELETE",
        [
            (group, invalid("confirm")),
            ("/v1/topics/t/groups/g?confirm=t", invalid("confirm")),
            ("/v1/topics/t/groups/g?confirm=g&confirm=g", invalid("confirm")),
            ("/v1/topics/t/groups/n?confirm=n", missing("group")),
        ],
    ));
    rows.extend(said(
        "POST",
        &format!("{group}/pause"),
        [
            (r#"{"by":1}"#, invalid("by")),
            (r#"{"reason":["x"]}"#, invalid("reason")),
            (r#"{"until":"tomorrow"}"#, invalid("until")),
            (r#"{"until":1800000000000}"#, invalid("until")),
            (r#"{"until":"1969-12-31T23:59:59Z"}"#, invalid("until")),
            (r#"{"until":"10000-01-01T00:00:00Z"}"#, invalid("until")),
            (r#"["reason","by"]"#, invalid("")),
        ],
    ));
    rows.extend(said(
        "POST",
        &format!("{group}/seek"),
        [
            ("{}", invalid("to")),
            (r#"{"to":"middle"}"#, invalid("to")),
            (r#"{"to":[0,0]}"#, invalid("to")),
            (r#"{"to":["2027-01-15T08:00:00Z"]}"#, invalid("to")),
            (r#"{"to":{"partition":2,"offset":0}}"#, invalid("partition")),
            (r#"{"to":{"partition":0,"offset":1.5}}"#, invalid("to")),
            (r#"{"to":{"partition":0,"offset":9007199254740992}}"#, invalid("to")),
            (r#"{"to":{"partition":4294967296,"offset":0}}"#, invalid("to")),
            (r#"{"to":"earliest","dry_run":1}"#, invalid("dry_run")),
            (r#"{"to":"earliest","by":1}"#, invalid("by")),
            (r#"{"to":"earliest","reason":["x"]}"#, invalid("reason")),
            (r#"["earliest"]"#, invalid("")),
        ],
    ));
    for verb in ["pause", "resume"] {
        rows.extend(asked(
            "POST",
            [
                (&*format!("/v1/topics/t/groups/n/{verb}"), missing("group")),
                (&*format!("/v1/topics/u/groups/g/{verb}"), missing("topic")),
                (&*format!("/v1/topics/t/groups/%2e%2e/{verb}"), missing("group")),
                (&*format!("/v1/topics/t/groups//{verb}"), missing("group")),
            ],
        ));
    }
    rows.extend(said(
        "POST",
        "/v1/topics/t/groups/n/seek",
        [(r#"{"to":"earliest"}"#, missing("group"))],
    ));
    rows
}
