//! Nodes and shards on PostgreSQL, and the way there from SQLite.

use expect_test::expect;

use crate::stage::Stage;

#[test]
fn a_directory_is_copied_served_from_a_database_looked_after_and_restored() {
    let mut stage = Stage::with_database();
    let server = stage.start(&["serve", "--data", "data", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq topic create orders
        $ driftq produce orders 'pay 12'
        $ driftq consume orders biller --count 1 -o json | grep -o '"token": *"[^"]*"' | cut -d '"' -f 4
        $ driftq node list
        $ driftq shard list
        $ driftq copy --data data 2>&1 | sed 's/process [0-9]*/process PID/'
        $ driftq shard check
    "#]]);
    assert_eq!(server.stop(), "");
    stage.check(&expect![[r#"
        $ driftq copy --data data
        $ driftq copy --data data
        $ driftq shard check
    "#]]);
    let server = stage.start(&["serve", "--engine", "postgres", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq ack lt_1
        $ driftq node list
        $ driftq shard list
        $ driftq shard move 0 http://localhost:1
        $ driftq shard move 0 any
        $ driftq shard move 1 any
        $ driftq node drain n_1
        $ driftq node undrain n_1 -o json | grep state
        $ driftq shard check --shard 0 -o ndjson | sed 's/"epoch":[0-9]*/"epoch":SOME/'
        $ driftq restored | sed 's/restore [0-9]*/restore SOME/'
    "#]]);
    assert_eq!(server.stop(), "");
    stage.check(&expect![[r#"
        $ driftq restored | sed 's/restore [0-9]*/restore SOME/'
        $ driftq restored --data data | sed 's/restore [0-9]*/restore SOME/'
    "#]]);
    let server = stage.start(&["serve", "--engine", "postgres", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq topic list
        $ driftq ack lt_1
    "#]]);
    assert_eq!(server.stop(), "");
}
