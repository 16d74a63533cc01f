//! Deletes groups and topics. Their rows are dead by rule at once and are deleted later, in bounded
//! steps.

use crate::change::{Action, Change, Decision, Garbage, LaneState};
use crate::command::{GroupName, Rejection, Reply, TopicName};
use crate::id::{Generation, Lane, Offset};
use crate::limits::PAGE_MESSAGES_MAX;
use crate::refusal::Decided;
use crate::shard::chores::retention::lane_state;
use crate::shard::context::Context;
use crate::shard::{Group, Shard, Topic, done};

impl Context<'_> {
    pub(crate) fn delete_group(&self, name: &GroupName) -> Decided {
        let (topic, group) = self.group_named(name)?;
        let (backlog, open) = (backlog(topic, group), group.open);
        let mut decision = Decision::reply(Reply::GroupDeleted { backlog, open });
        self.discard_group(topic, group, &mut decision);
        Ok(decision)
    }

    pub(crate) fn would_delete_group(&self, name: &GroupName) -> Decided {
        let (topic, group) = self.group_named(name)?;
        let (backlog, open) = (backlog(topic, group), group.open);
        Ok(Decision::reply(Reply::WouldDeleteGroup { backlog, open }))
    }

    pub(crate) fn delete_topic(&self, name: &TopicName) -> Decided {
        let topic = self.deletable(name)?;
        let (messages, dead_letters) = (messages(topic), dead_letters(topic));
        let mut decision = Decision::reply(Reply::TopicDeleted { messages, dead_letters });
        for topic in self.with_dead_letters(topic) {
            for id in topic.groups.values() {
                self.discard_group(topic, &self.groups[id], &mut decision);
            }
            self.discard_topic(topic, &mut decision.changes);
        }
        Ok(decision)
    }

    pub(crate) fn would_delete_topic(&self, name: &TopicName) -> Decided {
        let topic = self.deletable(name)?;
        let both = self.with_dead_letters(topic);
        let groups = both.flat_map(|topic| topic.groups.values().map(|id| self.groups[id].open));
        let (count, open) = groups.fold((0, 0), |(count, open), of| (count + 1, open + of));
        let (messages, dead_letters) = (messages(topic), dead_letters(topic));
        Ok(Decision::reply(Reply::WouldDeleteTopic { messages, open, groups: count, dead_letters }))
    }

    fn deletable(&self, name: &TopicName) -> Result<&Topic, Rejection> {
        let topic = self.topic_named(name)?;
        if topic.is_dlq() { Err(Rejection::DeadLetterTopic) } else { Ok(topic) }
    }

    /// A topic and its dead-letter topic.
    fn with_dead_letters<'a>(&'a self, topic: &'a Topic) -> impl Iterator<Item = &'a Topic> {
        [Some(topic), topic.dlq.map(|dlq| &self.topics[&dlq])].into_iter().flatten()
    }

    fn discard_topic(&self, topic: &Topic, changes: &mut Vec<Change>) {
        let id = topic.row.id;
        let lowest_open = |lane| {
            let cursors = topic.groups.values().map(|group| self.groups[group].cursor(lane));
            cursors.map(|cursor| cursor.low()).min().unwrap_or(Offset::MAX)
        };
        let lanes = topic.lanes.iter().enumerate().map(|(index, state)| {
            let lane = Lane::of(index as u32);
            let from =
                state.trimmed.min(lowest_open(lane)).saturating_sub(PAGE_MESSAGES_MAX as u64);
            (lane, from, state.high)
        });
        let garbage = Garbage::Topic { topic: id, lanes: lanes.collect() };
        changes.push(Change::TopicGone(id));
        changes.push(Change::Garbage { id: id.0, garbage: Box::new(garbage) });
    }
}

impl Shard {
    fn discard_group(&self, topic: &Topic, group: &Group, decision: &mut Decision) {
        // A separate list, because each cursor searches it and a deleted topic may have thousands
        // of groups.
        let mut changes = Vec::new();
        for index in 0..group.cursors.len() {
            self.discard_cursor(topic, group, Lane::of(index as u32), &mut changes);
        }
        decision.changes.append(&mut changes);
        decision.changes.push(Change::GroupGone(group.row.id));
        decision.actions.extend(group.consumers.iter().map(|consumer| Action::Dismiss(*consumer)));
    }

    /// Returns the changes that delete an idle group.
    pub(crate) fn discarded(&self, topic: &Topic, group: &Group) -> Vec<Change> {
        let mut decision = done();
        self.discard_group(topic, group, &mut decision);
        decision.changes
    }

    /// Adds the blocks and notes of a moved or deleted cursor to the garbage.
    pub(crate) fn discard_cursor(
        &self,
        topic: &Topic,
        group: &Group,
        lane: Lane,
        changes: &mut Vec<Change>,
    ) {
        let cursor = group.cursor(lane);
        let state = lane_state(topic, lane, changes);
        if cursor.low() < state.trimmed {
            // Its open entries kept pages from being trimmed. These pages are checked again.
            let state = LaneState { trimmed: cursor.low(), ..state };
            changes.push(Change::Lane { topic: topic.row.id, lane, state });
        }
        let generation = cursor.start.generation;
        let extent = (lane, cursor.low(), cursor.next);
        // Cursors created together share their generation, so their rows are one piece of garbage.
        let in_this = changes.iter_mut().find_map(|change| {
            let Change::Garbage { id, garbage } = change else { return None };
            let Garbage::Cursor { lanes, .. } = &mut **garbage else { return None };
            (*id == generation.0).then_some(lanes)
        });
        if let Some(lanes) = in_this {
            lanes.push(extent);
            return;
        }
        let mut lanes = self.lanes_left(generation);
        lanes.push(extent);
        let garbage = Garbage::Cursor { generation, lanes };
        changes.push(Change::Garbage { id: generation.0, garbage: Box::new(garbage) });
    }

    fn lanes_left(&self, generation: Generation) -> Vec<(Lane, Offset, Offset)> {
        match self.garbage.get(&generation.0) {
            Some(Garbage::Cursor { lanes, .. }) => lanes.clone(),
            Some(Garbage::Topic { .. } | Garbage::Named { .. }) | None => Vec::new(),
        }
    }
}

fn backlog(topic: &Topic, group: &Group) -> u64 {
    let lanes = topic.lanes.iter().zip(&group.cursors);
    lanes.map(|(lane, cursor)| cursor.backlog(lane.high)).sum()
}

fn messages(topic: &Topic) -> u64 {
    topic.lanes.iter().map(|lane| lane.high - lane.first).sum()
}

fn dead_letters(topic: &Topic) -> u64 {
    topic.lanes.iter().map(|lane| lane.dead).sum()
}
