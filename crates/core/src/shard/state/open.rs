//! The open entries of a cursor, grouped by block as they are stored.
//!
//! A block keeps its entries in one unordered list, indexed by offset. A commit that packs a block
//! walks one short list, and a settle moves at most one entry.

use std::collections::{BTreeMap, btree_map};

use crate::change::Entry;
use crate::id::{ConsumerId, Offset};
use crate::limits::BLOCK_OFFSETS;
use crate::time::Timestamp;

/// An open entry and the consumer that holds its lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) entry: Entry,
    /// Volatile.
    pub(crate) holder: Option<ConsumerId>,
    /// Volatile: when the lease was granted. `None` after recovery.
    pub(crate) granted_at: Option<Timestamp>,
}

impl Open {
    /// Whether the lease goes on in `after`: it was extended.
    pub(crate) fn is_kept(&self, after: &Entry) -> bool {
        let is_leased = self.entry.is_leased() && after.is_leased();
        is_leased && after.attempt == self.entry.attempt
    }
}

const OFFSETS: usize = BLOCK_OFFSETS as usize;

/// Entries of 128 consecutive offsets.
#[derive(Debug, Clone)]
struct Block {
    /// One bit per offset.
    live: u128,
    /// The index in `entries` of each live offset.
    places: [u8; OFFSETS],
    /// Each entry with its bit.
    entries: Vec<(u8, Open)>,
}

const _: () = assert!(BLOCK_OFFSETS == u128::BITS as u64, "a block has one bit per offset");

impl Default for Block {
    fn default() -> Block {
        Block { live: 0, places: [0; OFFSETS], entries: Vec::new() }
    }
}

impl Block {
    fn place(&self, bit: u8) -> Option<usize> {
        (self.live >> bit & 1 == 1).then(|| usize::from(self.places[usize::from(bit)]))
    }

    fn insert(&mut self, bit: u8, open: Open) -> Option<Open> {
        if let Some(place) = self.place(bit) {
            return Some(std::mem::replace(&mut self.entries[place].1, open));
        }
        self.live |= 1 << bit;
        self.places[usize::from(bit)] = self.entries.len() as u8;
        self.entries.push((bit, open));
        None
    }

    fn remove(&mut self, bit: u8) -> Option<Open> {
        let place = self.place(bit)?;
        self.live &= !(1 << bit);
        let (_, open) = self.entries.swap_remove(place);
        if let Some((moved, _)) = self.entries.get(place) {
            self.places[usize::from(*moved)] = place as u8;
        }
        Some(open)
    }

    /// Returns the entries in offset order.
    fn iter(&self, block: u64) -> impl Iterator<Item = (Offset, &Open)> {
        let mut bits = self.live;
        std::iter::from_fn(move || {
            let bit = (bits != 0).then(|| bits.trailing_zeros())?;
            bits &= bits - 1;
            let place = usize::from(self.places[bit as usize]);
            Some((block * BLOCK_OFFSETS + u64::from(bit), &self.entries[place].1))
        })
    }
}

/// The open entries of a cursor.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenEntries {
    blocks: BTreeMap<u64, Block>,
    len: usize,
}

fn place(offset: Offset) -> (u64, u8) {
    (offset / BLOCK_OFFSETS, (offset % BLOCK_OFFSETS) as u8)
}

impl OpenEntries {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, offset: Offset) -> Option<&Open> {
        let (block, bit) = place(offset);
        let block = self.blocks.get(&block)?;
        block.place(bit).map(|place| &block.entries[place].1)
    }

    pub(crate) fn contains(&self, offset: Offset) -> bool {
        self.get(offset).is_some()
    }

    /// Inserts an entry and returns the one it replaces.
    pub(crate) fn insert(&mut self, offset: Offset, open: Open) -> Option<Open> {
        let (block, bit) = place(offset);
        let replaced = self.blocks.entry(block).or_default().insert(bit, open);
        self.len += usize::from(replaced.is_none());
        replaced
    }

    pub(crate) fn remove(&mut self, offset: Offset) -> Option<Open> {
        let (number, bit) = place(offset);
        let btree_map::Entry::Occupied(mut block) = self.blocks.entry(number) else { return None };
        let open = block.get_mut().remove(bit)?;
        if block.get().live == 0 {
            block.remove();
        }
        self.len -= 1;
        Some(open)
    }

    /// Returns the lowest open offset.
    pub(crate) fn first(&self) -> Option<Offset> {
        let (block, entries) = self.blocks.first_key_value()?;
        Some(block * BLOCK_OFFSETS + u64::from(entries.live.trailing_zeros()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Offset, &Open)> {
        self.blocks.iter().flat_map(|(number, block)| block.iter(*number))
    }

    /// Returns the entries with `from <= offset < to`, in order.
    pub(crate) fn range(&self, from: Offset, to: Offset) -> impl Iterator<Item = (Offset, &Open)> {
        let to = to.max(from);
        let blocks = self.blocks.range(from / BLOCK_OFFSETS..=to / BLOCK_OFFSETS);
        let entries = blocks.flat_map(|(number, block)| block.iter(*number));
        entries.filter(move |(offset, _)| (from..to).contains(offset))
    }

    /// Returns the entries of one block, in order.
    pub(crate) fn block(&self, number: u64) -> impl Iterator<Item = (Offset, &Entry)> {
        let entries =
            self.blocks.get(&number).into_iter().flat_map(move |block| block.iter(number));
        entries.map(|(offset, open)| (offset, &open.entry))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::change::{EntryState, LastError};
    use crate::time::Timestamp;

    fn open(attempt: u32) -> Open {
        let entry = Entry {
            state: EntryState::Leased,
            attempt,
            spent: 1,
            returns: 0,
            at: Timestamp(0),
            lease_ms: 0,
            owner: Default::default(),
            size: 0,
            produced_at: Timestamp(0),
            first_at: Timestamp(0),
            policy: None,
            deadline: None,
            error: LastError::None,
            begun: 0,
            unfinished: 0,
        };
        Open { entry, holder: None, granted_at: None }
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_map(steps in prop::collection::vec((0..600_u64, any::<bool>(), any::<u32>()), 0..400),
                                from in 0..600_u64, to in 0..600_u64) {
            let (mut is, mut model) = (OpenEntries::default(), BTreeMap::new());
            let attempt = |open: Option<Open>| open.map(|open| open.entry.attempt);
            for (offset, puts, number) in steps {
                if puts { prop_assert_eq!(attempt(is.insert(offset, open(number))), model.insert(offset, number)) } else { prop_assert_eq!(attempt(is.remove(offset)), model.remove(&offset)) }
            }
            let all: Vec<_> = is.iter().map(|(offset, open)| (offset, open.entry.attempt)).collect();
            prop_assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
            let some: Vec<_> = is.range(from, to).map(|(offset, _)| offset).collect();
            prop_assert_eq!(some, model.range(from..to.max(from)).map(|(o, _)| *o).collect::<Vec<_>>());
            prop_assert_eq!(is.first(), model.keys().next().copied());
            prop_assert_eq!(is.len(), model.len());
            let block: Vec<_> = is.block(1).map(|(offset, _)| offset).collect();
            prop_assert_eq!(block, model.range(128..256).map(|(o, _)| *o).collect::<Vec<_>>());
            prop_assert_eq!(attempt(is.get(from).copied()), model.get(&from).copied());
        }
    }
}
