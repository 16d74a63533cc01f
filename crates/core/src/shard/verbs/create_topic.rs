//! Creates a topic.

use crate::change::{Change, Decision, TopicKind, TopicRow};
use crate::command::{CreateTopic, Rejection, Reply};
use crate::id::TopicId;
use crate::limits::{PARTITIONS_MAX, TOPIC_BYTES_MAX};
use crate::refusal::Decided;
use crate::settings::SettingsPatch;
use crate::shard::context::Context;
use crate::validate::check_name;

impl Context<'_> {
    pub(crate) fn create_topic(&self, create: &CreateTopic) -> Decided {
        check_name("name", &create.name.topic, TOPIC_BYTES_MAX)?;
        let mut changes = Vec::new();
        let mut ids = self.ids;
        let existing = self.topic_to_read(&create.name, &mut ids, &mut changes).ok();
        let is_reserved = |prefix: &&str| create.name.topic.starts_with(*prefix);
        if existing.is_none() && ["dlq.", "sys."].iter().any(is_reserved) {
            return Err(Rejection::invalid("name", "must not start with dlq. or sys.").into());
        }
        if !(1..=PARTITIONS_MAX).contains(&create.partitions) {
            return Err(Rejection::invalid("partitions", "must be between 1 and 1024").into());
        }
        let defaults = &self.config.defaults;
        let settings = create.settings.with_retry(create.retry_policy.as_ref(), defaults);
        defaults.with(&settings).check().map_err(Rejection::from)?;
        if let Some(topic) = existing {
            // Omitted settings are not compared.
            let retry = create.retry_policy.as_ref();
            let settings = create.settings.with_retry(retry, &topic.settings);
            let alike = topic.row.partitions == create.partitions
                && topic.settings.with(&settings) == topic.settings;
            let id = topic.row.id;
            return if alike {
                let reply = Reply::TopicExists { topic: id, partitions: create.partitions };
                if ids != self.ids {
                    changes.push(Change::Ids(ids));
                }
                Ok(Decision { changes, ..Decision::reply(reply) })
            } else {
                Err(Rejection::TopicExists { topic: id }.into())
            };
        }
        self.check_topics()?;
        let topic = TopicId(self.ids);
        // A topic of one partition has nothing to spread.
        let unkeyed = self.config.unkeyed_of_new_topics.filter(|_| create.partitions > 1);
        let row = TopicRow {
            id: topic,
            namespace: create.name.namespace.clone(),
            name: create.name.topic.clone(),
            kind: TopicKind::Topic,
            partitions: create.partitions,
            patch: SettingsPatch { unkeyed: settings.unkeyed.or(unkeyed), ..settings },
            created_at: self.now,
            forgot: None,
        };
        Ok(Decision::reply(Reply::TopicCreated { topic, partitions: create.partitions })
            .with(Change::Ids(self.ids + 1))
            .with(Change::Topic(Box::new(row))))
    }
}
