//! The tables behind the numbers, and the text of each place in a report.

use std::{fmt, ptr};

use crate::history::{Effect, Lease};
use crate::ids::{
    Column, CursorId, Dense, EffectId, EntryId, FastMap, IdentityId, LabelId, LaneId, LifeId,
    NameId, Offsets, PositionId, ReaderId, Table,
};

/// Everything a history names.
pub(crate) struct Places<'a> {
    /// Names of topics, groups and tenants, and keys.
    pub(crate) names: Names<'a>,
    /// Ids of messages and dead letters.
    pub(crate) labels: Table<LabelId, &'a str>,
    /// (topic, partition).
    pub(crate) lanes: Table<LaneId, (NameId, u32)>,
    /// (topic, group).
    pub(crate) readers: Table<ReaderId, (NameId, NameId)>,
    /// (group of a topic, partition of that topic).
    pub(crate) cursors: Table<CursorId, (ReaderId, LaneId)>,
    /// (cursor, generation).
    pub(crate) lives: Table<LifeId, (CursorId, u64)>,
    /// (life of a cursor, offset).
    pub(crate) entries: Offsets<EntryId, LifeId>,
    /// (partition of a topic, offset).
    pub(crate) positions: Offsets<PositionId, LaneId>,
    /// (topic, tenant, idempotency key).
    pub(crate) identities: Table<IdentityId, (NameId, NameId, NameId)>,
    /// (tenant, scope, key).
    pub(crate) effects: Table<EffectId, (NameId, NameId, NameId)>,
    entry_positions: Vec<PositionId>,
    /// The id last seen at each position. Most lookups return it again.
    labels_at: Vec<Option<LabelId>>,
    /// A shortcut from names to a life: one lookup instead of four.
    lives_by_name: FastMap<(NameId, NameId, u32, u64), LifeId>,
}

impl<'a> Places<'a> {
    /// Creates empty tables.
    pub(super) fn new() -> Self {
        Self {
            names: Names::new(),
            labels: Table::new(),
            lanes: Table::new(),
            readers: Table::new(),
            cursors: Table::new(),
            lives: Table::new(),
            entries: Offsets::new(),
            positions: Offsets::new(),
            identities: Table::new(),
            effects: Table::new(),
            entry_positions: Vec::new(),
            labels_at: Vec::new(),
            lives_by_name: FastMap::default(),
        }
    }

    /// Returns the partition of a topic.
    pub(super) fn lane(&mut self, topic: &'a str, partition: u32) -> LaneId {
        let topic = self.names.id(topic);
        self.lanes.id((topic, partition))
    }

    /// Returns the group of a topic.
    pub(super) fn reader(&mut self, topic: &'a str, group: &'a str) -> ReaderId {
        let topic = self.names.id(topic);
        let group = self.names.id(group);
        self.readers.id((topic, group))
    }

    /// Returns the cursor of a group in a partition.
    pub(super) fn cursor(&mut self, topic: &'a str, group: &'a str, partition: u32) -> CursorId {
        let reader = self.reader(topic, group);
        let topic = self.readers.key(reader).0;
        let lane = self.lanes.id((topic, partition));
        self.cursors.id((reader, lane))
    }

    /// Returns an offset of a partition.
    pub(super) fn position(&mut self, topic: &'a str, partition: u32, offset: u64) -> PositionId {
        let lane = self.lane(topic, partition);
        self.positions.id(lane, offset)
    }

    /// Returns one generation of a cursor.
    pub(super) fn life(
        &mut self,
        topic: &'a str,
        group: &'a str,
        partition: u32,
        generation: u64,
    ) -> LifeId {
        let key = (self.names.id(topic), self.names.id(group), partition, generation);
        if let Some(life) = self.lives_by_name.get(&key) {
            return *life;
        }
        let cursor = self.cursor(topic, group, partition);
        let life = self.lives.id((cursor, generation));
        self.lives_by_name.insert(key, life);
        life
    }

    /// Returns a message as seen by one generation of a cursor.
    pub(super) fn entry(&mut self, life: LifeId, offset: u64) -> EntryId {
        let entry = self.entries.id(life, offset);
        if entry.index() == self.entry_positions.len() {
            let (cursor, _) = self.lives.key(life);
            let (_, lane) = self.cursors.key(cursor);
            self.entry_positions.push(self.positions.id(lane, offset));
        }
        entry
    }

    /// Returns the entry that a lease names.
    pub(super) fn leased(&mut self, lease: &'a Lease) -> EntryId {
        let life = self.life(&lease.topic, &lease.group, lease.partition, lease.generation);
        self.entry(life, lease.offset)
    }

    /// Returns the number of an effect.
    pub(super) fn effect(&mut self, effect: &'a Effect) -> EffectId {
        let (tenant, scope) = (self.names.id(&effect.tenant), self.names.id(&effect.scope));
        self.effects.id((tenant, scope, self.names.id(&effect.key)))
    }

    /// Returns the id of the message at a position.
    pub(super) fn label_at(&mut self, at: PositionId, text: &'a str) -> LabelId {
        if self.labels_at.len() <= at.index() {
            self.labels_at.resize(at.index() + 1, None);
        }
        match self.labels_at[at.index()] {
            Some(label) if self.labels.key(label) == text => label,
            _ => *self.labels_at[at.index()].insert(self.labels.id(text)),
        }
    }

    /// Returns the generation of a cursor that an entry belongs to.
    pub(crate) fn life_of(&self, entry: EntryId) -> LifeId {
        self.entries.key(entry).0
    }

