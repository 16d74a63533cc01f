//! Output of a batch in a transcript.

use driftq_core::audit::{ChainHash, Tip};
use driftq_core::change::{Action, Change, DeadRow, End, EntryState, Sweep};
use driftq_core::command::{
    Arrive, Arrived, AuditSlice, DeadLetter, Event, Explained, ExplainedMessage, Full, InGroup,
    PeekedLease, PeekedMessage, Repaired, Routed,
};
use driftq_core::view::{ConsumerView, CursorView, GroupView, TopicView};
use driftq_core::{
    Batch, Command, CommandResult, ConsumerId, Envelope, GroupId, Lane, Message, Offset, Rejection,
    Reply, Text, Timestamp, TopicId,
};

use super::{World, effect};

fn goes_on(ask: &Command) -> String {
    if let Command::ProduceWithNonce(part) = ask {
        let onward = Command::Produce(Box::new(part.messages[0].clone()));
        return format!("{} as {:?} of {}", goes_on(&onward), part.places, part.nonce);
    }
    if let Command::Produce(onward) = ask {
        let Routed { source, topic, expires } = onward.routed.expect("routed");
        let (to, until) = (&onward.topic.topic, time(expires));
        return format!("goes on to {to}, for {source}/{} until {until}", topic.0);
    }
    let Command::ViewRouted(key) = ask else { panic!("only a produce is forwarded: {ask:?}") };
    format!("is asked of {}", key.target)
}

/// `30s`, `1.5s`.
pub(super) fn time(at: Timestamp) -> String {
    match (at.0 / 1000, at.0 % 1000) {
        (seconds, 0) => format!("{seconds}s"),
        (seconds, millis) => format!("{seconds}.{millis:03}s"),
    }
}

pub(super) fn batch(world: &mut World, batch: &Batch) -> Vec<String> {
    let mut lines: Vec<String> =
        batch.replies.iter().map(|(_, answered)| reply(answered)).collect();
    for change in &batch.changes {
        lines.extend(changed(world, change));
    }
    for effect in &batch.actions {
        lines.push(match effect {
            Action::Deliver(consumer, delivery) => {
                let place = format!("{}:{}", delivery.hold.lane, delivery.hold.offset);
                let name = format!(
                    "{}/{} {place}.{}",
                    delivery.topic, delivery.group, delivery.hold.attempt
                );
                world.tokens.insert(name.clone(), delivery.token.clone());
                if let Some(death) = &delivery.message.death {
                    world.dead.insert(format!("{} {place}", death.topic), delivery.id);
                }
                let error = match delivery.last_error() {
                    "" => String::new(),
                    error => format!(" after \"{error}\""),
                };
                let value = String::from_utf8_lossy(&delivery.message.value).into_owned();
                let value = if value.len() > 40 { format!("{} bytes", value.len()) } else { value };
                let who = consumer_name(world, *consumer);
                let until = time(delivery.expires_at);
                let redriven = match delivery.message.redriven {
                    0 => String::new(),
                    times => format!(" redriven {times} times{}", origin(&delivery.message)),
                };
                let extension = extension(&delivery.message.envelope);
                format!(
                    "{who} gets {name} \"{value}\" spent {} until {until}{error}{redriven}{extension}",
                    delivery.attempts()
                )
            }
            Action::Send(target, arrive) => {
                let Arrive { from, messages, .. } = &**arrive;
                let extensions = messages.iter().map(|message| extension(&message.envelope));
                let extensions: String = extensions.collect();
                format!("sends to {target}: {} from {from}{extensions}", messages.len())
            }
            Action::Dismiss(consumer) => {
                format!("{} is dismissed", consumer_name(world, *consumer))
            }
        });
    }
    lines
}

/// The first position of a message.
fn origin(message: &Message) -> String {
    message.origin.map_or(String::new(), |id| format!(" from {}:{}", id.lane, id.offset))
}

fn consumer_name(world: &World, id: ConsumerId) -> String {
    let name = world.consumers.iter().find(|(_, consumer)| **consumer == id);
    name.map_or_else(|| format!("consumer {id}"), |(name, _)| name.clone())
}

fn extension(envelope: &Envelope) -> String {
    match &envelope.extension {
        None => String::new(),
        Some(extension) => {
            format!(" labels {:?} headers {:?}", extension.labels, extension.headers)
        }
    }
}

