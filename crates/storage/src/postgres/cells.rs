//! Cells as PostgreSQL binds and returns them. A set of rows is bound as one array per column.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use driftq_core::Text;
use driftq_core::row::Hash16;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::error::PgError;
use crate::layout::{Body, Cell, Cells, Column, Layout};

/// A parameter of a statement.
#[derive(Debug)]
pub(super) enum Param<'a> {
    Number(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Numbers(Vec<i64>),
    Texts(Vec<&'a str>),
    ManyBytes(Vec<&'a [u8]>),
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Param::Number(number) => number.to_sql(of, out),
            Param::Text(text) => text.to_sql(of, out),
            Param::Bytes(bytes) => bytes.to_sql(of, out),
            Param::Numbers(numbers) => numbers.to_sql(of, out),
            Param::Texts(texts) => texts.to_sql(of, out),
            Param::ManyBytes(many) => many.to_sql(of, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The PostgreSQL type of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Number,
    Text,
    Bytes,
}

impl Form {
    pub(super) fn of(column: Column) -> Form {
        match column {
            Column::Number(_) => Form::Number,
            Column::Word(_) => Form::Text,
            // TEXT rejects NUL characters and sorts by a collation.
            Column::Any(_) | Column::Hash(_) => Form::Bytes,
        }
    }

    pub(super) fn of_body(body: Body) -> Form {
        match body {
            Body::Json => Form::Text,
            Body::Packed | Body::RawText => Form::Bytes,
        }
    }

    pub(super) fn sql(self) -> &'static str {
        match self {
            Form::Number => "int8",
            Form::Text => "text",
            Form::Bytes => "bytea",
        }
    }

    fn many<'a>(self) -> Param<'a> {
        match self {
            Form::Number => Param::Numbers(Vec::new()),
            Form::Text => Param::Texts(Vec::new()),
            Form::Bytes => Param::ManyBytes(Vec::new()),
        }
    }

    /// Returns the parameter for a single cell.
    pub(super) fn one(self, cell: Cell<'_>) -> Param<'_> {
        match (self, cell) {
            (_, Cell::Number(number)) => Param::Number(number.cast_signed()),
            (Form::Bytes, Cell::Text(text)) => Param::Bytes(text.as_bytes()),
            (_, Cell::Text(text)) => Param::Text(text),
            (_, Cell::Bytes(bytes)) => Param::Bytes(bytes),
        }
    }
}

/// Returns the types of a table's key columns.
pub(super) fn key_forms(layout: &Layout) -> Vec<Form> {
    layout.key.iter().map(|column| Form::of(*column)).collect()
}

/// Returns the types of all columns of a table. The body is last.
pub(super) fn all_forms(layout: &Layout) -> Vec<Form> {
    let columns = layout.key.iter().chain(layout.columns).map(|column| Form::of(*column));
    columns.chain([Form::of_body(layout.body)]).collect()
}

/// Converts rows of cells into one array per column.
pub(super) fn arrays<'a>(
    forms: &[Form],
    rows: impl IntoIterator<Item = Vec<Cell<'a>>>,
) -> Result<Vec<Param<'a>>, PgError> {
    let mut arrays: Vec<Param<'a>> = forms.iter().map(|form| form.many()).collect();
    for row in rows {
        for (array, cell) in arrays.iter_mut().zip(row) {
            match (array, cell) {
                (Param::Numbers(all), Cell::Number(number)) => all.push(number.cast_signed()),
                (Param::Texts(all), Cell::Text(text)) => all.push(text),
                (Param::ManyBytes(all), Cell::Text(text)) => all.push(text.as_bytes()),
                (Param::ManyBytes(all), Cell::Bytes(bytes)) => all.push(bytes),
                (array, _) => {
                    return Err(PgError::Database(format!(
                        "a cell does not match the type of {array:?}"
                    )));
                }
            }
        }
    }
    Ok(arrays)
}

/// A result row.
pub(super) struct Line<'a> {
    line: &'a tokio_postgres::Row,
    next: usize,
    body: Form,
}

impl<'a> Line<'a> {
    /// Reads the cells of `line` from index `next` on.
    pub(super) fn of(line: &'a tokio_postgres::Row, next: usize, layout: &Layout) -> Line<'a> {
        Line { line, next, body: Form::of_body(layout.body) }
    }

    fn take<T: tokio_postgres::types::FromSql<'a>>(&mut self) -> Result<T, tokio_postgres::Error> {
        self.next += 1;
        self.line.try_get(self.next - 1)
    }

    fn wrong(&self) -> PgError {
        PgError::Database(format!("cell {} of a row has an invalid value", self.next - 1))
    }
}

impl Cells for Line<'_> {
    type Error = PgError;

    fn number(&mut self) -> Result<u64, PgError> {
        let number: i64 = self.take()?;
        u64::try_from(number).map_err(|_| self.wrong())
    }

    fn word(&mut self) -> Result<Text, PgError> {
        Ok(self.take::<&str>()?.into())
    }

    fn any(&mut self) -> Result<Text, PgError> {
        let bytes: &[u8] = self.take()?;
        Ok(std::str::from_utf8(bytes).map_err(|_| self.wrong())?.into())
    }

    fn hash(&mut self) -> Result<Hash16, PgError> {
        let bytes: &[u8] = self.take()?;
        bytes.try_into().map_err(|_| self.wrong())
    }

    fn body(&mut self) -> Result<Bytes, PgError> {
        Ok(match self.body {
            Form::Text => Bytes::copy_from_slice(self.take::<&str>()?.as_bytes()),
            Form::Number | Form::Bytes => Bytes::copy_from_slice(self.take()?),
        })
    }

    fn impossible(&self, _: u64) -> PgError {
        self.wrong()
    }
}
