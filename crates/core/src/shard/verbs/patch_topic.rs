//! Changing the settings of a topic.

use crate::change::{Change, Decision, Forgot, GroupRow, TopicRow};
use crate::command::{PatchTopic, Rejection, Reply};
use crate::refusal::Decided;
use crate::settings::Settings;
use crate::shard::Topic;
use crate::shard::context::Context;
use crate::shard::verbs::view::show_topic;
use crate::time::Timestamp;

impl Context<'_> {
    /// Holds for what is decided from then on: running leases keep their end, and lowering a limit takes
    /// nothing back.
    pub(crate) fn patch_topic(&self, patch: &PatchTopic) -> Decided {
        let topic = self.topic_named(&patch.name)?;
        if topic.is_dlq() {
            return Err(Rejection::DeadLetterTopic.into());
        }
        let mut merged = topic.row.patch.merged(&patch.settings);
        // What was kept is still to be deleted when its messages are.
        merged.history = merged.history.or(topic.row.patch.history.map(|_| false));
        let settings = self.config.defaults.with(&merged);
        settings.check().map_err(Rejection::from)?;
        let forgot = forgot(self.now, topic, &settings);
        let row = TopicRow { patch: merged, forgot, ..topic.row.clone() };
        if row == topic.row {
            return Ok(Decision::reply(Reply::Topic(Box::new(show_topic(topic)))));
        }
        let changed = Topic { row: row.clone(), settings, ..topic.clone() };
        let mut decision = Decision::reply(Reply::Topic(Box::new(show_topic(&changed))));
        if changed.settings.group_idle_ms != topic.settings.group_idle_ms {
            // Who was there when is written down only where it matters: groups are idle from now on.
            let groups = topic.groups.values().map(|id| self.groups[id].row.clone());
            let groups =
                groups.map(|row| Change::Group(Box::new(GroupRow { seen: self.now, ..row })));
            decision.changes.extend(groups);
        }
        Ok(decision.with(Change::Topic(Box::new(row))))
    }
}

/// Tombstones of before live as long as was the rule then. Where they are to live longer from now on, a
/// late question about an earlier delivery that finds none must not be told "done".
fn forgot(now: Timestamp, topic: &Topic, settings: &Settings) -> Option<Forgot> {
    let (before_ms, after_ms) = (topic.settings.tombstone_ms(), settings.tombstone_ms());
    if after_ms <= before_ms {
        return topic.row.forgot;
    }
    let earlier = topic.row.forgot.filter(|forgot| now.since(forgot.until) < before_ms);
    let after_ms = earlier.map_or(before_ms, |forgot| forgot.after_ms.min(before_ms));
    Some(Forgot { until: now, after_ms })
}
