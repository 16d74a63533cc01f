//! The commands of a transcript.

use std::collections::BTreeMap;

use driftq_core::command::{
    Act, Arrived, Claim, CreateTopic, DeadFilter, DeadState, ExpectedDelivery, Explain, Extend,
    GroupName, Join, LeaseId, ListDead, Nack, NackKind, PatchTopic, Pause, Peek, PeekFilter,
    PeekState, Peer, PeerKind, Produce, Purge, RecordedCommand, Redrive, Repair, Routed, Seek,
    SeekTo, Seen, Start, TopicName, Worker,
};
use driftq_core::{
    AutoCreateGroups, Command, ConsumerId, DeathReason, DedupeCompare, Envelope, Extension,
    RetryPolicy, RetryRequest, Routing, SettingName, SettingsChange, SettingsPatch, ShardId, Text,
    Timestamp, TopicId, Unkeyed,
};

use super::World;

/// `1500ms`, `30s`, `5m`, `24h`, `7d`.
pub(super) fn time(text: &str) -> Timestamp {
    Timestamp(millis(text))
}

pub(super) fn millis(text: &str) -> u64 {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().unwrap_or_else(|_| panic!("`{text}` is not a time"));
    match &text[digits.len()..] {
        "ms" => number,
        "s" => number * 1_000,
        "m" => number * 60_000,
        "h" => number * 3_600_000,
        "d" => number * 86_400_000,
        unit => panic!("`{unit}` is not a unit of time"),
    }
}

/// Splits a line into words; `"…"` is one word.
pub(super) fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().expect("never empty").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

pub(super) fn topic(name: &str) -> TopicName {
    TopicName { namespace: "default".into(), topic: name.into() }
}

fn group(name: &str) -> GroupName {
    let (of, name) = name.split_once('/').expect("a group is written topic/group");
    GroupName { topic: topic(of), group: name.into() }
}

/// The value of `name=value` among the words.
pub(super) fn option<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

pub(super) fn flag(words: &[String], name: &str) -> bool {
    words.iter().any(|word| word == name)
}

