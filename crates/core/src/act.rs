//! Administrative acts: who did what to topics, groups, dead letters and effects, and why.
//!
//! Every act that changes something is a record in the commit that performs it. The records of a
//! namespace form one audit chain per shard, beside the chain of the ledger. An act that takes
//! several commands, such as a redrive of many messages, has one record per command, all with the
//! same act id.

use serde::{Deserialize, Serialize};

use crate::command::{Command, GroupName, Reply, SeekTo, Start, TopicName};
use crate::id::{Text, cut};
use crate::limits::REASON_BYTES_MAX;
use crate::settings::SettingsPatch;
use crate::time::Timestamp;

/// Who performs a command, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// The same for all commands of one act.
    pub id: Text,
    /// The person or program, as it names itself. May be empty.
    pub by: Text,
    /// The reason. May be empty.
    pub reason: Text,
    /// The id of the request.
    pub request_id: Text,
}

/// A command that is recorded if it changes something.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecordedCommand {
    /// Who performs it, and why.
    pub act: Act,
    /// The command.
    pub command: Command,
}

/// The record of one command of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActRecord {
    /// When it was decided.
    pub at: Timestamp,
    /// What was done.
    pub verb: Text,
    /// The topic, or empty.
    pub topic: Text,
    /// The group, or empty.
    pub group: Text,
    /// Who did it, and why.
    pub act: Act,
    /// What it affected.
    pub counts: Vec<(Text, u64)>,
    /// Parameters.
    pub details: Vec<(Text, Text)>,
}

/// A record as it is hashed and shown. The order of the fields is part of the hash.
#[derive(Serialize)]
struct ActText<'a> {
    seq: u64,
    at_ms: Timestamp,
    act: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    topic: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    by: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_id: &'a str,
    act_id: &'a str,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    counts: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    details: serde_json::Map<String, serde_json::Value>,
}

impl ActRecord {
    /// Describes an accepted command, after the namespace it is about. `None` if it is no
    /// administrative one.
    pub(crate) fn of(
        now: Timestamp,
        act: &Act,
        command: &Command,
        reply: &Reply,
    ) -> Option<(Text, ActRecord)> {
        let Described { namespace, verb, topic, group, counts, details } =
            describe(command, reply)?;
        let details = details.into_iter().filter(|(_, text)| !text.is_empty());
        let details = details.map(|(name, text)| (name.into(), text));
        let act = Act {
            id: act.id.clone(),
            by: cut(&act.by, REASON_BYTES_MAX),
            reason: cut(&act.reason, REASON_BYTES_MAX),
            request_id: cut(&act.request_id, REASON_BYTES_MAX),
        };
        let counts = counts.into_iter().map(|(name, count)| (name.into(), count)).collect();
        let (verb, details) = (verb.into(), details.collect());
        Some((namespace, ActRecord { at: now, verb, topic, group, act, counts, details }))
    }

    /// Returns the text that is hashed.
    pub(crate) fn text(&self, seq: u64) -> String {
        let ActRecord { at, verb, topic, group, act, counts, details } = self;
        let shown = ActText {
            seq,
            at_ms: *at,
            act: verb,
            topic,
            group,
            by: &act.by,
            reason: &act.reason,
            request_id: &act.request_id,
            act_id: &act.id,
            counts: counts
                .iter()
                .map(|(name, count)| (name.to_string(), (*count).into()))
                .collect(),
            details: details
                .iter()
                .map(|(name, text)| (name.to_string(), (**text).into()))
                .collect(),
        };
        serde_json::to_string(&shown).expect("plain values can be written as JSON")
    }
}

