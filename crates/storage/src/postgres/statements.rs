//! The statements of each table, generated once from its layout.
//!
//! Each statement is written so that its plan cannot change. Rows are read one by one by their full
//! key (`LATERAL … LIMIT 1`) or by one range of it. With anything less strict, the planner, which
//! has no row counts, scans the table. While an old snapshot exists, that scan also reads all dead
//! rows.

use driftq_core::row::Table;

use super::cells::{Form, all_forms, key_forms};
use super::ranges::{End, Ranges};
use super::sql::{Bound, Sql};
use crate::layout::{Layout, layout};

/// The statements of one table. `$1` is the shard.
pub(super) struct Statements {
    /// Reads rows by many keys. The first result column is the position of the key, from 1.
    pub(super) get: Sql,
    pub(super) put: Sql,
    pub(super) delete: Sql,
    /// Reads all rows of the shard.
    pub(super) load: Sql,
    /// By the number of leading columns that both ends share, and by [`End`]. Records have no
    /// ranges.
    pub(super) ranges: Vec<Vec<Ranges>>,
}

#[cfg(test)]
impl Statements {
    /// Returns all statements.
    pub(super) fn each(&self) -> Vec<&Sql> {
        let Statements { get, put, delete, load, ranges } = self;
        let ranges = ranges.iter().flatten().flat_map(|Ranges { delete, reads }| {
            std::iter::once(delete).chain(reads.iter().flatten())
        });
        [get, put, delete, load].into_iter().chain(ranges).collect()
    }
}

/// Statements of all tables, in the order of [`Table`].
pub(super) struct All(Vec<Statements>);

impl All {
    pub(super) fn new() -> All {
        All((0..).map_while(Table::of).map(|table| statements(&layout(table))).collect())
    }

    pub(super) fn of(&self, table: Table) -> &Statements {
        &self.0[table as usize]
    }
}

fn statements(layout: &Layout) -> Statements {
    let name = layout.name;
    let names = layout.names();
    let (key, without_body) = (layout.key_names().join(", "), names.join(", "));
    let all = format!("{without_body}, body");
    let (keys, forms) = (arrays(&key_forms(layout)), arrays(&all_forms(layout)));
    let letters: Vec<String> = (0..layout.key.len()).map(|at| format!("k{at}")).collect();
    let is_key: Vec<String> = layout
        .key_names()
        .iter()
        .zip(&letters)
        .map(|(name, k)| format!("t.{name} = u.{k}"))
        .collect();
    let (letters, is_key) = (letters.join(", "), is_key.join(" AND "));
    // Looks up each of many keys separately.
    let each = |select: &str| {
        format!("LATERAL (SELECT {select} FROM {name} t WHERE t.shard = $1 AND {is_key} LIMIT 1) x")
    };
    let set: Vec<String> = names[layout.key.len()..]
        .iter()
        .chain([&"body"])
        .map(|column| format!("{column} = EXCLUDED.{column}"))
        .collect();
    let made = |verb: &str, text: String, rows: u64, buffers: u64| {
        Sql::made(name, verb, text, Bound::each(rows, buffers))
    };
    let get = format!(
        "SELECT u.n, x.* FROM unnest({keys}) WITH ORDINALITY AS u({letters}, n), {}",
        each(&all)
    );
    let put = format!(
        "INSERT INTO {name} (shard, {all}) SELECT $1, u.* FROM unnest({forms}) AS u \
         ON CONFLICT (shard, {key}) DO UPDATE SET {}",
        set.join(", ")
    );
    let delete = format!(
        "DELETE FROM {name} WHERE ctid = ANY(ARRAY(SELECT x.ctid FROM unnest({keys}) AS u({letters}), {}))",
        each("t.ctid")
    );
    let load = format!("SELECT {all} FROM {name} WHERE shard = $1");
    let ends = |shared: usize| {
        // In the last column, every value is a key, so `End::Value` is enough.
        let ends = [End::Value, End::Key].into_iter().take(layout.key.len() - shared);
        ends.map(|end| Ranges::new(layout, shared, end)).collect()
    };
    let shared = if layout.name == "record" { 0 } else { layout.key.len() };
    let ranges = (0..shared).map(ends).collect();
    // Rows and buffers per requested row. An index descent reads four buffers.
    Statements {
        get: made("get", get, 1, 5),
        put: made("put", put, 1, 16),
        delete: made("delete", delete, 2, 7),
        load: made("load", load, 1, 1),
        ranges,
    }
}

/// Returns array parameters: `$2::int8[], $3::bytea[], …`
fn arrays(forms: &[Form]) -> String {
    let arrays =
        forms.iter().enumerate().map(|(at, form)| format!("${}::{}[]", at + 2, form.sql()));
    arrays.collect::<Vec<_>>().join(", ")
}
