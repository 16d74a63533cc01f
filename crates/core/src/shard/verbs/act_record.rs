//! Describes an accepted command of an administrative act for its audit record.

use crate::act::{Act, ActRecord};
use crate::command::{Command, GroupName, Reply, SeekTo, Start, TopicName};
use crate::id::{Text, cut};
use crate::limits::REASON_BYTES_MAX;
use crate::retry::RetryRequest;
use crate::settings::SettingsPatch;
use crate::time::Timestamp;

/// Returns the record of a command, after the namespace it is about. `None` if the command is no
/// administrative one.
pub(crate) fn act_record(
    now: Timestamp,
    act: &Act,
    command: &Command,
    reply: &Reply,
) -> Option<(Text, ActRecord)> {
    let Described { namespace, verb, topic, group, counts, details } = describe(command, reply)?;
    let details = details.into_iter().filter(|(_, text)| !text.is_empty());
    let details = details.map(|(name, text)| (name.into(), text)).collect();
    let counts = counts.into_iter().map(|(name, count)| (name.into(), count)).collect();
    let (verb, act) = (verb.into(), act.shortened());
    Some((namespace, ActRecord { at: now, verb, topic, group, act, counts, details }))
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

    fn retry_policy(mut self, request: Option<&RetryRequest>) -> Described {
        let fields = request.into_iter().flat_map(RetryRequest::fields);
        self.details.extend(fields.map(|(name, value)| (name, value.to_string().into())));
        self
    }
}

fn describe(command: &Command, reply: &Reply) -> Option<Described> {
    let described = match (command, reply) {
        (Command::CreateTopic(create), _) => Described::of("create_topic", &create.name)
            .counts([("partitions", create.partitions.into())])
            .settings(&create.settings)
            .retry_policy(create.retry_policy.as_ref()),
        (Command::PatchTopic(patch), _) => {
            let reset: Vec<&str> =
                patch.settings.reset.iter().map(|setting| setting.as_str()).collect();
            Described::of("patch_topic", &patch.name)
                .settings(&patch.settings.set)
                .retry_policy(patch.settings.retry_policy.as_ref())
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
            let ids: Vec<String> = purge.ids.iter().map(ToString::to_string).collect();
            Described::of("purge", &purge.topic)
                .counts([("dead_letters", *purged)])
                .detail("ids", cut(&ids.join(" ").into(), REASON_BYTES_MAX))
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
