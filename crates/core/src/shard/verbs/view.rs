//! Views of topics and groups. A view is decided like any other command, so it never shows state
//! that is not durable.

use std::collections::BTreeMap;

use crate::change::{Decision, Lookup, Reads, VolatileChange};
use crate::command::{GroupName, Reply, TopicName};
use crate::id::{ConsumerId, Lane, Offset, Text};
use crate::limits::{PRESENT_WALK_MAX, READ_LOOKUPS_MAX};
use crate::refusal::Decided;
use crate::shard::context::Context;
use crate::shard::state::GroupRecent;
use crate::shard::{Cursor, Group, Shard, Topic};
use crate::time::Timestamp;
use crate::view::{
    AllViews, Blocked, ConsumerView, CursorView, GroupView, LaneView, RecentView, TopicView,
};

impl Context<'_> {
    pub(crate) fn view_topic(&self, name: &TopicName) -> Decided {
        let topic = self.topic_to_show(name)?;
        Ok(Decision::reply(Reply::Topic(Box::new(show_topic(self.now, &topic)))))
    }

    pub(crate) fn list_topics(&self, namespace: &Text) -> Decision {
        let views = self.topics_of(namespace).map(|topic| show_topic(self.now, topic));
        Decision::reply(Reply::Topics(views.collect()))
    }

    pub(crate) fn view_all(&self, namespace: &Text) -> Decision {
        let mut volatile = Vec::new();
        let mut views = AllViews::default();
        let mut walk = PRESENT_WALK_MAX;
        for topic in self.topics_of(namespace) {
            let is_full = |lane: &u32| self.full(topic, Lane::of(*lane), 1, (0, 0)).is_some();
            // Dead letters are stored without a limit.
            let partitions = if topic.is_dlq() { 0 } else { topic.row.partitions };
            let full_partitions = (0..partitions).filter(is_full).count() as u64;
            views.topics.push(TopicView { full_partitions, ..show_topic(self.now, topic) });
            let groups = topic.groups.values().map(|id| &self.groups[id]);
            views.groups.extend(groups.map(|group| GroupView {
                present: self.present_owners(self.now, group, &mut walk),
                ..self.show_group(self.now, group, &self.times(group, &mut volatile))
            }));
        }
        Decision { volatile, ..Decision::reply(Reply::All(Box::new(views))) }
    }

    pub(crate) fn list_groups(&self, name: &TopicName) -> Decided {
        let topic = self.topic_to_show(name)?;
        let groups = topic.groups.values().map(|id| &self.groups[id]);
        let mut volatile = Vec::new();
        let views =
            groups.map(|group| self.show_group(self.now, group, &self.times(group, &mut volatile)));
        let reply = Reply::Groups(views.collect());
        Ok(Decision { volatile, ..Decision::reply(reply) })
    }

    /// Every `receive` without messages asks for this view, so it reads nothing and walks no entries.
    /// [`Context::explain`] has the owners too.
    pub(crate) fn view_group(&self, name: &GroupName) -> Decided {
        let (_, group) = self.group_named(name)?;
        let view = self.show_group(self.now, group, &Times::new());
        Ok(Decision::reply(Reply::Group(Box::new(view))))
    }

    /// Returns the view of a group with its owners, and the times that were read for it.
    pub(crate) fn show_group_with_owners(&self, group: &Group) -> (GroupView, Vec<VolatileChange>) {
        let mut volatile = Vec::new();
        let view = self.show_group(self.now, group, &self.times(group, &mut volatile));
        (GroupView { owners: self.view_owners(self.now, group), ..view }, volatile)
    }

    /// Returns when the next message of each lane was stored, as far as known. Times that were read
    /// are remembered.
    fn times(&self, group: &Group, volatile: &mut Vec<VolatileChange>) -> Times {
        let unknown = self.unknown_times(group).filter_map(|(lane, offset)| {
            let topic = group.row.topic;
            let page = self.rows.page_at(topic, lane, offset).ok()??;
            volatile.push(VolatileChange::StoredAt {
                group: group.row.id,
                lane,
                offset,
                at: page.at,
            });
            Some((lane, page.at))
        });
        unknown.collect()
    }
}

