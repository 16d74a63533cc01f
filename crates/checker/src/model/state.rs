//! The state of the model after the batches applied so far.

use std::collections::BTreeMap;

use crate::history::{Settings, Verb};
use crate::ids::{
    Column, CursorId, EntryId, FastMap, FastSet, LabelId, LaneId, LifeId, NameId, PositionId,
    ReaderId,
};
use crate::report::Findings;
use crate::timeline::{Joined, Put, Timeline};

pub(super) struct Model<'s, 'a> {
    pub(super) timeline: &'s Timeline<'a>,
    pub(super) findings: &'s mut Findings,
    pub(super) shards: FastMap<u32, ShardState>,
    pub(super) lanes: Column<LaneId, LaneState>,
    pub(super) messages: Column<PositionId, Option<Message<'a>>>,
    pub(super) positions: Column<LabelId, Option<PositionId>>,
    pub(super) cursors: Column<CursorId, CursorState>,
    pub(super) entries: Column<EntryId, EntryState>,
    /// Open leases of each consumer.
    pub(super) consumers: FastMap<u64, u64>,
    pub(super) connections: Connections<'a>,
    pub(super) topics_gone: Column<NameId, bool>,
    pub(super) deaths: Vec<Death<'a>>,
    pub(super) death_of: Column<LabelId, Option<usize>>,
    /// Settlements by owner name. They may settle another attempt or generation than the sender
    /// knew.
    pub(super) asked_by_owner: FastMap<(CursorId, u64), Verbs>,
    /// The current batch.
    pub(super) seq: u64,
    pub(super) now: u64,
    /// When the current batch was observed, by the harness's clock.
    pub(super) at: u64,
    /// Entries that must be consistent when the batch ends.
    pub(super) ended_as_dead: Vec<EntryId>,
    pub(super) died: Vec<usize>,
    pub(super) buried: Vec<LabelId>,
    pub(super) came_back: Vec<LabelId>,
    pub(super) operator: Operator<'a>,
    pub(super) progress: Progress,
}

/// A partition of a topic.
#[derive(Clone, Default)]
pub(super) struct LaneState {
    /// First offset not yet stored.
    pub(super) high: u64,
    /// First offset still kept.
    pub(super) first: u64,
    /// It is a partition of a `dlq.` topic.
    pub(super) has_dead_letters: bool,
    pub(super) stored: Vec<PositionId>,
}

/// A stored message.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) put: Put<'a>,
    /// The batch that stored it, and its time.
    pub(super) seq: u64,
    pub(super) at: u64,
}

/// The cursor of a group in a partition.
#[derive(Clone, Default)]
pub(super) struct CursorState {
    /// Its generation, while the topic and group exist.
    pub(super) life: Option<LifeId>,
    /// The greatest generation it ever had.
    pub(super) generation: u64,
    /// First offset of this generation.
    pub(super) start: u64,
    /// First offset that was never read.
    pub(super) next: u64,
    pub(super) leased: u64,
    pub(super) waiting: u64,
    pub(super) settled: u64,
    /// Entries granted in this generation.
    pub(super) granted: Vec<EntryId>,
}

/// A message in a generation of a cursor.
#[derive(Clone, Copy, Default)]
pub(super) struct EntryState {
    pub(super) state: State,
    /// The last attempt granted; 0 = none.
    pub(super) attempt: u32,
    /// How many of them were given back.
    pub(super) returned: u32,
    pub(super) asked: Verbs,
    /// The batch that recorded the reason.
    pub(super) died: Option<u64>,
    /// The attempt limit when its last attempt failed.
    pub(super) limit: Option<u32>,
}

impl EntryState {
    /// Counted attempts. In a history in which attempts restart, more may have been given back than
    /// granted.
    pub(super) fn spent(&self) -> u32 {
        self.attempt.saturating_sub(self.returned)
    }
}

/// The state of a message in a group.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum State {
    #[default]
    Fresh,
    Leased {
        until: u64,
        consumer: u64,
    },
    Waiting {
        due: u64,
        is_expired: bool,
    },
    Acked,
    /// `seq` is the batch that dead-lettered it.
    Dead {
        is_asked: bool,
        seq: u64,
    },
    Passed,
}

/// Decrements, stopping at 0. In a history in which a generation repeats, the counter may already
/// be 0.
pub(super) fn lower(n: &mut u64) {
    *n = n.saturating_sub(1);
}

/// The settlements that clients requested.
#[derive(Clone, Copy, Default)]
pub(super) struct Verbs {
    pub(super) ack: bool,
    pub(super) nack: bool,
    pub(super) last: bool,
}

impl Verbs {
    pub(super) fn add(&mut self, verb: &Verb) {
        match verb {
            Verb::Ack => self.ack = true,
            Verb::Nack { .. } => self.nack = true,
            Verb::Final => self.last = true,
            Verb::Release { .. } | Verb::Extend { .. } => {}
        }
    }
}

