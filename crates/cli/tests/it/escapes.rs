//! Control characters in texts of clients cannot forge a log line or reach the terminal.

use expect_test::expect;

use crate::stage::Stage;

/// Leases the only message of a topic and nacks it as a dead letter with this reason.
fn nack(stage: &Stage, reason: &str) {
    let receive = r#"{"topic":"orders","group":"g","owner":"o\u202e"}"#;
    let received = stage.post("/v1/receive", receive);
    let token = &received["messages"][0]["lease"]["token"];
    let nack = serde_json::json!({ "items": [
        { "op": "nack", "token": token, "reason": reason, "dead_letter": true }
    ] });
    stage.post("/v1/settle", &nack.to_string());
}

#[test]
fn tables_and_sentences_are_escaped_and_json_is_unchanged() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    stage.post("/v1/produce", r#"{"topic":"orders","value":"v","key":"k\u001b[31m\nred"}"#);
    nack(&stage, "boom\n  dead letter: m_forged\u{1b}]0;title\u{7}");
    stage.check(&expect![[r#"
        $ driftq peek orders
        partition  offset  id  key  value  produced
        0  0  m_1  k\u001b[31m\nred  v  TIME
        $ driftq dlq list orders
        id  key  group  reason  attempts  last error  dead since  state
        m_2  k\u001b[31m\nred  g  rejected  1  boom\n  dead letter: m_forged\u001b]0;title\u0007  TIME  dead
        $ driftq explain orders/0/0 | sed 's/for [0-9]* ms/for SOME ms/'
        m_1 at orders/0/0, produced at TIME
        g: a dead letter for SOME ms (rejected: boom\n  dead letter: m_forged\u001b]0;title\u0007)
          last error: boom\n  dead letter: m_forged\u001b]0;title\u0007
          dead letter: m_2
        $ driftq dlq list orders -o json | grep -o '"last_error":"[^"]*"'
        "last_error":"boom\n  dead letter: m_forged\u001b]0;title\u0007"
        $ driftq topic show "$(printf 'x\033[31m')"
        ! error: topic "x\u{1b}[31m" does not exist; check the name with `driftq topic list`, or create it with: driftq topic create x\u001b[31m (NOT_FOUND, 404)
        [3]
    "#]]);
}

#[test]
fn a_log_event_is_one_line() {
    for format in ["text", "json"] {
        let mut stage = Stage::alone();
        let server = stage.start_with_log(&["serve", "--engine", "memory", "--log-format", format]);
        stage.check(&expect![[r#"
            $ driftq topic create orders
            created: orders, partitions: 1
        "#]]);
        stage.post("/v1/produce", r#"{"topic":"orders","value":"v"}"#);
        nack(&stage, "boom");
        let redrive = r#"{"filter":{},"by":"m\n2026 INFO dead letters purged by=alice","reason":"\u001b[2J"}"#;
        stage.post("/v1/dlq/orders/redrive", redrive);
        server.stop();
        let log = std::fs::read_to_string(stage.path().join("log")).expect("the log exists");
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("dead letters")).collect();
        assert_eq!(lines.len(), 1, "{log}");
        assert!(lines[0].contains(r"m\n2026 INFO dead letters purged by=alice"), "{log}");
        assert!(!log.contains('\u{1b}'), "{log}");
    }
}
