//! Dense numbers for what a history names.
//!
//! Names and places are looked up once, while the timeline is read, and are small numbers from then on.
//! What a judge knows about them lives in columns indexed by those numbers; each kind of number has
//! its own type, so that a column cannot be asked for the wrong thing.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A number that stands for a key of a [`Table`].
pub(crate) trait Dense: Copy {
    /// The number `index`.
    fn new(index: usize) -> Self;
    /// Its place in a column.
    fn index(self) -> usize;
}

macro_rules! dense {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(u32);

        impl Dense for $name {
            fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("a history names fewer than 2^32 things"))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

dense! {
    /// A topic, group, tenant or key.
    NameId,
    /// The id of a message or dead letter.
    LabelId,
    /// A partition of a topic.
    LaneId,
    /// A group of a topic.
    ReaderId,
    /// A group's place in a partition.
    CursorId,
    /// One generation of a cursor.
    LifeId,
    /// A message as one life of a cursor sees it.
    EntryId,
    /// An offset of a partition.
    PositionId,
    /// Topic, tenant and idempotency key.
    IdentityId,
    /// Tenant, scope and key of an effect.
    EffectId,
    /// A client's call.
    CallId,
    /// A call to commit.
    CommitId,
}

/// Gives each distinct key a number, in order of first sight.
pub(crate) struct Table<I, K> {
    ids: FastMap<K, I>,
    keys: Vec<K>,
}

impl<I: Dense, K: Copy + Eq + Hash> Table<I, K> {
    /// No keys yet.
    pub(crate) fn new() -> Self {
        Self { ids: FastMap::default(), keys: Vec::new() }
    }

    /// The number of `key`, a new one if it has none.
    pub(crate) fn id(&mut self, key: K) -> I {
        if let Some(id) = self.find(key) {
            return id;
        }
        let id = I::new(self.keys.len());
        self.ids.insert(key, id);
        self.keys.push(key);
        id
    }

    /// The number of `key`, if it was ever named.
    pub(crate) fn find(&self, key: K) -> Option<I> {
        self.ids.get(&key).copied()
    }

    /// What `id` stands for.
    pub(crate) fn key(&self, id: I) -> K {
        self.keys[id.index()]
    }

    /// All numbers given, ascending.
    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + use<I, K> {
        (0..self.keys.len()).map(I::new)
    }

    /// A column that says `value` of every key.
    pub(crate) fn column<V: Clone>(&self, value: V) -> Column<I, V> {
        Column { values: vec![value; self.keys.len()], of: PhantomData }
    }
}

/// A table for offsets of something. Neighbours lie together, as they come together.
pub(crate) struct Offsets<I, O> {
    pages: FastMap<(O, u64), usize>,
    slots: Vec<[Option<I>; PAGE_OFFSETS]>,
    keys: Vec<(O, u64)>,
}

const PAGE_OFFSETS: usize = 64;

impl<I: Dense, O: Dense + Eq + Hash> Offsets<I, O> {
    /// No offsets yet.
    pub(crate) fn new() -> Self {
        Self { pages: FastMap::default(), slots: Vec::new(), keys: Vec::new() }
    }

    /// The number of an offset, a new one if it has none.
    pub(crate) fn id(&mut self, owner: O, offset: u64) -> I {
        let (number, slot) = place(offset);
        let page = *self.pages.entry((owner, number)).or_insert_with(|| {
            self.slots.push([None; PAGE_OFFSETS]);
            self.slots.len() - 1
        });
        *self.slots[page][slot].get_or_insert_with(|| {
            self.keys.push((owner, offset));
            I::new(self.keys.len() - 1)
        })
    }

    /// The number of an offset, if it was ever named.
    pub(crate) fn find(&self, owner: O, offset: u64) -> Option<I> {
        let (number, slot) = place(offset);
        let page = *self.pages.get(&(owner, number))?;
        self.slots[page][slot]
    }

    /// What `id` stands for.
    pub(crate) fn key(&self, id: I) -> (O, u64) {
        self.keys[id.index()]
    }

    /// A column that says `value` of every offset.
    pub(crate) fn column<V: Clone>(&self, value: V) -> Column<I, V> {
        Column { values: vec![value; self.keys.len()], of: PhantomData }
    }
}

fn place(offset: u64) -> (u64, usize) {
    let n = PAGE_OFFSETS as u64;
    (offset / n, (offset % n) as usize)
}

/// What is known of each key of a table.
pub(crate) struct Column<I, V> {
    values: Vec<V>,
    of: PhantomData<I>,
}

impl<I: Dense, V> Column<I, V> {
    /// An empty column, for numbers that come without a table.
    pub(crate) fn new() -> Self {
        Self { values: Vec::new(), of: PhantomData }
    }

    /// Adds a value and gives it the next number.
    pub(crate) fn push(&mut self, value: V) -> I {
        self.values.push(value);
        I::new(self.values.len() - 1)
    }

    /// The values, in order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        self.values.iter()
    }
}

impl<I: Dense, V> Index<I> for Column<I, V> {
    type Output = V;

    fn index(&self, id: I) -> &V {
        &self.values[id.index()]
    }
}

impl<I: Dense, V> IndexMut<I> for Column<I, V> {
    fn index_mut(&mut self, id: I) -> &mut V {
        &mut self.values[id.index()]
    }
}

/// A map for short keys.
pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// A set of short keys.
pub(crate) type FastSet<K> = HashSet<K, BuildHasherDefault<FastHasher>>;

/// Multiply and rotate, a word at a time. Histories come from our own harnesses, so nobody aims
/// collisions at it.
#[derive(Default)]
pub(crate) struct FastHasher(u64);

impl FastHasher {
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(last));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.word(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.word(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.word(n);
    }

    fn finish(&self) -> u64 {
        // The map takes its bucket from the low bits, multiplication mixes the high ones.
        self.0.rotate_left(26)
    }
}
