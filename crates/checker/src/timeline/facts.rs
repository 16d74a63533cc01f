//! Converts facts to steps.

use crate::history::{Fact, How, Stored};
use crate::ids::{CallId, FastMap};
use crate::report::Counts;

use super::{Joined, Places, Put, Step, Timeline};

/// Adds a fact to the timeline.
pub(super) fn build<'a>(timeline: &mut Timeline<'a>, calls: &FastMap<u64, CallId>, fact: &'a Fact) {
    count(&mut timeline.counts, fact);
    let places = &mut timeline.places;
    if let Fact::GroupMade { topic, group, cursors } = fact {
        for (partition, &(generation, offset)) in (0..).zip(cursors) {
            let life = places.life(topic, group, partition, generation);
            timeline.steps.push(Step::Opened { life, offset });
        }
    }
    if let Fact::Acted { call } = fact {
        timeline.steps.extend(calls.get(call).map(|call| Step::Acted { call: *call }));
        return;
    }
    if let Fact::Decided { calls: decided } = fact {
        let known = decided.iter().filter_map(|call| calls.get(call));
        timeline.steps.extend(known.map(|call| Step::Decided { call: *call }));
    }
    let step = of_a_message(places, fact)
        .or_else(|| of_a_group(places, fact))
        .or_else(|| of_a_lease(places, fact))
        .or_else(|| of_an_effect(places, fact))
        .or_else(|| of_a_commit(places, calls, fact));
    timeline.steps.extend(step);
}

fn of_a_message<'a>(places: &mut Places<'a>, fact: &'a Fact) -> Option<Step<'a>> {
    let step = match fact {
        Fact::Stored(stored) => Step::Stored(put(places, stored)),
        Fact::Deduplicated { topic, tenant, idem, id } => {
            let (topic, tenant) = (places.names.id(topic), places.names.id(tenant));
            let identity = (topic, tenant, places.names.id(idem));
            Step::Deduplicated {
                identity: places.identities.id(identity),
                id: places.labels.id(id),
            }
        }
        Fact::Pinned { topic, tenant, idem, until } => {
            let (topic, tenant) = (places.names.id(topic), places.names.id(tenant));
            let identity = (topic, tenant, places.names.id(idem));
            Step::Pinned { identity: places.identities.id(identity), until: *until }
        }
        Fact::Redriven { id, new, group } => {
            let (id, new) = (places.labels.id(id), places.labels.id(new));
            Step::Redriven { id, new, group: places.names.id(group) }
        }
        Fact::Trimmed { topic, partition, first } => {
            Step::Trimmed { lane: places.lane(topic, *partition), first: *first }
        }
        Fact::Dropped { id } => Step::Dropped { id: places.labels.id(id) },
        Fact::Lost { topic, partition, offset } => {
            Step::Lost { lane: places.lane(topic, *partition), offset: *offset }
        }
        _ => {
            return None;
        }
    };
    Some(step)
}

fn of_a_group<'a>(places: &mut Places<'a>, fact: &'a Fact) -> Option<Step<'a>> {
    let step = match fact {
        Fact::Moved { topic, group, partition, generation, offset } => {
            let life = places.life(topic, group, *partition, *generation);
            Step::Opened { life, offset: *offset }
        }
        Fact::Passed { topic, group, generation, partition, offset } => {
            let life = places.life(topic, group, *partition, *generation);
            Step::Passed { entry: places.entry(life, *offset) }
        }
        Fact::GroupGone { topic, group } => Step::GroupGone { reader: places.reader(topic, group) },
        Fact::TopicGone { topic } => Step::TopicGone { topic: places.names.id(topic) },
        Fact::Set(settings) => Step::Set { topic: places.names.id(&settings.topic), settings },
        Fact::Paused { topic, group, until } => {
            Step::Paused { reader: places.reader(topic, group), until: *until }
        }
        Fact::Resumed { topic, group } => Step::Resumed { reader: places.reader(topic, group) },
        Fact::Joined { consumer, topic, group, poll, credit, worker } => Step::Joined(Joined {
            consumer: *consumer,
            reader: places.reader(topic, group),
            poll: *poll,
            credit: *credit,
            worker: worker.as_deref(),
        }),
        Fact::WorkerLeft { worker, until } => Step::WorkerLeft { worker, until: *until },
        _ => {
            return None;
        }
    };
    Some(step)
}

