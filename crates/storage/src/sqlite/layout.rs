//! How rows lie in tables: names of columns, and the way from a row to its cells and back.

use bytes::Bytes;
use driftq_core::row::{Columns, Key, MarkKind, RecordKind, Row, Table};
use driftq_core::{
    BatchNo, Epoch, Generation, GroupId, Lane, OwnerId, ShardId, Timestamp, TopicId,
};
use rusqlite::ToSql;
use rusqlite::types::{FromSql, ToSqlOutput, ValueRef};

/// A table as SQL names it. Its key begins with `shard`, which is not listed; its body comes last.
pub(super) struct Layout {
    pub(super) name: &'static str,
    pub(super) key: &'static [&'static str],
    pub(super) columns: &'static [&'static str],
    /// Bodies are text that people may read.
    pub(super) is_text: bool,
}

/// Tables that a claim reads as a whole; heads, which come from `clean` on, are not among them.
pub(super) const LOADED: [Table; 7] = [
    Table::Topic,
    Table::Group,
    Table::Lane,
    Table::Cursor,
    Table::Mark,
    Table::Owner,
    Table::Garbage,
];

pub(super) fn layout(table: Table) -> Layout {
    let (name, key, columns, is_text): (_, &[_], &[_], _) = match table {
        Table::Head => ("head", &["batch"], &["epoch", "now", "clean"], false),
        Table::Topic => ("topic", &["topic"], &["namespace", "name", "kind"], true),
        Table::Group => ("consumer_group", &["group_id"], &["topic", "name"], true),
        Table::Lane => ("lane", &["topic", "lane"], &[], false),
        Table::Cursor => ("cursor", &["generation", "lane"], &[], false),
        Table::Mark => ("mark", &["kind", "id"], &[], false),
        Table::Page => ("page", &["topic", "lane", "last"], &["base", "bytes", "at"], false),
        Table::Block => ("block", &["generation", "lane", "block", "batch"], &[], false),
        Table::Note => ("note", &["generation", "lane", "offset"], &[], true),
        Table::Owner => ("owner", &["owner"], &[], true),
        Table::Record => ("record", &["kind", "hash"], &["expires", "bucket"], false),
        Table::Dead => {
            let columns = &["lane", "offset", "\"group\"", "reason", "at", "state"];
            ("dead", &["topic", "seq"], columns, true)
        }
        Table::Garbage => ("garbage", &["id"], &[], false),
        Table::Outbox => ("outbox", &["target", "seq"], &[], false),
        Table::Pointer => ("pointer", &["topic", "dataset", "partition_key"], &[], true),
        Table::History => ("history", &["topic", "lane", "block", "batch"], &[], false),
        Table::Audit => ("audit", &["namespace", "last"], &[], false),
        Table::Held => ("held", &["generation", "lane", "offset", "hash"], &[], false),
    };
    Layout { name, key, columns, is_text }
}

