//! Numeric ids, and the text form of a message id.
//!
//! Topics, groups, generations and owners get their numbers from one counter per shard that never
//! decreases, so a number is never used twice, not even for different kinds.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use data_encoding::{BASE32_NOPAD, DecodeError};
use serde::{Deserialize, Serialize};

/// A short immutable text: a name, a key, an error.
pub type Text = Arc<str>;

/// Returns the empty text without an allocation.
pub(crate) fn no_text() -> Text {
    static EMPTY: LazyLock<Text> = LazyLock::new(Text::default);
    EMPTY.clone()
}

/// Truncates a text to at most `bytes_max` bytes, at a character boundary.
pub(crate) fn cut(text: &Text, bytes_max: usize) -> Text {
    if text.len() <= bytes_max {
        return text.clone();
    }
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..end].into()
}

/// A dense position in a lane, from 0.
pub type Offset = u64;

/// The greatest number that a row can hold: the maximum of an SQL `bigint`.
pub const NUMBER_MAX: u64 = i64::MAX as u64;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// The unit of order, ownership, commit and recovery.
    ShardId(u32)
);
number!(
    /// A topic. If it is deleted and created again, it gets another id.
    TopicId(u64)
);
number!(
    /// A group. If it is deleted and created again, it gets another id.
    GroupId(u64)
);
number!(
    /// The generation of a cursor. It grows when a group is created again or moved by a seek.
    Generation(u64)
);
number!(
    /// The number of an owner name.
    OwnerId(u64)
);
number!(
    /// One stream or poll. Assigned by the shell, never stored.
    ConsumerId(u64)
);
number!(
    /// The number of a commit of a shard, from 1 without gaps.
    BatchNo(u64)
);
number!(
    /// The number of an ownership of a shard.
    Epoch(u64)
);
number!(
    /// One run of a process that serves shards. Drawn at random when the process starts, at most
    /// [`NUMBER_MAX`].
    NodeId(u64)
);
number!(
    /// A partition in the low 10 bits. The other bits are 0 and reserved for sub-lanes.
    Lane(u32)
);

impl NodeId {
    /// Returns its name in the API and in audit records.
    pub fn name(self) -> String {
        format!("n_{:016x}", self.0)
    }
}

/// Bits of a lane that hold the partition.
const PARTITION_BITS: u32 = 10;

impl Lane {
    /// The lane of a partition.
    pub fn of(partition: u32) -> Lane {
        Lane(partition)
    }

    /// The partition of this lane.
    pub fn partition(self) -> u32 {
        self.0 & ((1 << PARTITION_BITS) - 1)
    }

    /// The partition as an index.
    pub(crate) fn index(self) -> usize {
        self.partition() as usize
    }
}

impl BatchNo {
    /// Returns the next number.
    #[must_use]
    pub fn next(self) -> BatchNo {
        BatchNo(self.0 + 1)
    }
}

/// Identifies a message permanently, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageId {
    /// The restore generation. It grows when the storage is restored from a backup, so that ids
    /// issued since that backup are not issued again.
    pub restore: u32,
    /// Its shard.
    pub shard: ShardId,
    /// Its topic.
    pub topic: TopicId,
    /// Its lane.
    pub lane: Lane,
    /// Its offset in the lane.
    pub offset: Offset,
}

impl MessageId {
    /// Returns the id of the message at this position that was stored in that restore generation.
    pub(crate) fn under(self, restore: u32) -> MessageId {
        MessageId { restore, ..self }
    }
}

/// The text is not a message id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a message id; message ids start with m_ and have at most 64 characters")]
pub struct NotAMessageId;

impl From<DecodeError> for NotAMessageId {
    fn from(_: DecodeError) -> Self {
        NotAMessageId
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = postcard::to_stdvec(self).map_err(|_| fmt::Error)?;
        write!(f, "m_{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }
}

impl FromStr for MessageId {
    type Err = NotAMessageId;

    fn from_str(text: &str) -> Result<Self, NotAMessageId> {
        let digits = text.strip_prefix("m_").filter(|d| d.len() <= 62).ok_or(NotAMessageId)?;
        if digits.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(NotAMessageId);
        }
        let bytes = BASE32_NOPAD.decode(digits.to_ascii_uppercase().as_bytes())?;
        let (id, rest) = postcard::take_from_bytes(&bytes).map_err(|_| NotAMessageId)?;
        if rest.is_empty() { Ok(id) } else { Err(NotAMessageId) }
    }
}

/// A lease by its numbers, without a token. The shell and the shard refer to leases this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaseId {
    /// The group.
    pub group: GroupId,
    /// The lane.
    pub lane: Lane,
    /// The generation of the cursor.
    pub generation: Generation,
    /// The offset of the message.
    pub offset: Offset,
    /// The attempt, which is the fence.
    pub attempt: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_character() {
        assert_eq!(&*cut(&"aßb".into(), 2), "a");
        assert_eq!(&*cut(&"aßb".into(), 3), "aß");
        assert_eq!(&*cut(&"aßb".into(), 4), "aßb");
    }

    fn id(n: u64) -> MessageId {
        MessageId {
            restore: n as u32,
            shard: ShardId(n as u32),
            topic: TopicId(n),
            lane: Lane(n as u32),
            offset: n,
        }
    }

    #[test]
    fn a_message_id_survives_its_text_and_stays_under_64_characters() {
        for n in [0, 1, 127, 128, u64::from(u32::MAX), u64::MAX] {
            let text = id(n).to_string();
            assert!(text.len() <= 64, "{text}");
            assert_eq!(text.parse(), Ok(id(n)));
        }
    }

    #[test]
    fn other_texts_are_no_message_ids() {
        for text in ["", "m_", "m_aa", "lt_aaaa", "m_AAAAA", "m_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
        {
            assert_eq!(text.parse::<MessageId>(), Err(NotAMessageId), "{text}");
        }
    }
}
