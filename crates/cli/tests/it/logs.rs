//! The log of a server: its start and stop, requests, administrative acts, and its form as JSON.

use expect_test::expect;
use serde_json::Value;

use crate::stage::Stage;

fn log_of(stage: &Stage) -> String {
    std::fs::read_to_string(stage.path().join("log")).expect("the log exists")
}

/// Returns the lines that contain all of these texts.
fn lines<'a>(log: &'a str, texts: &[&str]) -> Vec<&'a str> {
    log.lines().filter(|line| texts.iter().all(|text| line.contains(text))).collect()
}

#[test]
fn start_and_stop_have_one_line_each() {
    let mut stage = Stage::alone();
    let server = stage.start_with_log(&["serve", "--data", "data"]);
    assert_eq!(server.stop(), "");
    let log = log_of(&stage);
    let started = lines(&log, &["DriftQ started"]);
    assert_eq!(started.len(), 1, "{log}");
    let version = format!("version={}", env!("CARGO_PKG_VERSION"));
    let durability = r#"durability="fsync before every acknowledgement""#;
    let address = "address=127.0.0.1:";
    for part in [&*version, "engine=sqlite", address, r#"data="data""#, durability, "shards=1"] {
        assert!(started[0].contains(part), "{part}: {}", started[0]);
    }
    assert_eq!(lines(&log, &[" INFO shard 0 acquired epoch=1 loaded_in="]).len(), 1, "{log}");
    assert_eq!(lines(&log, &[" INFO stopped after "]).len(), 1, "{log}");
    assert!(log.ends_with(" s\n"), "the stop is the last line: {log}");
}

