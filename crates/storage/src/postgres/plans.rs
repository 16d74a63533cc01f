//! Tests that every statement of the engine keeps its bound on large tables, with and without table
//! statistics.
//!
//! Each statement is prepared as the engine prepares it, with the settings of its connections. It
//! is run by `EXPLAIN (ANALYZE, BUFFERS)` with parameters that the engine derives from real reads
//! and writes.

mod content;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use driftq_core::limits::{
    EFFECT_ROWS_MAX, EXPIRE_ROWS_MAX, READ_AHEAD_PAGES_MAX, READ_AHEAD_STEP_BYTES,
    READ_LOOKUPS_MAX, TRIM_OFFSETS_MAX,
};
use driftq_core::row::{Columns, Key, Place, Read, RecordKind, Row, Table, Write};
use driftq_core::{BatchNo, Epoch, Generation, Lane, NUMBER_MAX, Timestamp, TopicId};
use serde_json::Value;
use tokio_postgres::SimpleQueryMessage;

use super::cells::{Line, Param, all_forms, arrays, key_forms};
use super::fixed::{self, FIXED};
use super::ranges::between;
use super::session::Session;
use super::sql::Sql;
use super::statements::All;
use super::{Postgres, reading, writing};
use crate::layout::{content_cells, key_cells, layout, row_of};
use content::{
    CLEAN_AFTER, EMPTY_SHARD, GROUP, NODES, SHARD, SHARDS, content, end_of, filled, first_of,
    is_grouped, values,
};

/// One execution of a statement.
struct Case {
    sql: Sql,
    values: Vec<String>,
    /// The number of requested rows.
    asked: u64,
}