/// A reply as text.
pub(crate) fn reply(answered: &CommandResult) -> String {
    match answered {
        Err(Rejection::StaleLease { state, current: Some(current), .. }) => {
            format!("stale: {}, attempt {current} is current", state.as_str())
        }
        Err(Rejection::StaleLease { state, .. }) => format!("stale: {}", state.as_str()),
        Err(Rejection::Exhausted { full: Full::Messages(group), .. }) => {
            format!("full: messages{}", held_by(group))
        }
        Err(Rejection::Exhausted { full: Full::Bytes(group), .. }) => {
            format!("full: bytes{}", held_by(group))
        }
        Err(Rejection::Exhausted { full: Full::Storage, .. }) => "full: storage".into(),
        Err(Rejection::Exhausted { full: Full::Outbox, .. }) => "full: outbox".into(),
        Err(Rejection::Exhausted { full: Full::Topics { limit }, .. }) => {
            format!("full: {limit} topics")
        }
        Err(Rejection::Exhausted { full: Full::Cursors { limit }, .. }) => {
            format!("full: {limit} cursors")
        }
        Err(rejection) => match effect::refused(rejection) {
            Some(said) => said,
            None => format!("refused: {rejection}"),
        },
        Ok(reply) => match reply {
            Reply::Done => "ok".into(),
            Reply::TopicCreated { .. } | Reply::GroupCreated { .. } => "created".into(),
            Reply::TopicExists { .. } | Reply::GroupExists { .. } => "exists".into(),
            Reply::TopicDeleted { messages, dead_letters } => {
                format!("deleted {messages} messages, {dead_letters} dead letters")
            }
            Reply::GroupDeleted { backlog, open } => {
                format!("deleted with backlog {backlog}, open {open}")
            }
            Reply::Repaired(repaired) => {
                let Repaired { lost, reopened, next } = repaired;
                let next = next.map_or("done".into(), |next| format!("next {next}"));
                format!("lost {lost:?}, reopened {reopened:?}, {next}")
            }
            Reply::Sought(sought) => format!(
                "moved {:?} redelivers {} skips {} dropped {}",
                sought.moved, sought.redelivers, sought.skips, sought.dropped_open
            ),
            Reply::Produced(receipt) => {
                let topic = receipt
                    .final_topic
                    .as_ref()
                    .map_or(String::new(), |topic| format!(" in {topic}"));
                let again = if receipt.deduplicated { " before" } else { "" };
                format!("stored {}:{}{topic}{again}", receipt.partition, receipt.offset)
            }
            Reply::Joined { .. } => "joined".into(),
            Reply::Extended { until } => format!("extended until {}", time(*until)),
            Reply::Redriven { new, already } => {
                format!(
                    "redriven as {}:{}{}",
                    new.lane,
                    new.offset,
                    if *already { " before" } else { "" }
                )
            }
            Reply::Topic(view) => topic(view),
            Reply::Group(view) => group(view),
            Reply::Topics(views) => list(views.iter().map(topic)),
            Reply::All(views) => {
                list(views.topics.iter().map(topic).chain(views.groups.iter().map(group_briefly)))
            }
            Reply::Groups(views) => list(views.iter().map(group_briefly)),
            Reply::Peeked(peeked) => format!(
                "{} (scanned {}, {})",
                list(peeked.messages.iter().map(peeked_message)),
                peeked.scanned,
                peeked.next.map_or("the end".to_owned(), |next| format!("next {next}"))
            ),
            Reply::DeadLetters(dead) => format!(
                "{} (scanned {}, {})",
                list(dead.letters.iter().map(dead_letter)),
                dead.scanned,
                if dead.next.is_some() { "more" } else { "the end" }
            ),
            Reply::Explained(explained) => self::explained(explained),
            Reply::Committed { produced, repeated } => effect::committed(produced, *repeated),
            Reply::Elsewhere(ask) => goes_on(ask),
            Reply::Pointer(pointer) => effect::pointer(pointer),
            Reply::Pointers(page) => {
                let more = if page.more { "more" } else { "the end" };
                format!("{} ({more})", list(page.pointers.iter().map(effect::pointer)))
            }
            Reply::Arrived(Arrived { through, refused, .. }) => match refused {
                None => format!("arrived through {through}"),
                Some(why) => format!("arrived through {through}, then refused: {why}"),
            },
            Reply::Began(began) => effect::began(began),
            Reply::Finished { effect, repeated } => effect::finished(effect, *repeated),
            Reply::Effect(effect) => effect::view(effect),
            Reply::TakenKey(taken) => effect::taken(taken),
            Reply::Effects(listed) => effect::effects(listed),
            Reply::Chain(tip) => format!("{} records, tip {}", tip.seq, short(&tip.hash)),
            Reply::Audit(slice) => audit(slice),
            Reply::Purged { purged } => format!("purged {purged}"),
            Reply::WouldDeleteTopic { messages, open, groups, dead_letters } => format!(
                "would delete {messages} messages ({open} open), {groups} groups, \
                 {dead_letters} dead letters"
            ),
            Reply::WouldDeleteGroup { backlog, open } => {
                format!("would delete backlog {backlog}, open {open}")
            }
            Reply::Each(results) => list(results.iter().map(self::reply)),
        },
    }
}