    /// The offset of an entry.
    pub(crate) fn offset_of(&self, entry: EntryId) -> u64 {
        self.entries.key(entry).1
    }

    /// The cursor of an entry.
    pub(crate) fn cursor_of(&self, entry: EntryId) -> CursorId {
        self.lives.key(self.life_of(entry)).0
    }

    /// The generation of an entry's cursor.
    pub(crate) fn generation_of(&self, entry: EntryId) -> u64 {
        self.lives.key(self.life_of(entry)).1
    }

    /// The position of the message of an entry.
    pub(crate) fn position_of(&self, entry: EntryId) -> PositionId {
        self.entry_positions[entry.index()]
    }

    /// The group's name.
    pub(crate) fn group_of(&self, cursor: CursorId) -> NameId {
        self.readers.key(self.cursors.key(cursor).0).1
    }

    /// The topic's name.
    pub(crate) fn topic_of(&self, cursor: CursorId) -> NameId {
        self.readers.key(self.cursors.key(cursor).0).0
    }

    /// The cursors of a group.
    pub(crate) fn cursors_of(&self, reader: ReaderId) -> impl Iterator<Item = CursorId> + '_ {
        self.cursors.ids().filter(move |cursor| self.cursors.key(*cursor).0 == reader)
    }

    /// The cursors that are deleted with `topic`: those that read it or its dead letters.
    pub(crate) fn cursors_on(&self, topic: NameId) -> impl Iterator<Item = CursorId> + '_ {
        self.cursors.ids().filter(move |cursor| {
            let read = self.topic_of(*cursor);
            let source = self.names.key(read).strip_prefix("dlq.");
            read == topic || source == Some(self.names.key(topic))
        })
    }

    /// `orders/0`
    pub(crate) fn lane_text(&self, lane: LaneId) -> impl fmt::Display + '_ {
        let (topic, partition) = self.lanes.key(lane);
        fmt::from_fn(move |f| write!(f, "{}/{partition}", self.names.key(topic)))
    }

    /// `orders/0/12`
    pub(crate) fn position_text(&self, position: PositionId) -> impl fmt::Display + '_ {
        let (lane, offset) = self.positions.key(position);
        fmt::from_fn(move |f| write!(f, "{}/{offset}", self.lane_text(lane)))
    }

    /// `orders/0 in biller`
    pub(crate) fn cursor_text(&self, cursor: CursorId) -> impl fmt::Display + '_ {
        let lane = self.cursors.key(cursor).1;
        let group = self.names.key(self.group_of(cursor));
        fmt::from_fn(move |f| write!(f, "{} in {group}", self.lane_text(lane)))
    }

    /// `orders/0/12 in biller, generation 41`
    pub(crate) fn entry_text(&self, entry: EntryId) -> impl fmt::Display + '_ {
        let group = self.names.key(self.group_of(self.cursor_of(entry)));
        let generation = self.generation_of(entry);
        let position = self.position_of(entry);
        fmt::from_fn(move |f| {
            write!(f, "{} in {group}, generation {generation}", self.position_text(position))
        })
    }

    /// The topic of a position.
    pub(crate) fn topic_at(&self, at: PositionId) -> NameId {
        let (lane, _) = self.positions.key(at);
        self.lanes.key(lane).0
    }

    /// `"order-77" of acme in orders`
    pub(crate) fn identity_text(&self, identity: IdentityId) -> impl fmt::Display + '_ {
        let (topic, tenant, key) = self.identities.key(identity);
        fmt::from_fn(move |f| {
            let name = |id| self.names.key(id);
            write!(f, "{:?} of {} in {}", name(key), name(tenant), name(topic))
        })
    }

    /// `op/charge "order-77" of acme`
    pub(crate) fn effect_text(&self, effect: EffectId) -> impl fmt::Display + '_ {
        let (tenant, scope, key) = self.effects.key(effect);
        fmt::from_fn(move |f| {
            let name = |id| self.names.key(id);
            write!(f, "{} {:?} of {}", name(scope), name(key), name(tenant))
        })
    }
}

/// The table of names. Harnesses share the text of a name between events, so most names are
/// recognised by the address of their text.
pub(crate) struct Names<'a> {
    table: Table<NameId, &'a str>,
    recent: [Option<(&'a str, NameId)>; RECENT_NAMES],
}

const RECENT_NAMES: usize = 64;

impl<'a> Names<'a> {
    fn new() -> Self {
        Self { table: Table::new(), recent: [None; RECENT_NAMES] }
    }

    /// Returns the number of a name, adding it if it is new.
    pub(super) fn id(&mut self, name: &'a str) -> NameId {
        let slot = name.as_ptr().addr() / 16 % RECENT_NAMES;
        match self.recent[slot] {
            Some((text, id)) if ptr::eq(text, name) => id,
            _ => {
                let id = self.table.id(name);
                self.recent[slot] = Some((name, id));
                id
            }
        }
    }

    /// Returns the number of a name, if the history contains it.
    pub(crate) fn find(&self, name: &'a str) -> Option<NameId> {
        self.table.find(name)
    }

    /// Returns the name of `id`.
    pub(crate) fn key(&self, id: NameId) -> &'a str {
        self.table.key(id)
    }

    /// Creates a column with `value` for every name.
    pub(crate) fn column<V: Clone>(&self, value: V) -> Column<NameId, V> {
        self.table.column(value)
    }
}