fn of_a_lease<'a>(places: &mut Places<'a>, fact: &'a Fact) -> Option<Step<'a>> {
    let step = match fact {
        Fact::Granted(granted) => Step::Granted { entry: places.leased(&granted.lease), granted },
        Fact::Extended { lease, until } => {
            let entry = places.leased(lease);
            Step::Extended { entry, attempt: lease.attempt, until: *until }
        }
        Fact::Ended { lease, how } => {
            Step::Ended { entry: places.leased(lease), attempt: lease.attempt, how: *how }
        }
        Fact::WaitEnded { lease, due } => {
            Step::WaitEnded { entry: places.leased(lease), attempt: lease.attempt, due: *due }
        }
        Fact::Died { lease, reason, id } => {
            let (entry, attempt) = (places.leased(lease), lease.attempt);
            Step::Died { entry, attempt, reason, id: places.labels.id(id) }
        }
        _ => {
            return None;
        }
    };
    Some(step)
}

fn of_an_effect<'a>(places: &mut Places<'a>, fact: &'a Fact) -> Option<Step<'a>> {
    let Fact::Recorded(record) = fact else {
        return None;
    };
    let under = record.under.as_ref().map(|lease| places.leased(lease));
    Some(Step::Recorded { effect: places.effect(&record.right.effect), under, record })
}

fn of_a_commit<'a>(
    places: &mut Places<'a>,
    calls: &FastMap<u64, CallId>,
    fact: &'a Fact,
) -> Option<Step<'a>> {
    let step = match fact {
        Fact::Committed { call, until } => {
            Step::Committed { call: *calls.get(call)?, until: *until }
        }
        Fact::Sent { to, number, message, .. } => {
            Step::Sent { to: *to, number: *number, content: message }
        }
        &Fact::Arrived { from, through } => Step::Arrived { from, through },
        &Fact::TurnedAway { from, number } => Step::TurnedAway { from, number },
        &Fact::Left { to, number } => Step::Left { to, number },
        Fact::Pointed { topic, name, location } => {
            Step::Pointed { topic: places.names.id(topic), name, location }
        }
        Fact::CameBack { id } => Step::CameBack { id: places.labels.id(id) },
        _ => {
            return None;
        }
    };
    Some(step)
}

fn put<'a>(places: &mut Places<'a>, stored: &'a Stored) -> Put<'a> {
    let at = places.position(&stored.topic, stored.partition, stored.offset);
    let tenant = places.names.id(&stored.message.tenant);
    let takes_its_key = !stored.dead_letter && stored.for_group.is_none();
    let key = stored.idem.as_ref().map(|(key, _)| places.names.id(key));
    let identity = match (&stored.idem, key) {
        (Some((_, until)), Some(key)) if takes_its_key => {
            let topic = places.names.id(stored.asked.as_ref().unwrap_or(&stored.topic));
            Some((places.identities.id((topic, tenant, key)), *until))
        }
        _ => None,
    };
    Put {
        at,
        id: places.label_at(at, &stored.id),
        tenant,
        identity,
        key,
        for_group: stored.for_group.as_deref().map(|group| places.names.id(group)),
        stored,
    }
}

/// Has no wildcard, so that a new kind of fact is not forgotten above.
fn count(counts: &mut Counts, fact: &Fact) {
    counts.facts += 1;
    match fact {
        Fact::Stored(_) => counts.stored += 1,
        Fact::Deduplicated { .. } => counts.deduplicated += 1,
        Fact::Moved { .. } => counts.moved += 1,
        Fact::Granted(_) => counts.granted += 1,
        Fact::Ended { how: How::Acked, .. } => counts.acked += 1,
        Fact::Ended { how: How::Nacked { .. }, .. } => counts.nacked += 1,
        Fact::Ended { how: How::Expired { .. }, .. } => counts.expired += 1,
        Fact::Ended { how: How::Returned { .. }, .. } => counts.returned += 1,
        Fact::Died { .. } => counts.died += 1,
        Fact::Redriven { .. } => counts.redriven += 1,
        Fact::Dropped { .. } => counts.dropped += 1,
        Fact::Pointed { .. } => counts.pointed += 1,
        Fact::Ended { how: How::Dead { .. } | How::Purged, .. }
        | Fact::Lost { .. }
        | Fact::Set(_)
        | Fact::Paused { .. }
        | Fact::Resumed { .. }
        | Fact::Joined { .. }
        | Fact::WorkerLeft { .. }
        | Fact::GroupMade { .. }
        | Fact::GroupGone { .. }
        | Fact::TopicGone { .. }
        | Fact::Passed { .. }
        | Fact::Extended { .. }
        | Fact::WaitEnded { .. }
        | Fact::Trimmed { .. }
        | Fact::Decided { .. }
        | Fact::Acted { .. }
        | Fact::Pinned { .. }
        | Fact::TurnedAway { .. }
        | Fact::Left { .. }
        | Fact::CameBack { .. } => {}
        Fact::Recorded(_) => counts.recorded += 1,
        Fact::Committed { .. } => counts.committed += 1,
        Fact::Sent { .. } => counts.sent += 1,
        Fact::Arrived { .. } => counts.arrived += 1,
    }
}
