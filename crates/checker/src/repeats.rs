//! Repeats with other content. A topic may find repeats by the key alone; then the message of the
//! first produce stands for those of all others.

use crate::ids::{Column, FastMap, IdentityId, LabelId, NameId};
use crate::timeline::{Put, Send, Step, Timeline};

/// The keys in use, and the topics that compare nothing else.
pub(crate) struct Repeats {
    dedupes_by_key: Column<NameId, bool>,
    /// The messages that each key has stored, with their topics.
    stored: FastMap<IdentityId, Vec<(LabelId, NameId)>>,
}

impl Repeats {
    pub(crate) fn new(timeline: &Timeline<'_>) -> Repeats {
        let dedupes_by_key = timeline.places.names.column(false);
        Repeats { dedupes_by_key, stored: FastMap::default() }
    }

    pub(crate) fn step(&mut self, timeline: &Timeline<'_>, step: &Step<'_>) {
        match step {
            Step::Set { topic, settings } => {
                self.dedupes_by_key[*topic] |= settings.dedupe_by_key;
            }
            Step::Stored(Put { id, at, identity: Some((identity, _)), .. }) => {
                let topic = timeline.places.topic_at(*at);
                self.stored.entry(*identity).or_default().push((*id, topic));
            }
            _ => {}
        }
    }

    /// Whether a message in `topic` may answer a produce with other content.
    pub(crate) fn may_differ(&self, send: &Send<'_>, topic: NameId) -> bool {
        self.dedupes_by_key[send.topic] || self.dedupes_by_key[topic]
    }

    /// The messages of its key that may answer a produce, whatever its content.
    pub(crate) fn messages_of(&self, send: &Send<'_>) -> impl Iterator<Item = LabelId> {
        let stored = send.identity.and_then(|identity| self.stored.get(&identity));
        let stored = stored.into_iter().flatten();
        stored.filter(|(_, topic)| self.may_differ(send, *topic)).map(|(id, _)| *id)
    }
}
