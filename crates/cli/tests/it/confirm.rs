//! Commands that cannot be undone show what would be lost. On a terminal they ask, elsewhere they
//! require `--yes`.

use expect_test::expect;

use crate::stage::Stage;

/// Runs its second argument on a pseudo terminal and types its first argument into it.
const ON_TERMINAL: &str = "printf '%s\\n' \"$1\" | script -qe -E never -c \"$2\" /dev/null\n";

fn stage() -> Stage {
    let stage = Stage::alone();
    std::fs::write(stage.path().join("type"), ON_TERMINAL).expect("a file");
    stage
}

#[test]
fn on_a_terminal_they_ask() {
    let mut stage = stage();
    let server = stage.start_with_log(&["serve", "--engine", "memory"]);
    stage.check(&expect![[r#"
        $ driftq topic create orders
        created: orders, partitions: 1
        $ for n in 1 2 3; do driftq produce orders "pay $n" | grep -c offset; done
        1
        1
        1
        $ driftq consume orders biller --count 2 | grep -c token
        2
        $ driftq consume orders other --count 1 | driftq nack $(grep -o 'lt_[A-Za-z0-9_-]*') --final --reason card
        nacked
        $ driftq group pause orders biller --by ops -o json | grep -c paused
        1
        $ sh type n 'driftq group seek orders biller latest'
        seeking group "biller" of "orders" to latest would skip 1 messages, redeliver 0, and discard the leases and attempts of 2 open messages
        Continue? [y/N] error: nothing was changed
        [1]
        $ sh type '' 'driftq group seek orders biller latest'
        seeking group "biller" of "orders" to latest would skip 1 messages, redeliver 0, and discard the leases and attempts of 2 open messages
        Continue? [y/N] error: nothing was changed
        [1]
        $ driftq group show orders biller -o json | grep -oE '"next_to_deliver":[0-9]+'
        "next_to_deliver":2
        $ sh type y 'driftq group seek orders biller latest --by ann --reason "paid by hand"'
        seeking group "biller" of "orders" to latest would skip 1 messages, redeliver 0, and discard the leases and attempts of 2 open messages
        Continue? [y/N] moved: 0 messages to redeliver, 1 skipped, 2 open dropped
        $ driftq group show orders biller -o json | grep -oE '"next_to_deliver":[0-9]+'
        "next_to_deliver":3
        $ sh type n 'driftq group seek orders biller latest'
        moved: 0 messages to redeliver, 0 skipped, 0 open dropped
        $ sh type n 'driftq dlq redrive orders'
        redriving all dead letters of "orders" would deliver 1 messages again
        Continue? [y/N] error: nothing was changed
        [1]
        $ sh type n 'driftq dlq purge orders --until 2999-01-01T00:00:00Z'
        1 dead letters would be deleted
        Continue? [y/N] error: nothing was changed
        [1]
        $ driftq dlq list orders -o ndjson | wc -l
        1
        $ sh type Y 'driftq dlq redrive orders --by ann --comment fixed'
        redriving all dead letters of "orders" would deliver 1 messages again
        Continue? [y/N] redriven: 1
        $ sh type n 'driftq dlq redrive orders'
        redriven: 0; the topic has no dead letters that were not redriven
        $ sh type no 'driftq group delete orders biller'
        deleting "biller" would discard its cursors: 1 messages are unsettled (0 open)
        Continue? [y/N] error: nothing was changed
        [1]
        $ sh type y 'driftq group delete orders biller 2> said'; cat said
        error: deleting "biller" would discard its cursors: 1 messages are unsettled (0 open); repeat with --yes
        $ driftq group show orders biller | grep group
        group  biller
        $ sh type yes 'driftq group delete orders biller --by ann --reason unused'
        deleting "biller" would discard its cursors: 1 messages are unsettled (0 open)
        Continue? [y/N] deleted biller
        $ sh type n 'driftq topic delete orders'
        deleting "orders" would drop 4 messages (0 open), 1 groups, 0 dead letters
        Continue? [y/N] error: nothing was changed
        [1]
        $ driftq topic list
        name  partitions  messages  bytes  dead letters  groups
        dlq.orders  1  1  5  0
        orders  1  4  20  0  other
        $ USER=sam sh type y 'driftq topic delete orders --reason "end of test"'
        deleting "orders" would drop 4 messages (0 open), 1 groups, 0 dead letters
        Continue? [y/N] deleted orders with 4 messages
        $ driftq topic list
        name  partitions  messages  bytes  dead letters  groups
        $ grep -oE '(group (moved|deleted)|topic deleted|dead letters) .* request_id' log
        group moved by seek topic="orders" group="biller" redelivers=0 skips=1 by="ann" reason="paid by hand" request_id
        group moved by seek topic="orders" group="biller" redelivers=0 skips=0 request_id
        dead letters redriven topic="orders" matched=1 redriven=1 by="ann" reason="fixed" request_id
        group deleted topic="orders" group="biller" backlog=1 open=0 by="ann" reason="unused" request_id
        topic deleted topic="orders" messages=4 dead_letters=0 by="sam" reason="end of test" request_id
    "#]]);
    server.stop();
}

#[test]
fn without_a_terminal_they_require_yes() {
    let mut stage = stage();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    stage.check(&expect![[r#"
        $ driftq produce orders 'pay 1' | grep -c offset
        1
        $ driftq consume orders biller --count 1 | driftq nack $(grep -o 'lt_[A-Za-z0-9_-]*') --final --reason card
        nacked
        $ driftq dlq redrive orders
        ! error: redriving all dead letters of "orders" would deliver 1 messages again; repeat with --yes
        [2]
        $ driftq dlq redrive orders --dry-run
        would redrive 1
        $ driftq dlq redrive orders --yes
        redriven: 1
        $ driftq dlq redrive orders
        redriven: 0; the topic has no dead letters that were not redriven
        $ driftq group pause orders biller -o json | grep -c paused
        1
        $ driftq group seek orders biller earliest
        ! error: seeking group "biller" of "orders" to earliest would skip 0 messages, redeliver 1, and discard the leases and attempts of 0 open messages; repeat with --yes
        [2]
        $ driftq group seek orders biller earliest --yes
        moved: 1 messages to redeliver, 0 skipped, 0 open dropped
        $ driftq group seek orders biller earliest
        moved: 0 messages to redeliver, 0 skipped, 0 open dropped
    "#]]);
}

#[test]
fn a_resolution_shows_the_effect() {
    let mut stage = stage();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    let begin = r#"{"scope":"op/charge","key":"order-77","on_doubt":"park","owner":"api-1"}"#;
    let token = stage.post("/v1/effects/begin", begin)["token"].to_string();
    stage.post("/v1/effects/finish", &format!(r#"{{"token":{token},"status":"UNKNOWN"}}"#));
    stage.check(&expect![[r#"
        $ driftq effect resolve op/charge order-77 --fence 1 --as retry --by ops --reason 'no charge there'
        ! error: effect op/charge order-77 of tenant default is PARKED since TIME, at fence 1 of api-1; resolving it as retry would let the next worker execute it again; repeat with --yes
        [2]
        $ sh type n 'driftq effect resolve op/charge order-77 --fence 1 --as failed --by ops --reason declined'
        effect op/charge order-77 of tenant default is PARKED since TIME, at fence 1 of api-1; resolving it as failed would record it as failed for good: it would never be executed again
        Continue? [y/N] error: nothing was changed
        [1]
        $ driftq effect show op/charge order-77 | grep state
        state  PARKED
        $ sh type y 'driftq effect resolve op/charge order-77 --fence 1 --as succeeded --by ops --reason "found ch_1"'
        effect op/charge order-77 of tenant default is PARKED since TIME, at fence 1 of api-1; resolving it as succeeded would record it as happened: it would never be executed again
        Continue? [y/N] resolved: SUCCEEDED
        $ driftq effect resolve op/charge order-77 --fence 1 --as succeeded --by ops --reason 'found ch_1'
        ! error: effect op/charge order-77 of tenant default is SUCCEEDED since TIME, at fence 1 of api-1; resolving it as succeeded would record it as happened: it would never be executed again; repeat with --yes
        [2]
        $ driftq effect resolve op/charge absent --fence 1 --as succeeded --by ops --reason 'found ch_1'
        ! error: the effect does not exist (NOT_FOUND, 404)
        [3]
    "#]]);
}