struct Described {
    namespace: Text,
    verb: &'static str,
    topic: Text,
    group: Text,
    counts: Vec<(&'static str, u64)>,
    details: Vec<(&'static str, Text)>,
}

impl Described {
    fn of(verb: &'static str, name: &TopicName) -> Described {
        let (namespace, topic) = (name.namespace.clone(), name.topic.clone());
        let (group, counts, details) = (Text::default(), Vec::new(), Vec::new());
        Described { namespace, verb, topic, group, counts, details }
    }

    fn of_group(verb: &'static str, name: &GroupName) -> Described {
        Described { group: name.group.clone(), ..Described::of(verb, &name.topic) }
    }

    fn counts<const N: usize>(self, counts: [(&'static str, u64); N]) -> Described {
        Described { counts: counts.into(), ..self }
    }

    fn detail(mut self, name: &'static str, text: impl Into<Text>) -> Described {
        self.details.push((name, text.into()));
        self
    }

    fn settings(mut self, settings: &SettingsPatch) -> Described {
        self.details.extend(settings.texts());
        self
    }
}

fn describe(command: &Command, reply: &Reply) -> Option<Described> {
    let described = match (command, reply) {
        (Command::CreateTopic(create), _) => Described::of("create_topic", &create.name)
            .counts([("partitions", create.partitions.into())])
            .settings(&create.settings),
        (Command::PatchTopic(patch), _) => {
            let reset: Vec<&str> =
                patch.settings.reset.iter().map(|setting| setting.as_str()).collect();
            Described::of("patch_topic", &patch.name)
                .settings(&patch.settings.set)
                .detail("reset", reset.join(", "))
        }
        (Command::DeleteTopic(name), Reply::TopicDeleted { messages, dead_letters }) => {
            let counts = [("messages", *messages), ("dead_letters", *dead_letters)];
            Described::of("delete_topic", name).counts(counts)
        }
        (Command::CreateGroup(name, start), _) => {
            Described::of_group("create_group", name).detail("start", start_text(*start))
        }
        (Command::DeleteGroup(name), Reply::GroupDeleted { backlog, open }) => {
            let counts = [("backlog", *backlog), ("open", *open)];
            Described::of_group("delete_group", name).counts(counts)
        }
        (Command::Pause(pause), _) => {
            let until = pause.until.map_or_else(String::new, |until| until.0.to_string());
            Described::of_group("pause_group", &pause.name).detail("until_ms", until)
        }
        (Command::Resume(name), _) => Described::of_group("resume_group", name),
        (Command::Seek(seek), Reply::Sought(sought)) => {
            let counts = [
                ("redelivers", sought.redelivers),
                ("skips", sought.skips),
                ("dropped_open", sought.dropped_open),
            ];
            Described::of_group("seek_group", &seek.name)
                .counts(counts)
                .detail("to", target_text(seek.to))
        }
        (Command::Redrive(redrive), Reply::Redriven { new, .. }) => {
            Described::of("redrive", &redrive.topic)
                .detail("id", redrive.id.to_string())
                .detail("new", new.to_string())
                .detail("force", if redrive.force { "true" } else { "" })
        }
        (Command::Purge(purge), Reply::Purged { purged }) => {
            Described::of("purge", &purge.topic).counts([("dead_letters", *purged)])
        }
        (Command::Repair(repair), Reply::Repaired(repaired)) => {
            let lost = repaired.lost.iter().map(|(from, to)| to - from).sum();
            let again = repaired.reopened.iter().map(|(_, from, to)| to - from).sum();
            Described::of("repair", &repair.topic)
                .counts([("messages_lost", lost), ("messages_redelivered", again)])
                .detail("partition", repair.partition.to_string())
        }
        (Command::Resolve(resolve), Reply::Effect(effect)) => {
            let name = &effect.row.name;
            let (namespace, topic) = (name.namespace.clone(), Text::default());
            Described::of("resolve_effect", &TopicName { namespace, topic })
                .detail("scope", name.scope.clone())
                .detail("key", name.key.clone())
                .detail("tenant", name.tenant.clone())
                .detail("fence", resolve.fence.to_string())
                .detail("as", resolve.resolve_as.as_str())
        }
        _ => return None,
    };
    Some(described)
}

fn start_text(start: Start) -> String {
    match start {
        Start::Earliest => "earliest".to_owned(),
        Start::Latest => "latest".to_owned(),
        Start::Time(at) => format!("time {}", at.0),
    }
}

fn target_text(to: SeekTo) -> String {
    match to {
        SeekTo::Earliest => start_text(Start::Earliest),
        SeekTo::Latest => start_text(Start::Latest),
        SeekTo::Time(at) => start_text(Start::Time(at)),
        SeekTo::Offset { partition, offset } => format!("{partition}:{offset}"),
    }
}