/// One value on its way into a statement.
pub(super) enum Cell<'a> {
    Number(u64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            // No number is greater than `NUMBER_MAX`, which fits.
            Cell::Number(number) => ValueRef::Integer(number.cast_signed()),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Bytes(bytes) => ValueRef::Blob(bytes),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

/// The cells of a key, without the shard.
pub(super) fn key_cells<'a>(key: &'a Key, cells: &mut Vec<Cell<'a>>) {
    use Cell::Number;
    let lane = |lane: Lane| Number(u64::from(lane.0));
    match key {
        Key::Head { batch } => cells.push(Number(batch.0)),
        Key::Topic { topic } => cells.push(Number(topic.0)),
        Key::Group { group } => cells.push(Number(group.0)),
        Key::Lane { topic, lane: of } => cells.extend([Number(topic.0), lane(*of)]),
        Key::Cursor { generation, lane: of } => cells.extend([Number(generation.0), lane(*of)]),
        Key::Mark { kind, id } => cells.extend([Number(*kind as u64), Number(*id)]),
        Key::Page { topic, lane: of, last } => {
            cells.extend([Number(topic.0), lane(*of), Number(*last)]);
        }
        Key::Block { generation, lane: of, block, batch } => {
            cells.extend([Number(generation.0), lane(*of), Number(*block), Number(batch.0)]);
        }
        Key::Note { generation, lane: of, offset } => {
            cells.extend([Number(generation.0), lane(*of), Number(*offset)]);
        }
        Key::Owner { owner } => cells.push(Number(owner.0)),
        Key::Record { kind, hash } => cells.extend([Number(*kind as u64), Cell::Bytes(hash)]),
        Key::Dead { topic, seq } => cells.extend([Number(topic.0), Number(*seq)]),
        Key::Garbage { id } => cells.push(Number(*id)),
        Key::Outbox { target, seq } => cells.extend([Number(u64::from(target.0)), Number(*seq)]),
        Key::History { topic, lane: of, block, batch } => {
            cells.extend([Number(topic.0), lane(*of), Number(*block), Number(batch.0)]);
        }
        Key::Pointer { topic, dataset, partition_key } => {
            cells.extend([Number(topic.0), Cell::Bytes(dataset), Cell::Text(partition_key)]);
        }
        Key::Audit { namespace, last } => cells.extend([Cell::Bytes(namespace), Number(*last)]),
        Key::Held { generation, lane: of, offset, hash } => {
            cells.extend([Number(generation.0), lane(*of), Number(*offset), Cell::Bytes(hash)]);
        }
    }
}

/// The cells of a row's columns and its body.
pub(super) fn content_cells<'a>(row: &'a Row, is_text: bool, cells: &mut Vec<Cell<'a>>) {
    use Cell::{Number, Text};
    match &row.columns {
        Columns::None => {}
        Columns::Head { epoch, now, clean } => {
            cells.extend([Number(epoch.0), Number(now.0), Number(clean.0)]);
        }
        Columns::Topic { namespace, name, kind } => {
            cells.extend([Text(namespace), Text(name), Text(kind)]);
        }
        Columns::Group { topic, name } => cells.extend([Number(topic.0), Text(name)]),
        Columns::Page { base, bytes, at } => {
            cells.extend([Number(*base), Number(*bytes), Number(at.0)]);
        }
        Columns::Record { expires, bucket } => {
            cells.extend([Number(expires.0), Number(*bucket)]);
        }
        Columns::Dead { lane, offset, group, reason, at, state } => cells.extend([
            Number(u64::from(lane.0)),
            Number(*offset),
            Text(group),
            Text(reason),
            Number(at.0),
            Text(state),
        ]),
    }
    // Text that is not text stays what it is: the core will say that the row is damaged.
    let text = std::str::from_utf8(&row.body).ok().filter(|_| is_text);
    cells.push(text.map_or(Cell::Bytes(&row.body), Text));
}

