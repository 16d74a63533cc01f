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
        $ for n in 1 2 3; do driftq produce orders "pay $n" | grep -c offset; done
        $ driftq consume orders biller --count 2 | grep -c token
        $ driftq consume orders other --count 1 | driftq nack $(grep -o 'lt_[a-z0-9]*') --final --reason card
        $ driftq group pause orders biller --by ops -o json | grep -c paused
        $ sh type n 'driftq group seek orders biller latest'
        $ sh type '' 'driftq group seek orders biller latest'
        $ driftq group show orders biller -o json | grep -oE '"next_to_deliver":[0-9]+'
        $ sh type y 'driftq group seek orders biller latest --by ann --reason "paid by hand"'
        $ driftq group show orders biller -o json | grep -oE '"next_to_deliver":[0-9]+'
        $ sh type n 'driftq group seek orders biller latest'
        $ sh type n 'driftq dlq redrive orders'
        $ sh type n 'driftq dlq purge orders --until 2999-01-01T00:00:00Z'
        $ driftq dlq list orders -o ndjson | wc -l
        $ sh type Y 'driftq dlq redrive orders --by ann --comment fixed'
        $ sh type n 'driftq dlq redrive orders'
        $ sh type no 'driftq group delete orders biller'
        $ sh type y 'driftq group delete orders biller 2> said'; cat said
        $ driftq group show orders biller | grep group
        $ sh type yes 'driftq group delete orders biller --by ann --reason unused'
        $ sh type n 'driftq topic delete orders'
        $ driftq topic list
        $ USER=sam sh type y 'driftq topic delete orders --reason "end of test"'
        $ driftq topic list
        $ grep -oE '(group (moved|deleted)|topic deleted|dead letters) .* request_id' log
    "#]]);
    server.stop();
}

#[test]
fn without_a_terminal_they_require_yes() {
    let mut stage = stage();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    stage.check(&expect![[r#"
        $ driftq produce orders 'pay 1' | grep -c offset
        $ driftq consume orders biller --count 1 | driftq nack $(grep -o 'lt_[a-z0-9]*') --final --reason card
        $ driftq dlq redrive orders
        $ driftq dlq redrive orders --dry-run
        $ driftq dlq redrive orders --yes
        $ driftq dlq redrive orders
        $ driftq group pause orders biller -o json | grep -c paused
        $ driftq group seek orders biller earliest
        $ driftq group seek orders biller earliest --yes
        $ driftq group seek orders biller earliest
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
        $ sh type n 'driftq effect resolve op/charge order-77 --fence 1 --as failed --by ops --reason declined'
        $ driftq effect show op/charge order-77 | grep state
        $ sh type y 'driftq effect resolve op/charge order-77 --fence 1 --as succeeded --by ops --reason "found ch_1"'
        $ driftq effect resolve op/charge order-77 --fence 1 --as succeeded --by ops --reason 'found ch_1'
        $ driftq effect resolve op/charge absent --fence 1 --as succeeded --by ops --reason 'found ch_1'
    "#]]);
}