fn audit(slice: &AuditSlice) -> String {
    let record = |(text, tip): &(String, Tip)| {
        let record: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let word = |name: &str| record[name].as_str().map(|word| format!(" {word}"));
        if let Some(act) = word("act") {
            let words = ["topic", "group", "act_id", "by", "reason", "request_id"];
            let words: String = words.iter().filter_map(|name| word(name)).collect();
            let facts = ["counts", "details"].map(|name| &record[name]);
            let facts: String = facts
                .iter()
                .filter(|facts| !facts.is_null())
                .map(|facts| format!(" {facts}"))
                .collect();
            return format!("#{}{act}{words}{facts} {}", record["seq"], short(&tip.hash));
        }
        let [seq, fence] = ["seq", "fence"].map(|name| &record[name]);
        let [decision, scope, key, state] =
            ["decision", "scope", "key", "state"].map(|name| word(name).unwrap_or_default());
        let by = word("by").map_or(String::new(), |by| format!(" by{by}"));
        let attempt = record["attempt"].as_u64();
        let under =
            word("message").zip(attempt).map(|(id, attempt)| format!(" under{id}.{attempt}"));
        let under = under.unwrap_or_default();
        format!("#{seq}{decision}{scope}{key}.{fence}{state}{by}{under} {}", short(&tip.hash))
    };
    let next = slice.next.map_or("the end".into(), |next| format!("next {next}"));
    format!("{} ({next})", list(slice.records.iter().map(record)))
}

fn short(hash: &ChainHash) -> String {
    hash.to_string()[..8].to_owned()
}

fn held_by(group: &Option<Text>) -> String {
    group.as_ref().map_or(String::new(), |group| format!(", held by {group}"))
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "none".into() } else { items.join("; ") }
}

fn topic(view: &TopicView) -> String {
    let lanes: Vec<String> = view
        .partitions
        .iter()
        .map(|lane| format!("{}..{} ({} bytes)", lane.first, lane.high, lane.bytes))
        .collect();
    let names: Vec<&str> = view.changed.names().into_iter().map(|name| name.as_str()).collect();
    let changed =
        if names.is_empty() { String::new() } else { format!(", changed {}", names.join(" ")) };
    format!(
        "{}{} {}, dead {}, groups {:?}{changed}",
        view.name,
        if view.is_dlq { " (dead letters)" } else { "" },
        lanes.join(", "),
        view.dead_letters,
        view.groups
    )
}

fn group_briefly(view: &GroupView) -> String {
    let backlog: u64 = view.partitions.iter().map(|cursor| cursor.backlog).sum();
    let oldest = view.oldest_unsettled_at.map_or("none".to_owned(), time);
    let consumers = view.consumers.iter().map(|consumer| {
        let ConsumerView { owner, lease_ms, credit, held, .. } = consumer;
        format!(", {owner} holds {held} of {credit} for {lease_ms}ms")
    });
    format!("{} backlog {backlog}, oldest {oldest}{}", view.name, consumers.collect::<String>())
}

