//! The SQL layout of rows: the columns of each table, and the conversion between rows and cells.

use bytes::Bytes;
use driftq_core::row::{Columns, Hash16, Key, MarkKind, RecordKind, Row, Table};
use driftq_core::{
    BatchNo, Epoch, Generation, GroupId, Lane, OwnerId, ShardId, Text, Timestamp, TopicId,
};

use Column::{Hash, Number, Word};

/// The SQL table of a kind of rows. Its key starts with `shard`, which is not listed here. Its last
/// column is the body.
pub struct Layout {
    /// The name of the SQL table.
    pub name: &'static str,
    /// The columns of the key after `shard`.
    pub key: &'static [Column],
    /// The columns between the key and the body.
    pub columns: &'static [Column],
    /// The encoding of the body.
    pub body: Body,
}

/// The name and the type of a column.
#[derive(Clone, Copy)]
pub enum Column {
    /// A number that is not negative.
    Number(&'static str),
    /// A name or a keyword, without NUL characters.
    Word(&'static str),
    /// Any text, ordered by its bytes.
    Any(&'static str),
    /// 16 bytes.
    Hash(&'static str),
}

impl Column {
    /// Returns the name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Number(name) | Word(name) | Column::Any(name) | Hash(name) => name,
        }
    }
}

/// The encoding of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// A binary format of the core.
    Packed,
    /// JSON text.
    Json,
    /// Text of a client, which may contain NUL characters.
    RawText,
}

impl Layout {
    /// Returns the names of the key columns.
    pub fn key_names(&self) -> Vec<&'static str> {
        self.key.iter().map(|column| column.name()).collect()
    }

    /// Returns the names of all columns except `shard` and the body.
    pub fn names(&self) -> Vec<&'static str> {
        self.key.iter().chain(self.columns).map(|column| column.name()).collect()
    }

    /// Whether bodies are text.
    #[cfg(feature = "sqlite")]
    pub fn is_text(&self) -> bool {
        self.body != Body::Packed
    }
}

/// Tables that are loaded completely after a claim. Heads are loaded from `clean` on.
pub(crate) const LOADED: [Table; 7] = [
    Table::Topic,
    Table::Group,
    Table::Lane,
    Table::Cursor,
    Table::Mark,
    Table::Owner,
    Table::Garbage,
];

/// Returns the layout of a table.
pub fn layout(table: Table) -> Layout {
    use Body::{Json, Packed, RawText};
    const LANE: Column = Number("lane");
    const TOPIC: Column = Number("topic");
    const GENERATION: Column = Number("generation");
    const BATCH: Column = Number("batch");
    const BLOCK: Column = Number("block");
    // Quoted, because `offset` and `group` are SQL keywords.
    const OFFSET: Column = Number("\"offset\"");
    const NAME: Column = Word("name");
    let (name, key, columns, body): (_, &[_], &[_], _) = match table {
        Table::Head => {
            let columns = &[Number("epoch"), Number("now"), Number("clean")];
            ("head", &[BATCH], columns, Packed)
        }
        Table::Topic => ("topic", &[TOPIC], &[Word("namespace"), NAME, Word("kind")], Json),
        Table::Group => ("consumer_group", &[Number("group_id")], &[TOPIC, NAME], Json),
        Table::Lane => ("lane", &[TOPIC, LANE], &[], Packed),
        Table::Cursor => ("cursor", &[GENERATION, LANE], &[], Packed),
        Table::Mark => ("mark", &[Number("kind"), Number("id")], &[], Packed),
        Table::Page => {
            let columns = &[Number("base"), Number("bytes"), Number("at")];
            ("page", &[TOPIC, LANE, Number("last")], columns, Packed)
        }
        Table::Block => ("block", &[GENERATION, LANE, BLOCK, BATCH], &[], Packed),
        Table::Note => ("note", &[GENERATION, LANE, OFFSET], &[], RawText),
        Table::Owner => ("owner", &[Number("owner")], &[], RawText),
        Table::Record => {
            let columns = &[Number("expires"), Number("bucket")];
            ("record", &[Number("kind"), Hash("hash")], columns, Packed)
        }
        Table::Dead => {
            let columns =
                &[LANE, OFFSET, Word("\"group\""), Word("reason"), Number("at"), Word("state")];
            ("dead", &[TOPIC, Number("seq")], columns, Json)
        }
        Table::Garbage => ("garbage", &[Number("id")], &[], Packed),
        Table::Outbox => ("outbox", &[Number("target"), Number("seq")], &[], Packed),
        Table::Pointer => {
            ("pointer", &[TOPIC, Hash("dataset"), Column::Any("partition_key")], &[], Json)
        }
        Table::History => ("history", &[TOPIC, LANE, BLOCK, BATCH], &[], Packed),
        Table::Audit => ("audit", &[Hash("namespace"), Number("last")], &[], Packed),
        Table::Held => ("held", &[GENERATION, LANE, OFFSET, Hash("hash")], &[], Packed),
    };
    Layout { name, key, columns, body }
}

