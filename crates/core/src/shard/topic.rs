//! Making a topic.

use crate::change::{Change, Decision, TopicKind, TopicRow};
use crate::command::{CreateTopic, Rejection, Reply};
use crate::id::TopicId;
use crate::limits::{PARTITIONS_MAX, TOPIC_BYTES_MAX};
use crate::shard::{Decided, Shard};
use crate::time::Timestamp;

impl Shard {
    pub(super) fn create_topic(&self, now: Timestamp, create: &CreateTopic) -> Decided {
        check_name("name", &create.name.topic, TOPIC_BYTES_MAX)?;
        if ["dlq.", "sys."].iter().any(|reserved| create.name.topic.starts_with(reserved)) {
            return Err(Rejection::invalid("name", "dlq. and sys. are reserved").into());
        }
        if !(1..=PARTITIONS_MAX).contains(&create.partitions) {
            return Err(Rejection::invalid("partitions", "is 1 to 1024").into());
        }
        self.config.defaults.with(&create.settings).check()?;
        if let Ok(topic) = self.topic_named(&create.name) {
            // A setting that is not named does not differ.
            let alike = topic.row.partitions == create.partitions
                && topic.settings.with(&create.settings) == topic.settings;
            let id = topic.row.id;
            return match alike {
                true => Ok(Decision::reply(Reply::TopicExists {
                    topic: id,
                    partitions: create.partitions,
                })),
                false => Err(Rejection::TopicExists { topic: id }.into()),
            };
        }
        let topic = TopicId(self.ids);
        let row = TopicRow {
            id: topic,
            namespace: create.name.namespace.clone(),
            name: create.name.topic.clone(),
            kind: TopicKind::Topic,
            partitions: create.partitions,
            patch: create.settings.clone(),
            created_at: now,
            forgot: None,
        };
        Ok(Decision::reply(Reply::TopicCreated { topic, partitions: create.partitions })
            .with(Change::Ids(self.ids + 1))
            .with(Change::Topic(Box::new(row))))
    }
}

/// Names are letters, digits, `.`, `_` and `-`, and begin with a letter or digit.
pub(crate) fn check_name(
    field: &'static str,
    name: &str,
    bytes_max: usize,
) -> Result<(), Rejection> {
    let fits = name.len() <= bytes_max
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    match fits {
        true => Ok(()),
        false => Err(Rejection::invalid(
            field,
            format!(
                "must be 1 to {bytes_max} of A-Z a-z 0-9 . _ - and begin with a letter or digit"
            ),
        )),
    }
}
