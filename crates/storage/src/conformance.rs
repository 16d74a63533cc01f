//! Tests that every engine must pass.
//!
//! `driftq_storage::conformance!(name, make)` defines a test module `name` that runs every test on
//! a fresh engine from `make()`.

use bytes::Bytes;
use driftq_core::row::{Columns, Key, MarkKind, Place, Read, RecordKind, Row, UNENDING, Write};
use driftq_core::{
    BatchNo, Epoch, Generation, GroupId, Lane, NUMBER_MAX, OwnerId, ShardId, Timestamp, TopicId,
};

use crate::{Engine, EngineError, Ownership};

const SHARD: ShardId = ShardId(7);
const TOPIC: TopicId = TopicId(1);
const LANE: Lane = Lane(0);

/// Waits for a future on this thread. Only for tests and tools, because it spins while it waits.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::yield_now();
    }
}

fn claim(engine: &dyn Engine, shard: ShardId) -> Ownership {
    wait(engine.claim(shard)).expect("a claim succeeds").0
}

fn load(engine: &dyn Engine, ownership: Ownership) -> Vec<Row> {
    let mut rows = Vec::new();
    wait(engine.load(ownership, &mut |row| rows.push(row))).expect("a load succeeds");
    rows.sort_by(|one, other| one.key.cmp(&other.key));
    rows
}

fn read(engine: &dyn Engine, ownership: Ownership, read: Read) -> Vec<Row> {
    let mut answers = wait(engine.read(ownership, vec![read])).expect("a read succeeds");
    assert_eq!(answers.len(), 1, "one result for one read");
    answers.remove(0)
}

fn try_commit(
    engine: &dyn Engine,
    ownership: Ownership,
    batch: u64,
    rows: &[Write],
) -> Result<(), EngineError> {
    let mut writes = vec![Write::Put(head(ownership.epoch, batch, 1))];
    writes.extend_from_slice(rows);
    wait(engine.commit(ownership, BatchNo(batch), writes)).map(drop)
}

fn commit(engine: &dyn Engine, ownership: Ownership, batch: u64, rows: &[Write]) {
    try_commit(engine, ownership, batch, rows).expect("a commit succeeds");
}

fn head(epoch: Epoch, batch: u64, clean: u64) -> Row {
    Row {
        key: Key::Head { batch: BatchNo(batch) },
        columns: Columns::Head { epoch, now: Timestamp(batch), clean: BatchNo(clean) },
        body: Bytes::from_static(b"head"),
    }
}

fn plain(key: Key, body: &'static str) -> Row {
    Row { key, columns: Columns::None, body: Bytes::from_static(body.as_bytes()) }
}

fn page(base: u64, last: u64) -> Row {
    Row {
        key: Key::Page { topic: TOPIC, lane: LANE, last },
        columns: Columns::Page { base, bytes: 10, at: Timestamp(3) },
        body: Bytes::from(vec![b'p'; 100]),
    }
}

fn record(name: u8, bucket: u64) -> Row {
    Row {
        key: record_key(name),
        columns: Columns::Record { expires: Timestamp(5), bucket },
        body: Bytes::from_static(b"record"),
    }
}

fn record_key(name: u8) -> Key {
    Key::Record { kind: RecordKind::Dedupe, hash: [name; 16] }
}

fn pages(rows: usize, bytes: usize, reverse: bool) -> Read {
    let from = Key::Page { topic: TOPIC, lane: LANE, last: 0 };
    let to = Key::Page { topic: TOPIC, lane: LANE, last: NUMBER_MAX };
    Read::Range { from, to, reverse, rows, bytes, bodies: true }
}

fn lasts(rows: &[Row]) -> Vec<u64> {
    let last = |row: &Row| {
        let Key::Page { last, .. } = row.key else { panic!("{:?} is not a page", row.key) };
        last
    };
    rows.iter().map(last).collect()
}

