//! Guarantees of the SQLite engine beyond the conformance suite.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bytes::Bytes;
use driftq_core::command::{CreateTopic, Produce, TopicName};
use driftq_core::row::{Columns, Key, Read, RecordKind, Row, Write};
use driftq_core::{
    BatchNo, Command, Envelope, Input, Output, Pipeline, PipelineConfig, SettingsPatch,
    ShardConfig, ShardId, Ticket, Timestamp,
};
use driftq_storage::conformance::wait;
use driftq_storage::sqlite::{BackupError, Checked, Sqlite, back_up, check, dump};
use driftq_storage::{Answer, Engine, EngineError, Ownership, StoredAct, recover};
use rusqlite::Connection;
use tempfile::TempDir;

const SHARD: ShardId = ShardId(0);

/// An engine over a directory that is deleted with it.
pub(crate) struct Fresh {
    engine: Sqlite,
    _directory: TempDir,
}

impl Fresh {
    pub(crate) fn new() -> Fresh {
        let directory = TempDir::new().expect("a directory");
        Fresh { engine: open(directory.path()), _directory: directory }
    }
}

impl Engine for Fresh {
    fn claim(&self, shard: ShardId) -> Answer<'_, (Ownership, Timestamp)> {
        self.engine.claim(shard)
    }

    fn load<'a>(
        &'a self,
        ownership: Ownership,
        each: &'a mut (dyn FnMut(Row) + Send),
    ) -> Answer<'a, ()> {
        self.engine.load(ownership, each)
    }

    fn read(&self, ownership: Ownership, reads: Vec<Read>) -> Answer<'_, Vec<Vec<Row>>> {
        self.engine.read(ownership, reads)
    }

    fn commit(
        &self,
        ownership: Ownership,
        batch: BatchNo,
        writes: Vec<Write>,
    ) -> Answer<'_, Timestamp> {
        self.engine.commit(ownership, batch, writes)
    }
}

fn open(directory: &Path) -> Sqlite {
    Sqlite::open(directory, None).expect("it opens")
}

fn claim(engine: &Sqlite) -> Ownership {
    wait(engine.claim(SHARD)).expect("a claim").0
}

fn garbage(id: u64) -> Row {
    Row { key: Key::Garbage { id }, columns: Columns::None, body: Bytes::from_static(b"x") }
}

/// Commits a head and a small row.
fn commit(engine: &Sqlite, ownership: Ownership, batch: u64) -> Result<(), EngineError> {
    commit_row(engine, ownership, batch, garbage(batch))
}

fn commit_row(
    engine: &Sqlite,
    ownership: Ownership,
    batch: u64,
    row: Row,
) -> Result<(), EngineError> {
    let head = Row {
        key: Key::Head { batch: BatchNo(batch) },
        columns: Columns::Head { epoch: ownership.epoch, now: Timestamp(batch), clean: BatchNo(1) },
        body: Bytes::from_static(b"head"),
    };
    let writes = vec![Write::Put(head), Write::Put(row)];
    wait(engine.commit(ownership, BatchNo(batch), writes)).map(drop)
}

fn loaded(engine: &Sqlite, ownership: Ownership) -> usize {
    let mut rows = 0;
    wait(engine.load(ownership, &mut |_| rows += 1)).expect("a load");
    rows
}

#[test]
fn rows_and_identity_survive_a_restart() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path());
    let identity = engine.identity().clone();
    let ownership = claim(&engine);
    commit(&engine, ownership, 1).unwrap();
    drop(engine);
    let engine = open(directory.path());
    assert_eq!(*engine.identity(), identity);
    let next = claim(&engine);
    assert!(next.epoch > ownership.epoch);
    assert_eq!(loaded(&engine, next), 2);
    commit(&engine, next, 2).unwrap();
}

#[test]
fn a_second_process_is_rejected_with_the_pid_of_the_first() {
    let directory = TempDir::new().unwrap();
    let _engine = open(directory.path());
    let refused = Sqlite::open(directory.path(), None).err().expect("refused").to_string();
    assert!(refused.contains(&format!("in use by process {}", std::process::id())), "{refused}");
}

