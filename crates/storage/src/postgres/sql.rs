//! Statements with a bound on the rows and buffers that they may read.
//!
//! Connections prepare only such statements, so every statement of the engine has a bound. `plans`
//! tests each statement against its bound on large tables.

use std::borrow::Cow;

/// A statement of the engine.
#[derive(Debug, Clone)]
pub(super) struct Sql {
    /// The name in the list of all statements.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the test of plans"))]
    pub(super) name: Cow<'static, str>,
    pub(super) text: Cow<'static, str>,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the test of plans"))]
    pub(super) bound: Bound,
}

impl Sql {
    /// A statement with a constant text.
    pub(super) const fn fixed(name: &'static str, text: &'static str, bound: Bound) -> Sql {
        Sql { name: Cow::Borrowed(name), text: Cow::Borrowed(text), bound }
    }

    /// A statement that is generated from the layout of a table.
    pub(super) fn made(table: &str, verb: &str, text: String, bound: Bound) -> Sql {
        Sql { name: Cow::Owned(format!("{table}.{verb}")), text: Cow::Owned(text), bound }
    }
}

/// The maximum number of rows and of 8 KiB buffers that one execution may read. Both depend only on
/// the number of requested rows: keys, a limit, a span of offsets, or all rows of a shard.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "for the test of plans"))]
pub(super) struct Bound {
    rows_each: u64,
    buffers_each: u64,
}

impl Bound {
    /// Allows this many rows and buffers per requested row, plus one index descent.
    pub(super) const fn each(rows_each: u64, buffers_each: u64) -> Bound {
        Bound { rows_each, buffers_each }
    }
}

#[cfg(test)]
impl Bound {
    /// Buffers of one index descent: four levels, a neighbouring leaf, and a row.
    const DESCENT: u64 = 6;

    /// Maximum number of rows that are read for `asked` requested rows.
    pub(super) fn rows(self, asked: u64) -> u64 {
        1 + asked * self.rows_each
    }

    /// Maximum number of buffers that are read for `asked` requested rows.
    pub(super) fn buffers(self, asked: u64) -> u64 {
        Bound::DESCENT + asked * self.buffers_each
    }
}
