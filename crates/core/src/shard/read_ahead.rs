//! Limits on reads for dispatch: the size of a read, whether a consumer still waits for it, and
//! whether enough reads are in flight.

use crate::change::Prefetch;
use crate::id::{Lane, Offset};
use crate::limits::{
    ENVELOPE_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX, KEY_BYTES_MAX, LABEL_BYTES_MAX, LABELS_MAX,
    PAGE_BYTES_MAX, READ_AHEAD_STEP_BYTES,
};
use crate::message::EXTENSION_ENTRY_OVERHEAD;
use crate::shard::{Group, Shard};

/// Most bytes of a message in a page besides those of [`crate::Message::size`]: its envelope and the
/// page's overhead.
const MESSAGE_BYTES_MAX: u64 =
    (ENVELOPE_BYTES_MAX + EXTENSION_ENTRY_OVERHEAD * (LABELS_MAX + HEADERS_MAX) + 256) as u64;
/// Most bytes of labels and headers.
const EXTENSION_BYTES_MAX: usize = LABELS_MAX * LABEL_BYTES_MAX + HEADER_BYTES_MAX;

impl Shard {
    /// Returns the most bytes that a read for dispatch can return.
    pub(crate) fn bytes_expected(&self, want: &Prefetch) -> u64 {
        let beside = KEY_BYTES_MAX + EXTENSION_BYTES_MAX;
        let message = self.config.value_bytes_max.saturating_add(beside) as u64;
        let page = (PAGE_BYTES_MAX as u64).max(message) + MESSAGE_BYTES_MAX;
        let Prefetch::Ahead { topic, lane, from } = want else { return page };
        let Some(topic) = self.topics.get(topic) else { return 0 };
        // The last page of a step may begin right before the step ends.
        let step = READ_AHEAD_STEP_BYTES as u64 + page;
        let state = topic.lane(*lane);
        let left = state.high.saturating_sub(*from).saturating_mul(MESSAGE_BYTES_MAX);
        step.min(left.saturating_add(state.high_bytes.saturating_sub(state.first_bytes)))
    }

    /// Whether a consumer may still receive the messages of a read for dispatch.
    pub(crate) fn has_reader(&self, want: &Prefetch) -> bool {
        let Prefetch::Ahead { topic, .. } = want else { return self.is_waiting(want) };
        let Some(topic) = self.topics.get(topic) else { return false };
        let mut groups = topic.groups.values().filter_map(|group| self.groups.get(group));
        groups.any(|group| !group.consumers.is_empty())
    }

    /// Whether a consumer has credit now for the messages of a read for dispatch.
    pub(crate) fn has_ready_reader(&self, want: &Prefetch) -> bool {
        let Prefetch::Ahead { topic, lane, from } = want else { return self.is_waiting(want) };
        let Some(topic) = self.topics.get(topic) else { return false };
        let mut groups = topic.groups.values().filter_map(|group| self.groups.get(group));
        groups.any(|group| !group.ready.is_empty() && group.cursor(*lane).next <= *from)
    }

    /// Whether the reads in flight for a group's topic cover its waiting consumers twice. Then the
    /// following messages are in memory too. Nothing is read for consumers without credit.
    pub(super) fn reads_enough(&self, group: &Group) -> bool {
        let topic = group.row.topic;
        let from = Prefetch::Ahead { topic, lane: Lane::of(0), from: 0 };
        let to = Prefetch::Ahead { topic, lane: Lane(u32::MAX), from: Offset::MAX };
        let reading = self.volatile.loading.range(from..=to);
        let bytes: u64 = reading.map(|want| self.bytes_expected(want)).sum();
        let mut room = 0_u64;
        for consumer in group.ready.iter().filter_map(|id| self.volatile.consumers.get(id)) {
            if room > bytes {
                break;
            }
            room = room.saturating_add(consumer.room_bytes().saturating_mul(2));
        }
        bytes >= room
    }
}