/// The row of a selected line: key, columns, and the body where it was asked for.
pub(super) fn row_of(
    table: Table,
    line: &rusqlite::Row<'_>,
    with_body: bool,
) -> rusqlite::Result<Row> {
    let mut cells = Cells { line, next: 0 };
    let (key, columns) = match table {
        Table::Head => (
            Key::Head { batch: BatchNo(cells.number()?) },
            Columns::Head {
                epoch: Epoch(cells.number()?),
                now: Timestamp(cells.number()?),
                clean: BatchNo(cells.number()?),
            },
        ),
        Table::Topic => (
            Key::Topic { topic: TopicId(cells.number()?) },
            Columns::Topic { namespace: cells.text()?, name: cells.text()?, kind: cells.text()? },
        ),
        Table::Group => (
            Key::Group { group: GroupId(cells.number()?) },
            Columns::Group { topic: TopicId(cells.number()?), name: cells.text()? },
        ),
        Table::Lane => {
            (Key::Lane { topic: TopicId(cells.number()?), lane: cells.lane()? }, Columns::None)
        }
        Table::Cursor => {
            let generation = Generation(cells.number()?);
            (Key::Cursor { generation, lane: cells.lane()? }, Columns::None)
        }
        Table::Mark => {
            let kind = cells.kind(MarkKind::of)?;
            (Key::Mark { kind, id: cells.number()? }, Columns::None)
        }
        Table::Page => (
            Key::Page {
                topic: TopicId(cells.number()?),
                lane: cells.lane()?,
                last: cells.number()?,
            },
            Columns::Page {
                base: cells.number()?,
                bytes: cells.number()?,
                at: Timestamp(cells.number()?),
            },
        ),
        Table::Block => (
            Key::Block {
                generation: Generation(cells.number()?),
                lane: cells.lane()?,
                block: cells.number()?,
                batch: BatchNo(cells.number()?),
            },
            Columns::None,
        ),
        Table::Note => (
            Key::Note {
                generation: Generation(cells.number()?),
                lane: cells.lane()?,
                offset: cells.number()?,
            },
            Columns::None,
        ),
        Table::Owner => (Key::Owner { owner: OwnerId(cells.number()?) }, Columns::None),
        Table::Record => (
            Key::Record { kind: cells.kind(RecordKind::of)?, hash: cells.take()? },
            Columns::Record { expires: Timestamp(cells.number()?), bucket: cells.number()? },
        ),
        Table::Dead => (
            Key::Dead { topic: TopicId(cells.number()?), seq: cells.number()? },
            Columns::Dead {
                lane: cells.lane()?,
                offset: cells.number()?,
                group: cells.text()?,
                reason: cells.text()?,
                at: Timestamp(cells.number()?),
                state: cells.text()?,
            },
        ),
        Table::Garbage => (Key::Garbage { id: cells.number()? }, Columns::None),
        Table::Outbox => {
            (Key::Outbox { target: ShardId(cells.take()?), seq: cells.number()? }, Columns::None)
        }
        Table::History => (
            Key::History {
                topic: TopicId(cells.number()?),
                lane: cells.lane()?,
                block: cells.number()?,
                batch: BatchNo(cells.number()?),
            },
            Columns::None,
        ),
        Table::Pointer => (
            Key::Pointer {
                topic: TopicId(cells.number()?),
                dataset: cells.take()?,
                partition_key: cells.text()?,
            },
            Columns::None,
        ),
        Table::Audit => {
            (Key::Audit { namespace: cells.take()?, last: cells.number()? }, Columns::None)
        }
        Table::Held => (
            Key::Held {
                generation: Generation(cells.number()?),
                lane: cells.lane()?,
                offset: cells.number()?,
                hash: cells.take()?,
            },
            Columns::None,
        ),
    };
    let body = if with_body { cells.body()? } else { Bytes::new() };
    Ok(Row { key, columns, body })
}

/// Cells of a line, from left to right.
struct Cells<'a, 'l> {
    line: &'a rusqlite::Row<'l>,
    next: usize,
}

impl Cells<'_, '_> {
    fn take<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.next += 1;
        self.line.get(self.next - 1)
    }

    fn number(&mut self) -> rusqlite::Result<u64> {
        self.take()
    }

    fn text<T: From<String>>(&mut self) -> rusqlite::Result<T> {
        Ok(T::from(self.take::<String>()?))
    }

    fn lane(&mut self) -> rusqlite::Result<Lane> {
        Ok(Lane(self.take()?))
    }

    fn kind<T>(&mut self, of: impl Fn(u8) -> Option<T>) -> rusqlite::Result<T> {
        let number: u8 = self.take()?;
        let at = self.next - 1;
        of(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(at, i64::from(number)))
    }

    fn body(&mut self) -> rusqlite::Result<Bytes> {
        self.next += 1;
        let body = self.line.get_ref(self.next - 1)?;
        Ok(Bytes::copy_from_slice(body.as_bytes()?))
    }
}