/// Every kind of row is read as it was written, including the largest numbers.
pub fn rows_are_read_as_written(engine: &dyn Engine) {
    let owner = claim(engine, SHARD);
    let big = NUMBER_MAX - 1;
    let loaded = [
        Row {
            key: Key::Topic { topic: TopicId(big) },
            columns: Columns::Topic {
                namespace: "default".into(),
                name: "orders".into(),
                kind: "topic".into(),
            },
            body: Bytes::from_static(b"{}"),
        },
        Row {
            key: Key::Group { group: GroupId(2) },
            columns: Columns::Group { topic: TOPIC, name: "biller".into() },
            body: Bytes::from_static(b"{}"),
        },
        plain(Key::Lane { topic: TOPIC, lane: Lane(1023) }, "lane"),
        plain(Key::Cursor { generation: Generation(big), lane: LANE }, "cursor"),
        plain(Key::Mark { kind: MarkKind::Expiry, id: 3 }, "mark"),
        plain(Key::Owner { owner: OwnerId(4) }, "worker\0-ü"),
        plain(Key::Garbage { id: 9 }, "garbage"),
    ];
    let looked_up = [
        page(5, 9),
        plain(
            Key::Block { generation: Generation(1), lane: LANE, block: 3, batch: BatchNo(1) },
            "block",
        ),
        plain(Key::Note { generation: Generation(1), lane: LANE, offset: big }, "no\0te"),
        plain(
            Key::Held { generation: Generation(1), lane: LANE, offset: big, hash: [255; 16] },
            "held",
        ),
        plain(
            Key::Pointer { topic: TOPIC, dataset: [255; 16], partition_key: "dt=1/\0é".into() },
            "pointer",
        ),
        plain(Key::History { topic: TOPIC, lane: LANE, block: 3, batch: BatchNo(1) }, "history"),
        plain(Key::Outbox { target: ShardId(u32::MAX), seq: big }, "outbox"),
        plain(Key::Audit { namespace: [255; 16], last: big }, "audit"),
        record(1, (3 << 32) | 77),
        Row {
            key: Key::Dead { topic: TOPIC, seq: 8 },
            columns: Columns::Dead {
                lane: LANE,
                offset: 4,
                group: "biller".into(),
                reason: "exhausted".into(),
                at: Timestamp(7),
                state: "dead".into(),
            },
            body: Bytes::from_static(b"{}"),
        },
    ];
    let writes: Vec<Write> = loaded.iter().chain(&looked_up).cloned().map(Write::Put).collect();
    commit(engine, owner, 1, &writes);
    let mut expected = loaded.to_vec();
    expected.push(head(owner.epoch, 1, 1));
    expected.sort_by(|one, other| one.key.cmp(&other.key));
    assert_eq!(load(engine, owner), expected, "load returns these rows and no others");
    for row in looked_up {
        assert_eq!(read(engine, owner, Read::Key(row.key.clone())), std::slice::from_ref(&row));
    }
}

/// A claim ends every earlier ownership, and a fenced commit stores nothing.
pub fn an_old_owner_is_fenced(engine: &dyn Engine) {
    let old = claim(engine, SHARD);
    commit(engine, old, 1, &[]);
    let new = claim(engine, SHARD);
    assert!(new.epoch > old.epoch, "epochs increase");
    let refused = try_commit(engine, old, 2, &[Write::Put(page(0, 4))]);
    assert_eq!(refused, Err(EngineError::Fenced));
    assert_eq!(wait(engine.read(old, vec![pages(9, 999, false)])), Err(EngineError::Fenced));
    assert_eq!(read(engine, new, pages(9, 999, false)), []);
    commit(engine, new, 2, &[Write::Put(page(0, 4))]);
    assert_eq!(lasts(&read(engine, new, pages(9, 999, false))), [4]);
}

/// A batch is rejected if its predecessor was not committed, or if it was committed already.
pub fn a_commit_names_its_predecessor(engine: &dyn Engine) {
    let owner = claim(engine, SHARD);
    for batch in [0, 2, 3] {
        let refused = try_commit(engine, owner, batch, &[Write::Put(page(0, 4))]);
        assert_eq!(refused, Err(EngineError::Fenced), "batch {batch} first");
    }
    commit(engine, owner, 1, &[]);
    for batch in [1, 3] {
        let refused = try_commit(engine, owner, batch, &[Write::Put(page(0, 4))]);
        assert_eq!(refused, Err(EngineError::Fenced), "batch {batch} after 1");
    }
    assert_eq!(read(engine, owner, pages(9, 999, false)), []);
    commit(engine, owner, 2, &[]);
}

/// The next owner continues the chain of batches after the last commit of the previous owner.
pub fn the_chain_outlives_its_owner(engine: &dyn Engine) {
    let old = claim(engine, SHARD);
    commit(engine, old, 1, &[]);
    let new = claim(engine, SHARD);
    assert_eq!(try_commit(engine, new, 1, &[]), Err(EngineError::Fenced));
    commit(engine, new, 2, &[]);
}

