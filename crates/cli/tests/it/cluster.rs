//! Nodes and shards on PostgreSQL, and the migration from SQLite.

use expect_test::expect;

use crate::stage::Stage;

#[test]
fn a_directory_is_copied_to_postgres_served_and_restored() {
    let mut stage = Stage::with_database();
    let server = stage.start(&["serve", "--data", "data", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq topic create orders
        created: orders, partitions: 1
        $ driftq produce orders 'pay 12'
        m_1 in partition 0 at offset 0
        $ driftq consume orders biller --count 1 -o json | grep -o '"token": *"[^"]*"' | cut -d '"' -f 4
        lt_1
        $ driftq node list
        ! error: this server is a single node; to run several, use --engine postgres (FAILED_PRECONDITION, 409)
        [4]
        $ driftq shard list
        ! error: this server is a single node; to run several, use --engine postgres (FAILED_PRECONDITION, 409)
        [4]
        $ driftq copy-to-postgres --data data 2>&1 | sed 's/process [0-9]*/process PID/'
        error: data is in use by process PID; stop it, or set --data to another directory
        $ driftq shard check
        ! error: the database contains no DriftQ storage; check the database URL
        [1]
    "#]]);
    assert_eq!(server.stop(), "");
    stage.check(&expect![[r#"
        $ driftq copy-to-postgres --data data | grep -E '^(block|consumer_group|owner|page|topic) '
        block  1
        consumer_group  1
        owner  1
        page  1
        topic  1
        ! copied; start servers on the database from now on
        $ driftq copy-to-postgres --data data
        ! error: the directory was already copied to this database; start servers on the database
        [1]
        $ driftq serve --data data --log error
        ! error: data was copied to a database; start servers on the database. To go back, delete the database and run `driftq mark-restored --data data`; everything that the database accepted since the copy is then lost
        [1]
        $ driftq shard check -o ndjson | sed -E 's/"(batch|rows)":[0-9]+/"\1":SOME/g'
        {"batch":SOME,"epoch":1,"rows":SOME,"shard":0}
        ! ok
    "#]]);
    let server = stage.start(&["serve", "--engine", "postgres", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq ack lt_1
        acked
        $ driftq node list
        node  address  version  state  shards  joined
        n_1  URL  VERSION  active  1  TIME
        $ driftq shard list | sed -E 's/ [0-9]+ *$/ BATCH/'
        shard  state  address  epoch  since  batch  pinned to
        0  held  URL  2  TIME  BATCH
        $ driftq shard move 0 http://localhost:1
        ! error: node http://localhost:1 does not exist; list the nodes with: driftq node list (NOT_FOUND, 404)
        [3]
        $ driftq shard move 0 any -o json | grep -o '"state":"[^"]*"'
        "state":"held"
        $ driftq shard move 1 any
        ! error: the shard does not exist; list shards with: driftq shard list (NOT_FOUND, 404)
        [3]
        $ driftq node drain n_1
        ! error: no other node accepts shards; start another node first (FAILED_PRECONDITION, 409)
        [4]
        $ driftq node undrain n_1 -o json | grep -o '"state":"[^"]*"'
        "state":"active"
        $ driftq shard check --shard 9
        ! error: shard 9 does not exist; the database has 1 shards, numbered from 0
        [1]
        $ driftq shard check --shard 0 -o ndjson | sed -E 's/"(batch|rows)":[0-9]+/"\1":SOME/g'
        {"batch":SOME,"epoch":2,"rows":SOME,"shard":0}
        ! ok
        $ driftq mark-restored | sed 's/now [0-9]*/now SOME/'
        ! error: the node at URL has a lease that has not expired; stop the node if it runs on this database, and repeat when the lease has expired (cluster.lease_ms, 10 s by default)
    "#]]);
    assert_eq!(server.stop(), "");
    stage.check(&expect![[r#"
        $ driftq mark-restored | sed 's/now [0-9]*/now SOME/'
        restore generation is now SOME; start the servers
        $ driftq mark-restored --data data | sed 's/now [0-9]*/now SOME/'
        restore generation is now SOME; start the servers
    "#]]);
    let server = stage.start(&["serve", "--engine", "postgres", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq topic list
        name  partitions  messages  bytes  dead letters  groups
        orders  1  1  6  0  biller
        $ driftq ack lt_1
        ! error: the lease of attempt 1 has ended: the group was moved, created again or restored from a backup. Discard the result; do not retry. (STALE_LEASE, 409)
        [4]
    "#]]);
    assert_eq!(server.stop(), "");
}
