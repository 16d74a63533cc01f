//! Numbers that name things, and the text form of a message id.
//!
//! Topics, groups, generations and owners take their numbers from one counter of the shard that
//! never goes back, so a number never names two things, not even of different kinds.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use data_encoding::{BASE32_NOPAD, DecodeError};
use serde::{Deserialize, Serialize};

/// A short immutable text: a name, a key, an error.
pub type Text = Arc<str>;

/// The empty text, without making one.
pub(crate) fn no_text() -> Text {
    static EMPTY: LazyLock<Text> = LazyLock::new(Text::default);
    EMPTY.clone()
}

/// Keeps the first `bytes_max` bytes, to a whole character.
pub(crate) fn cut(text: &Text, bytes_max: usize) -> Text {
    if text.len() <= bytes_max {
        return text.clone();
    }
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..end].into()
}

/// A dense position in a lane, from 0.
pub type Offset = u64;

/// The greatest number a row may hold: what SQL calls a `bigint`.
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
    /// One life of a topic.
    TopicId(u64)
);
number!(
    /// One life of a group.
    GroupId(u64)
);
number!(
    /// One life of a cursor: grows when a group is created again or moved.
    Generation(u64)
);
number!(
    /// A consumer's name for itself, as a number.
    OwnerId(u64)
);
number!(
    /// One stream or poll. Given by the shell, never stored.
    ConsumerId(u64)
);
number!(
    /// The number of a commit of a shard, from 1 without gap.
    BatchNo(u64)
);
number!(
    /// The number of an ownership of a shard.
    Epoch(u64)
);
number!(
    /// One life of a process that serves shards: drawn at random when it starts, at most
    /// [`NUMBER_MAX`].
    NodeId(u64)
);
number!(
    /// A partition in the low 10 bits; the rest is 0 and is where sub-lanes will go.
    Lane(u32)
);

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
    /// The one that follows.
    #[must_use]
    pub fn next(self) -> BatchNo {
        BatchNo(self.0 + 1)
    }
}

/// Names a message for ever and says where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageId {
    /// Grows when the storage is restored from a backup, so that ids given out after the backup was
    /// taken are not given out again.
    pub restore: u32,
    /// Its shard.
    pub shard: ShardId,
    /// Its topic's life.
    pub topic: TopicId,
    /// Its lane.
    pub lane: Lane,
    /// Its place there.
    pub offset: Offset,
}

impl MessageId {
    /// The id of a message that was stored under that restore generation.
    pub(crate) fn under(self, restore: u32) -> MessageId {
        MessageId { restore, ..self }
    }
}

/// The text is not a message id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a message id: it begins with m_ and has up to 64 characters")]
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

/// One attempt, by numbers: how the shell and the shard itself name a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaseId {
    /// The group.
    pub group: GroupId,
    /// The lane.
    pub lane: Lane,
    /// The cursor's life.
    pub generation: Generation,
    /// The message.
    pub offset: Offset,
    /// The fence.
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
