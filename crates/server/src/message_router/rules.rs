//! Routing by rules of the configuration. The first rule that matches decides.

use std::collections::BTreeMap;

use driftq_api::router::RoutingDecision;
use driftq_core::command::Produce;
use driftq_core::limits::PARTITIONS_MAX;
use driftq_core::{Routing, Text, is_topic_name};
use serde::{Deserialize, Serialize};

use super::stored;

/// A rule: what a message must have, and what is decided about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingRule {
    /// What a message must have. Without any, every message matches.
    #[serde(default, rename = "match", skip_serializing_if = "Match::is_any")]
    pub matches: Match,
    /// Label of the decision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The topic that stores the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_topic: Option<String>,
    /// The partition that stores the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// Other values of the decision.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<String, String>,
}

/// The condition of a rule. Every given part must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields of an envelope, and those of a message")]
pub struct Match {
    /// The requested topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// How the key of the message begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_step_id: Option<String>,
    /// Labels that the message must have, among others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Match {
    fn is_any(&self) -> bool {
        *self == Match::default()
    }

    fn holds(&self, message: &Produce) -> bool {
        let Match { topic, key_prefix, tenant_id, run_id, step_id, parent_step_id, labels } = self;
        let envelope = &message.envelope;
        let texts = [
            (topic, Some(&message.topic.topic)),
            (tenant_id, envelope.tenant_id.as_ref()),
            (run_id, envelope.run_id.as_ref()),
            (step_id, envelope.step_id.as_ref()),
            (parent_step_id, envelope.parent_step_id.as_ref()),
        ];
        let has_label = |(name, value): (&String, &String)| {
            let of = envelope.extension.as_deref().and_then(|of| of.labels.get(&**name));
            of.is_some_and(|of| **of == **value)
        };
        texts.into_iter().all(|(wanted, is): (&Option<String>, Option<&Text>)| {
            wanted.as_deref().is_none_or(|wanted| is.is_some_and(|is| **is == *wanted))
        }) && key_prefix.as_ref().is_none_or(|prefix| message.key.starts_with(prefix.as_bytes()))
            && labels.iter().all(has_label)
    }
}

impl RoutingRule {
    /// Why the rule is invalid, if it is.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.decision() == RoutingDecision::default() {
            return Some("decides nothing; set label, target_topic, partition or meta".to_owned());
        }
        if let Some(topic) = self.target_topic.as_ref().filter(|topic| !is_topic_name(topic)) {
            return Some(format!("target_topic: `{topic}` is not the name of a topic"));
        }
        let partition = self.partition.filter(|partition| *partition >= PARTITIONS_MAX)?;
        Some(format!("partition must be between 0 and {} (got {partition})", PARTITIONS_MAX - 1))
    }

    fn decision(&self) -> RoutingDecision {
        RoutingDecision {
            label: self.label.clone(),
            target_topic: self.target_topic.clone(),
            partition_override: self.partition,
            meta: self.meta.clone(),
        }
    }
}

/// What the first rule that matches decides.
pub(super) fn decide(rules: &[RoutingRule], message: &Produce) -> Option<Box<Routing>> {
    stored(rules.iter().find(|rule| rule.matches.holds(message))?.decision())
}
