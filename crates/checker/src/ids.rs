//! Dense numbers for the names in a history.
//!
//! Names are looked up once, while the timeline is built, and are small numbers from then on. The
//! checks keep their state in columns indexed by those numbers. Each kind of number has its own
//! type, so a column cannot be indexed with the wrong one.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A number that stands for a key of a [`Table`].
pub(crate) trait Dense: Copy {
    /// Creates the number `index`.
    fn new(index: usize) -> Self;
    /// Returns its index in a column.
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
    /// The cursor of a group in a partition.
    CursorId,
    /// One generation of a cursor.
    LifeId,
    /// A message as seen by one generation of a cursor.
    EntryId,
    /// An offset in a partition.
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

/// Numbers distinct keys in the order in which they are first added.
pub(crate) struct Table<I, K> {
    ids: FastMap<K, I>,
    keys: Vec<K>,
}

impl<I: Dense, K: Copy + Eq + Hash> Table<I, K> {
    /// Creates an empty table.
    pub(crate) fn new() -> Self {
        Self { ids: FastMap::default(), keys: Vec::new() }
    }

    /// Returns the number of `key`, adding it if it is new.
    pub(crate) fn id(&mut self, key: K) -> I {
        if let Some(id) = self.find(key) {
            return id;
        }
        let id = I::new(self.keys.len());
        self.ids.insert(key, id);
        self.keys.push(key);
        id
    }

    /// Returns the number of `key`, if it has one.
    pub(crate) fn find(&self, key: K) -> Option<I> {
        self.ids.get(&key).copied()
    }

    /// Returns the key of `id`.
    pub(crate) fn key(&self, id: I) -> K {
        self.keys[id.index()]
    }

    /// Returns all numbers, ascending.
    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + use<I, K> {
        (0..self.keys.len()).map(I::new)
    }

    /// Creates a column with `value` for every key.
    pub(crate) fn column<V: Clone>(&self, value: V) -> Column<I, V> {
        Column { values: vec![value; self.keys.len()], of: PhantomData }
    }
}

/// A table of (owner, offset) keys. Stored in pages, because neighbouring offsets are used
/// together.
pub(crate) struct Offsets<I, O> {
    pages: FastMap<(O, u64), usize>,
    slots: Vec<[Option<I>; PAGE_OFFSETS]>,
    keys: Vec<(O, u64)>,
}

const PAGE_OFFSETS: usize = 64;

impl<I: Dense, O: Dense + Eq + Hash> Offsets<I, O> {
    /// Creates an empty table.
    pub(crate) fn new() -> Self {
        Self { pages: FastMap::default(), slots: Vec::new(), keys: Vec::new() }
    }

    /// Returns the number of an offset, adding it if it is new.
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

    /// Returns the number of an offset, if it has one.
    pub(crate) fn find(&self, owner: O, offset: u64) -> Option<I> {
        let (number, slot) = place(offset);
        let page = *self.pages.get(&(owner, number))?;
        self.slots[page][slot]
    }

    /// Returns the owner and offset of `id`.
    pub(crate) fn key(&self, id: I) -> (O, u64) {
        self.keys[id.index()]
    }

    /// Creates a column with `value` for every offset.
    pub(crate) fn column<V: Clone>(&self, value: V) -> Column<I, V> {
        Column { values: vec![value; self.keys.len()], of: PhantomData }
    }
}

fn place(offset: u64) -> (u64, usize) {
    let n = PAGE_OFFSETS as u64;
    (offset / n, (offset % n) as usize)
}

/// One value for each key of a table.
pub(crate) struct Column<I, V> {
    values: Vec<V>,
    of: PhantomData<I>,
}

impl<I: Dense, V> Column<I, V> {
    /// Creates an empty column, for numbers that have no table.
    pub(crate) fn new() -> Self {
        Self { values: Vec::new(), of: PhantomData }
    }

    /// Appends a value and returns its number.
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

/// Multiplies and rotates, one word at a time. Histories come from our own harnesses, so the hash
/// does not need to resist crafted collisions.
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
        // The map uses the low bits as the bucket, but multiplication mixes the high bits.
        self.0.rotate_left(26)
    }
}
