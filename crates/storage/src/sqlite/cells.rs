//! Cells as SQLite binds and returns them.

use bytes::Bytes;
use driftq_core::Text;
use driftq_core::row::Hash16;
use rusqlite::types::{FromSql, ToSqlOutput, ValueRef};
use rusqlite::{Result, ToSql};

use crate::layout::{Cell, Cells};

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        let value = match self {
            // No number is greater than `NUMBER_MAX`, which is `i64::MAX`.
            Cell::Number(number) => ValueRef::Integer(number.cast_signed()),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Bytes(bytes) => ValueRef::Blob(bytes),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

/// A result row.
pub(super) struct Line<'a, 'l> {
    line: &'a rusqlite::Row<'l>,
    next: usize,
}

impl<'a, 'l> Line<'a, 'l> {
    pub(super) fn of(line: &'a rusqlite::Row<'l>) -> Line<'a, 'l> {
        Line { line, next: 0 }
    }

    fn take<T: FromSql>(&mut self) -> Result<T> {
        self.next += 1;
        self.line.get(self.next - 1)
    }
}

impl Cells for Line<'_, '_> {
    type Error = rusqlite::Error;

    fn number(&mut self) -> Result<u64> {
        self.take()
    }

    fn word(&mut self) -> Result<Text> {
        Ok(self.take::<String>()?.into())
    }

    fn any(&mut self) -> Result<Text> {
        self.word()
    }

    fn hash(&mut self) -> Result<Hash16> {
        self.take()
    }

    fn body(&mut self) -> Result<Bytes> {
        self.next += 1;
        let body = self.line.get_ref(self.next - 1)?;
        Ok(Bytes::copy_from_slice(body.as_bytes()?))
    }

    fn impossible(&self, number: u64) -> rusqlite::Error {
        rusqlite::Error::IntegralValueOutOfRange(self.next - 1, number.cast_signed())
    }
}