/// The last batch of a shard.
#[derive(Clone, Copy)]
pub(super) struct ShardState {
    pub(super) number: u64,
    pub(super) epoch: u64,
    pub(super) now: u64,
}

/// A message that was dead-lettered in a group.
pub(super) struct Death<'a> {
    pub(super) entry: EntryId,
    pub(super) reason: &'a str,
    /// The dead letter.
    pub(super) id: LabelId,
    /// Counted attempts.
    pub(super) spent: u32,
    /// The batch.
    pub(super) seq: u64,
}

/// The actions of operators so far.
pub(super) struct Operator<'a> {
    pub(super) settings: Column<NameId, Option<&'a Settings>>,
    /// The settings before the last change, and the event of the change.
    pub(super) replaced: Column<NameId, Option<(u64, &'a Settings)>>,
    /// The end of the pause, while a group is paused.
    pub(super) paused: Column<ReaderId, Option<u64>>,
    /// Dead letters that were deleted.
    pub(super) dropped: Column<LabelId, bool>,
    pub(super) purge_asked: Column<LabelId, bool>,
    pub(super) delete_asked: Column<ReaderId, bool>,
    pub(super) topic_delete_asked: Column<NameId, bool>,
    /// When a consumer last read a group, by the clock of the batches.
    pub(super) used_at: Column<ReaderId, u64>,
    /// When the current epoch of each shard began, except the first.
    pub(super) epoch_began_at: BTreeMap<u32, u64>,
    /// The time of the last batch of each shard.
    pub(super) last_batch_at: BTreeMap<u32, u64>,
    /// Entries that ended in this batch because their dead letter was deleted.
    pub(super) purged: Vec<EntryId>,
    pub(super) shard: u32,
}

impl Operator<'_> {
    pub(super) fn new(timeline: &Timeline<'_>) -> Self {
        let places = &timeline.places;
        Self {
            settings: places.names.column(None),
            replaced: places.names.column(None),
            paused: places.readers.column(None),
            dropped: places.labels.column(false),
            purge_asked: places.labels.column(false),
            delete_asked: places.readers.column(false),
            topic_delete_asked: places.names.column(false),
            used_at: places.readers.column(0),
            epoch_began_at: BTreeMap::new(),
            last_batch_at: BTreeMap::new(),
            purged: Vec::new(),
            shard: 0,
        }
    }
}

/// The connections of consumers.
#[derive(Default)]
pub(super) struct Connections<'a> {
    /// Those that are connected.
    pub(super) connected: BTreeMap<u64, Connected<'a>>,
    /// Those whose connection has ended.
    pub(super) left: FastSet<u64>,
    /// When a poll of a group last ended in this epoch, by the clock of the batches, and the shard.
    pub(super) polled_at: FastMap<ReaderId, (u64, u32)>,
    /// The batch in which a group was last deleted.
    pub(super) deleted_seq: FastMap<ReaderId, u64>,
    /// When a consumer of a group last disconnected, by the harness's clock.
    pub(super) left_at: FastMap<ReaderId, u64>,
    /// The worker of each consumer that named one.
    pub(super) workers: FastMap<u64, &'a str>,
    /// Workers that have left, by shard: until when they get nothing.
    pub(super) workers_left: BTreeMap<(u32, &'a str), u64>,
}

/// A connected consumer.
pub(super) struct Connected<'a> {
    pub(super) joined: Joined<'a>,
    /// The batch in which it joined.
    pub(super) joined_seq: u64,
    /// When its group was last used before.
    pub(super) used_before: u64,
    /// A group of that name was deleted in the same batch, before or after the consumer joined.
    pub(super) may_be_of_deleted_group: bool,
    pub(super) shard: u32,
    /// A poll that was granted a message gets no more.
    pub(super) is_answered: bool,
}

pub(super) struct Progress {
    pub(super) open_max: Option<u64>,
    pub(super) shards: FastMap<u32, LastCheck>,
    /// The shard of each group, once a batch has shown it.
    pub(super) shard_of: Column<ReaderId, Option<u32>>,
    pub(super) cursors_of: Column<ReaderId, Vec<CursorId>>,
    /// Grants to each group since the last check.
    pub(super) grants: Column<ReaderId, u64>,
    pub(super) waited: Column<CursorId, u64>,
}

/// The last check of a shard.
#[derive(Clone, Copy)]
pub(super) struct LastCheck {
    pub(super) at: u64,
    pub(super) epoch: u64,
}

impl Progress {
    pub(super) fn new(timeline: &Timeline<'_>) -> Self {
        let places = &timeline.places;
        let mut cursors_of = places.readers.column(Vec::new());
        for cursor in places.cursors.ids() {
            cursors_of[places.cursors.key(cursor).0].push(cursor);
        }
        Self {
            open_max: timeline.open_max,
            shards: FastMap::default(),
            shard_of: places.readers.column(None),
            cursors_of,
            grants: places.readers.column(0),
            waited: places.cursors.column(0),
        }
    }
}
