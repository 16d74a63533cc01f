//! Damaged rows in a real database stop their partition until a repair. The server keeps running.

use expect_test::expect;

use crate::stage::Stage;

#[test]
fn a_damaged_page_stops_its_partition_until_it_is_repaired() {
    let mut stage = Stage::alone();
    let server = stage.start(&["serve", "--data", "data", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq topic create orders
        created: orders, partitions: 1
        $ driftq topic create other
        created: other, partitions: 1
        $ driftq group create orders biller --start earliest
        group  biller
        backlog  0
        leased  0
        waiting  0

        partition  next to deliver  settled through  backlog  leased  waiting  oldest unsettled  blocked
        0  0  -1  0  0  0  no_consumers
        $ for n in 0 1 2; do driftq produce orders "pay $n" -o ndjson | grep -c offset; done
        1
        1
        1
    "#]]);
    assert_eq!(server.stop(), "");
    stage.check(&expect![[r#"
        $ python3 -c "import sqlite3; db = sqlite3.connect('data/driftq.db'); print(db.execute('UPDATE page SET body = x\'0102\' WHERE last = 1').rowcount); db.commit()"
        1
        $ driftq check --data data 2>&1 | grep problem
        problem: row Page { topic: TopicId(1), lane: Lane(0), last: 1 } is damaged: it is too short
        error: 1 problems found; restore a backup, or see `driftq shard repair --help`
    "#]]);
    let server = stage.start_with_log(&["serve", "--data", "data", "--log", "error"]);
    stage.check(&expect![[r#"
        $ timeout 2 driftq consume orders biller --ack --count 1
        [124]
        $ driftq group show orders biller -o json | grep -oE '"(backlog|blocked)":[^,}]*'
        "backlog":3
        "backlog":3
        "blocked":"quarantined"
        $ driftq produce orders 'pay 3' -o ndjson | grep -c offset
        1
        $ driftq produce other 'pay 4' -o ndjson | grep -c offset
        1
        $ driftq shard repair orders
        lost: partition 0, offsets 1 to 1
        repair of orders would lose 1 messages and redeliver up to 0; repeat with --yes
        $ driftq shard repair other
        other has no damage
        $ driftq shard repair nowhere
        ! error: topic "nowhere" does not exist; check the name with `driftq topic list`, or create it with: driftq topic create nowhere (NOT_FOUND, 404)
        [3]
        $ driftq shard repair orders --yes
        lost: partition 0, offsets 1 to 1
        repaired orders: 1 messages lost, 0 redelivered
        $ driftq shard repair orders
        orders has no damage
        $ driftq consume orders biller --ack --count 3 -o ndjson | grep -o '"value":"[^"]*"'
        "value":"pay 0"
        "value":"pay 2"
        "value":"pay 3"
    "#]]);
    assert_eq!(server.stop(), "");
    stage.check(&expect![[r#"
        $ grep -c 'repair its topic with' log
        1
    "#]]);
}