/// Reads and writes of a shard do not affect other shards.
pub fn shards_are_apart(engine: &dyn Engine) {
    let here = claim(engine, SHARD);
    let there = claim(engine, ShardId(8));
    commit(engine, here, 1, &[Write::Put(page(0, 4)), Write::Put(record(1, 7))]);
    commit(engine, there, 1, &[Write::Put(page(0, 6)), Write::Put(record(1, 7))]);
    let trim = Write::Trim { topic: TOPIC, lane: LANE, from: 0, to: 10 };
    commit(engine, there, 2, &[trim, Write::Expire { from: 7, to: 8 }]);
    assert_eq!(lasts(&read(engine, here, pages(9, 999, false))), [4]);
    assert_eq!(read(engine, here, Read::Key(record_key(1))).len(), 1);
    assert_eq!(read(engine, there, pages(9, 999, false)), []);
    assert_eq!(read(engine, there, Read::Key(record_key(1))), []);
}

/// Ranges are returned in order or in reverse, up to a limit of rows or bytes but at least one row,
/// and their end is exclusive.
pub fn ranges_are_ordered_and_bounded(engine: &dyn Engine) {
    let owner = claim(engine, SHARD);
    let other_lane = Row { key: Key::Page { topic: TOPIC, lane: Lane(1), last: 3 }, ..page(0, 3) };
    let mut writes = vec![Write::Put(other_lane)];
    writes.extend(
        [(0, 4), (5, 9), (10, 300), (301, 301)].map(|(base, last)| Write::Put(page(base, last))),
    );
    commit(engine, owner, 1, &writes);
    let all = usize::MAX;
    assert_eq!(lasts(&read(engine, owner, pages(all, all, false))), [4, 9, 300, 301]);
    assert_eq!(lasts(&read(engine, owner, pages(all, all, true))), [301, 300, 9, 4]);
    assert_eq!(lasts(&read(engine, owner, pages(2, all, false))), [4, 9]);
    assert_eq!(lasts(&read(engine, owner, pages(2, all, true))), [301, 300]);
    assert_eq!(lasts(&read(engine, owner, pages(all, 150, false))), [4, 9], "100 bytes each");
    assert_eq!(lasts(&read(engine, owner, pages(all, 1, false))), [4], "at least one");
    assert_eq!(lasts(&read(engine, owner, pages(2, 350, false))), [4, 9], "whichever comes first");
    assert_eq!(lasts(&read(engine, owner, pages(3, 150, false))), [4, 9], "whichever comes first");
    assert_eq!(lasts(&read(engine, owner, pages(1, 350, true))), [301], "in reverse, too");
    let holding = Read::pages(TOPIC, LANE, 12, 1, all);
    assert_eq!(lasts(&read(engine, owner, holding)), [300], "the page that holds an offset");
    let from = Key::Page { topic: TOPIC, lane: LANE, last: 9 };
    let to = Key::Page { topic: TOPIC, lane: LANE, last: 301 };
    let without_bodies = Read::Range {
        from: from.clone(),
        to: to.clone(),
        reverse: false,
        rows: all,
        bytes: all,
        bodies: false,
    };
    let rows = read(engine, owner, without_bodies);
    assert_eq!(lasts(&rows), [9, 300], "from is inside, to is not");
    assert!(rows.iter().all(|row| row.body.is_empty()), "bodies were not requested");
    let nowhere =
        Read::Range { from: to, to: from, reverse: false, rows: all, bytes: all, bodies: true };
    assert_eq!(read(engine, owner, nowhere), []);
}

/// No result has more rows than requested. A read that continues after the last row of the previous
/// result skips no row and repeats none.
pub fn a_long_range_is_read_in_steps(engine: &dyn Engine) {
    const COUNT: u64 = 1_000;
    let owner = claim(engine, SHARD);
    let rows: Vec<Write> = (0..COUNT).map(|at| Write::Put(page(at, at))).collect();
    commit(engine, owner, 1, &rows);
    for (rows, bytes, step) in [(64, usize::MAX, 64), (64, 1 << 20, 64), (64, 1_050, 11), (1, 1, 1)]
    {
        let (mut from, mut steps) = (0, 0);
        while from < COUNT {
            let found = lasts(&read(engine, owner, Read::pages(TOPIC, LANE, from, rows, bytes)));
            let end = COUNT.min(from + step);
            assert_eq!(found, (from..end).collect::<Vec<_>>(), "{rows} rows, {bytes} bytes");
            (from, steps) = (end, steps + 1);
        }
        assert_eq!(steps, COUNT.div_ceil(step));
        assert_eq!(read(engine, owner, Read::pages(TOPIC, LANE, from, rows, bytes)), []);
    }
}

