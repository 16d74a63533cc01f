//! The PostgreSQL engine against instances of its own: standbys that do not answer, settings that
//! lose data, certificates.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use driftq_core::row::{Columns, Key, Row, Write};
use driftq_core::{BatchNo, Lane, ShardId, Timestamp, TopicId};
use driftq_e2e::postgres::{Cluster, Stop};
use driftq_storage::postgres::Postgres;
use driftq_storage::{Answer, Engine, EngineError, Ownership};

const SHARD: ShardId = ShardId(0);
/// A standby that answers does so within this time.
const STANDBY: Duration = Duration::from_secs(2);

async fn open(cluster: &Cluster) -> Postgres {
    Postgres::open(&cluster.url(), None).await.expect("it opens")
}

fn commit(engine: &Postgres, owner: Ownership, batch: u64) -> Answer<'_, Timestamp> {
    let head = Row {
        key: Key::Head { batch: BatchNo(batch) },
        columns: Columns::Head { epoch: owner.epoch, now: Timestamp(batch), clean: BatchNo(1) },
        body: b"head".as_slice().into(),
    };
    let page = Row {
        key: Key::Page { topic: TopicId(1), lane: Lane(0), last: batch },
        columns: Columns::Page { base: batch, bytes: 1, at: Timestamp(1) },
        body: b"page".as_slice().into(),
    };
    engine.commit(owner, BatchNo(batch), vec![Write::Put(head), Write::Put(page)])
}

/// From here on commits wait for a standby that does not exist.
async fn wait_for_nobody(cluster: &Cluster) {
    let told = "ALTER SYSTEM SET synchronous_standby_names = 'absent'";
    cluster.sql(told).await.expect("the setting is changed");
    cluster.sql("SELECT pg_reload_conf()").await.expect("it reloads");
    tokio::time::sleep(Duration::from_millis(500)).await;
}

async fn wait_no_longer(cluster: &Cluster) {
    cluster.sql("ALTER SYSTEM RESET synchronous_standby_names").await.expect("it is reset");
    cluster.sql("SELECT pg_reload_conf()").await.expect("it reloads");
}

/// Calls the SQL function `what` on the session that waits for the standby.
async fn to_the_one_that_waits(cluster: &Cluster, what: &str) {
    let told = format!("SELECT {what}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    let done = cluster.sql(&told).await.expect("the function succeeds");
    assert_eq!(done.trim(), "t", "one session waits");
}

/// A commit that was interrupted while it waited for its standby is visible to everyone, but lost
/// after a failover. The next owner must not return it before the standby has it.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_standby_has_not_got_is_not_told_by_the_next_owner() {
    let cluster = Cluster::start(15).await.expect("a server");
    let engine = open(&cluster).await;
    let (owner, _) = engine.claim(SHARD).await.expect("a claim succeeds");
    commit(&engine, owner, 1).await.expect("a commit succeeds");
    wait_for_nobody(&cluster).await;
    let waits = commit(&engine, owner, 2);
    tokio::time::sleep(STANDBY).await;
    to_the_one_that_waits(&cluster, "pg_terminate_backend").await;
    let unknown = waits.await;
    assert!(matches!(unknown, Err(EngineError::Unknown(_))), "{unknown:?}");
    let pages = cluster.sql("SELECT count(*) FROM driftq.page").await.expect("it counts");
    assert_eq!(pages.trim(), "2", "the unreplicated page is visible");
    let claim = tokio::time::timeout(STANDBY, engine.claim(SHARD)).await;
    assert!(claim.is_err(), "a claim waits for the standby: {claim:?}");
    wait_no_longer(&cluster).await;
    let (next, _) = engine.claim(SHARD).await.expect("a claim succeeds");
    let mut heads = 0;
    let mut count = |row: Row| heads += u64::from(matches!(row.key, Key::Head { .. }));
    engine.load(next, &mut count).await.expect("it loads");
    assert_eq!(heads, 2);
    commit(&engine, next, 3).await.expect("a commit succeeds");
}

/// The ledger in a caller's database: what a failover can lose must not be replayed.
#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_a_standby_has_not_got_is_not_replayed() {
    let cluster = Cluster::start(15).await.expect("a server");
    cluster.sql(include_str!("../../sdks/ledger/schema.sql")).await.expect("the schema is valid");
    let begin = "SELECT (driftq_begin('p', 'o', 'k', 'h', 'park')).decision";
    assert_eq!(cluster.sql(begin).await.expect("a decision").trim(), "EXECUTE");
    wait_for_nobody(&cluster).await;
    let finish = cluster.sql("SELECT driftq_finish('p', 'o', 'k', 1, 'SUCCEEDED')");
    let end = async {
        tokio::time::sleep(STANDBY).await;
        to_the_one_that_waits(&cluster, "pg_terminate_backend").await;
    };
    let (finished, ()) = tokio::join!(finish, end);
    assert!(finished.is_err(), "its outcome is unknown: {finished:?}");
    // As control: a caller that only reads, or inserts nothing, gets an outcome that can be lost.
    for unsafe_ in [
        "SELECT status FROM idempotency_keys",
        "INSERT INTO idempotency_keys SELECT * FROM idempotency_keys ON CONFLICT DO NOTHING; \
         SELECT status FROM idempotency_keys",
    ] {
        let told = tokio::time::timeout(STANDBY, cluster.sql(unsafe_)).await;
        assert!(told.expect("at once").expect("a reply").contains("SUCCEEDED"));
    }
    let replay = tokio::time::timeout(STANDBY, cluster.sql(begin)).await;
    assert!(replay.is_err(), "a replay waits for the standby: {replay:?}");
    wait_no_longer(&cluster).await;
    assert_eq!(cluster.sql(begin).await.expect("a decision").trim(), "REPLAY");
}