pub(super) fn parse(world: &mut World, line: &str) -> Command {
    if let Some(line) = line.strip_prefix("act ") {
        let act = Act {
            id: "act-1".into(),
            by: "ops".into(),
            reason: "test".into(),
            request_id: "r-1".into(),
        };
        let command = parse(world, line);
        return Command::Recorded(Box::new(RecordedCommand { act, command }));
    }
    let words = words(line);
    let word = |at: usize| {
        words.get(at).map(String::as_str).unwrap_or_else(|| panic!("`{line}` is incomplete"))
    };
    match word(0) {
        "topic" => Command::CreateTopic(Box::new(CreateTopic {
            name: topic(word(1)),
            partitions: word(2).parse().expect("a number of partitions"),
            settings: settings(&words),
            retry_policy: partial_retry(&words),
        })),
        "group" => Command::CreateGroup(group(word(1)), start(&words)),
        "patch" => Command::PatchTopic(Box::new(PatchTopic {
            name: topic(word(1)),
            settings: SettingsChange {
                set: settings(&words),
                reset: option(&words, "reset").map_or(Vec::new(), |names| {
                    names.split(',').map(|name| SettingName::of(name).expect("a setting")).collect()
                }),
                retry_policy: partial_retry(&words),
            },
        })),
        "dead" => Command::ListDead(Box::new(list_dead(world, &words))),
        "purge" => Command::Purge(Box::new(Purge {
            topic: topic(word(1)),
            ids: words[2..].iter().map(|at| world.dead[&format!("{} {at}", word(1))]).collect(),
            by: "ops".into(),
            reason: "test".into(),
        })),
        "explain-effect" => {
            Command::Explain(Box::new(Explain::Effect(super::effect::query(&words, word(2)))))
        }
        "explain" if word(1).contains('/') => {
            Command::Explain(Box::new(Explain::Group(group(word(1)))))
        }
        "explain" => {
            let (partition, offset) = word(2).split_once(':').expect("partition:offset");
            Command::Explain(Box::new(Explain::Message {
                topic: topic(word(1)),
                partition: partition.parse().expect("a partition"),
                offset: offset.parse().expect("an offset"),
            }))
        }
        "peek" => Command::Peek(Box::new(peek(&words))),
        "topics" => Command::ListTopics { namespace: word(1).into() },
        "all" => Command::ViewAll { namespace: word(1).into() },
        "groups" => Command::ListGroups(topic(word(1))),
        "would" if word(2).contains('/') => Command::WouldDeleteGroup(group(word(2))),
        "would" => Command::WouldDeleteTopic(topic(word(2))),
        "delete" if word(1).contains('/') => Command::DeleteGroup(group(word(1))),
        "delete" => Command::DeleteTopic(topic(word(1))),
        "pause" => Command::Pause(Pause {
            name: group(word(1)),
            by: "ops".into(),
            reason: "test".into(),
            until: option(&words, "until").map(time),
        }),
        "arrive" => Command::Arrive(Box::new(super::effect::arrive(&words))),
        "arrived" => Command::Arrived(Box::new(Arrived {
            target: ShardId(word(1).parse().expect("a shard")),
            through: option(&words, "through").expect("a number").parse().expect("a number"),
            refused: option(&words, "refused").map(Into::into),
        })),
        "storage" => Command::StorageLow(word(1) == "low"),
        "resume" => Command::Resume(group(word(1))),
        "repair" => Command::Repair(Repair {
            topic: topic(word(1)),
            partition: word(2).parse().expect("a partition"),
            from: option(&words, "from").map_or(0, |from| from.parse().expect("an offset")),
            dry_run: flag(&words, "dry"),
        }),
        "seek" => Command::Seek(Seek {
            name: group(word(1)),
            to: seek_to(word(2)),
            dry_run: flag(&words, "dry"),
        }),
        "produce" => Command::Produce(Box::new(produce(&words))),
        "request" => Command::ProduceWithNonce(Box::new(super::effect::request(&words))),
        "join" => join(world, &words),
        "leave" => Command::Leave(world.consumers.remove(word(1)).expect("a consumer that joined")),
        "leaveworker" => Command::LeaveWorker { worker: word(1).into() },
        "ack" => Command::Ack(claim(world, &words)),
        "nack" => Command::Nack(nack(world, &words, NackKind::Failed)),
        "bury" => Command::Nack(nack(world, &words, NackKind::Final)),
        "release" => Command::Nack(nack(world, &words, NackKind::Release)),
        "extend" => Command::Extend(Extend {
            claim: claim(world, &words),
            lease_ms: option(&words, "lease").map(millis),
        }),
        "giveback" => {
            let token = match option(&words, "token") {
                Some(name) => &world.tokens[name],
                None => &world.tokens[&format!("{} {}", word(1), word(2))],
            };
            Command::GiveBack(LeaseId {
                group: token.group,
                lane: token.lane,
                generation: token.generation,
                offset: token.offset,
                attempt: token.attempt,
            })
        }
        "redrive" => {
            let id = world.dead.get(&format!("{} {}", word(1), word(2)));
            Command::Redrive(Redrive {
                topic: topic(word(1)),
                id: *id.expect("a dead letter that was seen"),
                force: flag(&words, "force"),
                by: "ops".into(),
                reason: option(&words, "reason").unwrap_or("fixed").into(),
            })
        }
        "view" if word(1).contains('/') => Command::ViewGroup(group(word(1))),
        "view" => Command::ViewTopic(topic(word(1))),
        verb => super::effect::parse(world, verb, &words)
            .unwrap_or_else(|| panic!("`{verb}` is not a command")),
    }
}

/// `dead orders below=0:3 group=biller state=all values`
fn list_dead(world: &World, words: &[String]) -> ListDead {
    let text = |name| option(words, name).map(Into::into);
    let reasons = [DeathReason::Exhausted, DeathReason::Final, DeathReason::Deadline];
    let reason = |word: &str| reasons.into_iter().find(|reason| reason.as_str() == word);
    let seq = |place: &str| {
        let letter = world.letter(&format!("{} {place}", words[1]));
        letter.death.as_ref().expect("a dead letter").seq
    };
    ListDead {
        topic: topic(&words[1]),
        below: option(words, "below").map(seq),
        filter: DeadFilter {
            group: text("group"),
            tenant_id: text("tenant"),
            run_id: text("run"),
            error: text("error"),
            reason: option(words, "reason").map(|word| reason(word).expect("a reason")),
            since: option(words, "since").map(time),
            until: option(words, "until").map(time),
            state: match option(words, "state") {
                None => DeadState::Dead,
                Some("redriven") => DeadState::Redriven,
                Some("all") => DeadState::All,
                Some(other) => panic!("`{other}` is not a state"),
            },
        },
        limit: option(words, "limit").map_or(100, |n| n.parse().expect("a number")),
        values: flag(words, "values"),
    }
}