impl Case {
    fn new(sql: &Sql, params: &[Param<'_>], asked: usize) -> Case {
        Case { sql: sql.clone(), values: params.iter().map(literal).collect(), asked: asked as u64 }
    }

    fn fixed(sql: &Sql, values: &[&str], asked: u64) -> Case {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Case { sql: sql.clone(), values, asked }
    }
}

/// Formats a parameter as an SQL literal.
fn literal(param: &Param<'_>) -> String {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let bytes = |bytes: &[u8]| format!("'\\x{}'", data_encoding::HEXLOWER.encode(bytes));
    let array = |cells: Vec<String>, of: &str| format!("ARRAY[{}]::{of}[]", cells.join(","));
    match param {
        Param::Number(number) => number.to_string(),
        Param::Text(of) => text(of),
        Param::Bytes(of) => bytes(of),
        Param::Numbers(of) => array(of.iter().map(i64::to_string).collect(), "int8"),
        Param::Texts(of) => array(of.iter().map(|of| text(of)).collect(), "text"),
        Param::ManyBytes(of) => array(of.iter().map(|of| bytes(of)).collect(), "bytea"),
    }
}

/// Returns rows of a table that meet the conditions `are`, in the order of their keys or in
/// reverse, after `skip` rows.
async fn rows(
    session: &Session,
    table: Table,
    are: &[String],
    direction: &str,
    skip: u64,
) -> Vec<Row> {
    let layout = layout(table);
    let order: Vec<String> =
        layout.key_names().iter().map(|name| format!("{name} {direction}")).collect();
    let are = are.iter().map(|is| format!(" AND {is}")).collect::<String>();
    let select = format!(
        "SELECT {}, body FROM {} WHERE shard = {SHARD}{are} ORDER BY {} OFFSET {skip} LIMIT {READ_LOOKUPS_MAX}",
        layout.names().join(", "),
        layout.name,
        order.join(", ")
    );
    let lines = session.client.query(&select, &[]).await.expect("rows");
    let row = |line| row_of(table, Line::of(line, 0, &layout), true).expect("a row");
    lines.iter().map(row).collect()
}

/// Adds the cases of one table.
async fn of_table(session: &Session, all: &All, table: Table, cases: &mut Vec<Case>) {
    let (statements, layout) = (all.of(table), layout(table));
    let count = content(table).0;
    let some = rows(session, table, &[], "ASC", count / 3).await;
    let first = rows(session, table, &[], "ASC", 0).await.remove(0).key;
    let last = rows(session, table, &[], "DESC", 0).await.remove(0).key;
    let asked = some.len();
    let gets: Vec<Read> = some.iter().map(|row| Read::Key(row.key.clone())).collect();
    for question in reading::queries(all, SHARD, &gets).expect("cells fit") {
        cases.push(Case::new(question.sql, &question.params, asked));
    }
    if table != Table::Record {
        of_ranges(all, [&first, &some[0].key, &some[asked - 1].key, &last], cases);
        for shared in 0..layout.key.len() {
            if let Some((from, to, asked)) = boundary(session, table, shared).await {
                of_range(all, &from, &first_of(&to, shared + 1), asked, cases);
                // A range that ends within a value may scan the rest of a small group, but nothing
                // before the range.
                of_range(all, &from, &to, asked + GROUP as usize, cases);
            }
        }
    }
    // Puts replace existing rows in the first shard, and insert rows in the empty one.
    for shard in [SHARD, EMPTY_SHARD] {
        let cells = some.iter().map(|row| {
            let mut cells = Vec::new();
            key_cells(&row.key, &mut cells);
            content_cells(row, layout.is_text(), &mut cells);
            cells
        });
        let mut params = vec![Param::Number(shard)];
        params.extend(arrays(&all_forms(&layout), cells).expect("cells fit"));
        cases.push(Case::new(&statements.put, &params, asked));
    }
    let deletes: Vec<Write> = some.iter().map(|row| Write::Delete(row.key.clone())).collect();
    for (sql, params) in writing::changes(all, SHARD, &deletes).expect("cells fit") {
        cases.push(Case::new(sql, &params, asked));
    }
    let groups = layout.key.iter().filter(|column| is_grouped(table, **column)).count() as u64;
    let of_shard = (count + groups * GROUP) / 10 * 9;
    // Tables that are not kept in memory are loaded only by `driftq shard check`.
    cases.push(Case::fixed(&statements.load, &["0"], of_shard));
}

/// Adds ranges between these keys of a table. They have more rows than one result may have, and far
/// fewer than the table has after them.
fn of_ranges(all: &All, keys: [&Key; 4], cases: &mut Vec<Case>) {
    let [first, low, high, last] = keys;
    for from in [first, low] {
        reads(all, from, &end_of(from, last), READ_AHEAD_PAGES_MAX, cases);
    }
    of_range(all, low, &end_of(low, high), READ_LOOKUPS_MAX, cases);
    of_range(all, low, high, READ_LOOKUPS_MAX, cases);
}

/// Adds reads and a delete of a range of `asked` rows.
fn of_range(all: &All, from: &Key, to: &Key, asked: usize, cases: &mut Vec<Case>) {
    reads(all, from, to, asked, cases);
    let range = [Write::DeleteRange { from: from.clone(), to: to.clone() }];
    for (sql, params) in writing::changes(all, SHARD, &range).expect("cells fit") {
        cases.push(Case::new(sql, &params, asked));
    }
}

/// Adds reads of a range, in order and in reverse. The row limit or the size of the range bounds
/// them. In reverse, the range begins with the first key of a value.
fn reads(all: &All, from: &Key, to: &Key, asked: usize, cases: &mut Vec<Case>) {
    let least = first_of(from, between(SHARD, from, to).0 + 1);
    let in_reverse = if least == *from { asked } else { READ_AHEAD_PAGES_MAX };
    for (reverse, from, asked) in [(false, from, asked), (true, &least, in_reverse)] {
        for (bytes, bodies) in
            [(usize::MAX, true), (READ_AHEAD_STEP_BYTES, true), (usize::MAX, false)]
        {
            let (from, to, rows) = (from.clone(), to.clone(), READ_AHEAD_PAGES_MAX);
            let read = [Read::Range { from, to, reverse, rows, bytes, bodies }];
            for question in reading::queries(all, SHARD, &read).expect("cells fit") {
                cases.push(Case::new(question.sql, &question.params, asked));
            }
        }
    }
}

/// Returns a range of few rows at the end of a group by a column of the key, and their number.
async fn boundary(session: &Session, table: Table, shared: usize) -> Option<(Key, Key, usize)> {
    let (layout, names) = (layout(table), layout(table).key_names());
    if !is_grouped(table, layout.key[shared]) {
        return None;
    }
    let is = |at: usize, group: usize| {
        let value = values(table, layout.key[at])[group];
        (names[at] != content(table).1).then(|| format!("{} = {value}", names[at]))
    };
    let mut is_behind: Vec<String> = (0..shared).filter_map(|at| is(at, 0)).collect();
    is_behind.extend(is(shared, 1));
    let to = rows(session, table, &is_behind, "ASC", 0).await.into_iter().next()?.key;
    let mut cells = Vec::new();
    key_cells(&to, &mut cells);
    let forms = key_forms(&layout);
    let cells = cells.into_iter().zip(&forms).map(|(cell, form)| literal(&form.one(cell)));
    let below = format!("({}) < ({})", names.join(", "), cells.collect::<Vec<_>>().join(", "));
    let before = rows(session, table, &[below], "DESC", 0).await;
    let shares = |row: &Row| between(SHARD, &row.key, &to).0 == shared;
    let at = before.iter().rposition(shares)?;
    Some((before[at].key.clone(), to, at + 1))
}

/// Adds the other cases of records, pages and heads.
fn of_rows(all: &All, some: &[Row], cases: &mut Vec<Case>) {
    let (topic, lane) = (TopicId(1), Lane(1));
    let from = 200_000;
    let trim = Write::Trim { topic, lane, from, to: from + TRIM_OFFSETS_MAX };
    let expire = Write::Expire { from, to: from + 2 * EXPIRE_ROWS_MAX as u64 };
    let touches = some.iter().map(|row| Write::Touch {
        key: row.key.clone(),
        expires: Timestamp(7),
        bucket: 7_000_000,
    });
    let touches: Vec<Write> = touches.collect();
    for (writes, asked) in [
        (vec![trim], TRIM_OFFSETS_MAX as usize),
        (vec![expire], EXPIRE_ROWS_MAX),
        (touches, some.len()),
    ] {
        for (sql, params) in writing::changes(all, SHARD, &writes).expect("cells fit") {
            cases.push(Case::new(sql, &params, asked));
        }
    }
    let ahead = Read::pages(topic, lane, from, READ_AHEAD_PAGES_MAX, READ_AHEAD_STEP_BYTES);
    let unending =
        Read::Unending { kind: RecordKind::Effect, from: Place::FIRST, rows: EFFECT_ROWS_MAX };
    let ending = Read::Ending { from, rows: EXPIRE_ROWS_MAX };
    let reads =
        [(ahead, READ_AHEAD_PAGES_MAX), (unending, EFFECT_ROWS_MAX), (ending, EXPIRE_ROWS_MAX)];
    for (read, asked) in reads.into_iter().chain(narrow()) {
        for question in reading::queries(all, SHARD, &[read]).expect("cells fit") {
            cases.push(Case::new(question.sql, &question.params, asked));
        }
    }
    let batch = BatchNo(content(Table::Head).0 + 1);
    let head = Row {
        key: Key::Head { batch },
        columns: Columns::Head { epoch: Epoch(1), now: Timestamp(1), clean: BatchNo(1) },
        body: bytes::Bytes::from_static(b"head"),
    };
    let head = [Write::Put(head)];
    let params = writing::head(SHARD, 1, batch, &head).expect("a head");
    cases.push(Case::new(&fixed::HEAD, &params, 1));
    cases.push(Case::fixed(&fixed::HEADS, &["0"], CLEAN_AFTER));
}

/// Returns reads of few rows that are followed by many others, and the number of their rows.
fn narrow() -> Vec<(Read, usize)> {
    let (topic, lane, generation) = (TopicId(1), Lane(1), Generation(1));
    let range = |from: Key, to: Key, reverse: bool| Read::Range {
        from,
        to,
        reverse,
        rows: READ_AHEAD_PAGES_MAX,
        bytes: usize::MAX,
        bodies: true,
    };
    let held = |offset| Key::Held { generation, lane, offset, hash: [0; 16] };
    let history = |block| Key::History { topic, lane, block, batch: BatchNo(0) };
    let block = |block| Key::Block { generation, lane, block, batch: BatchNo(0) };
    let page = |topic| Key::Page { topic: TopicId(topic), lane: Lane(0), last: 0 };
    let audit = |namespace| Key::Audit { namespace, last: 0 };
    let last = Read::Range {
        from: audit([0; 16]),
        to: audit([u8::MAX; 16]),
        reverse: true,
        rows: 1,
        bytes: usize::MAX,
        bodies: true,
    };
    vec![
        (range(held(50_000), held(50_001), false), 1),
        (range(history(50_000), history(50_001), false), 1),
        (range(block(99_990), block(NUMBER_MAX), false), 10),
        (range(page(0), page(1), false), 1),
        (range(page(0), page(1), true), 1),
        (last, 1),
    ]
}

/// Adds the cases of shards and nodes.
fn of_nodes(engine: &Postgres, cases: &mut Vec<Case>) {
    let cluster_rows = u64::from(SHARDS) + NODES;
    let identity = engine.identity();
    let storage = format!("'{}'", identity.storage);
    let restore = identity.restore.to_string();
    let renew = [
        "7",
        "'http://127.0.0.1:7'",
        "'1'",
        "2",
        "false",
        "3000",
        storage.as_str(),
        restore.as_str(),
    ];
    let nodes: Vec<String> = (1..=NODES).map(|node| node.to_string()).collect();
    let nodes = format!("ARRAY[{}]", nodes.join(","));
    let none = format!("array_fill(0::int8, ARRAY[{NODES}])");
    cases.extend([
        Case::fixed(&fixed::FENCE, &["0", "1"], 1),
        Case::fixed(&fixed::OWNER, &["0", "1"], 1),
        Case::fixed(&fixed::CLAIM, &["0"], 1),
        Case::fixed(&fixed::CLAIM_AS, &["0", "1", "7", &storage, &restore], 1),
        Case::fixed(&fixed::GIVE_UP, &["0", "1"], 1),
        Case::fixed(&fixed::PUT, &["0", "7", "'{}'"], 1),
        Case::fixed(&fixed::DRAIN, &["7", "1", "'{}'"], 1),
        Case::fixed(&fixed::LEAVE, &["7"], 1),
        Case::fixed(&fixed::IDENTITY, &[], 1),
        Case::fixed(&fixed::META, &["'identity'"], 1),
        Case::fixed(&fixed::PUT_META, &["'clock_held'", "'null'", "'{}'"], 1),
        Case::fixed(&fixed::PUT_META, &["'identity'", "'null'", "NULL"], 1),
        Case::fixed(&fixed::ACTS, &["3", "2"], 2),
        Case::fixed(&fixed::FAR, &[], u64::from(SHARDS)),
        Case::fixed(&fixed::RENEW, &renew, cluster_rows),
        Case::fixed(&fixed::LOOK, &[], cluster_rows),
        Case::fixed(&fixed::VOID, &[&nodes, &none], NODES),
    ]);
}

/// Runs a statement, rolls it back, and returns its plan.
async fn explain(session: &Session, case: &Case) -> Value {
    let execute = if case.values.is_empty() {
        "EXECUTE tested".to_owned()
    } else {
        format!("EXECUTE tested ({})", case.values.join(", "))
    };
    let script = format!(
        "BEGIN; PREPARE tested AS {};
         EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {execute};
         ROLLBACK; DEALLOCATE tested",
        case.sql.text
    );
    let answers = session.client.simple_query(&script).await;
    let answers = answers.unwrap_or_else(|error| panic!("{}: {error:?}", case.sql.name));
    let plans = answers.iter().filter_map(|answer| {
        if let SimpleQueryMessage::Row(row) = answer { row.get(0) } else { None }
    });
    let plan: Value = serde_json::from_str(&plans.collect::<String>()).expect("a plan");
    plan[0]["Plan"].clone()
}

/// Returns the number of rows that the scans of a plan read.
fn scanned(plan: &Value) -> f64 {
    let number = |name: &str| plan[name].as_f64().unwrap_or_default();
    let is_scan = plan["Node Type"].as_str().is_some_and(|node| node.ends_with("Scan"))
        && !plan["Relation Name"].is_null();
    let rows = number("Actual Rows")
        + number("Rows Removed by Filter")
        + number("Rows Removed by Index Recheck");
    let own = if is_scan { rows * number("Actual Loops") } else { 0.0 };
    own + plan["Plans"].as_array().into_iter().flatten().map(scanned).sum::<f64>()
}

fn buffers(plan: &Value) -> f64 {
    let number = |name: &str| plan[name].as_f64().unwrap_or_default();
    number("Shared Hit Blocks") + number("Shared Read Blocks")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_keeps_its_bound_of_rows_and_buffers() {
    let (engine, session) = filled().await;
    let all = All::new();
    let mut cases = Vec::new();
    for table in (0..).map_while(Table::of) {
        of_table(&session, &all, table, &mut cases).await;
    }
    let records = rows(&session, Table::Record, &[], "ASC", 1_000).await;
    of_rows(&all, &records, &mut cases);
    of_nodes(&engine, &mut cases);

    let tested: BTreeSet<&str> = cases.iter().map(|case| &*case.sql.name).collect();
    let made = (0..).map_while(Table::of).flat_map(|table| all.of(table).each());
    let known: BTreeSet<&str> = made.chain(FIXED.iter().copied()).map(|sql| &*sql.name).collect();
    let untested: Vec<_> = known.difference(&tested).collect();
    assert!(untested.is_empty(), "statements without a test of their plan: {untested:?}");

    let mut beyond = String::new();
    for statistics in ["without statistics", "with statistics"] {
        if statistics == "with statistics" {
            session.client.batch_execute("ANALYZE").await.expect("statistics");
        }
        for case in &cases {
            let Case { sql: Sql { name, bound, .. }, asked, .. } = case;
            let (rows_max, buffers_max) = (bound.rows(*asked), bound.buffers(*asked));
            let mut excess = None;
            // A page that is split, or that the vacuum changes at this moment, costs buffers once. A
            // wrong plan costs them each time.
            for _ in 0..3 {
                let plan = explain(&session, case).await;
                let (rows, buffers) = (scanned(&plan), buffers(&plan));
                let is_kept = rows <= rows_max as f64 && buffers <= buffers_max as f64;
                excess = (!is_kept).then_some((rows, buffers, plan));
                if is_kept {
                    break;
                }
            }
            if let Some((rows, buffers, plan)) = excess {
                let _ = writeln!(
                    beyond,
                    "{name} {statistics}: {rows} rows of {rows_max}, {buffers} buffers of {buffers_max}\n{plan:#}"
                );
            }
        }
    }
    assert!(beyond.is_empty(), "{beyond}");
}
