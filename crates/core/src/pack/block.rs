//! Blocks: open entries of 128 consecutive offsets.
//!
//! This is the only body that is encoded by hand. A commit packs every entry of every block that it
//! changes, so this is the hottest loop. Numbers have fixed widths; times and ids have six bytes.
//! Rare fields are written only if their flag is set. An entry has 42 bytes, at most 67.

use bytes::{Buf, BufMut, Bytes};

use crate::change::{Entry, EntryState, LastError};
use crate::id::{BatchNo, Generation, Lane, Offset, OwnerId};
use crate::limits::BLOCK_OFFSETS;
use crate::pack::{Damaged, UNKNOWN_VERSION, V1, plain, unseal};
use crate::retry::RetryPolicy;
use crate::row::{Key, Row};
use crate::time::Timestamp;

const COMMON_BYTES: usize = 42;
/// Width of times, ids and durations: enough until after the year 10000.
const SIX: usize = 6;

const STATE_BITS: u8 = 0b11;
const ERROR_SHIFT: u8 = 2;
const HAS_RETURNS: u8 = 1 << 4;
const HAS_POLICY: u8 = 1 << 5;
const HAS_DEADLINE: u8 = 1 << 6;
const HAS_EFFECTS: u8 = 1 << 7;

const STATES: [EntryState; 4] =
    [EntryState::Leased, EntryState::Expired, EntryState::Nacked, EntryState::Returned];
const ERRORS: [LastError; 4] =
    [LastError::None, LastError::Timeout, LastError::Nack, LastError::Note];

/// Returns the block of an offset.
pub(crate) fn block_of(offset: Offset) -> u64 {
    offset / BLOCK_OFFSETS
}

/// Packs the current open entries of a block. Returns None if there are none. The row is built in
/// `scratch`, so that it allocates no more memory than it has bytes.
pub(crate) fn block_row<'a>(
    key: (Generation, Lane, u64),
    batch: BatchNo,
    entries: impl Iterator<Item = (Offset, &'a Entry)>,
    scratch: &mut Vec<u8>,
) -> Option<Row> {
    let (generation, lane, block) = key;
    let first = block * BLOCK_OFFSETS;
    scratch.clear();
    scratch.push(V1);
    for (offset, entry) in entries {
        put_entry(scratch, (offset - first) as u8, entry);
    }
    if scratch.len() == 1 {
        return None;
    }
    let checksum = crc32c::crc32c(scratch);
    scratch.extend_from_slice(&checksum.to_le_bytes());
    let body = Bytes::copy_from_slice(scratch);
    Some(plain(Key::Block { generation, lane, block, batch }, body))
}

fn put_entry(packed: &mut Vec<u8>, index: u8, entry: &Entry) {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let has_effects = entry.begun > 0 || entry.unfinished > 0;
    let flags = entry.state as u8
        | (entry.error as u8) << ERROR_SHIFT
        | flag(entry.returns > 0, HAS_RETURNS)
        | flag(entry.policy.is_some(), HAS_POLICY)
        | flag(entry.deadline.is_some(), HAS_DEADLINE)
        | flag(has_effects, HAS_EFFECTS);
    // One copy of known length makes this fast.
    let mut common = [0; COMMON_BYTES];
    common[0] = index;
    common[1] = flags;
    common[2..6].copy_from_slice(&entry.attempt.to_le_bytes());
    common[6..10].copy_from_slice(&entry.spent.to_le_bytes());
    common[10..14].copy_from_slice(&entry.lease_ms.to_le_bytes());
    common[14..18].copy_from_slice(&entry.size.to_le_bytes());
    common[18..24].copy_from_slice(&entry.at.0.to_le_bytes()[..SIX]);
    common[24..30].copy_from_slice(&entry.owner.0.to_le_bytes()[..SIX]);
    common[30..36].copy_from_slice(&entry.produced_at.0.to_le_bytes()[..SIX]);
    common[36..42].copy_from_slice(&entry.first_at.0.to_le_bytes()[..SIX]);
    packed.extend_from_slice(&common);
    if flags >> 4 != 0 {
        put_rare(packed, entry, has_effects);
    }
}

fn put_rare(packed: &mut Vec<u8>, entry: &Entry, has_effects: bool) {
    if entry.returns > 0 {
        packed.put_u8(entry.returns);
    }
    if let Some(policy) = &entry.policy {
        packed.put_i32_le(policy.max_attempts);
        packed.put_uint_le(policy.backoff_ms, SIX);
        packed.put_uint_le(policy.max_backoff_ms, SIX);
    }
    if let Some(deadline) = entry.deadline {
        packed.put_uint_le(deadline.0, SIX);
    }
    if has_effects {
        packed.put_u8(entry.begun);
        packed.put_u8(entry.unfinished);
    }
}

/// Unpacks a block.
pub(crate) fn open_block(row: &Row) -> Result<Vec<(Offset, Entry)>, Damaged> {
    let damaged = |why| Damaged::of(&row.key, why);
    let Key::Block { block, .. } = row.key else { return Err(damaged("it is not a block")) };
    let first = block * BLOCK_OFFSETS;
    let (V1, mut packed) = unseal(&row.body).map_err(damaged)? else {
        return Err(damaged(UNKNOWN_VERSION));
    };
    let mut entries = Vec::new();
    while packed.has_remaining() {
        let entry = take_entry(&mut packed).ok_or_else(|| damaged("an entry is truncated"))?;
        entries.push((first + u64::from(entry.0), entry.1));
    }
    Ok(entries)
}

fn take_entry(packed: &mut &[u8]) -> Option<(u8, Entry)> {
    let six = |packed: &mut &[u8]| (packed.len() >= SIX).then(|| packed.get_uint_le(SIX));
    let index = packed.try_get_u8().ok()?;
    let flags = packed.try_get_u8().ok()?;
    let (state, error) = (flags & STATE_BITS, flags >> ERROR_SHIFT & STATE_BITS);
    let mut entry = Entry {
        state: STATES[usize::from(state)],
        error: ERRORS[usize::from(error)],
        attempt: packed.try_get_u32_le().ok()?,
        spent: packed.try_get_u32_le().ok()?,
        lease_ms: packed.try_get_u32_le().ok()?,
        size: packed.try_get_u32_le().ok()?,
        at: Timestamp(six(packed)?),
        owner: OwnerId(six(packed)?),
        produced_at: Timestamp(six(packed)?),
        first_at: Timestamp(six(packed)?),
        returns: 0,
        policy: None,
        deadline: None,
        begun: 0,
        unfinished: 0,
    };
    if flags & HAS_RETURNS != 0 {
        entry.returns = packed.try_get_u8().ok()?;
    }
    if flags & HAS_POLICY != 0 {
        entry.policy = Some(RetryPolicy {
            max_attempts: packed.try_get_i32_le().ok()?,
            backoff_ms: six(packed)?,
            max_backoff_ms: six(packed)?,
        });
    }
    if flags & HAS_DEADLINE != 0 {
        entry.deadline = Some(Timestamp(six(packed)?));
    }
    if flags & HAS_EFFECTS != 0 {
        entry.begun = packed.try_get_u8().ok()?;
        entry.unfinished = packed.try_get_u8().ok()?;
    }
    Some((index, entry))
}