fn group(view: &GroupView) -> String {
    let cursors: Vec<String> = view
        .partitions
        .iter()
        .map(|cursor| {
            let blocked = cursor.blocked.map_or("flows", |blocked| blocked.as_str());
            let committed = cursor.committed.map_or(-1, |offset| offset as i64);
            let CursorView { next, high, backlog, leased, waiting, .. } = cursor;
            let due = match cursor.next_retry_at {
                Some(at) => format!(" (first {})", time(at)),
                None => String::new(),
            };
            format!(
                "next {next} of {high}, committed {committed}, backlog {backlog}, leased {leased}, \
                 waiting {waiting}{due}, {blocked}"
            )
        })
        .collect();
    let paused = view.paused.as_ref().map_or(String::new(), |paused| {
        format!("paused by {} since {}; ", paused.by, time(paused.since))
    });
    format!("{paused}{}", cursors.join("; "))
}

fn peeked_message(peeked: &PeekedMessage) -> String {
    let PeekedMessage { partition, offset, message, state, attempts, last_error, .. } = peeked;
    let mut words = format!("{partition}:{offset} {}", String::from_utf8_lossy(&message.value));
    if let Some(state) = state {
        words += &format!(" {}", state.as_str());
    }
    if *attempts > 0 {
        words += &format!(" after {attempts}");
    }
    if !last_error.is_empty() {
        words += &format!(" \"{last_error}\"");
    }
    if let Some(at) = peeked.next_attempt_at {
        words += &format!(", due {}", time(at));
    }
    if let Some(PeekedLease { owner, attempt, until }) = &peeked.lease {
        words += &format!(", attempt {attempt} of {owner} until {}", time(*until));
    }
    words
}

fn dead_letter(letter: &DeadLetter) -> String {
    let DeadRow { lane, offset, group, reason, at, error, .. } = &letter.row;
    assert_eq!((letter.id.lane, letter.id.offset), (*lane, *offset), "an id names its place");
    let mut words =
        format!("{lane}:{offset} {} of {group} at {} \"{error}\"", reason.as_str(), time(*at));
    if let Some(message) = &letter.message {
        let death = message.death.as_ref().expect("a dead letter has died");
        assert_eq!(death.seq, letter.row.seq, "row and message belong to one dead letter");
        words += &format!(" {}", String::from_utf8_lossy(&message.value));
    }
    if let Some(redriven) = &letter.row.redriven {
        words += &format!(", redriven as {}:{}", redriven.new.lane, redriven.new.offset);
    }
    words
}

fn explained(explained: &Explained) -> String {
    let message = match explained {
        Explained::Group { summary, .. } | Explained::Effect { summary, .. } => {
            return summary.to_string();
        }
        Explained::Message(message) => message,
    };
    let value = message.message.as_ref().map(|message| String::from_utf8_lossy(&message.value));
    let value = value.map_or("nothing left of it".into(), |value| value.into_owned());
    let groups = message.groups.iter().map(|in_group| {
        let InGroup { group, state, summary, .. } = in_group;
        let blocked = in_group.blocked.map_or(String::new(), |why| format!(" [{}]", why.as_str()));
        let letter = in_group
            .dead_letter
            .map_or(String::new(), |id| format!(" [dead letter {}:{}]", id.lane, id.offset));
        let effects = in_group.effects.iter().map(|effect| format!(" [{}]", effect::view(effect)));
        let effects: String = effects.collect();
        format!("{group} {}: {summary}{blocked}{letter}{effects}", state.as_str())
    });
    let ExplainedMessage { topic, partition, offset, .. } = message;
    let events = message.history.iter().flatten().map(event);
    let history = match message.history {
        Some(_) => format!("; history: {}", list(events)),
        None => String::new(),
    };
    let dead = message.dead.as_ref().map_or(String::new(), |dead| format!(" [{}]", dead.summary));
    format!("{topic} {partition}:{offset} {value}{dead}; {}{history}", list(groups))
}

fn event(event: &Event) -> String {
    let Event { at, group, kind, attempt, owner, error } = event;
    let owner = if owner.is_empty() { String::new() } else { format!(" to {owner}") };
    let error = if error.is_empty() { String::new() } else { format!(" {error:?}") };
    format!("{} {group} {} {attempt}{owner}{error}", time(*at), kind.as_str())
}