/// A value that is bound to a statement.
#[derive(PartialEq, Eq)]
pub enum Cell<'a> {
    /// A number.
    Number(u64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// Appends the cells of a key, without the shard.
pub fn key_cells<'a>(key: &'a Key, cells: &mut Vec<Cell<'a>>) {
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

/// Appends the cells of a row's columns and its body.
pub fn content_cells<'a>(row: &'a Row, is_text: bool, cells: &mut Vec<Cell<'a>>) {
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
    // A text body that is not UTF-8 is stored as bytes. The core reports the row as damaged.
    let text = std::str::from_utf8(&row.body).ok().filter(|_| is_text);
    cells.push(text.map_or(Cell::Bytes(&row.body), Text));
}

/// Converts the cells of a result row into a row. The body is empty unless `with_body` is set.
pub(crate) fn row_of<C: Cells>(
    table: Table,
    mut cells: C,
    with_body: bool,
) -> Result<Row, C::Error> {
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
            Columns::Topic { namespace: cells.word()?, name: cells.word()?, kind: cells.word()? },
        ),
        Table::Group => (
            Key::Group { group: GroupId(cells.number()?) },
            Columns::Group { topic: TopicId(cells.number()?), name: cells.word()? },
        ),
        Table::Lane => (
            Key::Lane { topic: TopicId(cells.number()?), lane: Lane(cells.small()?) },
            Columns::None,
        ),
        Table::Cursor => {
            let generation = Generation(cells.number()?);
            (Key::Cursor { generation, lane: Lane(cells.small()?) }, Columns::None)
        }
        Table::Mark => {
            let kind = cells.kind(MarkKind::of)?;
            (Key::Mark { kind, id: cells.number()? }, Columns::None)
        }
        Table::Page => (
            Key::Page {
                topic: TopicId(cells.number()?),
                lane: Lane(cells.small()?),
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
                lane: Lane(cells.small()?),
                block: cells.number()?,
                batch: BatchNo(cells.number()?),
            },
            Columns::None,
        ),
        Table::Note => (
            Key::Note {
                generation: Generation(cells.number()?),
                lane: Lane(cells.small()?),
                offset: cells.number()?,
            },
            Columns::None,
        ),
        Table::Owner => (Key::Owner { owner: OwnerId(cells.number()?) }, Columns::None),
        Table::Record => (
            Key::Record { kind: cells.kind(RecordKind::of)?, hash: cells.hash()? },
            Columns::Record { expires: Timestamp(cells.number()?), bucket: cells.number()? },
        ),
        Table::Dead => (
            Key::Dead { topic: TopicId(cells.number()?), seq: cells.number()? },
            Columns::Dead {
                lane: Lane(cells.small()?),
                offset: cells.number()?,
                group: cells.word()?,
                reason: cells.word()?,
                at: Timestamp(cells.number()?),
                state: cells.word()?,
            },
        ),
        Table::Garbage => (Key::Garbage { id: cells.number()? }, Columns::None),
        Table::Outbox => {
            (Key::Outbox { target: ShardId(cells.small()?), seq: cells.number()? }, Columns::None)
        }
        Table::History => (
            Key::History {
                topic: TopicId(cells.number()?),
                lane: Lane(cells.small()?),
                block: cells.number()?,
                batch: BatchNo(cells.number()?),
            },
            Columns::None,
        ),
        Table::Pointer => (
            Key::Pointer {
                topic: TopicId(cells.number()?),
                dataset: cells.hash()?,
                partition_key: cells.any()?,
            },
            Columns::None,
        ),
        Table::Audit => {
            (Key::Audit { namespace: cells.hash()?, last: cells.number()? }, Columns::None)
        }
        Table::Held => (
            Key::Held {
                generation: Generation(cells.number()?),
                lane: Lane(cells.small()?),
                offset: cells.number()?,
                hash: cells.hash()?,
            },
            Columns::None,
        ),
    };
    let body = if with_body { cells.body()? } else { Bytes::new() };
    Ok(Row { key, columns, body })
}

/// The cells of a result row, from left to right.
pub(crate) trait Cells {
    type Error;

    fn number(&mut self) -> Result<u64, Self::Error>;
    fn word(&mut self) -> Result<Text, Self::Error>;
    fn any(&mut self) -> Result<Text, Self::Error>;
    fn hash(&mut self) -> Result<Hash16, Self::Error>;
    fn body(&mut self) -> Result<Bytes, Self::Error>;
    /// Returns the error for the last number if its value is invalid.
    fn impossible(&self, number: u64) -> Self::Error;

    fn small(&mut self) -> Result<u32, Self::Error> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.impossible(number))
    }

    fn kind<T>(&mut self, of: impl Fn(u8) -> Option<T>) -> Result<T, Self::Error> {
        let number = self.number()?;
        u8::try_from(number).ok().and_then(of).ok_or_else(|| self.impossible(number))
    }
}
