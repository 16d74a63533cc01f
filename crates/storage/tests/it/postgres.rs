//! Guarantees of the PostgreSQL engine beyond the conformance suite.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use driftq_core::row::{Columns, Key, Place, Read, RecordKind, Row, UNENDING, Write};
use driftq_core::{BatchNo, Lane, NodeId, ShardId, Timestamp, TopicId};
use driftq_storage::postgres::{Member, OpenError, Postgres};
use driftq_storage::{Answer, Engine, EngineError, Ownership, StoredAct};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// The connection string of the server of this run.
fn server() -> String {
    std::env::var("DRIFTQ_TEST_POSTGRES")
        .expect("no PostgreSQL to test with: run this by `just test`, or under e2e/with-postgres")
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a server");
    tokio::spawn(connection);
    client
}

/// Creates a database for one test.
pub(crate) async fn database() -> String {
    let name = format!("t{}_{:x}", std::process::id(), fastrand::u64(..));
    let client = connect(&server()).await;
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database");
    server().replace("dbname=postgres", &format!("dbname={name}"))
}

/// An engine over its own database.
pub(crate) fn fresh() -> Postgres {
    RUNTIME.block_on(async { open(&database().await).await })
}

const SHARD: ShardId = ShardId(7);

pub(crate) async fn open(url: &str) -> Postgres {
    Postgres::open(url, None).await.expect("it opens")
}

/// Makes PostgreSQL run a statement whenever a page is written.
async fn whenever_a_page_is_put(url: &str, what: &str) {
    let trigger = format!(
        "CREATE FUNCTION driftq.at_page() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN {what}; RETURN NEW; END $$;
         CREATE TRIGGER at_page BEFORE INSERT ON driftq.page
             FOR EACH ROW EXECUTE FUNCTION driftq.at_page()"
    );
    connect(url).await.batch_execute(&trigger).await.expect("a trigger");
}

/// Waits until a commit has passed its fence and sleeps in the trigger.
async fn until_asleep(url: &str) {
    let client = connect(url).await;
    let sleeps = "SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND wait_event = 'PgSleep'";
    for _ in 0..500 {
        let count: i64 = client.query_one(sleeps, &[]).await.expect("it counts").get(0);
        if count == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no commit is in flight");
}

fn commit(engine: &Postgres, owner: Ownership, batch: u64, page: bool) -> Answer<'_, Timestamp> {
    let (epoch, now, clean) = (owner.epoch, Timestamp(batch), BatchNo(1));
    let head = Row {
        key: Key::Head { batch: BatchNo(batch) },
        columns: Columns::Head { epoch, now, clean },
        body: Bytes::from_static(b"head"),
    };
    let put = Row {
        key: page_key(),
        columns: Columns::Page { base: 0, bytes: 1, at: Timestamp(1) },
        body: Bytes::from_static(b"page"),
    };
    let mut writes = vec![Write::Put(head)];
    writes.extend(page.then_some(Write::Put(put)));
    engine.commit(owner, BatchNo(batch), writes)
}

fn page_key() -> Key {
    Key::Page { topic: TopicId(1), lane: Lane(0), last: 0 }
}

async fn has_page(engine: &Postgres, owner: Ownership) -> bool {
    let rows = engine.read(owner, vec![Read::Key(page_key())]).await.expect("a read succeeds");
    !rows[0].is_empty()
}

/// An old owner slept between its fence and its commit. If the fence did not lock, the claim would
/// overtake it, and its page would be stored after the new owner has loaded.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits_for_a_commit_in_flight() {
    let url = database().await;
    let (old, new) = (open(&url).await, open(&url).await);
    whenever_a_page_is_put(&url, "PERFORM pg_sleep(1.5)").await;
    let (owner, _) = old.claim(SHARD).await.expect("a claim succeeds");
    commit(&old, owner, 1, false).await.expect("a commit succeeds");
    let slow = commit(&old, owner, 2, true);
    until_asleep(&url).await;
    let (next, _) = new.claim(SHARD).await.expect("a claim succeeds");
    let at_once = has_page(&new, next).await;
    let done = slow.await.is_ok();
    assert_eq!(at_once, done, "the reply to the old owner matches the rows of the new one");
    assert_eq!(has_page(&new, next).await, done, "nothing is stored after the claim");
    assert_eq!(commit(&old, owner, 3, false).await, Err(EngineError::Fenced));
}