fn changed(world: &mut World, change: &Change) -> Option<String> {
    Some(match change {
        Change::Lost { lane, from, messages, .. } => {
            format!("{lane}:{from}..{} lost", from + messages.len() as u64)
        }
        Change::BlockGone { block, .. } => format!("block {block} repaired"),
        Change::Open { group, lane, offset, entry, .. } => {
            let place = place(world, *group, *lane, *offset);
            let at = time(entry.at);
            match entry.state {
                EntryState::Leased => return None,
                EntryState::Expired => format!("{place} expired, due {at}"),
                EntryState::Nacked => format!("{place} nacked, due {at}"),
                EntryState::Returned => format!("{place} returned, due {at}"),
            }
        }
        Change::Close { group, lane, offset, end } => {
            let place = place(world, *group, *lane, *offset);
            match end {
                End::Acked => format!("{place} acked"),
                End::Dead { .. } => format!("{place} dead"),
                End::Purged => format!("{place} purged"),
            }
        }
        Change::Message { topic, lane, offset, message } => {
            let death = message.death.as_ref()?;
            let id = driftq_core::MessageId {
                restore: 0,
                shard: world.config.shard,
                topic: *topic,
                lane: *lane,
                offset: *offset,
            };
            let name = format!("{} {lane}:{offset}", death.topic);
            world.letters.insert(name.clone(), message.clone());
            world.dead.insert(name, id);
            format!(
                "dead letter {lane}:{offset} {} after {} of {}, \"{}\"",
                death.reason.as_str(),
                death.attempts,
                death.group,
                death.last_error
            )
        }
        Change::MessageGone { lane, offset, .. } => format!("dead letter {lane}:{offset} is gone"),
        Change::Trim { lane, from, to, .. } => format!("trim {lane}:{from}..{to}"),
        Change::Expire { to, .. } => format!("expire to {}", time(Timestamp(*to))),
        Change::Sweep(sweep) => return swept(sweep),
        Change::Effect(row) => effect::changed(row)?,
        Change::Pointer(row) => {
            let driftq_core::command::PointerName { dataset, version, partition_key } =
                &row.pointer.name;
            format!("points {dataset} {version} {partition_key} to {}", row.pointer.location)
        }
        Change::Outbox { target, seq, message } => {
            let value = String::from_utf8_lossy(&message.value);
            format!("outbox {target}: {seq} {} \"{value}\"", message.topic)
        }
        Change::Ids(_)
        | Change::Topic(_)
        | Change::TopicGone(_)
        | Change::Group(_)
        | Change::GroupGone(_)
        | Change::Lane { .. }
        | Change::Cursor { .. }
        | Change::LastError { .. }
        | Change::NoteGone { .. }
        | Change::Owner { .. }
        | Change::OwnerGone(_)
        | Change::Record(_)
        | Change::Audit(_)
        | Change::EffectLink { .. }
        | Change::HeldGone { .. }
        | Change::OutboxGone { .. }
        | Change::Dead(_)
        | Change::DeadGone { .. }
        | Change::Mark { .. }
        | Change::Garbage { .. }
        | Change::History { .. }
        | Change::GarbageGone(_) => return None,
    })
}

fn swept(sweep: &Sweep) -> Option<String> {
    let of = |topic: &TopicId| format!("topic {topic}");
    Some(match sweep {
        Sweep::Pages { topic, lane, from, to } => {
            format!("sweep pages {} {lane}:{from}..{to}", of(topic))
        }
        Sweep::Blocks { generation, lane, from, to } => {
            format!("sweep blocks {generation} {lane}:{from}..{to}")
        }
        Sweep::Lane { topic, lane } => format!("sweep lane {} {lane}", of(topic)),
        Sweep::Cursor { generation, lane } => format!("sweep cursor {generation} {lane}"),
        Sweep::Dead { topic, from, to } => {
            format!("sweep dead letters {} {from}..{to}", of(topic))
        }
        Sweep::Pointers { topic, of: part } => match part {
            15 => format!("sweep the last pointers {}", of(topic)),
            _ => return None,
        },
    })
}

fn place(world: &World, group: GroupId, lane: Lane, offset: Offset) -> String {
    let name = world.shard().group_label(group);
    format!("{name} {lane}:{offset}")
}
