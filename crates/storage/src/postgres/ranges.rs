//! Ranges of keys.
//!
//! With a row comparison, PostgreSQL ends an index scan only when the first column is beyond the
//! end. When only a later column is, it reads on: `(topic, lane, last) < (1, 0, 9)` scans all of
//! topic 1. So there is a statement for each number of leading columns that both ends of a range
//! share.
//!
//! Nearly all ranges end with the first key of a value. Their end compares a single column, the
//! first that differs. Other ranges may scan the rest of that value. So may a range in reverse that
//! does not begin with the first key of a value.

use driftq_core::row::Key;

use super::cells::{Form, Param, key_forms};
use super::sql::{Bound, Sql};
use crate::layout::{Cell, Layout, key_cells, layout};

/// Statements for ranges of a table whose ends share a number of leading columns.
pub(super) struct Ranges {
    pub(super) delete: Sql,
    /// By direction and by [`Limit`].
    pub(super) reads: [[Sql; 3]; 2],
}

/// The limit of a result.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// A number of rows.
    Rows,
    /// A number of rows and of bytes of their bodies.
    Bytes,
    /// A number of rows, which are read without bodies.
    NoBodies,
}

/// Where a range ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At the first key of a value in the first column that differs.
    Value,
    /// At any other key.
    Key,
}

impl Ranges {
    pub(super) fn read(&self, is_reverse: bool, limit: Limit) -> &Sql {
        &self.reads[usize::from(is_reverse)][limit as usize]
    }

    pub(super) fn new(layout: &Layout, shared: usize, end: End) -> Ranges {
        let name = layout.name;
        let names = layout.names().join(", ");
        let all = format!("{names}, body");
        let is_in = is_in(&layout.key_names(), &key_forms(layout), shared, end);
        let made = |verb: &str, text: String, buffers: u64| {
            let verb = match end {
                End::Value => format!("{verb}_{shared}"),
                End::Key => format!("{verb}_{shared}_key"),
            };
            Sql::made(name, &verb, text, Bound::each(1, buffers))
        };
        let next = match end {
            End::Value => 3 + layout.key.len(),
            End::Key => 2 + 2 * layout.key.len() - shared,
        };
        let read = |direction: &str| {
            let order: Vec<String> =
                layout.key_names().iter().map(|name| format!("{name} {direction}")).collect();
            let order = order.join(", ");
            let select = |columns: &str| {
                format!(
                    "SELECT {columns} FROM {name} WHERE shard = $1 AND {is_in} ORDER BY {order} LIMIT ${next}"
                )
            };
            // The row limit is in the inner query, so that bytes are summed for no more rows than
            // that.
            let by_bytes = format!(
                "SELECT {all} FROM (SELECT {all}, sum(octet_length(body)) OVER (ORDER BY {order}) \
                 - octet_length(body) AS before FROM ({}) AS ranged) AS counted WHERE before < ${} ORDER BY {order}",
                select(&all),
                next + 1
            );
            [("rows", select(&all)), ("bytes", by_bytes), ("no_bodies", select(&names))]
                .map(|(limit, text)| made(&format!("range_{direction}_{limit}"), text, 2))
        };
        Ranges {
            delete: made(
                "delete_range",
                format!("DELETE FROM {name} WHERE shard = $1 AND {is_in}"),
                4,
            ),
            reads: [read("ASC"), read("DESC")],
        }
    }
}

/// Returns the condition that a key is between two ends. The parameters from `$2` on are the cells
/// of the first end, then the compared cells of the second end.
fn is_in(names: &[&str], forms: &[Form], shared: usize, end: End) -> String {
    let cell = |at: usize, of: usize| format!("${at}::{}", forms[of].sql());
    let row = |from: usize| {
        let cells = (shared..forms.len()).map(|at| cell(from + at, at));
        cells.collect::<Vec<_>>().join(", ")
    };
    let same = (0..shared).map(|at| format!("{} = {}", names[at], cell(2 + at, at)));
    let (rest, behind) = (names[shared..].join(", "), 2 + forms.len());
    let below = match end {
        End::Value => format!("{} < {}", names[shared], cell(behind, shared)),
        End::Key => format!("({rest}) < ({})", row(behind - shared)),
    };
    let ends = [format!("({rest}) >= ({})", row(2)), below];
    same.chain(ends).collect::<Vec<_>>().join(" AND ")
}

/// Returns the number of leading columns that the ends of a range share, how the range ends, and
/// its parameters.
pub(super) fn between<'a>(shard: i64, from: &'a Key, to: &'a Key) -> (usize, End, Vec<Param<'a>>) {
    let forms = key_forms(&layout(from.table()));
    let (mut low, mut high) = (Vec::new(), Vec::new());
    key_cells(from, &mut low);
    key_cells(to, &mut high);
    let same = low.iter().zip(&high).take_while(|(low, high)| low == high).count();
    // Two equal ends are an empty range; the last column is compared all the same.
    let shared = same.min(forms.len() - 1);
    let (end, compared) = if high[shared + 1..].iter().all(is_least) {
        (End::Value, 1)
    } else {
        (End::Key, forms.len() - shared)
    };
    let mut params = vec![Param::Number(shard)];
    params.extend(low.into_iter().zip(&forms).map(|(cell, form)| form.one(cell)));
    let rest = high.into_iter().zip(&forms).skip(shared).take(compared);
    params.extend(rest.map(|(cell, form)| form.one(cell)));
    (shared, end, params)
}

fn is_least(cell: &Cell<'_>) -> bool {
    match cell {
        Cell::Number(number) => *number == 0,
        Cell::Text(text) => text.is_empty(),
        Cell::Bytes(bytes) => bytes.iter().all(|byte| *byte == 0),
    }
}
