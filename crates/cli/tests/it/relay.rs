//! `driftq relay`: rows of an outbox become messages, once.

use expect_test::expect;

use crate::stage::{Running, Stage};

/// A server with two topics, and a database with the tables of the ledger.
fn outbox() -> (Stage, Running) {
    let mut stage = Stage::with_database();
    let server = stage.start(&["dev", "--topic", "orders", "--topic", "short"]);
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdks/ledger/schema.sql");
    std::fs::copy(schema, stage.path().join("schema.sql")).expect("a file");
    let sql = "#!/bin/sh\nexec psql \"$DRIFTQ_DATABASE_URL\" -qAt -v ON_ERROR_STOP=1 \"$@\"\n";
    std::fs::write(stage.path().join("sql"), sql).expect("a file");
    let relay =
        "#!/bin/sh\nexec driftq relay --database-url \"$DRIFTQ_DATABASE_URL\" --once \"$@\"\n";
    std::fs::write(stage.path().join("relay"), relay).expect("a file");
    (stage, server)
}

#[test]
fn committed_rows_become_messages_once() {
    let (mut stage, _server) = outbox();
    stage.check(&expect![[r#"
        $ sh relay
        stored 0, rejected 0, not sent again 0
        ! error: read the outbox; its tables are in sdks/ledger/schema.sql: db error: ERROR: relation "driftq_outbox" does not exist
        [1]
        $ sh sql -f schema.sql
        $ sh sql -c "SELECT driftq_enqueue('orders', 'pay 12', 'cust-9') IS NOT NULL"
        t
        $ sh sql -c "BEGIN" -c "SELECT driftq_enqueue('orders', 'pay 13') IS NOT NULL" -c "ROLLBACK"
        t
        $ sh sql -c "SELECT driftq_enqueue('orders', 'pay 14', envelope => '{\"tenant_id\": \"acme\"}') IS NOT NULL"
        t
        $ sh relay
        stored 2, rejected 0, not sent again 0
        $ sh relay
        stored 0, rejected 0, not sent again 0
        $ sh sql -c "SELECT count(*) FROM driftq_outbox"
        0
        $ driftq peek orders -o ndjson | grep -o '"key":"[^"]*"\|"value":"[^"]*"\|"tenant_id":"[^"]*"'
        "key":"cust-9"
        "value":"pay 12"
        "key":""
        "value":"pay 14"
        "tenant_id":"acme"
    "#]]);
}

/// A relay that died after the server stored the message has left the row.
#[test]
fn a_row_that_was_sent_before_is_stored_once() {
    let (mut stage, _server) = outbox();
    stage.check(&expect![[r#"
        $ sh sql -f schema.sql
        $ sh sql -c "SELECT driftq_enqueue('orders', 'a', envelope => '{\"idempotency_key\": \"k\"}')"
        k
        $ driftq produce orders a --idempotency-key k
        m_1 in partition 0 at offset 0
        $ sh sql -c "UPDATE driftq_outbox SET first_sent_at = now() - interval '1 hour'"
        $ sh relay
        stored 1, rejected 0, not sent again 0
        $ driftq topic show orders | grep '^messages'
        messages  1
    "#]]);
}

#[test]
fn a_row_that_the_server_may_have_forgotten_is_reported() {
    let (mut stage, _server) = outbox();
    stage.check(&expect![[r#"
        $ driftq topic set short effect_ttl_ms=1m dedupe_ttl_ms=2m | grep changed
        changed settings  dedupe_ttl_ms, effect_ttl_ms
        $ sh sql -f schema.sql
        $ sh sql -c "SELECT driftq_enqueue(topic, 'a') IS NOT NULL FROM (VALUES ('short'), ('orders')) AS t (topic)"
        t
        t
        $ sh sql -c "UPDATE driftq_outbox SET first_sent_at = now() - interval '90 seconds'"
        $ sh relay
        stored 1, rejected 0, not sent again 1
        ! message 1 for short: it may be stored: it was sent longer ago than dedupe_ttl_ms of its topic. Find out, then delete the row, or set first_sent_at and retry_at to NULL to send it
        $ sh sql -c "SELECT topic, retry_at, left(last_error, 20) FROM driftq_outbox"
        short|infinity|it may be stored: it
        $ sh sql -c "UPDATE driftq_outbox SET first_sent_at = NULL, retry_at = NULL"
        $ sh relay
        stored 1, rejected 0, not sent again 0
    "#]]);
}

/// The server rejects a request that has one malformed message as a whole.
#[test]
fn a_wrong_row_keeps_no_other_from_being_stored() {
    let (mut stage, _server) = outbox();
    stage.check(&expect![[r#"
        $ sh sql -f schema.sql
        $ sh sql -c "SELECT count(driftq_enqueue('orders', convert_to(n::text, 'UTF8'))) FROM generate_series(1, 20) AS n"
        20
        $ sh sql -c "SELECT driftq_enqueue('orders', 'x', envelope => '{\"unknown\": 1}') IS NOT NULL"
        t
        $ sh sql -c "SELECT driftq_enqueue('nowhere', 'x') IS NOT NULL"
        t
        $ sh relay 2>&1 | sed 's/outbox-[0-9a-f-]*/KEY/'
        message 21: messages[0].envelope.unknown: unknown field; known: run_id, step_id, parent_step_id, tenant_id, idempotency_key, target_topic, partition_override, deadline, retry_policy, labels, headers (INVALID_ARGUMENT)
        message 22: the topic does not exist; check the name with `driftq topic list`, or create it with: driftq topic create <topic> (NOT_FOUND)
        stored 20, rejected 2, not sent again 0
        $ sh sql -c "SELECT topic, first_sent_at, retry_at > now() + interval '50 seconds' FROM driftq_outbox ORDER BY id"
        orders||t
        nowhere||t
        $ driftq topic create nowhere
        created: nowhere, partitions: 1
        $ sh sql -c "UPDATE driftq_outbox SET retry_at = now()"
        $ sh relay 2>&1 | sed 's/outbox-[0-9a-f-]*/KEY/'
        message 21: messages[0].envelope.unknown: unknown field; known: run_id, step_id, parent_step_id, tenant_id, idempotency_key, target_topic, partition_override, deadline, retry_policy, labels, headers (INVALID_ARGUMENT)
        stored 1, rejected 1, not sent again 0
    "#]]);
}

#[test]
fn a_database_that_is_lost_is_reported() {
    let (mut stage, _server) = outbox();
    stage.check(&expect![[r#"
        $ driftq relay --database-url postgresql://127.0.0.1:9/none --once
        stored 0, rejected 0, not sent again 0
        ! error: the database cannot be used: 127.0.0.1:9/none: error connecting to server: Connection refused (os error 111)
        [1]
        $ sh sql -f schema.sql
        $ sh sql -c "SELECT driftq_enqueue('orders', 'a') IS NOT NULL"
        t
        $ DRIFTQ_URL=http://127.0.0.1:9 timeout 3 sh relay
        stored 0, rejected 0, not sent again 0
        [124]
        $ sh relay
        stored 1, rejected 0, not sent again 0
    "#]]);
}