/// A deleted range loses its rows, and no others.
pub fn a_range_is_deleted(engine: &dyn Engine) {
    let owner = claim(engine, SHARD);
    let note =
        |generation, offset| Key::Note { generation: Generation(generation), lane: LANE, offset };
    let keys = [note(1, 1), note(1, 2), note(1, 3), note(2, 2)];
    commit(engine, owner, 1, &keys.clone().map(|key| Write::Put(plain(key, "x"))));
    commit(engine, owner, 2, &[Write::DeleteRange { from: note(1, 2), to: note(1, 3) }]);
    let left = keys.map(|key| read(engine, owner, Read::Key(key)).len());
    assert_eq!(left, [1, 0, 1, 1]);
}

/// A trim deletes only pages that are entirely inside its range.
pub fn a_trim_spares_pages_that_reach_out(engine: &dyn Engine) {
    let owner = claim(engine, SHARD);
    let rows =
        [(0, 4), (5, 9), (10, 14), (15, 19)].map(|(base, last)| Write::Put(page(base, last)));
    commit(engine, owner, 1, &rows);
    commit(engine, owner, 2, &[Write::Trim { topic: TOPIC, lane: LANE, from: 3, to: 14 }]);
    assert_eq!(lasts(&read(engine, owner, pages(9, 9999, false))), [4, 14, 19]);
    commit(engine, owner, 3, &[Write::Trim { topic: TOPIC, lane: LANE, from: 0, to: 15 }]);
    assert_eq!(lasts(&read(engine, owner, pages(9, 9999, false))), [19]);
}

/// Records are deleted with their bucket, also after they moved to another bucket.
pub fn records_go_with_their_bucket(engine: &dyn Engine) {
    let owner = claim(engine, SHARD);
    let never = Row {
        columns: Columns::Record { expires: Timestamp::MAX, bucket: NUMBER_MAX },
        ..record(4, 0)
    };
    let writes = [record(1, 10), record(2, 11), record(3, 10), never].map(Write::Put);
    commit(engine, owner, 1, &writes);
    let touch =
        |name, bucket| Write::Touch { key: record_key(name), expires: Timestamp(6), bucket };
    commit(engine, owner, 2, &[touch(3, 12), touch(4, 12), touch(9, 12)]);
    let ending = |from, rows| {
        let found = read(engine, owner, Read::Ending { from, rows });
        assert!(found.iter().all(|row| row.body.is_empty()), "bodies are not read");
        found.into_iter().map(|row| row.key).collect::<Vec<Key>>()
    };
    assert_eq!(ending(0, 9).len(), 4);
    assert_eq!(ending(10, 2), [record_key(1), record_key(2)]);
    assert_eq!(ending(11, 1), [record_key(2)]);
    commit(engine, owner, 3, &[Write::Expire { from: 9, to: 11 }]);
    assert_eq!(ending(0, 1), [record_key(2)]);
    let left =
        || [1, 2, 3, 4, 9].map(|name| read(engine, owner, Read::Key(record_key(name))).len());
    assert_eq!(left(), [0, 1, 1, 1, 0]);
    let touched = read(engine, owner, Read::Key(record_key(3))).remove(0);
    assert_eq!(touched.columns, Columns::Record { expires: Timestamp(6), bucket: 12 });
    assert_eq!(touched.body, record(3, 0).body);
    commit(engine, owner, 4, &[Write::Put(record(2, 12)), Write::Expire { from: 11, to: 12 }]);
    assert_eq!(left(), [0, 1, 1, 1, 0], "a replaced record is only in its new bucket");
    let late =
        Row { columns: Columns::Record { expires: Timestamp(13), bucket: 12 }, ..record(9, 0) };
    commit(engine, owner, 5, &[Write::Put(late), Write::Expire { from: 12, to: 13 }]);
    assert_eq!(left(), [0, 0, 0, 0, 1], "a record that has not expired is kept");
}

/// Heads below `clean` of the newest head are not loaded, even if they are still stored.
pub fn old_heads_are_not_loaded(engine: &dyn Engine) {
    let owner = claim(engine, SHARD);
    for batch in 1..=5 {
        let clean = if batch == 5 { 4 } else { 1 };
        let writes = vec![Write::Put(head(owner.epoch, batch, clean))];
        wait(engine.commit(owner, BatchNo(batch), writes)).expect("a commit succeeds");
    }
    assert_eq!(load(engine, owner), [head(owner.epoch, 4, 1), head(owner.epoch, 5, 4)]);
    let from = Key::Head { batch: BatchNo(1) };
    commit(
        engine,
        owner,
        6,
        &[Write::DeleteRange { from: from.clone(), to: Key::Head { batch: BatchNo(4) } }],
    );
    assert_eq!(read(engine, owner, Read::Key(from)), []);
}

