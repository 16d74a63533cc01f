//! A statement with the most that it may touch.
//!
//! Connections prepare nothing else, so no statement of the engine is without a bound. `plans` holds each against
//! its bound on large tables.

use std::borrow::Cow;

/// A statement of the engine.
#[derive(Debug, Clone)]
pub(super) struct Sql {
    /// Names it in the list of all statements.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the test of plans"))]
    pub(super) name: Cow<'static, str>,
    pub(super) text: Cow<'static, str>,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the test of plans"))]
    pub(super) bound: Bound,
}

impl Sql {
    /// One that is written out.
    pub(super) const fn fixed(name: &'static str, text: &'static str, bound: Bound) -> Sql {
        Sql { name: Cow::Borrowed(name), text: Cow::Borrowed(text), bound }
    }

    /// One that is made from the layout of a table.
    pub(super) fn made(table: &str, verb: &str, text: String, bound: Bound) -> Sql {
        Sql { name: Cow::Owned(format!("{table}.{verb}")), text: Cow::Owned(text), bound }
    }
}

/// The most that one execution may touch: rows that its plan looks at, and buffers of 8 KiB. Both grow with the rows
/// that are asked for (keys, a limit, a span of offsets, a shard as a whole) and with nothing else.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "for the test of plans"))]
pub(super) struct Bound {
    rows_each: u64,
    buffers_each: u64,
}

impl Bound {
    /// So many rows and buffers for each row that is asked for. One way down an index is free.
    pub(super) const fn each(rows_each: u64, buffers_each: u64) -> Bound {
        Bound { rows_each, buffers_each }
    }
}

#[cfg(test)]
impl Bound {
    /// Buffers of a way down an index: four levels, a leaf beside, a row.
    const DESCENT: u64 = 6;

    /// Rows, where so many are asked for.
    pub(super) fn rows(self, asked: u64) -> u64 {
        1 + asked * self.rows_each
    }

    /// Buffers, where so many are asked for.
    pub(super) fn buffers(self, asked: u64) -> u64 {
        Bound::DESCENT + asked * self.buffers_each
    }
}