/// `peek orders 0 from=3 group=biller state=waiting`
fn peek(words: &[String]) -> Peek {
    let text = |name| option(words, name).map(Into::into);
    let number = |name| option(words, name).map(|text| text.parse().expect("a number"));
    let states = [PeekState::Ready, PeekState::Leased, PeekState::Waiting, PeekState::Settled];
    let state = |word: &str| states.into_iter().find(|state| state.as_str() == word);
    Peek {
        topic: topic(&words[1]),
        partition: words[2].parse().expect("a partition"),
        from: number("from").unwrap_or(0),
        group: text("group"),
        filter: PeekFilter {
            key: option(words, "key").map(|key| key.to_owned().into()),
            run_id: text("run"),
            step_id: text("step"),
            tenant_id: text("tenant"),
            idempotency_key: text("idem"),
            since: option(words, "since").map(time),
            until: option(words, "until").map(time),
            state: option(words, "state").map(|word| state(word).expect("a state")),
        },
        limit: number("limit").unwrap_or(100) as u32,
        scan: number("scan").unwrap_or(u64::MAX),
    }
}

fn seek_to(text: &str) -> SeekTo {
    match text {
        "earliest" => SeekTo::Earliest,
        "latest" => SeekTo::Latest,
        at if at.starts_with("time=") => SeekTo::Time(time(&at[5..])),
        place => {
            let (partition, offset) = place.split_once(':').expect("partition:offset");
            SeekTo::Offset {
                partition: partition.parse().expect("a partition"),
                offset: offset.parse().expect("an offset"),
            }
        }
    }
}

fn settings(words: &[String]) -> SettingsPatch {
    let number = |name| option(words, name).map(|text| text.parse().expect("a number"));
    SettingsPatch {
        lease_ms: option(words, "lease").map(millis),
        max_in_flight: number("max_in_flight").map(|n: u64| n as u32),
        max_open: number("max_open").map(|n: u64| n as u32),
        retry_policy: option(words, "retry").and_then(full),
        max_backlog_messages: number("max_messages"),
        max_backlog_bytes: number("max_bytes"),
        retention_ms: option(words, "retention").map(millis),
        retention_bytes: number("retention_bytes"),
        dedupe_ttl_ms: option(words, "dedupe").map(millis),
        dedupe_compare: option(words, "compare").map(|word| match word {
            "key" => DedupeCompare::Key,
            _ => DedupeCompare::Content,
        }),
        effect_ttl_ms: option(words, "effect").or(option(words, "dedupe")).map(millis),
        on_doubt: option(words, "on_doubt").map(|word| Some(super::effect::on_doubt(word))),
        dlq_retention_ms: option(words, "dlq_retention").map(|text| Some(millis(text))),
        group_idle_ms: option(words, "idle").map(|text| Some(millis(text))),
        unkeyed: flag(words, "spread").then_some(Unkeyed::Spread),
        require_token: flag(words, "require_token").then_some(true),
        history: flag(words, "history").then_some(true),
        auto_create_groups: flag(words, "no_auto_create").then_some(AutoCreateGroups(false)),
    }
}

/// The policy of a topic, if no field is missing.
fn full(text: &str) -> Option<RetryPolicy> {
    let RetryRequest { max_attempts, backoff_ms, max_backoff_ms } = retry(text);
    let policy =
        RetryPolicy { max_attempts, backoff_ms: backoff_ms?, max_backoff_ms: max_backoff_ms? };
    (!text.starts_with(',')).then_some(policy)
}

/// `retry=3` or `retry=,1s` of a topic.
fn partial_retry(words: &[String]) -> Option<RetryRequest> {
    let text = option(words, "retry")?;
    full(text).is_none().then(|| retry(text))
}

/// `labels=a:1,b:2`.
fn map(words: &[String], name: &str) -> BTreeMap<Text, Text> {
    let pairs = option(words, name).unwrap_or_default().split(',').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once(':').expect("name and value"));
    pairs.map(|(name, value)| (name.into(), value.into())).collect()
}

/// `3,1s,8s`: attempts, first and longest backoff. Each may be empty.
fn retry(text: &str) -> RetryRequest {
    let mut parts = text.split(',');
    let wait = |parts: &mut std::str::Split<'_, char>| {
        parts.next().filter(|part| !part.is_empty()).map(millis)
    };
    RetryRequest {
        max_attempts: match parts.next().expect("attempts") {
            "" => 0,
            attempts => attempts.parse().expect("a number"),
        },
        backoff_ms: wait(&mut parts),
        max_backoff_ms: wait(&mut parts),
    }
}

