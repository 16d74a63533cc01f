//! Converts messages to other shards to facts.

use driftq_checker::history::{Content, Fact, Name};
use driftq_core::ShardId;
use driftq_core::command::{Outgoing, Routed};
use driftq_core::row::MarkKind;

use crate::stats::Stats;

use super::{Facts, body_in, extension_text};

impl Facts {
    /// Records that a message of a commit was added to the outbox.
    pub(super) fn sent(
        &mut self,
        target: ShardId,
        seq: u64,
        message: &Outgoing,
        stats: &mut Stats,
    ) {
        stats.saw("message sent to another shard");
        let (to, number, topic) = (target.0, seq, message.topic.clone());
        let content = sent_content(message);
        if let (Some(idem), Some(routed)) =
            (message.envelope.idempotency_key.clone(), message.routed)
        {
            let asked = self.topic_name(routed.topic);
            self.pin(asked, content.tenant.clone(), idem, Some(routed), stats);
        }
        self.open.push(Fact::Sent { to, number, topic, message: content });
    }

    /// Records that the message of a key goes to another shard.
    pub(super) fn pin(
        &mut self,
        topic: Name,
        tenant: Name,
        idem: Name,
        routed: Option<Routed>,
        stats: &mut Stats,
    ) {
        let Some(Routed { expires, .. }) = routed else { return };
        let (identity, until) = ((topic.clone(), tenant.clone(), idem.clone()), expires.0);
        if self.pins.insert(identity.clone(), until) == Some(until) {
            stats.saw("pin found again");
        }
        self.keys.insert(identity, until);
        self.open.push(Fact::Pinned { topic, tenant, idem, until });
    }

    pub(super) fn mark(&mut self, kind: MarkKind, shard: u32, value: u64, stats: &mut Stats) {
        match kind {
            MarkKind::Arrived => {
                let before = self.arrived.insert((shard, self.shard), value);
                if before == Some(value) {
                    stats.saw("messages of another shard that were here before");
                }
                self.open.push(Fact::Arrived { from: shard, through: value });
            }
            MarkKind::Refused => {
                stats.saw("message of another shard turned away");
                self.open.push(Fact::TurnedAway { from: shard, number: value - 1 });
            }
            MarkKind::Expiry | MarkKind::OutboxNext | MarkKind::OutboxDone => {}
        }
    }
}

/// The content of an outgoing message, for comparison.
fn sent_content(message: &Outgoing) -> Content {
    let text = std::str::from_utf8(&message.value).unwrap_or("");
    let tenant = message.envelope.tenant_id.clone().unwrap_or_else(|| "default".into());
    Content {
        body: body_in(text),
        key: String::from_utf8_lossy(&message.key).into(),
        tenant,
        extension: extension_text(message.envelope.extension.as_deref()),
    }
}