#[test]
fn files_are_readable_by_their_owner_only() {
    let parent = TempDir::new().unwrap();
    let directory = parent.path().join("data");
    let engine = open(&directory);
    commit(&engine, claim(&engine), 1).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    let files: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 3, "database, WAL, lock: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_newer_file_and_a_foreign_file_are_rejected() {
    let directory = TempDir::new().unwrap();
    drop(open(directory.path()));
    let file = directory.path().join("driftq.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 9).unwrap();
    let refused = Sqlite::open(directory.path(), None).err().expect("refused");
    let refused = refused.to_string();
    assert!(
        refused.contains("has format 9, but this driftq supports 8; use a newer driftq"),
        "{refused}"
    );
    let foreign = TempDir::new().unwrap();
    let other = Connection::open(foreign.path().join("driftq.db")).unwrap();
    other.execute_batch("CREATE TABLE invoices (id INTEGER)").unwrap();
    let refused = Sqlite::open(foreign.path(), None).err().expect("refused").to_string();
    assert!(refused.contains("is not a DriftQ database"), "{refused}");
}

#[test]
fn an_older_file_is_migrated() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("driftq.db");
    let older = Connection::open(&file).unwrap();
    older.execute_batch(include_str!("../../src/sqlite/schema.sql")).unwrap();
    older
        .execute_batch(
            "PRAGMA application_id = 0x64726674; PRAGMA user_version = 1;
             INSERT INTO record VALUES (0, 1, x'00112233445566778899aabbccddeeff', 7, 8, x'01')",
        )
        .unwrap();
    drop(older);
    let engine = open(directory.path());
    let owner = claim(&engine);
    commit(&engine, owner, 1).unwrap();
    let hash = *b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff";
    let kind = RecordKind::of(1).expect("a record kind");
    let found = wait(engine.read(owner, vec![Read::Key(Key::Record { kind, hash })])).unwrap();
    // Ten minutes after it expires.
    assert_eq!(found[0][0].columns, Columns::Record { expires: Timestamp(7), bucket: 600_007 });
    drop(engine);
    let newer = Connection::open(&file).unwrap();
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('held', 'effects', 'audit')";
    let version = "SELECT user_version FROM pragma_user_version";
    let number = |sql: &str| newer.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((number(tables), number(version)), (3, 8));
}

#[test]
fn after_an_error_the_database_is_opened_again() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path());
    let ownership = claim(&engine);
    commit(&engine, ownership, 1).unwrap();
    let file = directory.path().join("driftq.db");
    let breaking = Connection::open(&file).unwrap();
    breaking.execute_batch("ALTER TABLE garbage RENAME TO rubbish").unwrap();
    let failed = commit(&engine, ownership, 2);
    let Err(EngineError::Unknown(why)) = &failed else { panic!("{failed:?}") };
    assert!(why.contains("garbage"), "{why}");
    breaking.execute_batch("ALTER TABLE rubbish RENAME TO garbage").unwrap();
    drop(breaking);
    assert_eq!(commit(&engine, ownership, 2), failed, "before it is open again");
    let began = std::time::Instant::now();
    let ownership = loop {
        match wait(engine.claim(SHARD)) {
            Ok((ownership, _)) => break ownership,
            Err(error) => assert!(began.elapsed().as_secs() < 10, "{error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert_eq!(loaded(&engine, ownership), 2, "the failed commit left nothing");
    commit(&engine, ownership, 2).unwrap();
}

/// Readers also lock out the writer for a moment if they meet an unfinished commit.
#[test]
fn a_commit_waits_for_the_file_lock() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = open(directory.path());
    let ownership = claim(&engine);
    let other = rusqlite::Connection::open(directory.path().join("driftq.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("locks");
    let release = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        other.execute_batch("ROLLBACK").expect("unlocks");
    });
    commit(&engine, ownership, 1).expect("it waited");
    release.join().expect("it does not panic");
}

fn wal_bytes(directory: &Path) -> u64 {
    directory.join("driftq.db-wal").metadata().map_or(0, |wal| wal.len())
}

#[test]
fn the_wal_stays_short_under_constant_load_and_is_deleted_on_close() {
    let directory = TempDir::new().expect("a directory");
    let engine = open(directory.path());
    let ownership = claim(&engine);
    let body = Bytes::from(vec![b'x'; 256 << 10]);
    let mut longest = 0;
    for batch in 1..=1_200 {
        let row = Row { body: body.clone(), ..garbage(batch % 100) };
        commit_row(&engine, ownership, batch, row).expect("it commits");
        longest = longest.max(wal_bytes(directory.path()));
    }
    assert!(longest > 1 << 20, "{longest} bytes: nothing was measured");
    assert!(longest < 100 << 20, "{longest} bytes of 300 MiB");
    drop(engine);
    assert_eq!(wal_bytes(directory.path()), 0);
}

#[test]
fn a_backup_is_a_snapshot_with_another_restore_generation() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path());
    let ownership = claim(&engine);
    commit(&engine, ownership, 1).unwrap();
    let restored = TempDir::new().unwrap();
    let copy = restored.path().join("driftq.db");
    back_up(directory.path(), &copy).unwrap();
    let again = back_up(directory.path(), &copy);
    assert!(matches!(again, Err(BackupError::Exists(_))), "{again:?}");
    commit(&engine, ownership, 2).unwrap();
    let from_copy = open(restored.path());
    assert_eq!(from_copy.identity().storage, engine.identity().storage);
    assert!(from_copy.identity().restore > engine.identity().restore);
    let next = claim(&from_copy);
    assert_eq!(loaded(&from_copy, next), 2, "the backup has no later rows");
    commit(&from_copy, next, 2).unwrap();
}

