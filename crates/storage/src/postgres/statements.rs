//! The statements of each table, made once from its layout.
//!
//! Each is written so that its plan cannot flip: rows are found one by one by their full key (`LATERAL …
//! LIMIT 1`) or by one range of it. With anything looser the planner, which knows no row counts, walks the
//! table, rows that are long dead included, as soon as an old snapshot keeps those.

use driftq_core::row::Table;

use super::cells::{Form, all_forms, key_forms};
use super::ranges::{End, Ranges};
use super::sql::{Bound, Sql};
use crate::layout::{Layout, layout};

/// What is asked of one table. `$1` is the shard.
pub(super) struct Statements {
    /// Rows of many keys; the first column is the number of the key, from 1.
    pub(super) get: Sql,
    pub(super) put: Sql,
    pub(super) delete: Sql,
    /// Every row of the shard.
    pub(super) load: Sql,
    /// By the number of leading columns that both ends share, and by how they end. Records have none.
    pub(super) ranges: Vec<Vec<Ranges>>,
}

#[cfg(test)]
impl Statements {
    /// All of them.
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
    // The rows of many keys, each found by itself.
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
        // In the last column every value is a key.
        let ends = [End::Value, End::Key].into_iter().take(layout.key.len() - shared);
        ends.map(|end| Ranges::new(layout, shared, end)).collect()
    };
    let shared = if layout.name == "record" { 0 } else { layout.key.len() };
    let ranges = (0..shared).map(ends).collect();
    // Rows and buffers for each row that is asked for. A way down an index is four buffers.
    Statements {
        get: made("get", get, 1, 5),
        put: made("put", put, 1, 16),
        delete: made("delete", delete, 2, 7),
        load: made("load", load, 1, 1),
        ranges,
    }
}

/// `$2::int8[], $3::bytea[], …`
fn arrays(forms: &[Form]) -> String {
    let arrays =
        forms.iter().enumerate().map(|(at, form)| format!("${}::{}[]", at + 2, form.sql()));
    arrays.collect::<Vec<_>>().join(", ")
}
