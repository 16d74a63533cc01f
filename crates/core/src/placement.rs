//! Which shard something is on. Chosen by name alone, so that every node agrees and nothing is looked up;
//! the number of shards is chosen once, when a storage is made.

use crate::command::{BeginOf, Claim, Command, EffectQuery, Explain, Reply, TopicName};
use crate::effect::Scope;
use crate::id::ShardId;
use crate::view::TopicView;

/// The dead letters of a topic are where the topic is.
const DEAD_LETTERS: &str = "dlq.";

/// The shard of a topic, and of everything under it.
pub fn shard_of_topic(namespace: &str, topic: &str, shards: u32) -> ShardId {
    shard_of(&[namespace, topic.strip_prefix(DEAD_LETTERS).unwrap_or(topic)], shards)
}

/// Whether a topic is one of dead letters.
pub(crate) fn is_dead_letters(topic: &str) -> bool {
    topic.starts_with(DEAD_LETTERS)
}

/// The shard of an effect that belongs to no delivery.
pub fn shard_of_effect(namespace: &str, scope: &str, key: &str, shards: u32) -> ShardId {
    shard_of(&[namespace, scope, key], shards)
}

fn shard_of(names: &[&str], shards: u32) -> ShardId {
    if shards <= 1 {
        return ShardId(0);
    }
    let mut hasher = blake3::Hasher::new_derive_key("driftq placement v1");
    for name in names {
        // With their lengths, so that no two lists of names read the same.
        hasher.update(&(name.len() as u64).to_be_bytes()).update(name.as_bytes());
    }
    let hash = hasher.finalize();
    let first = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    ShardId((u64::from_be_bytes(*first) % u64::from(shards)) as u32)
}

/// Where a command is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On this shard.
    Shard(ShardId),
    /// On every shard: their answers are put together.
    Every,
    /// Where its sender knows: it names something by the numbers of one shard.
    Known,
}

impl Command {
    /// Where this is decided, if there are so many shards.
    pub fn place(&self, shards: u32) -> Place {
        let topic = |name: &TopicName| Place::Shard(name.shard(shards));
        let claim = |claim: &Claim| match claim {
            Claim::Token(token, _) => Place::Shard(token.shard),
            Claim::Owner { name, .. } => topic(&name.topic),
        };
        let effect = |query: &EffectQuery| match &query.scope {
            Scope::Op(name) => {
                let EffectQuery { namespace, key, .. } = query;
                Place::Shard(shard_of_effect(namespace, &format!("op/{name}"), key, shards))
            }
            Scope::Delivery(name) => topic(&name.topic),
            Scope::Produce(name) => topic(name),
        };
        match self {
            Command::CreateTopic(create) => topic(&create.name),
            Command::PatchTopic(patch) => topic(&patch.name),
            Command::DeleteTopic(name)
            | Command::WouldDeleteTopic(name)
            | Command::ViewTopic(name)
            | Command::ListGroups(name) => topic(name),
            Command::CreateGroup(name, _)
            | Command::DeleteGroup(name)
            | Command::WouldDeleteGroup(name)
            | Command::Resume(name)
            | Command::ViewGroup(name) => topic(&name.topic),
            Command::Pause(pause) => topic(&pause.name.topic),
            Command::Seek(seek) => topic(&seek.name.topic),
            Command::Produce(produce) => topic(&produce.topic),
            Command::Join(join) => topic(&join.name.topic),
            Command::Ack(of) => claim(of),
            Command::Nack(nack) => claim(&nack.claim),
            Command::Extend(extend) => claim(&extend.claim),
            Command::Redrive(redrive) => topic(&redrive.topic),
            Command::Peek(peek) => topic(&peek.topic),
            Command::ListDead(list) => topic(&list.topic),
            Command::Purge(purge) | Command::WouldPurge(purge) => topic(&purge.topic),
            Command::Repair(repair) => topic(&repair.topic),
            Command::Explain(explain) => match &**explain {
                Explain::Id { id, .. } => Place::Shard(id.shard),
                Explain::Message { topic: name, .. } => topic(name),
                Explain::Group(name) => topic(&name.topic),
                Explain::Effect(query) => effect(query),
            },
            Command::Begin(begin) => match &begin.of {
                BeginOf::Delivery { token, .. } => Place::Shard(token.shard),
                BeginOf::Scope { name, .. } => effect(name),
            },
            Command::Finish(finish) => Place::Shard(finish.token.shard),
            Command::ExtendEffect(extend) => Place::Shard(extend.token.shard),
            Command::Commit(commit) => Place::Shard(commit.token.shard),
            Command::Resolve(resolve) => effect(&resolve.name),
            Command::ViewEffect(query) => effect(query),
            Command::ViewPointer(query) => topic(&query.topic),
            Command::ListPointers(list) => topic(&list.topic),
            Command::ViewRouted(key) => Place::Shard(key.target),
            Command::ListEffects(list) => Place::Shard(list.shard),
            Command::ViewChain { shard, .. } => Place::Shard(*shard),
            Command::ReadAudit(read) => Place::Shard(read.shard),
            Command::ListTopics { .. } | Command::StorageLow(_) => Place::Every,
            Command::Leave(_)
            | Command::GiveBack(_)
            | Command::Lapse(_)
            | Command::DropDead { .. }
            | Command::Sweep { .. }
            | Command::Deadline { .. }
            | Command::Expire
            | Command::Send { .. }
            | Command::Arrive(_)
            | Command::Arrived(_) => Place::Known,
        }
    }
}

/// The answers of every shard as one.
pub fn together(replies: Vec<Reply>) -> Reply {
    let mut topics: Vec<TopicView> = Vec::new();
    for reply in replies {
        if let Reply::Topics(more) = reply {
            topics.extend(more);
        } else {
            // They are told something, and each says the same.
            return reply;
        }
    }
    topics.sort_by(|one, other| one.name.cmp(&other.name));
    Reply::Topics(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A topic that moved would be lost: what is written here never changes.
    #[test]
    fn names_stay_where_they_are() {
        let shards: Vec<u32> = ["orders", "receipts", "refunds", "dlq.orders"]
            .map(|topic| shard_of_topic("default", topic, 64).0)
            .to_vec();
        assert_eq!(shards, [3, 32, 0, 3]);
        assert_eq!(shard_of_topic("default", "orders", 1), ShardId(0));
        assert_eq!(shard_of_effect("default", "op/charge", "k", 64), ShardId(24));
    }

    #[test]
    fn topics_are_spread() {
        let mut counts = [0_u32; 16];
        for number in 0..16_000 {
            counts[shard_of_topic("default", &format!("topic-{number}"), 16).0 as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