pub(super) fn produce(words: &[String]) -> Produce {
    let text = |name| option(words, name).map(Into::into);
    let value = words.get(2).filter(|word| !word.contains('=')).map_or("", String::as_str);
    let value = match value.strip_suffix("bytes").and_then(|n| n.parse().ok()) {
        Some(length) => "x".repeat(length),
        None => value.to_owned(),
    };
    Produce {
        topic: topic(&words[1]),
        key: option(words, "key").unwrap_or_default().to_owned().into(),
        value: value.into(),
        envelope: Envelope {
            run_id: text("run"),
            step_id: text("step"),
            parent_step_id: text("parent"),
            tenant_id: text("tenant"),
            idempotency_key: text("idem"),
            target_topic: text("to"),
            partition_override: option(words, "p").map(|p| p.parse().expect("a partition")),
            deadline: option(words, "deadline").map(time),
            retry_policy: option(words, "retry").map(retry),
            extension: Extension::of(map(words, "labels"), map(words, "headers")),
        },
        routing: option(words, "route").map(routing),
        needs_routing: flag(words, "must-route"),
        trace: None,
        seen: option(words, "seen").map(|seen| match seen.parse() {
            Ok(partitions) => Seen::Partitions(partitions),
            Err(_) => Seen::Absent,
        }),
        routed: option(words, "routed").map(routed),
    }
}

/// `route=receipts/1`: topic and partition.
fn routing(text: &str) -> Box<Routing> {
    let (topic, partition) = text.split_once('/').map_or((text, None), |(t, p)| (t, Some(p)));
    Box::new(Routing {
        label: "chosen".into(),
        target_topic: Some(topic.into()),
        partition_override: partition.map(|partition| partition.parse().expect("a partition")),
        meta: [].into(),
    })
}

/// `routed=1/1/9s`: shard, topic, expiry of its key.
fn routed(text: &str) -> Routed {
    let parts: Vec<&str> = text.split('/').collect();
    Routed {
        source: ShardId(parts[0].parse().expect("a shard")),
        topic: TopicId(parts[1].parse().expect("a topic")),
        expires: time(parts[2]),
    }
}

fn join(world: &mut World, words: &[String]) -> Command {
    world.next_ticket += 1;
    let consumer = ConsumerId(world.next_ticket);
    world.consumers.insert(words[1].clone(), consumer);
    let kind = if flag(words, "poll") { PeerKind::Poll } else { PeerKind::Stream };
    Command::Join(Join {
        consumer,
        name: group(&words[2]),
        owner: option(words, "owner").unwrap_or(&words[1]).into(),
        lease_ms: option(words, "lease").map(millis),
        credit: option(words, "credit").map_or(100, |n| n.parse().expect("a number")),
        credit_bytes: option(words, "bytes").map_or(1 << 20, |n| n.parse().expect("a number")),
        start: start(words),
        peer: Peer {
            kind,
            worker: option(words, "worker")
                .map(|id| Box::new(Worker { id: id.into(), ..Worker::default() })),
            ..Peer::default()
        },
    })
}

fn start(words: &[String]) -> Start {
    match option(words, "time") {
        Some(at) => Start::Time(time(at)),
        None if flag(words, "latest") => Start::Latest,
        None => Start::Earliest,
    }
}

/// `orders/biller 0:3.1` or `token=old` by token, `orders/biller 0:3 owner=w` by owner.
fn claim(world: &World, words: &[String]) -> Claim {
    if let Some(name) = option(words, "token") {
        return Claim::Token(world.tokens[name].clone(), beside(words));
    }
    let name = format!("{} {}", words[1], words[2]);
    if let (Some(owner), None) = (option(words, "owner"), world.tokens.get(&name)) {
        let (partition, offset) = words[2].split_once(':').expect("partition:offset");
        return Claim::Owner {
            name: group(&words[1]),
            partition: partition.parse().expect("a partition"),
            offset: offset.parse().expect("an offset"),
            owner: owner.into(),
        };
    }
    let token = world.tokens.get(&name);
    let token = token.unwrap_or_else(|| panic!("{name} was never issued")).clone();
    Claim::Token(token, beside(words))
}

/// `at=1:3 of=orders/biller owner=w`, sent with a token.
fn beside(words: &[String]) -> Option<Box<ExpectedDelivery>> {
    let mut beside = ExpectedDelivery {
        owner: option(words, "owner").map(Into::into),
        ..ExpectedDelivery::default()
    };
    if let Some((topic, group)) = option(words, "of").and_then(|of| of.split_once('/')) {
        (beside.topic, beside.group) = (Some(topic.into()), Some(group.into()));
    }
    if let Some((partition, offset)) = option(words, "at").and_then(|at| at.split_once(':')) {
        beside.partition = Some(partition.parse().expect("a partition"));
        beside.offset = Some(offset.parse().expect("an offset"));
    }
    let ExpectedDelivery { topic, offset, owner, .. } = &beside;
    let says_nothing = topic.is_none() && offset.is_none() && owner.is_none();
    (!says_nothing).then(|| Box::new(beside))
}

fn nack(world: &World, words: &[String], kind: NackKind) -> Nack {
    Nack {
        claim: claim(world, words),
        reason: option(words, "reason").map(Into::into),
        delay_ms: option(words, "delay").map(millis),
        kind,
    }
}