/// When the next message of a lane was stored.
type Times = BTreeMap<Lane, Timestamp>;

impl Shard {
    pub(crate) fn group_reads(&self, name: &GroupName) -> Reads {
        self.group_named(name).map_or_else(|_| Vec::new(), |(_, group)| self.time_reads([group]))
    }

    /// The topics of a namespace, sorted by name.
    fn topics_of<'a>(&'a self, namespace: &'a Text) -> impl Iterator<Item = &'a Topic> {
        let first = TopicName { namespace: namespace.clone(), topic: Text::default() };
        let names = self.names.range(first..);
        let names = names.take_while(move |(name, _)| name.namespace == *namespace);
        names.map(|(_, id)| &self.topics[id])
    }

    pub(crate) fn all_reads(&self, namespace: &Text) -> Reads {
        let groups = self.topics_of(namespace).flat_map(|topic| topic.groups.values());
        self.time_reads(groups.map(|id| &self.groups[id]))
    }

    pub(crate) fn groups_reads(&self, name: &TopicName) -> Reads {
        let Ok(topic) = self.topic_named(name) else { return Vec::new() };
        self.time_reads(topic.groups.values().map(|id| &self.groups[id]))
    }

    /// Reads the times that are not in memory, up to a limit. Later views read the others.
    fn time_reads<'a>(&self, groups: impl IntoIterator<Item = &'a Group>) -> Reads {
        let groups = groups.into_iter();
        let unknown = groups.flat_map(|group| {
            let topic = group.row.topic;
            let lookup = move |(lane, offset)| Lookup::PageBounds { topic, lane, offset };
            self.unknown_times(group).map(lookup)
        });
        unknown.take(READ_LOOKUPS_MAX).collect()
    }

    /// The next messages of a group that are stored at an unknown time.
    fn unknown_times(&self, group: &Group) -> impl Iterator<Item = (Lane, Offset)> {
        let topic = &self.topics[&group.row.topic];
        let lanes = (0..topic.row.partitions).map(Lane::of);
        let unknown = lanes.filter(|lane| {
            let cursor = group.cursor(*lane);
            let is_oldest = cursor.open.first().is_none() && !topic.damaged.contains_key(lane);
            let is_stored = cursor.next < topic.lane(*lane).high;
            is_oldest && is_stored && self.next_produced_at(topic, cursor, *lane).is_none()
        });
        unknown.map(|lane| (lane, group.cursor(lane).next))
    }

    /// When the next message of a cursor was stored, if it is in memory.
    fn next_produced_at(&self, topic: &Topic, cursor: &Cursor, lane: Lane) -> Option<Timestamp> {
        let known = cursor.produced_at.filter(|(offset, _)| *offset == cursor.next);
        let cached = || self.volatile.cache.get(topic.row.id, lane, cursor.next);
        known.map(|(_, at)| at).or_else(|| cached().map(|kept| kept.message.produced_at))
    }

    pub(crate) fn show_group(&self, now: Timestamp, group: &Group, times: &Times) -> GroupView {
        let topic = &self.topics[&group.row.topic];
        let lanes = (0..topic.row.partitions).map(Lane::of);
        let has_consumers = group.has_consumers(now);
        let cursor = |lane| {
            let produced_at = times.get(&lane).copied();
            self.view_cursor(now, topic, group, lane, has_consumers, produced_at)
        };
        let partitions: Vec<CursorView> = lanes.map(cursor).collect();
        GroupView {
            id: group.row.id,
            topic: topic.row.name.clone(),
            name: group.row.name.clone(),
            created_at: group.row.created_at,
            paused: group.row.paused.clone().filter(|_| group.is_paused(now)),
            oldest_unsettled_at: partitions.iter().filter_map(|of| of.oldest_unsettled_at).min(),
            partitions,
            consumers: group.consumers.iter().map(|id| self.view_consumer(topic, *id)).collect(),
            present: 0,
            owners: Vec::new(),
            recent: group.recent.view(now),
        }
    }

    fn view_consumer(&self, topic: &Topic, id: ConsumerId) -> ConsumerView {
        let consumer = &self.volatile.consumers[&id];
        ConsumerView {
            consumer: id,
            owner: self.owners.name(consumer.owner),
            lease_ms: consumer.lease_ms(topic),
            credit: consumer.credit,
            held: consumer.held,
            peer: consumer.peer.clone(),
            since: consumer.since,
            last_settle_at: consumer.last_settle_at,
        }
    }

    fn view_cursor(
        &self,
        now: Timestamp,
        topic: &Topic,
        group: &Group,
        lane: Lane,
        has_consumers: bool,
        read_at: Option<Timestamp>,
    ) -> CursorView {
        let (state, cursor) = (topic.lane(lane), group.cursor(lane));
        let next = || read_at.or_else(|| self.next_produced_at(topic, cursor, lane));
        let is_stored = cursor.next < state.high;
        let oldest = oldest_open(cursor).or_else(|| is_stored.then(next).flatten());
        let first_due =
            |set: &std::collections::BTreeSet<(Timestamp, u64)>| set.first().map(|due| due.0);
        CursorView {
            generation: cursor.start.generation,
            next: cursor.next,
            high: state.high,
            committed: cursor.low().checked_sub(1),
            backlog: cursor.backlog(state.high),
            leased: u64::from(cursor.leased),
            waiting: cursor.waiting() as u64,
            next_retry_at: [first_due(&cursor.retries), first_due(&cursor.returned)]
                .into_iter()
                .flatten()
                .min(),
            oldest_unsettled_at: oldest,
            blocked: self.blocked(now, topic, group, lane, has_consumers),
        }
    }

    /// Returns the first reason why no fresh message is delivered.
    pub(crate) fn blocked(
        &self,
        now: Timestamp,
        topic: &Topic,
        group: &Group,
        lane: Lane,
        has_consumers: bool,
    ) -> Option<Blocked> {
        let (state, cursor) = (topic.lane(lane), group.cursor(lane));
        let has_credit = group.consumers.iter().any(|id| self.volatile.consumers[id].has_credit());
        let reasons = [
            (self.damage_of(topic, group, lane).is_some(), Blocked::Quarantined),
            (group.is_paused(now), Blocked::Paused),
            (!has_consumers, Blocked::NoConsumers),
            (!has_credit, Blocked::NoCredit),
            (cursor.leased >= topic.settings.max_in_flight, Blocked::InFlightLimit),
            (cursor.open.len() as u64 >= u64::from(topic.settings.max_open), Blocked::MaxOpen),
            (cursor.next >= state.high, Blocked::NothingNew),
            (!self.group_has_room(group, 0), Blocked::OpenLimit),
            (self.volatile.cache.get(topic.row.id, lane, cursor.next).is_none(), Blocked::Loading),
        ];
        reasons.into_iter().find_map(|(is_so, why)| is_so.then_some(why))
    }
}

pub(crate) fn show_topic(now: Timestamp, topic: &Topic) -> TopicView {
    let lanes = topic.lanes.iter().map(|lane| LaneView {
        first: lane.first,
        high: lane.high,
        bytes: lane.high_bytes - lane.first_bytes,
    });
    TopicView {
        id: topic.row.id,
        name: topic.row.name.clone(),
        created_at: topic.row.created_at,
        settings: topic.settings.clone(),
        changed: topic.row.patch.clone(),
        is_dlq: topic.is_dlq(),
        partitions: lanes.collect(),
        groups: topic.groups.keys().cloned().collect(),
        dead_letters: topic.lanes.iter().map(|lane| lane.dead).sum(),
        full_partitions: 0,
        produced_15s: topic.produced.last_15s(now),
    }
}

impl GroupRecent {
    fn view(&self, now: Timestamp) -> RecentView {
        RecentView {
            delivered: self.delivered.last_15s(now),
            acked: self.acked.last_15s(now),
            failed: self.failed.last_15s(now),
        }
    }
}

/// When the lowest open message of a cursor was produced.
fn oldest_open(cursor: &Cursor) -> Option<Timestamp> {
    let open = cursor.open.get(cursor.open.first()?)?;
    Some(open.entry.produced_at)
}