#[test]
fn a_request_has_a_line_at_debug_and_none_at_info() {
    for (level, requests) in [("debug", 1), ("info", 0)] {
        let mut stage = Stage::alone();
        let server = stage.start_with_log(&["serve", "--engine", "memory", "--log", level]);
        stage.check(&expect![[r#"
            $ driftq topic create orders
            created: orders, partitions: 1
            $ curl -sH 'X-Request-Id: first-1' $DRIFTQ_URL/v1/produce -d '{"topic":"orders","value":"pay 1"}' | grep -o '"status":"[a-z]*"'
            "status":"produced"
            $ curl -sH 'X-Request-Id: second-2' $DRIFTQ_URL/v1/topics/nowhere/groups/biller | grep -o '"request_id":"[^"]*"'
            "request_id":"second-2"
            $ curl -sH 'X-Request-Id: third-3' -X POST "$DRIFTQ_URL/v1/receive?topic=orders&group=biller&owner=me&wait_ms=1" | grep -o '"messages"'
            "messages"
        "#]]);
        server.stop();
        let log = log_of(&stage);
        let produce = ["DEBUG request method=POST route=/v1/produce status=200 duration_ms="];
        let with_id = [produce[0], "request_id=first-1", r#"topic="orders""#];
        assert_eq!(lines(&log, &with_id).len(), requests, "{log}");
        let group = "DEBUG request method=GET route=/v1/topics/{topic}/groups/{group} status=404 error=NOT_FOUND";
        let with_id = [group, "request_id=second-2", r#"topic="nowhere""#, r#"group="biller""#];
        assert_eq!(lines(&log, &with_id).len(), requests, "{log}");
        let receive = "DEBUG request method=POST route=/v1/receive status=200 ";
        let with_id = [receive, "request_id=third-3", r#"topic="orders""#, r#"group="biller""#];
        assert_eq!(lines(&log, &with_id).len(), requests, "{log}");
        assert_eq!(lines(&log, &["request_id=third-3"]).len(), requests, "{log}");
    }
}

#[test]
fn an_administrative_act_has_a_line_with_its_request_id() {
    let mut stage = Stage::alone();
    let server = stage.start_with_log(&["serve", "--engine", "memory"]);
    stage.check(&expect![[r#"
        $ api() { curl -sH "X-Request-Id: $1" -X "$2" "$DRIFTQ_URL/v1/$3" >> replies; }; api r1 POST 'topics?name=orders'; api r2 POST 'topics?name=orders'; api r3 PUT topics/orders/groups/biller; api r4 POST 'topics/orders/groups/biller/pause?by=ann&reason=a%20new%20release'; api r5 POST 'topics/orders/groups/biller/resume?by=ann&reason=fixed'; api r6 POST 'topics/orders/groups/biller/seek?to=earliest&dry_run=true'; api r7 POST 'topics/orders/groups/biller/seek?to=earliest&by=ann&reason=again'; api r8 DELETE 'topics/orders/groups/biller'; api r9 DELETE 'topics/orders/groups/biller?confirm=biller&by=ann&reason=unused'; api r10 POST 'topics/orders/repair?by=ann&reason=damage'; api r11 DELETE 'topics/orders?confirm=orders&by=ann&reason=end'
        $ grep -o '"error":"[A-Z_]*"' replies
        "error":"INVALID_ARGUMENT"
        $ grep -oE '(topic|group) [a-z].*request_id=.*' log
        topic created topic="orders" partitions=1 request_id=r1
        group created topic="orders" group="biller" request_id=r3
        group paused topic="orders" group="biller" by="ann" reason="a new release" request_id=r4
        group resumed topic="orders" group="biller" by="ann" reason="fixed" request_id=r5
        group moved by seek topic="orders" group="biller" redelivers=0 skips=0 by="ann" reason="again" request_id=r7
        group deleted topic="orders" group="biller" backlog=0 open=0 by="ann" reason="unused" request_id=r9
        topic repaired topic="orders" messages_lost=0 messages_redelivered=0 by="ann" reason="damage" request_id=r10
        topic deleted topic="orders" messages=0 dead_letters=0 by="ann" reason="end" request_id=r11
    "#]]);
    server.stop();
}

/// Two bytes of a page are overwritten, so that the server cannot answer a request for its message.
#[test]
fn an_internal_error_is_logged_under_its_request_id() {
    let mut stage = Stage::alone();
    let server = stage.start(&["serve", "--data", "data", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq topic create orders
        created: orders, partitions: 1
        $ driftq produce orders 'pay 1' -o ndjson | grep -c offset
        1
    "#]]);
    server.stop();
    stage.check(&expect![[r#"
        $ python3 -c "import sqlite3; db = sqlite3.connect('data/driftq.db'); print(db.execute('UPDATE page SET body = x\'0102\'').rowcount); db.commit()"
        1
    "#]]);
    let server = stage.start_with_log(&["serve", "--data", "data", "--log", "error"]);
    stage.check(&expect![[r#"
        $ curl -sH 'X-Request-Id: broken-1' "$DRIFTQ_URL/v1/topics/orders/messages" | grep -oE '"error":"INTERNAL"|see the server log for request id [a-z0-9-]*|"request_id":"[^"]*"'
        "error":"INTERNAL"
        see the server log for request id broken-1
        "request_id":"broken-1"
    "#]]);
    server.stop();
    let log = log_of(&stage);
    assert_eq!(
        lines(&log, &["ERROR stored data is damaged", "request_id=broken-1"]).len(),
        1,
        "{log}"
    );
}

#[test]
fn with_the_format_json_every_line_is_json() {
    let mut stage = Stage::alone();
    let arguments = ["serve", "--data", "data", "--log-format", "json", "--log", "trace"];
    let server = stage.start_with_log(&arguments);
    stage.check(&expect![[r#"
        $ driftq topic create orders
        created: orders, partitions: 1
        $ driftq produce orders 'pay 1' -o ndjson | grep -c offset
        1
        $ driftq serve --data data --listen 127.0.0.1:0 --log-format json 2> refused
        [1]
    "#]]);
    let printed = server.stop();
    let mut log = log_of(&stage);
    log += &std::fs::read_to_string(stage.path().join("refused")).expect("the file exists");
    for line in printed.lines().chain(log.lines()) {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        for field in ["timestamp", "level", "message"] {
            assert!(event[field].is_string(), "{field}: {line}");
        }
    }
    let messages: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("checked")).collect();
    let with = |message: &str| messages.iter().filter(|event| event["message"] == message).count();
    assert_eq!(with("DriftQ started"), 1, "{log}");
    assert_eq!(with("topic created"), 1, "{log}");
    assert!(with("request") >= 2, "{log}");
    assert!(with("batch committed") >= 2, "{log}");
    // The second server could not use the directory.
    let refused = messages.iter().filter(|event| event["level"] == "ERROR");
    let refused: Vec<&str> = refused.filter_map(|event| event["message"].as_str()).collect();
    assert!(matches!(refused[..], [message] if message.contains("is in use")), "{refused:?}");
}
