//! Data directories without a server: inspected, verified, copied and served again.

use expect_test::expect;

use crate::stage::Stage;

#[test]
fn a_data_directory_is_inspected_verified_copied_and_served_again() {
    let mut stage = Stage::alone();
    let server = stage.start(&["serve", "--data", "data", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq topic create orders
        created: orders, partitions: 1
        $ driftq produce orders 'pay 12' --idempotency-key order-77
        m_1 in partition 0 at offset 0
        $ driftq version | sed 's/commit .*/commit SOME/'
        client  VERSION
        client commit SOME
        server  VERSION
        server commit SOME
        engine  sqlite
        durability  fsync before every acknowledgement
        started  TIME
        $ driftq check --data data 2>&1 | sed 's/process [0-9]*/process PID/'
        error: data is in use by process PID; stop it, or set --data to another directory
        $ driftq backup --data data --to backup.db | sed 's/[0-9]* bytes/SOME bytes/'
        written: backup.db, SOME bytes
        $ driftq backup --data data --to backup.db
        ! error: backup.db already exists; choose another file
        [1]
        $ driftq shard dump --data data --table topic | sed 's/created_at":[0-9]*/created_at":AT/'
        topic kind=topic name=orders namespace=default topic=1 {"created_at":AT,"kind":"topic","partitions":1,"settings":{}}
    "#]]);
    assert_eq!(server.stop(), "");
    stage.check(&expect![[r#"
        $ driftq check --data data
        table  rows
        audit  1
        head  1
        page  1
        record  1
        topic  1
        ! ok
        $ driftq check --data data -o ndjson
        {"rows":1,"table":"audit"}
        {"rows":1,"table":"head"}
        {"rows":1,"table":"page"}
        {"rows":1,"table":"record"}
        {"rows":1,"table":"topic"}
        ! ok
        $ (umask 0; mkdir open shared); chmod g+w,o-w shared
        $ driftq serve --data open --log error
        ! error: other users can write to open (mode 0777); run `chmod go-w open`, or set --data to a new directory inside it
        [1]
        $ driftq serve --data shared --log error
        ! error: other users can write to shared (mode 0775); run `chmod go-w shared`, or set --data to a new directory inside it
        [1]
        $ ls -A open shared | grep -v : | wc -w
        0
        $ driftq check --data nowhere
        ! error: nowhere contains no DriftQ database; set --data to the data directory of a server
        [1]
        $ driftq shard dump --data nowhere
        ! error: nowhere contains no DriftQ database; set --data to the data directory of a server
        [1]
        $ driftq shard dump --data data --table pge
        ! error: invalid value 'pge' for '--table <TABLE>'
        !   [possible values: head, topic, consumer_group, lane, cursor, mark, page, block, note, owner, record, dead, garbage, held, outbox, pointer, history, audit]
        !
        !   tip: a similar value exists: 'page'
        !
        ! For more information, try '--help'.
        [2]
        $ driftq shard dump --data data --table record -o ndjson | sed -E 's/"(hash|bucket|expires)":[^,]*/"\1":SOME/g'
        {"body":{"packed_bytes":62},"bucket":SOME,"expires":SOME,"hash":SOME,"kind":1,"table":"record"}
        $ driftq shard dump --data data --limit 0
        $ mkdir restored && cp backup.db restored/driftq.db
    "#]]);
    let server = stage.start(&["serve", "--data", "restored", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq consume orders biller --ack --count 1 -o json | grep -o '"value":"[^"]*"'
        "value":"pay 12"
        $ driftq serve --data restored --listen 127.0.0.1:0 --log error 2>&1 | sed 's/process [0-9]*/process PID/'
        error: restored is in use by process PID; stop it, or set --data to another directory
    "#]]);
    assert_eq!(server.stop(), "");
}

#[test]
fn a_damaged_directory_is_reported() {
    let mut stage = Stage::alone();
    stage.check(&expect![[r#"
        $ mkdir data && echo nonsense > data/driftq.db
        $ driftq check --data data
        ! error: the database cannot be opened: file is not a database: Error code 26: file is not a database
        [1]
        $ driftq serve --data data --listen 127.0.0.1:0 --log error
        ! error: the database cannot be opened: file is not a database: Error code 26: file is not a database
        [1]
    "#]]);
}
