//! Views of topics and groups. A view is decided like any other command, so it never shows state
//! that is not durable.

use crate::change::Decision;
use crate::command::{GroupName, Reply, TopicName};
use crate::id::{ConsumerId, Lane, Text};
use crate::refusal::Decided;
use crate::shard::context::Context;
use crate::shard::{Cursor, Group, Shard, Topic};
use crate::time::Timestamp;
use crate::view::{Blocked, ConsumerView, CursorView, GroupView, LaneView, TopicView};

impl Context<'_> {
    pub(crate) fn view_topic(&self, name: &TopicName) -> Decided {
        let topic = self.topic_named(name)?;
        Ok(Decision::reply(Reply::Topic(Box::new(show_topic(topic)))))
    }

    pub(crate) fn list_topics(&self, namespace: &Text) -> Decision {
        let first = TopicName { namespace: namespace.clone(), topic: Text::default() };
        let names = self.names.range(first..).take_while(|(name, _)| name.namespace == *namespace);
        let views = names.map(|(_, id)| show_topic(&self.topics[id]));
        Decision::reply(Reply::Topics(views.collect()))
    }

    pub(crate) fn list_groups(&self, name: &TopicName) -> Decided {
        let topic = self.topic_named(name)?;
        let views = topic.groups.values().map(|id| self.show_group(self.now, &self.groups[id]));
        Ok(Decision::reply(Reply::Groups(views.collect())))
    }

    pub(crate) fn view_group(&self, name: &GroupName) -> Decided {
        let (_, group) = self.group_named(name)?;
        Ok(Decision::reply(Reply::Group(Box::new(self.show_group(self.now, group)))))
    }
}

impl Shard {
    pub(crate) fn show_group(&self, now: Timestamp, group: &Group) -> GroupView {
        let topic = &self.topics[&group.row.topic];
        let lanes = (0..topic.row.partitions).map(Lane::of);
        GroupView {
            id: group.row.id,
            topic: topic.row.name.clone(),
            name: group.row.name.clone(),
            created_at: group.row.created_at,
            paused: group.row.paused.clone().filter(|_| group.is_paused(now)),
            partitions: lanes.map(|lane| self.view_cursor(now, topic, group, lane)).collect(),
            consumers: group.consumers.iter().map(|id| self.view_consumer(topic, *id)).collect(),
            oldest_unsettled_at: group.cursors.iter().filter_map(oldest_open).min(),
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

    fn view_cursor(&self, now: Timestamp, topic: &Topic, group: &Group, lane: Lane) -> CursorView {
        let (state, cursor) = (topic.lane(lane), group.cursor(lane));
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
            blocked: self.blocked(now, topic, group, lane),
        }
    }

    /// Returns the first reason why no fresh message is delivered.
    pub(crate) fn blocked(
        &self,
        now: Timestamp,
        topic: &Topic,
        group: &Group,
        lane: Lane,
    ) -> Option<Blocked> {
        let (state, cursor) = (topic.lane(lane), group.cursor(lane));
        let has_credit = group.consumers.iter().any(|id| self.volatile.consumers[id].has_credit());
        let reasons = [
            (self.damage_of(topic, group, lane).is_some(), Blocked::Quarantined),
            (group.is_paused(now), Blocked::Paused),
            (group.consumers.is_empty(), Blocked::NoConsumers),
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

pub(crate) fn show_topic(topic: &Topic) -> TopicView {
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
    }
}

/// When the lowest open message of a cursor was produced.
fn oldest_open(cursor: &Cursor) -> Option<Timestamp> {
    let open = cursor.open.get(cursor.open.first()?)?;
    Some(open.entry.produced_at)
}