/// Records that do not expire are listed by position, one kind at a time. A record that gets an
/// expiry is no longer listed, and expiring a bucket deletes none of the listed records.
pub fn records_without_an_end_are_listed(engine: &dyn Engine) {
    let owner = claim(engine, SHARD);
    let effect = |hash: u8, bucket: u64| {
        let key = Key::Record { kind: RecordKind::Effect, hash: [hash; 16] };
        Row {
            key,
            columns: Columns::Record { expires: Timestamp(1), bucket },
            body: Bytes::from_static(b"{}"),
        }
    };
    let listed = |since: u64, from: u8, rows: usize| {
        let from = Place { bucket: UNENDING + since, hash: [from; 16] };
        let read = Read::Unending { kind: RecordKind::Effect, from, rows };
        self::read(engine, owner, read)
    };
    let put = |row: Row| Write::Put(row);
    let since = |hash, since| effect(hash, UNENDING + since);
    let some = [
        since(7, 20),
        since(3, 30),
        effect(5, 77),
        since(9, 20),
        record(1, UNENDING),
        since(8, 10),
    ];
    commit(engine, owner, 1, &some.map(put));
    assert_eq!(listed(0, 0, 9), [since(8, 10), since(7, 20), since(9, 20), since(3, 30)]);
    assert_eq!(listed(20, 8, 1), [since(9, 20)]);
    assert_eq!(listed(10, 9, 9), [since(7, 20), since(9, 20), since(3, 30)]);
    let changes = [
        put(effect(7, 77)),
        put(since(5, 15)),
        put(since(8, 40)),
        Write::Expire { from: 0, to: 78 },
    ];
    commit(engine, owner, 2, &changes);
    assert_eq!(listed(0, 0, 9), [since(5, 15), since(9, 20), since(3, 30), since(8, 40)]);
    assert_eq!(read(engine, owner, Read::Key(effect(7, 77).key)), []);
    commit(engine, owner, 3, &[Write::Delete(since(3, 30).key)]);
    assert_eq!(listed(15, 6, 9), [since(9, 20), since(8, 40)]);
}

/// Within a commit, ranges are deleted after all puts.
pub fn range_deletes_apply_after_puts(engine: &dyn Engine) {
    let owner = claim(engine, SHARD);
    let trim = Write::Trim { topic: TOPIC, lane: LANE, from: 0, to: 5 };
    commit(engine, owner, 1, &[Write::Put(page(0, 4)), Write::Put(page(5, 9)), trim]);
    assert_eq!(lasts(&read(engine, owner, pages(9, 9999, false))), [9]);
    commit(engine, owner, 2, &[Write::Delete(Key::Page { topic: TOPIC, lane: LANE, last: 77 })]);
}

/// A put replaces an existing row with the same key.
pub fn a_put_replaces(engine: &dyn Engine) {
    let owner = claim(engine, SHARD);
    let key = Key::Garbage { id: 1 };
    commit(engine, owner, 1, &[Write::Put(plain(key.clone(), "one"))]);
    commit(engine, owner, 2, &[Write::Put(plain(key.clone(), "two"))]);
    assert_eq!(read(engine, owner, Read::Key(key.clone())), [plain(key, "two")]);
}

/// Defines the conformance tests for one engine.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $make:expr) => {
        mod $name {
            $crate::conformance!(@tests $make;
                rows_are_read_as_written
                an_old_owner_is_fenced
                a_commit_names_its_predecessor
                the_chain_outlives_its_owner
                shards_are_apart
                ranges_are_ordered_and_bounded
                a_long_range_is_read_in_steps
                a_range_is_deleted
                a_trim_spares_pages_that_reach_out
                records_go_with_their_bucket
                records_without_an_end_are_listed
                old_heads_are_not_loaded
                range_deletes_apply_after_puts
                a_put_replaces
            );
        }
    };
    (@tests $make:expr; $($promise:ident)*) => {
        $(
            #[test]
            fn $promise() {
                let engine = $make;
                $crate::conformance::$promise(&engine);
            }
        )*
    };
}
