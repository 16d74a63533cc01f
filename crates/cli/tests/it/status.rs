//! `driftq status` and `driftq top` against a real server.

use expect_test::expect;

use crate::stage::Stage;

/// Replaces ages, sizes and rates.
const MASK: &str = r"
s/\b[0-9]+(ms|s|m|h)\b/AGE/g
s/[0-9.]+ [KMGT]?i?B/SIZE/g
s/[0-9]+\.[0-9]+( |$)/RATE\1/g
s/(: |, )[0-9.]+ (produced|delivered|acked|failed)/\1RATE \2/g
";

#[test]
fn status_shows_the_whole_system_on_one_screen() {
    let mut stage = Stage::alone();
    let server = stage.start(&["serve", "--data", "data", "--log", "error"]);
    std::fs::write(stage.path().join("mask"), MASK).expect("a file");
    stage.check(&expect![[r#"
        $ driftq topic create orders
        created: orders, partitions: 1
        $ driftq topic create refunds
        created: refunds, partitions: 1
        $ driftq group create orders biller -o json > group
        $ for n in 0 1 2; do driftq produce orders "pay $n" -o ndjson > receipt; done
        $ driftq consume orders biller --ack --count 1 -o ndjson > message
        $ driftq status | sed -Ef mask
        DriftQ 0.RATE on sqlite: ready, up AGE
        2 topics, 1 groups, 3 messages stored (SIZE)
        backlog 2: 0 leased, 0 waiting for a retry, oldest AGE
        per second: RATE produced, RATE delivered, RATE acked, RATE failed
        0 dead letters, 0 effects in doubt, 0 effects parked
        disk: SIZE free

        topic  group  backlog  oldest  leased  waiting  delivered/s  acked/s  failed/s  paused by
        orders  biller  2  AGE  0  0  RATE  RATE  RATE

        topic  partitions  messages  size  produced/s  dead letters
        orders  1  3  SIZE  RATE  0
        refunds  1  0  SIZE  RATE  0
        $ driftq status -o json | grep -o '"backlog": 2' | head -1
        "backlog": 2
        $ driftq status --limit 0
        ! error: invalid value '0' for '--limit <LIMIT>': 0 is not in 1..=1000
        !
        ! For more information, try '--help'.
        [2]
        $ driftq top
        ! error: top needs a terminal; for a single report use: driftq status
        [2]
        $ (sleep 1; printf b; sleep 1; printf q) | timeout 20 script -qec 'driftq top --interval 1' /dev/null | grep -q 'sorted by backlog; keys' && echo sorted
        sorted
    "#]]);
    assert_eq!(server.stop(), "");
}
