//! Changes the settings of a topic.

use crate::change::{Change, Decision, Forgot, GroupRow, TopicRow};
use crate::command::{PatchTopic, Rejection, Reply};
use crate::refusal::Decided;
use crate::settings::Settings;
use crate::shard::Topic;
use crate::shard::context::Context;
use crate::shard::verbs::view::show_topic;
use crate::time::Timestamp;

impl Context<'_> {
    /// Changes settings for later decisions: running leases keep their end, and a lower limit
    /// revokes nothing.
    pub(crate) fn patch_topic(&self, patch: &PatchTopic) -> Decided {
        let topic = self.topic_named(&patch.name)?;
        if topic.is_dlq() {
            return Err(Rejection::DeadLetterTopic.into());
        }
        let merged = topic.row.patch.merged(&patch.settings);
        let retry = patch.settings.retry_policy.as_ref();
        let mut merged = merged.with_retry(retry, &self.config.defaults);
        // History that is already stored must still be deleted with its messages.
        merged.history = merged.history.or(topic.row.patch.history.map(|_| false));
        let settings = self.config.defaults.with(&merged);
        settings.check().map_err(Rejection::from)?;
        let forgot = forgot(self.now, topic, &settings);
        let row = TopicRow { patch: merged, forgot, ..topic.row.clone() };
        if row == topic.row {
            return Ok(Decision::reply(Reply::Topic(Box::new(show_topic(self.now, topic)))));
        }
        let changed = Topic { row: row.clone(), settings, ..topic.clone() };
        let mut decision = Decision::reply(Reply::Topic(Box::new(show_topic(self.now, &changed))));
        if changed.settings.group_idle_ms != topic.settings.group_idle_ms {
            // `seen` is kept up to date only while `group_idle_ms` is set, so idle time starts now.
            let groups = topic.groups.values().map(|id| self.groups[id].row.clone());
            let groups =
                groups.map(|row| Change::Group(Box::new(GroupRow { seen: self.now, ..row })));
            decision.changes.extend(groups);
        }
        Ok(decision.with(Change::Topic(Box::new(row))))
    }
}

/// Tombstones keep the lifetime they were stored with. If the lifetime becomes longer, a late
/// settle of an earlier delivery without a tombstone must not be answered as done.
fn forgot(now: Timestamp, topic: &Topic, settings: &Settings) -> Option<Forgot> {
    let (before_ms, after_ms) = (topic.settings.tombstone_ms(), settings.tombstone_ms());
    if after_ms <= before_ms {
        return topic.row.forgot;
    }
    let earlier = topic.row.forgot.filter(|forgot| now.since(forgot.until) < before_ms);
    let after_ms = earlier.map_or(before_ms, |forgot| forgot.after_ms.min(before_ms));
    Some(Forgot { until: now, after_ms })
}