/// PostgreSQL answers a commit whose wait was cancelled with success, and a warning.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_wait_was_cancelled_is_unknown() {
    let cluster = Cluster::start(15).await.expect("a server");
    // Our sessions request the warning themselves.
    let quiet = "ALTER DATABASE postgres SET client_min_messages = error";
    cluster.sql(quiet).await.expect("the database is altered");
    let engine = open(&cluster).await;
    let (owner, _) = engine.claim(SHARD).await.expect("a claim succeeds");
    wait_for_nobody(&cluster).await;
    let waits = commit(&engine, owner, 1);
    tokio::time::sleep(STANDBY).await;
    to_the_one_that_waits(&cluster, "pg_cancel_backend").await;
    let unknown = waits.await;
    assert!(matches!(unknown, Err(EngineError::Unknown(_))), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_lose_data_is_refused() {
    let mut cluster = Cluster::start(15).await.expect("a server");
    for (setting, message) in
        [("fsync", "fsync is off"), ("full_page_writes", "full_page_writes is off")]
    {
        let off = format!("ALTER SYSTEM SET {setting} = off");
        cluster.sql(&off).await.expect("the setting is changed");
        cluster.restart(Stop::Fast).await.expect("it starts");
        let refused = Postgres::open(&cluster.url(), None).await.err().expect("it is rejected");
        assert!(refused.to_string().contains(message), "{refused}");
        cluster.sql(&format!("ALTER SYSTEM RESET {setting}")).await.expect("it is reset");
    }
    // `synchronous_commit` does not matter, because our sessions set it themselves.
    cluster.sql("ALTER SYSTEM SET synchronous_commit = off").await.expect("it is changed");
    cluster.restart(Stop::Fast).await.expect("it starts");
    let engine = open(&cluster).await;
    assert_eq!(engine.durability(), "fsync before every acknowledgement, on one server");
}

/// No commit was in flight and no other node claimed the shard, so the ownership stays valid.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_between_commits_goes_unnoticed() {
    let mut cluster = Cluster::start(15).await.expect("a server");
    let engine = open(&cluster).await;
    let (owner, _) = engine.claim(SHARD).await.expect("a claim succeeds");
    commit(&engine, owner, 1).await.expect("a commit succeeds");
    cluster.restart(Stop::Immediate).await.expect("it starts");
    commit(&engine, owner, 2).await.expect("a commit succeeds");
}

fn openssl(directory: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    let output = command.current_dir(directory).args(arguments.split(' ')).output();
    let output = output.expect("openssl is installed");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_verified() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    for ca in ["ours", "theirs"] {
        openssl(
            at,
            &format!(
                "req -x509 -newkey rsa:2048 -nodes -keyout {ca}.key -out {ca}.pem -days 2 -subj /CN={ca}"
            ),
        );
    }
    std::fs::write(at.join("names"), "subjectAltName=DNS:localhost").expect("a file");
    openssl(
        at,
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost",
    );
    openssl(
        at,
        "x509 -req -in server.csr -CA ours.pem -CAkey ours.key -out server.pem -days 2 -extfile names -set_serial 7",
    );
    let cluster = Cluster::start_at(15, [127, 0, 0, 1].into()).await.expect("a server");
    let port = cluster.address().expect("a port").port();
    for file in ["server.key", "server.pem"] {
        cluster.give(&at.join(file), file).expect("the file is copied");
    }
    for told in [
        "ALTER SYSTEM SET ssl_cert_file = 'server.pem'",
        "ALTER SYSTEM SET ssl_key_file = 'server.key'",
        "ALTER SYSTEM SET ssl = on",
        "SELECT pg_reload_conf()",
    ] {
        cluster.sql(told).await.expect("the statement succeeds");
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let url = |host: &str, root: &str| {
        let root = at.join(root);
        format!(
            "postgresql://postgres@{host}:{port}/postgres?sslmode=verify-full&sslrootcert={}",
            root.display()
        )
    };
    let engine = Postgres::open(&url("localhost", "ours.pem"), None).await.expect("it opens");
    engine.claim(SHARD).await.expect("a claim succeeds");
    let used = cluster.sql("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'driftq'").await;
    assert_eq!(used.expect("the query succeeds").trim(), "t");
    for (host, root) in [("localhost", "theirs.pem"), ("127.0.0.1", "ours.pem")] {
        let refused = Postgres::open(&url(host, root), None).await.err().expect("it is rejected");
        assert!(refused.to_string().contains("certificate"), "{refused}");
    }
}

/// A paused or isolated server accepts the connection and never answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_does_not_keep_a_node_from_the_next_one() {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let cluster = Cluster::start_at(15, local).await.expect("a server");
    let listener = TcpListener::bind((local, 0)).expect("a port");
    let mute = listener.local_addr().expect("it is bound");
    let writes = cluster.address().expect("it has a port");
    let url = format!("postgresql://postgres@{mute},{writes}/postgres");
    let engine = Postgres::open(&url, None).await.expect("the second server is tried");
    engine.claim(SHARD).await.expect("a claim succeeds");
}
