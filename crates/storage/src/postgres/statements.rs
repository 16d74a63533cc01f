//! The statements of each table, made once from its layout.
//!
//! Each is written so that its plan cannot flip: rows are found one by one by their full key (`LATERAL …
//! LIMIT 1`) or by one range of it. With anything looser the planner, which knows no row counts, walks the
//! table, rows that are long dead included, as soon as an old snapshot keeps those.

use driftq_core::row::Table;

use super::cells::{Form, all_forms, key_forms};
use crate::layout::{Layout, layout};

/// What is asked of one table. `$1` is the shard.
pub(super) struct Statements {
    /// Rows of many keys; the first column is the number of the key, from 1.
    pub(super) get: String,
    pub(super) put: String,
    pub(super) delete: String,
    pub(super) delete_range: String,
    pub(super) load: String,
    /// By direction and by what bounds it.
    pub(super) ranges: [[String; 3]; 2],
}

/// What bounds a range.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// Rows.
    Rows,
    /// Rows, or bytes of their bodies.
    Bytes,
    /// Rows, and bodies were not asked for.
    NoBodies,
}

impl Statements {
    pub(super) fn range(&self, is_reverse: bool, bound: Bound) -> &str {
        &self.ranges[usize::from(is_reverse)][bound as usize]
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
    let in_range = in_range(&key, &key_forms(layout));
    let next = 2 + 2 * layout.key.len();
    let range = |direction: &str| {
        let order: Vec<String> =
            layout.key_names().iter().map(|name| format!("{name} {direction}")).collect();
        let order = order.join(", ");
        let select = |columns: &str| {
            format!(
                "SELECT {columns} FROM {name} WHERE shard = $1 AND {in_range} ORDER BY {order} LIMIT ${next}"
            )
        };
        let by_bytes = format!(
            "SELECT {all} FROM (SELECT {all}, sum(octet_length(body)) OVER (ORDER BY {order}) \
             - octet_length(body) AS before FROM ({}) AS ranged) AS counted WHERE before < ${} ORDER BY {order}",
            select(&all),
            next + 1
        );
        [select(&all), by_bytes, select(&without_body)]
    };
    Statements {
        get: format!(
            "SELECT u.n, x.* FROM unnest({keys}) WITH ORDINALITY AS u({letters}, n), {}",
            each(&all)
        ),
        put: format!(
            "INSERT INTO {name} (shard, {all}) SELECT $1, u.* FROM unnest({forms}) AS u \
             ON CONFLICT (shard, {key}) DO UPDATE SET {}",
            set.join(", ")
        ),
        delete: format!(
            "DELETE FROM {name} WHERE ctid = ANY(ARRAY(SELECT x.ctid FROM unnest({keys}) AS u({letters}), {}))",
            each("t.ctid")
        ),
        delete_range: format!("DELETE FROM {name} WHERE shard = $1 AND {in_range}"),
        load: format!("SELECT {all} FROM {name} WHERE shard = $1"),
        ranges: [range("ASC"), range("DESC")],
    }
}

/// `$2::int8[], $3::bytea[], …`
fn arrays(forms: &[Form]) -> String {
    let arrays =
        forms.iter().enumerate().map(|(at, form)| format!("${}::{}[]", at + 2, form.sql()));
    arrays.collect::<Vec<_>>().join(", ")
}

/// A key between two, whose cells follow each other from `$2` on.
fn in_range(key: &str, forms: &[Form]) -> String {
    let cells = |from: usize| {
        let cells =
            forms.iter().enumerate().map(|(at, form)| format!("${}::{}", from + at, form.sql()));
        cells.collect::<Vec<_>>().join(", ")
    };
    format!("({key}) >= ({}) AND ({key}) < ({})", cells(2), cells(2 + forms.len()))
}

/// Locks out every claim until the transaction ends; a row only while the epoch is `$2`.
pub(super) const FENCE: &str =
    "SELECT 1 FROM shard WHERE shard = $1 AND epoch = $2 FOR NO KEY UPDATE";

/// The head of batch `$2` under the epoch `$7`, and the time. Where its predecessor is not the last, or the
/// ownership is over, its number is null, which no head may have: that ends the transaction, whatever was
/// sent behind it.
pub(super) const HEAD: &str = "INSERT INTO head (shard, batch, epoch, now, clean, body) VALUES ($1,
    CASE WHEN EXISTS (SELECT FROM shard WHERE shard = $1 AND epoch = $7)
          AND CASE WHEN $2::int8 = 1 THEN NOT EXISTS (SELECT FROM head WHERE shard = $1)
                   ELSE EXISTS (SELECT FROM head WHERE shard = $1 AND batch = $2 - 1) END
    THEN $2 END, $3, $4, $5, $6)
    RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::int8";

pub(super) const HEADS: &str = "SELECT batch, epoch, now, clean, body FROM head WHERE shard = $1
    AND batch >= (SELECT clean FROM head WHERE shard = $1 ORDER BY batch DESC LIMIT 1)";

pub(super) const CLAIM: &str = "INSERT INTO shard (shard, epoch) VALUES ($1, 1)
    ON CONFLICT (shard) DO UPDATE SET epoch = shard.epoch + 1
    RETURNING epoch, (extract(epoch FROM clock_timestamp()) * 1000)::int8";

pub(super) const OWNER: &str = "SELECT 1 FROM shard WHERE shard = $1 AND epoch = $2";

/// Pages that lie wholly inside.
pub(super) const TRIM: &str = "DELETE FROM page WHERE ctid = ANY(ARRAY(
    SELECT x.ctid FROM unnest($2::int8[], $3::int8[], $4::int8[], $5::int8[]) AS u(topic, lane, low, high),
    LATERAL (SELECT t.ctid FROM page t WHERE t.shard = $1 AND t.topic = u.topic AND t.lane = u.lane
             AND t.last >= u.low AND t.last < u.high AND t.base >= u.low OFFSET 0) x))";

pub(super) const TOUCH: &str = "UPDATE record SET expires = y.expires, bucket = y.bucket FROM (
    SELECT x.ctid, u.expires, u.bucket
    FROM unnest($2::int8[], $3::bytea[], $4::int8[], $5::int8[]) AS u(kind, hash, expires, bucket),
    LATERAL (SELECT t.ctid FROM record t
             WHERE t.shard = $1 AND t.kind = u.kind AND t.hash = u.hash LIMIT 1) x) AS y
    WHERE record.ctid = y.ctid";

pub(super) const EXPIRE: &str =
    "DELETE FROM record WHERE shard = $1 AND bucket >= $2 AND bucket < $3 AND expires < $3";

pub(super) const ENDING: &str = "SELECT kind, hash, expires, bucket FROM record
    WHERE shard = $1 AND bucket >= $2 AND bucket < $3 ORDER BY bucket LIMIT $4";

/// By the index of buckets. The sum keeps the key's index, which would read them all, out of it.
pub(super) const UNENDING: &str = "SELECT kind, hash, expires, bucket, body FROM record
    WHERE shard = $1 AND kind + 0 = $2 AND bucket >= $3 AND (bucket > $3 OR hash >= $4)
    ORDER BY bucket, hash LIMIT $5";