/// A topic with one message, created by the core.
fn live(engine: &Sqlite) {
    let config = ShardConfig { shard: SHARD, ..ShardConfig::default() };
    let (ownership, now, recovered) = wait(recover(engine, config)).expect("a recovery");
    let mut pipeline = Pipeline::new(recovered, ownership.epoch, now, PipelineConfig::default());
    let topic = TopicName { namespace: "default".into(), topic: "orders".into() };
    let create = CreateTopic {
        name: topic.clone(),
        partitions: 1,
        settings: SettingsPatch::default(),
        retry_policy: None,
    };
    let produce = Produce {
        topic,
        key: "".into(),
        value: "pay 12".into(),
        envelope: Envelope::default(),
        routing: None,
        needs_routing: false,
        trace: None,
        seen: None,
        routed: None,
    };
    let commands = [Command::CreateTopic(Box::new(create)), Command::Produce(Box::new(produce))];
    for (ticket, command) in commands.into_iter().enumerate() {
        let mut outputs = Vec::new();
        pipeline.on(now, Input::Arrived(Ticket(ticket as u64), command), &mut outputs);
        pipeline.turn(now, &mut outputs);
        let [Output::StartCommit(batch, writes)] = &outputs[..] else { panic!("{outputs:?}") };
        let no = batch.no;
        wait(engine.commit(ownership, no, writes.clone())).expect("a commit");
        pipeline.on(now, Input::CommitDone(no), &mut Vec::new());
    }
}

#[test]
fn a_check_detects_a_changed_byte() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path());
    live(&engine);
    drop(engine);
    let whole = checked(directory.path());
    assert_eq!((whole.rows["page"], whole.rows["topic"], whole.rows["head"]), (1, 1, 1));
    assert_eq!(whole.problems, [""; 0]);
    let file = Connection::open(directory.path().join("driftq.db")).unwrap();
    let change =
        "UPDATE page SET body = CAST(substr(body, 1, 5) || x'01' || substr(body, 7) AS BLOB)";
    assert_eq!(file.execute(change, []), Ok(1));
    let damaged = checked(directory.path());
    let [problem] = &damaged.problems[..] else { panic!("{damaged:?}") };
    assert!(problem.contains("Page") && problem.contains("checksum is wrong"), "{problem}");
}

fn checked(directory: &Path) -> Checked {
    wait(check(directory, &mut |_, _| {})).expect("it can be checked")
}

#[test]
fn a_dump_shows_rows_and_marks_damaged_ones() {
    let directory = TempDir::new().unwrap();
    // A server may be running on the directory.
    let engine = open(directory.path());
    live(&engine);
    let dumped = |table, rows_max| {
        let mut rows = Vec::new();
        let mut each = |row| rows.push(row);
        dump(directory.path(), SHARD, table, rows_max, &mut each).expect("a dump");
        rows
    };
    assert_eq!(dumped(None, 0).len(), 0);
    let [topic] = &dumped(Some("topic"), 10)[..] else { panic!("one topic") };
    assert_eq!((&topic["name"], &topic["body"]["partitions"]), (&"orders".into(), &1.into()));
    let [page] = &dumped(Some("page"), 10)[..] else { panic!("one page") };
    assert!(page["body"]["packed_bytes"].as_u64() > Some(10), "{page}");
    assert_eq!(page.get("damaged"), None);
    let file = Connection::open(directory.path().join("driftq.db")).unwrap();
    assert_eq!(file.execute("UPDATE page SET body = x'0102'", []), Ok(1));
    assert_eq!(dumped(Some("page"), 10)[0]["damaged"], "it is too short");
}

#[test]
fn the_database_can_be_read_with_sqlite3() {
    let directory = TempDir::new().unwrap();
    let _engine = open(directory.path());
    let connection = Connection::open(directory.path().join("driftq.db")).unwrap();
    for view in ["pages", "dead_letters", "groups"] {
        let count = format!("SELECT count(*) FROM {view}");
        assert_eq!(connection.query_row(&count, [], |row| row.get::<_, i64>(0)), Ok(0));
    }
}

#[test]
fn the_number_of_shards_is_fixed_at_creation() {
    let directory = TempDir::new().expect("a directory");
    let number = |shards| Sqlite::open(directory.path(), shards).map(|one| one.identity().shards);
    assert_eq!(number(Some(5)).expect("it opens"), 5);
    assert_eq!(number(None).expect("it opens"), 5);
    let refused = number(Some(1)).expect_err("refused").to_string();
    let path = directory.path().display();
    let message = "has 5 shards, which cannot be changed; remove storage.shards";
    assert_eq!(refused, format!("{path} {message}"));
}

#[test]
fn a_meta_value_survives_a_restart() {
    let directory = TempDir::new().expect("a directory");
    let engine = open(directory.path());
    assert_eq!(wait(engine.meta("clock_held")), Ok(None));
    wait(engine.put_meta("clock_held", "1".to_owned(), None)).expect("it is stored");
    wait(engine.put_meta("clock_held", "2".to_owned(), Some("{}".to_owned())))
        .expect("it is stored");
    let identity = engine.identity().clone();
    drop(engine);
    let engine = open(directory.path());
    assert_eq!(wait(engine.meta("clock_held")), Ok(Some("2".to_owned())));
    let acts = vec![StoredAct { number: 1, record: "{}".to_owned() }];
    assert_eq!(wait(engine.acts(u64::MAX, 9)), Ok(acts));
    assert_eq!(wait(engine.acts(1, 9)), Ok(Vec::new()));
    assert_eq!(*engine.identity(), identity);
}