/// Two commits are in flight, and the first one fails.
#[tokio::test(flavor = "multi_thread")]
async fn no_commit_follows_a_failed_one() {
    let url = database().await;
    let engine = open(&url).await;
    whenever_a_page_is_put(&url, "RAISE EXCEPTION 'no pages today'").await;
    let (owner, _) = engine.claim(SHARD).await.expect("a claim succeeds");
    commit(&engine, owner, 1, false).await.expect("a commit succeeds");
    let (fails, follows) = (commit(&engine, owner, 2, true), commit(&engine, owner, 3, false));
    let failed = fails.await.expect_err("it fails");
    assert!(failed.to_string().contains("no pages today"), "{failed}");
    assert_eq!(follows.await, Err(EngineError::Fenced));
    assert!(!has_page(&engine, owner).await);
}

/// A commit whose wait for a standby was cancelled is answered with success and a warning.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_with_a_warning_is_unknown() {
    let url = database().await;
    let engine = open(&url).await;
    whenever_a_page_is_put(&url, "RAISE WARNING 'committed locally'").await;
    let (owner, _) = engine.claim(SHARD).await.expect("a claim succeeds");
    let unknown = commit(&engine, owner, 1, true).await;
    assert!(matches!(unknown, Err(EngineError::Unknown(_))), "{unknown:?}");
    // The connection with the warning is not used again, and later commits succeed.
    let (owner, _) = engine.claim(SHARD).await.expect("a claim succeeds");
    commit(&engine, owner, 2, false).await.expect("a commit succeeds");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_connection_the_next_claim_knows_the_outcome() {
    let url = database().await;
    let engine = open(&url).await;
    whenever_a_page_is_put(&url, "PERFORM pg_sleep(30)").await;
    let (owner, _) = engine.claim(SHARD).await.expect("a claim succeeds");
    let lost = commit(&engine, owner, 1, true);
    until_asleep(&url).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    connect(&url).await.execute(end, &[]).await.expect("the connections are closed");
    let unknown = lost.await;
    assert!(matches!(unknown, Err(EngineError::Unknown(_))), "{unknown:?}");
    let (next, _) = engine.claim(SHARD).await.expect("a claim succeeds");
    assert_eq!(next.epoch.0, owner.epoch.0 + 1);
    assert!(!has_page(&engine, next).await);
    commit(&engine, next, 1, false).await.expect("a commit succeeds");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_nodes_create_one_storage() {
    let url = database().await;
    let opened = (0..8).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { open(&url).await })
    });
    let opened: Vec<_> = opened.collect();
    let mut identities = Vec::new();
    for one in opened {
        identities.push(one.await.expect("it opens").identity().clone());
    }
    identities.dedup();
    assert_eq!(identities.len(), 1);
    assert_eq!(identities[0].shards, 64);
    let other = Postgres::open(&url, Some(8)).await.err().map(|error| error.to_string());
    let message = "the database has 64 shards, which cannot be changed; remove storage.shards";
    assert_eq!(other.as_deref(), Some(message));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_from_before_the_clock_was_set_back_loses_its_lease() {
    let url = database().await;
    let engine = open(&url).await;
    let member = |node| Member {
        node: NodeId(node),
        address: format!("http://127.0.0.1:{node}"),
        version: "1".into(),
    };
    let renew = |node| {
        let (engine, member) = (&engine, member(node));
        async move {
            let shown = engine.renew(&member, false, 3_000, Duration::from_secs(10)).await;
            shown.expect("it renews").nodes
        }
    };
    renew(1).await;
    let ahead = "UPDATE driftq.node SET renewed_at = renewed_at + interval '1 h', until = until + interval '1 h'";
    connect(&url).await.execute(ahead, &[]).await.expect("a row that is ahead");
    renew(2).await;
    let row = &renew(2).await[&NodeId(1)];
    assert_eq!(row.renewed_at, row.until);
    let row = &renew(1).await[&NodeId(1)];
    assert_eq!(row.until, row.renewed_at.after(3_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_a_compatible_newer_version_are_used() {
    let url = database().await;
    drop(open(&url).await);
    let client = connect(&url).await;
    client
        .batch_execute("UPDATE driftq.meta SET value = '99' WHERE name = 'version'")
        .await
        .expect("a change");
    drop(open(&url).await);
    client
        .batch_execute("UPDATE driftq.meta SET value = '98' WHERE name = 'oldest_that_fits'")
        .await
        .expect("a change");
    let refused = Postgres::open(&url, None).await.err();
    assert!(matches!(refused, Some(OpenError::Newer { version: 99, .. })), "{refused:?}");
}

/// All migrations together give the recorded schema on every version of PostgreSQL.
#[tokio::test(flavor = "multi_thread")]
async fn the_schema_equals_the_recorded_one() {
    let url = database().await;
    drop(open(&url).await);
    let lines = r#"
        SELECT line FROM (
            SELECT format('%s.%s %s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                          CASE WHEN a.attnotnull THEN ' not null' ELSE '' END)
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
            WHERE c.relnamespace = 'driftq'::regnamespace AND c.relkind IN ('r', 'p', 'v')
            UNION ALL
            SELECT replace(indexdef, 'driftq.', '') FROM pg_indexes WHERE schemaname = 'driftq'
        ) AS all_of_it(line) ORDER BY line COLLATE "C""#;
    let client = connect(&url).await;
    let rows = client.query(lines, &[]).await.expect("the catalog");
    let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    expect_test::expect_file!["../../src/postgres/schema.txt"]
        .assert_eq(&(found.join("\n") + "\n"));
}

/// Without statistics, the planner does not know the number of rows. It must walk the index, not
/// sort.
#[tokio::test(flavor = "multi_thread")]
async fn lists_of_records_read_only_the_rows_they_return() {
    let url = database().await;
    let engine = open(&url).await;
    let (owner, _) = engine.claim(SHARD).await.expect("a claim succeeds");
    let (epoch, now, clean) = (owner.epoch, Timestamp(1), BatchNo(1));
    let head = Row {
        key: Key::Head { batch: BatchNo(1) },
        columns: Columns::Head { epoch, now, clean },
        body: Bytes::new(),
    };
    let kind = RecordKind::Effect;
    let effects = (0..2_000_u128).map(|number| Row {
        key: Key::Record { kind, hash: (number << 64).to_be_bytes() },
        columns: Columns::Record { expires: Timestamp::MAX, bucket: UNENDING + number as u64 },
        body: Bytes::from_static(b"{}"),
    });
    let keys = (0..2_000_u128).map(|number| Row {
        key: Key::Record { kind: RecordKind::Dedupe, hash: (number << 64).to_be_bytes() },
        columns: Columns::Record { expires: now, bucket: number as u64 },
        body: Bytes::from_static(b"{}"),
    });
    let writes = std::iter::once(head).chain(effects).chain(keys).map(Write::Put).collect();
    engine.commit(owner, BatchNo(1), writes).await.expect("a commit succeeds");
    let read = Read::Unending { kind, from: Place::FIRST, rows: 10 };
    assert_eq!(engine.read(owner, vec![read]).await.expect("a read succeeds")[0].len(), 10);
    let read = Read::Ending { from: 500, rows: 10 };
    let found = engine.read(owner, vec![read]).await.expect("a read succeeds");
    let columns = |number: u64| Columns::Record { expires: now, bucket: number };
    assert!(found[0].iter().map(|row| row.columns.clone()).eq((500..510).map(columns)));
    // A session reports its statistics when it ends.
    drop(engine);
    let client = connect(&url).await;
    let looks =
        "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'record_bucket'";
    for _ in 0..500 {
        let read: i64 = client.query_one(looks, &[]).await.expect("it counts").get(0);
        assert!(read < 200, "{read} rows read for twenty");
        if read >= 20 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the index was not used by both");
}

#[test]
fn a_meta_value_is_visible_to_other_nodes() {
    RUNTIME.block_on(async {
        let url = database().await;
        let (one, other) = (open(&url).await, open(&url).await);
        assert_eq!(other.meta("clock_held").await, Ok(None));
        one.put_meta("clock_held", "1".to_owned(), None).await.expect("it is stored");
        one.put_meta("clock_held", "2".to_owned(), Some("{}".to_owned()))
            .await
            .expect("it is stored");
        assert_eq!(other.meta("clock_held").await, Ok(Some("2".to_owned())));
        let acts = vec![StoredAct { number: 1, record: "{}".to_owned() }];
        assert_eq!(other.acts(u64::MAX, 9).await, Ok(acts));
        assert_eq!(other.acts(1, 9).await, Ok(Vec::new()));
        assert!(other.identity().is_still(open(&url).await.identity()));
    });
}
